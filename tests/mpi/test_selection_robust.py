"""A program under `--switch robust`, the all-to-all routine of Faraj et al.

tests/core/test_robust.py tests the decisions. The program checks the results of all its calls.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from support import PROGRAMS
from support.jobs import run, run_verb
from support.mpis import Mpi
from support.switch_runs import switched, unnamed

EIGHT = {
    "native", "pair", "ring", "simple",
    *(f"{name}_{barrier}_barrier" for name in ("pair", "ring") for barrier in ("one", "light")),
}  # fmt: skip


def test_eight_algorithms_and_both_decisions_on_4_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """All-to-all beside broadcasts and reductions, which keep the library's algorithm."""
    program = (str(PROGRAMS / "selection_loops.py"), "cut", "110")
    trace, printed = switched(mpi, 4, tmp_path, "robust", *program)
    lines = [json.loads(line) for line in (trace.path / "selection.jsonl").read_text().splitlines()]
    ends = {line["key"]: line for line in lines if line["kind"] == "end"}
    key = max(ends, key=lambda name: ends[name]["instances"])
    mine = [line for line in lines if line["key"] == key]
    assert mine[0]["mode"] == "robust" and ends[key]["probes"] == 80
    trials = {line["algorithm"]: line["instances"] for line in mine if line["kind"] == "trial"}
    assert trials == dict.fromkeys(EIGHT, 10)
    choices = [line for line in mine if line["kind"] == "choice"]
    assert (choices[0]["instance"], choices[0]["why"]) == (80, "lowest mean time of ten instances")
    fastest = min((line for line in mine if line["kind"] == "trial"), key=lambda t: t["score_ns"])
    assert choices[0]["algorithm"] == fastest["algorithm"]
    assert choices[1]["instance"] == 102  # 2 skipped instances and a period of 20

    instances = trace.instances.sort_values(["communicator", "sequence"], kind="stable")
    called = instances[instances["operation"] == "alltoall"]
    ran = [unnamed(str(name)) for name in called["algorithm"]]
    first = len(ran) - ends[key]["instances"]  # earlier instances have a shorter history
    blocks = [ran[i : i + 10] for i in range(first, first + 80, 10)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert Counter(block[0] for block in blocks) == Counter(EIGHT)
    assert set(called["choice"].iloc[first : first + 80]) == {"probe"}
    assert set(called["choice"].iloc[first + 80 :]) == {"chosen"}
    others = instances[instances["operation"] != "alltoall"]["algorithm"]
    assert {unnamed(str(name)) for name in others} <= {"native", ""}
    assert any("--switch robust treats alltoall and alltoallv" in line for line in printed)


def test_pair_is_left_out_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """It requires a power of two of processes, and the report says so."""
    program = (str(PROGRAMS / "selection_loops.py"), "long", "60")
    trace, _ = switched(openmpi, 3, tmp_path, "robust", *program)
    lines = [json.loads(line) for line in (trace.path / "selection.jsonl").read_text().splitlines()]
    assert max(line["probes"] for line in lines if line["kind"] == "end") == 50
    omitted = {line["algorithm"]: line["why"] for line in lines if line["kind"] == "omitted"}
    assert omitted == dict.fromkeys(
        ("pair", "pair_one_barrier", "pair_light_barrier"), "a power of two of processes"
    )
    names = ", ".join(omitted)
    printed = " ".join(run_verb("report", "--all", trace.path)[1].split())
    assert f"not tried: {names} (a power of two of processes)" in printed


def test_threads_with_communicators_of_their_own_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """A thread that creates a communicator may postpone the probing of another thread."""
    program = (str(PROGRAMS / "selection_loops.py"), "threads", "150")
    trace, _ = switched(openmpi, 2, tmp_path, "robust", *program)
    lines = [json.loads(line) for line in (trace.path / "selection.jsonl").read_text().splitlines()]
    ends = [line for line in lines if line["kind"] == "end"]
    assert len(ends) == 3 and all(line["probes"] <= 80 for line in ends)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--record", "summary"), "--record summary computes statistics of arrivals"),
        (("--reproducible",), "--reproducible requires --switch auto in place of robust"),
    ],
)
def test_options_that_contradict_robust(
    options: tuple[str, ...], message: str, openmpi: Mpi, tmp_path: Path
) -> None:
    words = [str(openmpi.python), "-m", "mpiprof", "run", "--switch", "robust", *options, "app.py"]
    (tmp_path / "app.py").write_text("from mpi4py import MPI\n")
    ended = run(words, cwd=tmp_path)
    assert ended.returncode == 2 and message in ended.stderr
