"""Benefit over a profile of reductions, and the ratio plots: known answers of the model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.paper_claims import judge_claim
from support.synthetic import MACHINE, Synthetic
from support.uniform_machine import make_uniform

import mpiprof
from mpiprof.__main__ import main
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import RatioMap, svg
from mpiprof.collectives.papers.harness.study import CaseResult, Row, Setup
from mpiprof.collectives.papers.reports import import_paper, rabenseifner
from mpiprof.collectives.papers.reports.exhibits import (
    HOLDS,
    NOT_REPRODUCIBLE,
    Results,
    read_paper_values,
)
from mpiprof.collectives.papers.studies import import_study, list_algorithms, reduction
from mpiprof.collectives.papers.studies.reduction_profile import (
    ProfileEntry,
    compute_benefits,
    model_times,
    profile_trace,
    read_times,
    sum_savings,
)

MS = 1_000_000
UNIFORM = make_uniform(1000.0, 1.0)
PROFILE = "operation,processes,bytes,calls\nallreduce,2,1000,10\nreduce,4,64,5\nbcast,4,64,5\n"


# ---- benefit


def test_the_saving_of_two_processes() -> None:
    """Two messages one after the other, against an exchange: alpha + n beta instead of twice."""
    rows = compute_benefits([ProfileEntry("allreduce", 2, 8, 10)], model_times(UNIFORM))
    (row,) = rows
    assert row["baseline s"] == pytest.approx(10 * 2 * 1008e-9)
    assert row["fastest s"] == pytest.approx(10 * 1008e-9) and row["saving"] == pytest.approx(0.5)
    assert sum_savings(rows) == {"allreduce": pytest.approx(0.5)}


def test_savings_are_weighted_by_time() -> None:
    """100 s of which half is saved, and 300 s of which nothing is saved."""
    times = {8: {"native": 1e9, "ring": 0.5e9}, 64: {"native": 1e9, "ring": 2e9}}
    profile = [
        ProfileEntry("reduce", 4, 8, 100),
        ProfileEntry("reduce", 4, 64, 300),
        ProfileEntry("reduce", 9, 1, 1),
    ]
    rows = compute_benefits(profile, lambda _, p, n: times[n] if p == 4 else {})
    assert [row["fastest"] for row in rows] == ["native", "ring"]  # the longest time first
    assert sum_savings(rows) == {"reduce": pytest.approx(50 / 400)}


def test_measured_times_are_interpolated_between_sizes(tmp_path: Path) -> None:
    """1 KB takes 1 ms and 4 KB take 4 ms, so that 2 KB take 2 ms; 8 KB have no larger size."""
    lines = ["operation,operand,processes,bytes,algorithm,median ms"]
    lines += [f"reduce,sum,4,{kb << 10},native,{kb}" for kb in (4, 1)]
    lines += ["reduce,maxloc,4,1024,native,9", "reduce,sum,4,1024,circulant,9"]
    (tmp_path / "times.csv").write_text("\n".join(lines))
    find = read_times(tmp_path / "times.csv")
    assert find("reduce", 4, 2048) == {"native": pytest.approx(2 * MS)}
    assert find("reduce", 4, 8192) == {"native": pytest.approx(4 * MS)}
    assert find("reduce", 8, 2048) == {}


def test_the_profile_of_a_trace(tmp_path: Path) -> None:
    """Three allreduces of 8 B and one reduce of 64 B on 4 ranks; a broadcast does not count."""
    synthetic = Synthetic(4, machine=MACHINE)
    synthetic.ended_ns = 200 * MS
    start = np.arange(3)[:, None] * 10 * MS + np.full(4, 10 * MS)
    synthetic.add_collective("allreduce", start, start + MS)
    for operation in ("reduce", "bcast"):
        synthetic.add_collective(
            operation, start[:1] + 100 * MS, start[:1] + 102 * MS, sent=64, received=64, root=0
        )
    trace = mpiprof.open(synthetic.write(tmp_path / "trace"))
    entries = profile_trace(trace)
    assert [replace(entry, seconds=0.0) for entry in entries] == [
        ProfileEntry("allreduce", 4, 8, 3, 0.0),
        ProfileEntry("reduce", 4, 64, 1, 0.0),
    ]
    assert [entry.seconds for entry in entries] == pytest.approx([0.003, 0.002])


# ---- the command


@pytest.mark.heavy
def test_a_profile_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.csv").write_text(PROFILE)
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE))
    words = ["bench", "reduction", "--profile", str(tmp_path / "p.csv")]
    words += ["--machine", str(tmp_path / "machine.json"), "-o", str(tmp_path / "r")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "message times: simulated with 10.0 µs and 1 ns a byte a message, from " in text
    assert "Baseline: binary trees (in place of a library).\nallreduce: 50 % saved" in text
    table = json.loads((tmp_path / "r.json").read_text())
    assert [row["operation"] for row in table["rows"]] == ["allreduce", "reduce"]
    assert "<svg" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["allgatherv", "--profile", "p.csv"], "--profile requires the study reduction"),
        (["reduction", "--profile", "p.csv", "-n", "2"], "--profile needs no ranks"),
        (["reduction", "--profile", "absent.csv"], "cannot be read"),
        (["reduction", "--profile", "times.csv"], "its columns must be operation, processes"),
        (["reduction", "--profile", "p.csv", "--times", "p.csv"], "has no times of reductions"),
        (["reduction", "--times", "p.csv", "-n", "2"], "--times requires --profile"),
        (["reduction", "--simulate", "4", "--only", "tree"], "allreduce, reduce, native, "),
        (["reduction", "--simulate", "4", "--only", "native"], "no case is left"),
    ],
)
def test_wrong_use_of_a_profile_is_one_line(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(PROFILE)
    Path("times.csv").write_text("a,b\n1,2\n")
    assert main(["bench", *words]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


# ---- ratios


@pytest.mark.parametrize("name", ["reduction", "impact", "intergroup", "allgatherv"])
def test_only_selects_algorithms(name: str) -> None:
    study = import_study(name)
    (wanted, *_) = [a for a in list_algorithms(study) if a != "native"]
    options = Options(algorithms=(wanted,), quick=True)
    cases = study.make_cases(Setup(8, options, UNIFORM, simulated=True))
    assert {case.name for case in cases} == {wanted}


def plot_ratios(results: list[CaseResult]) -> list[RatioMap]:
    """Return the plots of ratios in a report of the study."""
    report = reduction.make_report(results, Setup(4, Options(), UNIFORM))
    return [figure for figure in report.figures if isinstance(figure, RatioMap)]


def test_ratios_of_the_library_over_the_fastest() -> None:
    """The library takes 3 ms, and mpiprof's algorithms 2 and 6 ms; without it, the tree 6 ms."""
    ms = {"native": 3.0, "ring": 2.0, "binary_tree": 6.0}
    results = []
    for name, value in ms.items():
        case = reduction.make_case("reduce", "sum", 4, 8, name, 4)
        results.append(CaseResult(case, np.array([value * MS]), np.array([1.0]), np.array([0.0])))
    for several, ratio in ((results, 1.5), (results[1:], 3.0)):
        (figure,) = plot_ratios(several)
        assert figure.rows == [("p = 4", [ratio])] and figure.columns == ["8 B"]
    assert plot_ratios(results[1:2]) == []


def test_a_map_of_ratios_leaves_unknown_cells_out() -> None:
    rows = [("p = 2", [2.0, float("nan")]), ("p = 4", [0.5, 1.0])]
    text = svg(RatioMap("ratios", ["1 KB", "2 KB"], rows, "library / fastest"))
    assert ">0.5<" in text and ">2<" in text and "nan" not in text


def make_results(run: str, rows: list[Row]) -> Results:
    return Results({run: rows}, read_paper_values("rabenseifner"))


def test_another_comparison_never_holds() -> None:
    """Even where the ratio to the stand-in is within the paper's range."""
    labels = {"operation": "reduce", "operand": "sum", "processes": 16, "bytes": 2 << 20}
    times = {"binary_tree": 3.0, "ring": 2.0, "recursive_doubling": 1.0}
    rows = [labels | {"algorithm": name, "median ms": ms} for name, ms in times.items()]
    exhibits = import_paper("rabenseifner").exhibits
    (figure_10,) = [exhibit for exhibit in exhibits if exhibit.number == "Figure 10"]
    verdict = figure_10.claims[0].check(make_results("Cray X1", rows))
    assert verdict.state == NOT_REPRODUCIBLE and "3 to 3 times as long" in verdict.reason


def test_the_bandwidths_of_the_cray_x1() -> None:
    """The model is fitted on 64 processes, and predicts 116 within 3 %."""
    rows = rabenseifner.compute_bandwidths(True)
    results = make_results("Cray X1, 8 MB", rows)
    for row in rows:
        name = f"{row['operation']}, sum, {row['processes']} processes"
        expected = results.values.find("Bandwidths", name, "bandwidth")
        assert row["MB/s"] == pytest.approx(expected, rel=0.03)
    assert judge_claim("rabenseifner", "The bandwidths are the bytes", results).state == HOLDS
    assert judge_claim("rabenseifner", "Binary blocks are the fastest", results).state == HOLDS
    predicted = judge_claim("rabenseifner", "On 116 processes they", results)
    assert predicted.state == HOLDS and "allreduce, sum, 64 processes" not in predicted.reason


def test_ratios_to_the_library_here() -> None:
    """256 KB: 3 ms over 1 ms on 8 processes, and 1 over 2 on 9; 8 KB are not long."""
    rows: list[Row] = []
    for p, n, native, ring in ((8, 1 << 18, 3, 1), (9, 1 << 18, 1, 2), (8, 1 << 13, 9, 1)):
        labels = {"operation": "allreduce", "operand": "sum", "processes": p, "bytes": n}
        rows += [labels | {"algorithm": "native", "median ms": native}]
        rows += [labels | {"algorithm": "ring", "median ms": ring}]
    results = make_results("library here", rows)
    verdict = judge_claim("rabenseifner", "Long vectors can be", results)
    assert verdict.state == NOT_REPRODUCIBLE
    assert verdict.reason.endswith("protocol: 3 (256 KB on 8), 0.5 (256 KB on 9)")
    (figure,) = rabenseifner.show_library(results).figures
    assert isinstance(figure, RatioMap) and [head for head, _ in figure.rows] == ["p = 8", "p = 9"]
