"""`report --what-if`: predicted run times of simulated programs, whose repaired run is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program
from support.simulation import Network

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.what_if import Change, Prediction, parse_change, predict_run
from mpiprof.errors import UsageError
from mpiprof.reports.words.what_if import prediction_text
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

MS = 1_000_000
RANKS = 8
STEPS = 20


def work_of(*late: int, ms: int = 6) -> Int:
    """Return work of 2 ms, longer on some ranks."""
    return MS * (2 + ms * np.isin(np.arange(RANKS), late))


def build(work: Int, network: Network | None = None, bytes_: int = 8) -> Program:
    """Return a program with two halo exchanges and a collective in each step, on two nodes."""
    nodes = [rank // 4 for rank in range(RANKS)]
    program = Program(
        RANKS, network, intervals=True, nodes=nodes, offsets=(0,) * 2, drifts=(0.0,) * 2
    )
    for _ in range(STEPS):
        program.halo(make_ring(RANKS), own_ns=work, bytes_=bytes_)
        program.halo(make_ring(RANKS), own_ns=MS, bytes_=bytes_)
        program.collective("allreduce", "app.py:7:step")
    return program


def write(program: Program, folder: Path) -> Trace:
    return mpiprof.open(program.write(folder))


def predict_ms(trace: Trace, *changes: str) -> float:
    """Return the predicted run time in ms."""
    return predict_run(trace, [parse_change(text) for text in changes]).predicted_ns / MS


@pytest.fixture(scope="module")
def two_late(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return a trace in which ranks 2 and 5 are 6 ms late, on different nodes."""
    return write(build(work_of(2, 5)), tmp_path_factory.mktemp("two"))


@pytest.mark.heavy
def test_ranks_at_the_median(two_late: Trace, tmp_path: Path) -> None:
    none_late = write(build(work_of()), tmp_path / "none").run_ns / MS
    assert predict_ms(two_late, "rank 2 = median") == pytest.approx(two_late.run_ns / MS, rel=0.002)
    both = predict_ms(two_late, "rank 2 = median", "rank 5 = median")
    assert both == pytest.approx(none_late, rel=0.002)
    assert predict_ms(two_late, "rank 0 = median") == pytest.approx(two_late.run_ns / MS)


@pytest.mark.heavy
def test_a_node_at_the_median_of_the_other_nodes(tmp_path: Path) -> None:
    slow = write(build(work_of(4, 5, 6, 7)), tmp_path / "slow")
    even = write(build(work_of()), tmp_path / "even").run_ns / MS
    host = slow.processes["host"][4]
    assert predict_ms(slow, f"node {host} = median") == pytest.approx(even, rel=0.002)
    other = slow.processes["host"][0]
    assert predict_ms(slow, f"node {other} = median") == pytest.approx(slow.run_ns / MS)


@pytest.mark.heavy
def test_each_operation_of_a_line_names_its_call_site(tmp_path: Path) -> None:
    program, sites = Program(RANKS, intervals=True), ["halo.py:8:exchange"] * 3
    for _ in range(STEPS):
        program.halo(make_ring(RANKS), own_ns=work_of(2), sites=sites)
    trace = write(program, tmp_path / "t")
    names = "irecv", "isend", "waitall"
    predicted = {predict_ms(trace, f"site {name} halo.py:8 = balanced") for name in names}
    assert len(predicted) == 1


def test_balanced_work_before_a_call_site(tmp_path: Path) -> None:
    """The first exchange has the work of 8 ms on two ranks, of 2 ms on six: 3.5 ms in the mean."""
    trace = write(build(work_of(2, 5)), tmp_path / "t")
    expected = (trace.run_ns - STEPS * 4.5 * MS) / MS
    assert predict_ms(trace, "site halo.py:11 = balanced") == pytest.approx(expected, rel=0.01)


@pytest.mark.heavy
def test_an_ideal_network_takes_no_time(tmp_path: Path) -> None:
    slow = Network(latency_ns=300_000, bytes_per_ns=1.0)
    trace = write(build(work_of(2), slow, bytes_=4_000), tmp_path / "t")
    ideal = write(build(work_of(2), Network(0, 1e9, call_ns=1)), tmp_path / "ideal")
    assert trace.run_ns > 1.15 * ideal.run_ns
    assert predict_ms(trace, "network = ideal") == pytest.approx(ideal.run_ns / MS, rel=0.01)
    even = write(build(work_of(), Network(0, 1e9, call_ns=1)), tmp_path / "even")
    combined = predict_ms(trace, "rank 2 = median", "network = ideal")
    assert combined == pytest.approx(even.run_ns / MS, rel=0.01)


@pytest.mark.parametrize(
    "text",
    ["", "rank 3", "rank = median", "rank 3 = ideal", "site a.py:1 = median", "network x = ideal"],
)
def test_an_unknown_change_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match='unknown change: use "rank 3 = median"'):
        parse_change(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rank 9 = median", "no such rank: the ranks are 0 to 7"),
        ("rank x = median", "no such rank"),
        ("node n7 = median", "no such node; known: "),
        ("site other.py:3 = balanced", "no such call site; "),
    ],
)
def test_what_a_trace_lacks_is_refused(
    text: str, words: str, two_late: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(two_late.path), "--what-if", text]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and text in told and words in told


@pytest.mark.heavy
def test_all_forms_of_the_report_contain_the_prediction(
    two_late: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(two_late.path), "--what-if", "rank 2 = median"]
    words += ["--what-if", "rank 5=median"]
    assert main(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    found = json.loads(_read(words, tmp_path / "r.json"))["what_if"]
    assert found["changes"] == ["rank 2 = median", "rank 5 = median"]
    assert found["text"].startswith("With rank 2 = median and rank 5 = median, the run would take")
    assert "Ranks 2, 5 would work up to 120 ms less." in found["text"]
    assert found["predicted_ns"] == pytest.approx(two_late.run_ns - STEPS * 6 * MS, rel=0.01)
    assert found["work_ns"][2] == pytest.approx(STEPS * 6 * MS, rel=0.01)
    for form in (text, _read(words, tmp_path / "r.md"), _read(words, tmp_path / "r.html")):
        assert found["text"] in form.replace("\\", "")


def _read(words: list[str], path: Path) -> str:
    assert main([*words, "-o", str(path)]) == 0
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("predicted_ms", "end"),
    [
        (40, "would work 60.0 ms less."),
        (70, "would work 60.0 ms less, of which 30.0 ms shorten the run, because other ranks "),
        (100, "would work 60.0 ms less, which does not shorten the run, because other ranks "),
    ],
)
def test_removed_work_that_does_not_shorten_the_run_is_reported(
    predicted_ms: int, end: str
) -> None:
    """Two numbers that differ in one answer read as a contradiction."""
    work, changes = np.array([0.0, 60.0]) * MS, (Change("rank", "1"),)
    found = Prediction(changes, 100.0 * MS, predicted_ms * MS, work, np.zeros(2))
    assert f"Rank 1 {end}" in prediction_text(found)
