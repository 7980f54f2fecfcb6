"""The studies: their cases and numbers, and runs on ranks, on a cluster and simulated."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from support.jobs import run, run_mpi, run_verb
from support.mpis import SLOW_WITH_MPICH, Mpi
from support.uniform_machine import make_uniform

from mpiprof.__main__ import main
from mpiprof.collectives import catalogue, ring_fast_path
from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness import figures, simulated_cases, study
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.study import CaseResult, Setup
from mpiprof.collectives.papers.harness.timing import lateness_ns
from mpiprof.collectives.papers.studies import allgatherv, impact, intergroup, reduction
from mpiprof.collectives.schedule import Problem
from mpiprof.commands import bench
from mpiprof.interface.format_units import format_round_size

MACHINE = make_uniform(60e3, 83.9)
SETUP = Setup(16, Options(), MACHINE, "mpich")
NOT_SIMULATED = (*bench.LOOP_STUDIES, bench.PROGRAMS, bench.MODEL)
STUDIES = tuple(name for name in bench.STUDIES if name not in NOT_SIMULATED)


def result(case: Case, *ms: float) -> CaseResult:
    times = np.array(ms) * 1e6
    return CaseResult(case, times, times, 0 * times)


# ---- cases


def test_contributions_add_up() -> None:
    c = 1 << 16
    for name in allgatherv.PARTS:
        total = c if name in ("broadcast", "spike") else 16 * c
        assert sum(allgatherv.make_contributions(name, 16, c)) == pytest.approx(total, rel=0.001)
    assert all(m % 8 == 0 for m in allgatherv.make_contributions("geometric", 16, c, 8))


def test_sizes_are_the_papers_c_at_any_number_of_processes() -> None:
    """Figure 7: time over the processes at constant c, for the requested distributions."""
    requested = Options(sizes=(1 << 12,), processes=(4, 8), only=("geometric", "spike"))
    cases = allgatherv.make_cases(Setup(16, requested, MACHINE, "mpich"))
    found = {(c.labels["distribution"], c.labels["processes"], c.labels["bytes"]) for c in cases}
    assert found == {
        ("geometric", 4, 4 << 12), ("geometric", 8, 8 << 12),
        ("spike", 4, 1 << 12), ("spike", 8, 1 << 12),
    }  # fmt: skip
    assert {c.labels["c"] for c in cases} == {1 << 12}


@pytest.mark.parametrize(("study", "name"), [(reduction, "reduce"), (impact, "bcast")])
def test_only_some_operations(study: Any, name: str) -> None:
    cases = study.make_cases(Setup(8, Options(only=(name,)), MACHINE, "mpich"))
    assert cases and {c.operation for c in cases} == {name}


@pytest.mark.parametrize("number", intergroup.SETTINGS)
def test_the_paper_s_limits(number: int) -> None:
    problem = intergroup.problem_of(number, 32, 25 * 7 << 10)
    assert (problem.size, problem.remote_size) in ((16, 16), (25, 7))
    assert intergroup.limit(problem) == pytest.approx(intergroup.SETTINGS[number].limit, abs=0.011)


def test_orders_of_a_ring() -> None:
    sizes = allgatherv.make_contributions("half_full", 16, 1 << 20)
    assert allgatherv.make_choices(SETUP, sizes, ())[-1].endswith(", spread")
    several = Setup(16, Options(), MACHINE, "mpich", shared_nodes=True)
    assert "order=both" in allgatherv.make_choices(several, sizes, ())[-1]
    alone = allgatherv.make_contributions("broadcast", 16, 1 << 20)
    assert not any("order" in c for c in allgatherv.make_choices(SETUP, alone, ()))


def test_numbers_of_processes() -> None:
    assert reduction.process_counts(16) == (16, 15, 12, 9)
    assert reduction.process_counts(3) == (3, 2)


def test_patterns_are_the_same_for_all_algorithms_and_bounded() -> None:
    cases = [
        c for c in impact.make_cases(SETUP) if c.labels["MAX_IF"] == 9 and c.labels["bytes"] > 1
    ]
    late = {tuple(lateness_ns(c, 3, rank) for rank in range(16)) for c in cases}
    (pattern,) = late
    message = cases[0].arrivals[1]
    assert len(set(pattern)) > 4 and max(pattern) <= 8 * message
    assert pattern != tuple(lateness_ns(cases[0], 4, rank) for rank in range(16))
    assert pattern == tuple(lateness_ns(cases[0], 3 + 32, rank) for rank in range(16))


def test_intervals_are_over_patterns() -> None:
    """100 calls of each of 32 patterns: differences within a pattern do not widen the interval."""
    pattern, call = np.arange(32.0), np.where(np.arange(100) % 2, 1000.0, -1000.0)
    laps = (call[:, None] + pattern).reshape(-1)
    assert impact.by_pattern(laps).tolist() == pattern.tolist()
    assert impact.by_pattern(laps[:5]).tolist() == laps[:5].tolist()
    cases = [
        c for c in impact.make_cases(SETUP) if c.labels["MAX_IF"] == 9 and c.choice == "bruck"
    ][:1]
    (row,) = impact.make_report([result(cases[0], *laps)], Setup(16, Options(), laps=3200)).rows
    mean = study.estimate_mean(pattern)
    assert (row["mean ms"], row["± ms"]) == pytest.approx((mean, mean.margin))


def test_a_rule_has_the_format_of_the_library() -> None:
    choice = "pipelined_ring:block_size=4096:order=spread:blocks=equal"
    case = Case({}, "allgatherv", choice, Problem(4, counts=(1, 2, 3, 4)))
    assert case.recorder_rule() == f"allgatherv {choice} 0 -1"
    assert Case({}, "bcast", "native", Problem(4, 8)).recorder_rule() == ""


# ---- numbers


def test_a_ratio_has_its_interval() -> None:
    above, below = np.array([20.0, 22, 21]), np.array([10.0, 11, 10])
    ratio = study.ratio_interval(above, below, paired=True)
    value, low, high = ratio, ratio.low, ratio.high
    assert value == pytest.approx(2.1) and low < 2.1 <= high
    single = study.ratio_interval(above[:1], below[:1], paired=True)
    assert (single, single.low, single.high) == (2.0, 2.0, 2.0)


def test_the_interval_of_a_mean() -> None:
    mean = study.estimate_mean(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0 and mean.width == pytest.approx(2 * 2.484, abs=0.002)


def test_laps_fit_the_time_limit() -> None:
    assert study.fit_laps(SETUP, 15, lap_s=1) == 15
    assert study.fit_laps(SETUP, 15, lap_s=100) == 8
    assert study.fit_laps(SETUP, 15, lap_s=1000) == study.MIN_LAPS
    assert study.fit_laps(Setup(4, Options(laps=40)), 15, lap_s=1000) == 40


@pytest.mark.heavy
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_takes_less_than_twenty_minutes(name: str) -> None:
    from mpiprof.collectives.papers.harness.runner import requested_laps
    from mpiprof.collectives.papers.studies import import_study

    module = import_study(name)
    lap_s = study.estimate_lap_s(module.make_cases(SETUP), SETUP)
    laps = study.fit_laps(SETUP, requested_laps(module, SETUP.options), lap_s)
    assert lap_s * (laps + 1) < 20 * 60


# ---- files


def drawn(figure: figures.Lines | figures.Bars | figures.Map) -> Axes:
    """Return a figure as drawn, after a check that its SVG is well-formed."""
    ElementTree.fromstring(figures.svg(figure))
    axes = Canvas().subplots()
    figure.draw(axes)
    return axes


def test_lines_show_their_points_and_intervals() -> None:
    line = figures.Series("a < b", [1, 10, 100], [1, 2, 3], [0.5, 0, 1])
    axes = drawn(
        figures.Lines("title", [line], "x & y", "ms", y_scale="linear", ticks=format_round_size)
    )
    (bars,) = axes.containers
    assert bars[0].get_xydata().tolist() == [[1, 1], [10, 2], [100, 3]]
    ends = [segment[:, 1].tolist() for segment in bars[2][0].get_segments()]
    assert ends == [[0.5, 1.5], [2, 2], [2, 4]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1 B", "10 B", "100 B"]
    assert axes.get_xscale() == "log" and axes.get_ylim()[0] == 0


def test_bars_are_as_high_as_their_values() -> None:
    axes = drawn(figures.Bars("t", ["<1", "1-8"], {"a": [0, 1], "b": [2, 4]}, "part", str))
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert heights == {"a": [0, 1], "b": [2, 4]}


def test_a_map_has_one_colour_for_each_name() -> None:
    cells = [("p = 2", ["ring", "tree"]), ("p = 4", ["tree", "tree"])]
    axes = drawn(figures.Map("map", ["1 KB", "2 KB"], cells))
    colours = [patch.get_facecolor() for patch in axes.patches]
    assert len(colours) == 4 and colours[0] != colours[1] == colours[2] == colours[3]
    assert axes.get_legend_handles_labels()[1][:2] == ["ring", "tree"]


def test_bandwidths_over_processes() -> None:
    """Figure 5 of Rabenseifner and Adamidis: 32 KB in 2, 4 and 8 ms; two points are no curve."""
    results = [
        result(reduction.make_case("allreduce", "sum", p, size, "ring", 16), p / 2)
        for p, size in ((8, 32_000), (2, 64_000), (4, 32_000), (16, 32_000), (4, 64_000))
    ]
    report = reduction.make_report(results, SETUP)
    (lines,) = [one for one in report.figures if "Figure 5" in one.title]
    assert isinstance(lines, figures.Lines)
    assert lines.series == [figures.Series("ring", [4, 8, 16], [16, 8, 4])]


@pytest.mark.parametrize("points", [[], [5.0]])
def test_one_point_and_no_point_can_be_drawn(points: list[float]) -> None:
    axes = drawn(figures.Lines("t", [figures.Series("s", points, points)], "x", "y"))
    assert axes.containers[0][0].get_xdata().tolist() == points


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("form", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_figures_are_written_in_each_format(form: str, begin: bytes, tmp_path: Path) -> None:
    lines = figures.Lines("t", [figures.Series("s", [1, 2], [3, 4])], "x", "y")
    report = study.Report(("a",), [{"a": 1}], figures=[lines])
    *_, file = study.write(report, "title", tmp_path / "r", [form])
    assert file == tmp_path / f"r-1.{form}" and file.read_bytes().startswith(begin)


def test_a_missing_matplotlib_is_named_before_the_study(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    words = ["bench", "allgatherv", "--simulate", "4", "--quick", "-o", str(tmp_path / "r")]
    assert main(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "matplotlib" in line and "pip install" in line and "[bench]" in line


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


# ---- the command


@pytest.mark.parametrize("name", STUDIES)
def test_each_study_simulated(name: str, tmp_path: Path) -> None:
    words = ["--simulate", "12", "--quick", "--sizes", "8K", "-o", tmp_path / "result"]
    code, out, _ = run_verb("bench", name, *words)
    rows = rows_of(tmp_path / "result.csv")
    assert code == 0 and rows and f"written: {tmp_path / 'result.csv'}" in out
    assert "processes: 12, simulated\n" in out and "native" not in {
        r.get("algorithm") for r in rows
    }
    page = (tmp_path / "result.html").read_text()
    assert page.startswith("<!doctype html>") and "http-equiv" not in page and "src=" not in page


def test_nodes_in_simulated_studies() -> None:
    """Two groups of two, each on a separate node: one message between nodes, one within."""
    machine = Machine(1000.0, 2.0, 0.0, 100.0, 0.25)
    problem = Problem(2, 4000, remote_size=2, remote_bytes=4000)
    case = Case({}, "allgather", "kang", problem, "2+2")
    between, within = 1000 + 4000 * 2.0, 100 + 4000 * 0.25
    for per_node, last in ((2, between + within), (1, 2 * between)):
        setup = Setup(4, Options(), machine, simulated=True, per_node=per_node)
        (found,) = simulated_cases.simulate_cases([case], setup, lambda: None)
        assert found.total.tolist() == [last]


def test_nodes_are_for_the_simulator(tmp_path: Path) -> None:
    """Rings by node are among the choices, and one port per node is slower than one per process."""
    words = ["bench", "allgatherv", "--quick"]
    words += ["--simulate", "16", "--per-node", "4", "--sizes", "64K", "--only", "regular"]
    times = []
    for i, more in enumerate(([], ["--node-port"])):
        code, out, _ = run_verb(*words, *more, "-o", tmp_path / f"{i}")
        assert code == 0 and "This will take about" in out and "nodes of 4 processes" in out
        rows = {r["algorithm"]: float(r["median ms"]) for r in rows_of(tmp_path / f"{i}.csv")}
        assert any(name.endswith("by node") for name in rows)
        times.append(rows["linear_ring"])
    assert times[1] >= times[0]


def test_the_simulator_predicts_the_gain_of_the_pipelined_ring(tmp_path: Path) -> None:
    words = ["--simulate", "1024", "--quick", "--sizes", "64M", "--only", "broadcast"]
    words += ["--blocks", "64K"]
    assert run_verb("bench", "allgatherv", *words, "-o", tmp_path / "r.csv")[0] == 0
    rows = [r for r in rows_of(tmp_path / "r.csv") if r["distribution"] == "broadcast"]
    assert max(float(r["linear ring / this"]) for r in rows) > 400


@pytest.mark.parametrize("name", ["linear_ring", "pipelined_ring"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_work_of_a_ring_is_that_of_its_rounds(name: str, distribution: str) -> None:
    """If processes without data wait, the estimate is a bound within twice the rounds."""
    counts = tuple(int(n) for n in DISTRIBUTIONS[distribution](1 << 16, 1024))
    problem = Problem(1024, counts=counts, alpha=2000.0, beta=0.1)
    algorithm = catalogue.find("allgatherv", name)
    exact = ring_fast_path._describe_ring(algorithm, problem)
    per_round = (ring_fast_path.ROUND_WORK + 1024) * (
        ring_fast_path.SKIPPING_FACTOR if exact.skips else 1
    )
    assert 1 <= ring_fast_path.estimate_work(algorithm, problem) / (exact.rounds * per_round) < 2.1


def test_a_simulation_of_rings_is_announced_with_the_time_of_the_fast_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """65536 processes: 6.7 s per linear ring at 1.5 ns per process and round, not minutes."""
    trial = catalogue.find("allgather", "ring"), simulated_cases.RING_TRIAL_PROBLEM
    monkeypatch.setattr(
        simulated_cases,
        "_time_simulation",
        lambda *_: ring_fast_path.estimate_work(*trial) * 1.5e-9,
    )
    monkeypatch.setattr(simulated_cases, "_simulation_cost", lambda *_: pytest.fail("the long way"))
    monkeypatch.setattr(simulated_cases, "count_usable_processors", lambda: 2)
    setup = Setup(65536, Options(), simulated=True)
    cases = [allgatherv.make_case("regular", 1 << 16, 65536, "linear_ring", "world")] * 10
    rounds = 10 * 65535 * (65536 + ring_fast_path.ROUND_WORK)
    assert simulated_cases.estimate_seconds(cases, setup) == pytest.approx(rounds * 1.5e-9 / 2)


@pytest.mark.slow
@SLOW_WITH_MPICH
def test_on_ranks_of_this_machine(mpi: Mpi, tmp_path: Path) -> None:
    table = tmp_path / "r.csv"
    words = ["--quick", "--sizes", "4K", "--repetitions", "2", "-o", str(table)]
    argv = [str(mpi.python), "-m", "mpiprof", "bench", "reduction"]
    # A short path, because it contains the launcher's sockets.
    with tempfile.TemporaryDirectory() as temporary:
        env = {"TMPDIR": temporary}
        done = run([*argv, "-n", "3", *words], env=env, check=True)
        found = {(r["operand"], r["processes"], r["algorithm"]) for r in rows_of(table)}
        again = run_mpi(mpi, 2, [*argv, "--only", "allreduce", *words], env=env, check=True)
        assert not list(Path(temporary).glob("mpiprof-bench-*"))
    assert "This will take about" in done.stdout and "the fastest of ours" in done.stdout
    assert ("maxloc", "2", "ring") in found and ("sum", "3", "native") in found
    assert "written" in again.stdout and again.stderr == ""


def test_ranks_that_are_started_start_none(mpich: Mpi) -> None:
    done = run_mpi(mpich, 2, [mpich.python, "-m", "mpiprof", "bench", "cases", "-n", "2"])
    assert done.returncode and "run this command without mpiexec" in done.stderr


@pytest.mark.parametrize(("name", "ranks"), [("allgatherv", 2), ("intergroup", 3), ("impact", 2)])
def test_studies_run_right_algorithms(mpich: Mpi, name: str, ranks: int, tmp_path: Path) -> None:
    words = ["--quick", "--sizes", "2K", "--repetitions", "2", "-o", str(tmp_path / "r")]
    argv = [str(mpich.python), "-m", "mpiprof", "bench", name, "-n", str(ranks)]
    done = run([*argv, *words], check=True)
    found = {r["algorithm"] for r in rows_of(tmp_path / "r.csv")}
    wanted = {"allgatherv": "linear_ring", "intergroup": "kang", "impact": "bruck"}[name]
    assert {wanted, "native"} <= found, done.stdout + done.stderr


@pytest.mark.slow
@SLOW_WITH_MPICH
@pytest.mark.usefixtures("one_cluster")
def test_the_table_on_a_cluster(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks; messages take longer on the slow network than other work can delay them."""
    if os.geteuid() != 0 or shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("needs root and iproute2")
    words = ["--cluster", "3x200mbit", "--repetitions", "2", "-o", str(tmp_path / "r")]
    done = run([mpi.python, "-m", "mpiprof", "bench", "cases", *words], check=True)
    rows = {(r["case"], r["compared"].split(":")[0]): r for r in rows_of(tmp_path / "r.csv")}
    assert "emulated cluster of 3 nodes at 200 Mbit/s" in done.stdout
    first = rows["allgatherv, 1 MB at rank 0", "linear_ring / pipelined_ring"]
    assert float(first["measured"]) > 1 and first["asked"] == "(at least 13, at 16)"
    assert "3 nodes" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cases"], "no ranks to measure"),
        (["cases", "-n", "1"], "two ranks"),
        (["cases", "--cluster", "16"], "16x100mbit"),
        (["cases", "--simulate", "1"], "2 to 65536"),
        (["cases", "-n", "2", "--machine", "m.json"], "no such file"),
        (["cases", "-n", "2", "--per-node", "2"], "--simulate"),
        (["cases", "--simulate", "4", "--per-node", "0"], "--per-node"),
        (["cases", "-n", "2", "--sizes", "0"], "64K"),
        (["nothing", "-n", "2"], "nothing"),
        (["cases", "--simulate", "4", "-o", "/"], "folder"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], says: str) -> None:
    code, _, error = run_verb("bench", *words)
    assert code == 2 and says in error and error.count("\n") == 1
