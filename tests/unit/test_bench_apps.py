"""The study of programs: rows from known runs, and one program on two ranks."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from support.jobs import run
from support.mpis import Mpi

from mpiprof.bench.studies import apps
from mpiprof.bench.studies.apps import ALL, WHOLE, App, Run
from mpiprof.errors import MpiprofError


def a_run(whole: float, gather: float, gatherv: float, algorithm: str = "native") -> Run:
    return Run(
        {WHOLE: whole, ALL: gather + gatherv, "allgather": gather, "allgatherv": gatherv},
        {ALL: 300, "allgather": 150},
        {ALL: (3.0, 9.0), "allgather": (2.0, 8.0)},
        {"allgather": algorithm, "allgatherv": algorithm},
    )


APP = App("", "", 1, asked=3.0, routines=("allgather", "allgatherv"))
NATIVE = (a_run(10, 6, 2), a_run(12, 7, 3))


def test_the_lines_of_a_program() -> None:
    runs = [NATIVE[0], a_run(5, 2, 1, "kang"), NATIVE[1]]
    rows = {row["routine"]: row for row in apps.rows_of("coupled", runs, APP, judged=True)}
    assert list(rows) == [WHOLE, ALL, "allgather", "allgather + allgatherv"]
    whole, gather = rows[WHOLE], rows["allgather"]
    assert (whole["native s"], whole["native ±"], whole["auto s"]) == (11, 1, 5)
    assert (whole["asked"], whole["holds"]) == ("not slower", "yes")
    assert gather["native / auto"] == pytest.approx(3.25) and gather["algorithm"] == "kang"
    assert (gather["δ/T"], gather["ω/T"], gather["instances"]) == (2.0, 8.0, 150)
    both = rows["allgather + allgatherv"]
    assert both["native / auto"] == pytest.approx(3.0) and both["holds"] == "yes"


def test_slower_is_what_the_slower_native_run_does_not_explain() -> None:
    for auto_s, holds in ((12.3, "yes"), (12.5, "NO")):
        runs = [NATIVE[0], a_run(auto_s, 6, 2), NATIVE[1]]
        whole, *_, both = apps.rows_of("coupled", runs, APP, judged=True)
        assert whole["holds"] == holds and both["holds"] == "NO"
    unjudged = apps.rows_of("coupled", runs, APP, judged=False)[0]
    assert (unjudged["asked"], unjudged["holds"]) == ("(not slower)", "")


def test_programs_count_alike() -> None:
    """Figure 2: 4 instances of one program and 400 of another are half of the distribution each."""
    few = {"≤ 1000 B": [4, 0, 0, 0, 0, 0], "> 1000 B": [0, 0, 0, 0, 0, 0]}
    many = {"≤ 1000 B": [0, 100, 300, 0, 0, 0], "> 1000 B": [0, 0, 0, 0, 0, 7]}
    shares = apps.equal_shares([few, many, {}])
    assert shares == {
        "≤ 1000 B": pytest.approx([0.5, 0.125, 0.375, 0, 0, 0]),
        "> 1000 B": pytest.approx([0, 0, 0, 0, 0, 1]),
    }
    assert apps.equal_shares([{}]) == {}


def test_why_there_is_no_figure_2() -> None:
    run_ = a_run(10, 6, 2)
    assert apps.without_figure([run_]) == "No factors, so no Figure 2: no message was timed."
    disturbed = replace(run_, fault="3.85 ms for an empty message within a node")
    assert apps.without_figure([run_, disturbed]) == (
        "No factors, so no Figure 2: message times are not usable, "
        "3.85 ms for an empty message within a node."
    )


def test_a_failing_program_is_named() -> None:
    with pytest.raises(MpiprofError, match=r"ft.py --switch auto ended with 3"):
        apps.one_run(lambda *_: 3, ["samples/ft.py"], "auto")


def test_a_program_on_two_ranks(mpich: Mpi, tmp_path: Path) -> None:
    words = ["-n", "2", "--quick", "--only", "transpose", "-o", str(tmp_path / "r")]
    done = run([mpich.python, "-m", "mpiprof", "bench", "apps", *words], check=True)
    assert "transpose, each native, auto" in done.stdout and "This will take about" in done.stdout
    assert "check ok" not in done.stdout
    with (tmp_path / "r.csv").open() as file:
        rows = {row["routine"]: row for row in csv.DictReader(file)}
    assert {WHOLE, ALL, "alltoall"} <= set(rows)
    assert rows["alltoall"]["instances"] == "20"  # repetitions
    assert float(rows[ALL]["native s"]) < float(rows[WHOLE]["native s"])
    assert "Figure 2" in done.stdout  # or why it is missing, if other processes disturb the machine
    drawn = "programs of equal weight (Figure 2)" in done.stdout
    assert ("<svg" in (tmp_path / "r.html").read_text()) == drawn
