"""Traces that somebody has forged: no verb ends with a traceback, whatever their files contain."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import mutants
from support.synthetic import Synthetic, upgrade_folder

import mpiprof
from mpiprof.__main__ import main
from mpiprof.errors import TraceError
from mpiprof.trace.checksum import add_checksum, remove_checksum

FAST_MUTANTS, MUTANTS = 4, 500


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace that the tests copy and change."""
    return mutants.write_seed(tmp_path_factory.mktemp("whole") / "trace")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=pytest.mark.heavy if n < FAST_MUTANTS else pytest.mark.everything)
        for n in range(MUTANTS)
    ],
)
def test_no_mutant_of_a_trace_ends_a_verb_with_a_traceback(
    tmp_path: Path, whole: Path, seed: int
) -> None:
    changed, outcome = mutants.run_mutant(tmp_path / "scratch", whole, seed)
    assert outcome.tracebacks == [], f"seed {seed}: {changed}"


def small(folder: Path) -> Path:
    """Write a trace of 2 ranks with one call site."""
    trace = Synthetic(2)
    times = np.arange(1, 6)[:, None] * 1_000_000 + np.array([[0, 1000]])
    trace.add_collective("allreduce", times, times + 5000, site="app.py:12:step")
    trace.ended_ns = 10_000_000
    return upgrade_folder(trace.write(folder))


def rewrite(path: Path, line: int, **changes: Any) -> None:
    """Change fields of a line of JSON and keep its checksum right."""
    lines = path.read_bytes().split(b"\n")
    value = json.loads(remove_checksum(lines[line])) | changes
    lines[line] = add_checksum(json.dumps(value).encode())
    path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize("value", ["", [], 3, None, {"host": []}, {"pid": "x"}, {"size": -1}])
def test_a_process_of_the_wrong_type_is_a_damaged_line(tmp_path: Path, value: Any) -> None:
    folder = small(tmp_path / "t")
    rewrite(folder / "rank-000001.tables", 0, process=value)
    assert "rank-000001.tables: damaged lines, ignored: 1" in mpiprof.open(folder).problems
    assert main(["report", str(folder)]) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("options", [1]),
        ("options", {"messages": 3}),
        ("options", "x"),
        ("library", {"on_node": "x"}),
        ("clock", {"error_ns": "x"}),
        ("ranks", True),
        ("program", 7),
        ("started", {}),
        ("machine", "x"),
        ("machine", {"between": True}),
        ("machine", {"within": {"alpha_ns": "x"}}),
        ("machine", {"within": {"sizes": 3}}),
        ("sample", "x"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_and_ignored(
    tmp_path: Path, field: str, value: Any
) -> None:
    folder = small(tmp_path / "t")
    rewrite(folder / "meta.json", 0, **{field: value})
    trace = mpiprof.open(folder)
    assert f"meta.json: damaged and ignored: {field}" in trace.problems
    assert field not in trace.meta
    assert main(["report", str(folder), "--all"]) == 0
    assert main(["status", str(folder)]) == 0


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "1" + "0" * 400])
def test_a_number_that_is_not_finite_is_damage(tmp_path: Path, number: str) -> None:
    folder = small(tmp_path / "t")
    path = folder / "meta.json"
    text = remove_checksum(path.read_bytes().rstrip(b"\n"))
    changed = text.replace(b'"alpha_ns": 10000.0', b'"alpha_ns": ' + number.encode())
    assert changed != text
    path.write_bytes(add_checksum(changed) + b"\n")
    assert "meta.json is damaged and ignored" in mpiprof.open(folder).problems
    assert main(["report", str(folder)]) == 0


def test_a_path_that_is_no_utf8_is_read_by_all_verbs(tmp_path: Path) -> None:
    """The cache, the exports and the reports accept every path that the system accepts."""
    base = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    base.mkdir()
    whole = mutants.write_seed(base / "whole")
    for seed in range(len(mutants.FORMATS)):
        _, outcome = mutants.run_mutant(base / "scratch", whole, seed, change=False)
        assert outcome.tracebacks == []


def test_a_frame_without_a_module_is_an_unknown_call_site(tmp_path: Path) -> None:
    """The recorder writes it for calls from code that was made at run time, as by Julia."""
    trace = Synthetic(2)
    frame = {"module": None, "offset": 0, "symbol": None}
    site = dict.fromkeys(range(2), frame)
    trace.add_collective("barrier", [[1000, 2000]], [[3000, 3000]], site=site)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert opened.problems == []
    assert opened.callsites["instances"].tolist() == [1]


def test_sizes_that_no_memory_holds_are_refused(tmp_path: Path) -> None:
    """A sparse file has any size on a small disk."""
    folder = small(tmp_path / "t")
    with (folder / "rank-000001.log").open("r+b") as file:
        file.truncate(1 << 40)
    with (folder / "rank-000000.tables").open("r+b") as file:
        file.truncate(1 << 35)
    with pytest.raises(TraceError) as caught:
        (folder / "rank-000000.log").unlink()
        mpiprof.open(folder)
    assert "rank-000001.log: larger than any log" in str(caught.value)
