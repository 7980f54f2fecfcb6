"""Calls that completed although their ranks made different calls: `report` lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dataset_traces import MADE, exported
from support.hang_traces import abort, call, job
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof
from mpiprof.formats.cached_trace import open_trace
from mpiprof.formats.dask_workers import connect_workers

RANKS, ROUNDS, MS = 4, 40_000, 1_000_000
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "root": ("bcast", {"root": {0: 0, 1: 0, 2: 0, 3: 1}, "sent": 8}, "rank 3 says root 1"),
    "count": ("allreduce", {"sent": {0: 8, 1: 8, 2: 80, 3: 8}}, "rank 2 says 80 B"),
}


def _made(folder: Path, kind: str) -> Path:
    """Write a job that ended well: many barriers, with the wrong call twice among them."""
    synthetic = Synthetic(RANKS)
    at = MS * np.arange(1, ROUNDS + 1)[:, None] + np.zeros((1, RANKS), np.int64)
    synthetic.add_collective("barrier", at, at + 100, sent=0, received=0)
    operation, given, _ = WRONG[kind]
    for late in (at[-1:] + MS, at[-1:] + 3 * MS):
        synthetic.add_collective(operation, late, late + 100, site="app.py:9:step", **given)
    after = at + at[-1] + 5 * MS
    synthetic.add_collective("barrier", after, after + 100, sent=0, received=0)
    synthetic.ended_ns = int(after.max()) + MS
    return synthetic.write(folder)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", WRONG)
def test_a_report_begins_with_it(kind: str, tmp_path: Path) -> None:
    folder = _made(tmp_path / "job", kind)
    _, out, _ = run_verb("report", folder)
    first = " ".join(out.split("\n\n")[0].split())
    assert first.startswith("DIFFERENT ROOTS: Ranks" if kind == "root" else "DIFFERENT SIZES: ")
    assert f"sequence {ROUNDS} on MPI_COMM_WORLD" in first
    assert f"{WRONG[kind][2]} at app.py:9 step" in first
    assert first.endswith("The job went on to its end all the same: check its results.")
    hang = json.loads(run_verb("report", folder, "--json")[1])["hang"]
    assert json.loads(run_verb("status", folder, "--json")[1])["verdict"] == hang
    assert first in " ".join(run_verb("status", folder)[1].split())
    assert (hang["class"], hang["odd_ranks"]) == (kind, [3 if kind == "root" else 2])
    for ending in ("md", "html"):
        assert run_verb("report", folder, "-o", tmp_path / f"page.{ending}")[0] == 0
        assert WRONG[kind][2] in (tmp_path / f"page.{ending}").read_text()


@pytest.mark.heavy
def test_it_is_the_same_from_a_data_set_and_by_workers(tmp_path: Path) -> None:
    folder, to = exported(lambda path: _made(path, "root"), tmp_path)
    disagreements = mpiprof.open(folder).wrong
    assert len(disagreements) == 1  # the second is of the same class
    assert mpiprof.open(to).wrong == disagreements
    with connect_workers("local:2") as workers:
        assert open_trace(to, workers).wrong == disagreements


@pytest.mark.parametrize("name", MADE)
def test_sound_traces_have_none(name: str, tmp_path: Path) -> None:
    assert mpiprof.open(MADE[name](tmp_path / "job")).wrong == []


def test_who_aborts_did_not_end_well(tmp_path: Path) -> None:
    """`report` agrees with `status`: all ranks have an end, but no rank called MPI_Finalize."""
    synthetic = job(2)
    folder = synthetic.write(tmp_path / "t")
    assert "to MPI_Finalize" in run_verb("report", folder)[1]
    abort(folder)
    _, out, _ = run_verb("report", folder)
    reported = "DEAD RANK: Ranks 0-1 called MPI_Abort after barrier at app.py:1 main."
    assert " ".join(out.split("\n\n")[0].split()).startswith(reported)
    assert reported in " ".join(run_verb("status", folder)[1].split())
    assert "MPI_Init to MPI_Finalize" not in out


def test_a_wrong_call_before_an_abort_did_not_go_through(tmp_path: Path) -> None:
    synthetic = job(2)
    for rank in range(2):
        call(synthetic, rank, "allreduce", sent=8 + rank, ends=9_100)
    folder = synthetic.write(tmp_path / "t")
    abort(folder)
    first = " ".join(run_verb("report", folder)[1].split("\n\n")[0].split())
    assert first.startswith("DIFFERENT SIZES: ") and "went on to its end" not in first
    assert first in " ".join(run_verb("status", folder)[1].split())
