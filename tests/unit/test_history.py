"""History of a program: change points, their error rate, and the runs of folders and summaries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.run_folders import write_runs

from mpiprof.__main__ import main
from mpiprof.causes.change_points import ALPHA, MIN_RUNS, find_change_points
from mpiprof.errors import UsageError
from mpiprof.reports import history
from mpiprof.reports.run_summary import RunSummary, list_runs, read_summaries
from mpiprof.reports.words import history_sentences

TRIALS = 100


@pytest.mark.heavy
@pytest.mark.parametrize("count", [8, 20])
@pytest.mark.parametrize("distribution", ["normal", "lognormal", "standard_cauchy"])
def test_error_rate_without_a_change(distribution: str, count: int) -> None:
    """At most 5 % of unchanged series get a change, within four deviations of the trials."""
    random = np.random.default_rng(count)
    draw = getattr(random, distribution)
    wrong = sum(bool(find_change_points(draw(size=count))) for _ in range(TRIALS))
    assert wrong / TRIALS <= ALPHA + 4 * np.sqrt(ALPHA * (1 - ALPHA) / TRIALS)


@pytest.mark.heavy
def test_changes_of_three_deviations_are_found() -> None:
    random, found, exact = np.random.default_rng(1), 0, 0
    for _ in range(100):
        series = random.normal(size=20)
        series[13:] += 3
        points = find_change_points(series)
        found += bool(points)
        exact += any(abs(point.index - 13) <= 1 for point in points)
    assert found >= 95 and exact >= 85


def test_two_changes_and_their_medians() -> None:
    level = [1.0] * 12 + [4.0] * 12 + [2.0] * 12
    series = np.array(level) + np.random.default_rng(2).normal(scale=0.05, size=36)
    series[5] = np.nan
    first, second = find_change_points(series)
    assert (first.index, second.index) == (12, 24)
    assert [round(v) for v in (first.before, first.after, second.after)] == [1, 4, 2]


@pytest.mark.parametrize("series", [[], [1.0], [1.0] * 50, [np.nan] * 50, [0, 0, 0, 9, 9, 9, 9]])
def test_equal_unknown_and_few_values_have_no_change(series: list[float]) -> None:
    assert find_change_points(series) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_runs(tmp_path_factory.mktemp("nightly"), 12, 7)
    (folder / "notes.json").write_text("[1]")
    (folder / "empty").mkdir()
    return write_runs(folder / "other", 1, 0, "md.py").parent


def out(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_the_changed_commit_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "history", folder)
    assert text.startswith("solver.py · 4 ranks · 12 runs · 2026-03-01 to 2026-03-12\n")
    verdict = " ".join(text.split("\n\n")[1].split())
    assert verdict.startswith("The lost time rose from 0 % to ") or "<1 % to" in verdict
    assert "2026-03-08 08:00, commit 00000000" in verdict and "7 and 5 runs" in verdict
    assert "1 other run is left out (md.py on 4 ranks)" in text
    assert "compare" in text.splitlines()[-1]
    data = json.loads(out(capsys, "history", folder, "--format", "json"))
    assert [run["commit"] for run in data["runs"]] == [f"{i:040x}" for i in range(12)]
    assert {change["run"] for change in data["changes"]} == {7}
    assert all(run["slowest"][0]["name"] == "allreduce at solver.py:120 step"
               for run in data["runs"][7:])  # fmt: skip
    markdown = out(capsys, "history", folder, "--format", "markdown", "--top", 6)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(rows) == 8 and [row.startswith("| change") for row in rows].index(True) == 3
    assert out(capsys, "history", folder, "--program", "md.py").startswith(
        "md.py · 4 ranks · 1 run"
    )


def test_text_is_the_same_in_colour(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mpiprof.interface.terminal_colour import remove_colour

    plain = out(capsys, "history", folder)
    painted = out(capsys, "history", folder, "--color", "always")
    assert plain != painted and remove_colour(painted) == plain


def test_summaries_are_runs(tmp_path: Path, folder: Path) -> None:
    line = {
        "program": "solver", "state": "ended", "ranks": 8, "nodes": 1, "run_s": 2.0,
        "started": "2026-01-02T03:04:05Z", "commit": "abc1234", "collectives_waiting_share": 0.25,
        "worst": {"operation": "bcast", "site": "a.c:4", "instances": 2, "total_s": 4.0},
        "trace": "/gone/mpiprof-solver",
    }  # fmt: skip
    file = tmp_path / "nightly.jsonl"
    known = next(run for run in list_runs([folder]))
    lines = [json.dumps(line), "{", json.dumps({**line, "trace": str(known.path)})]
    file.write_text("\n".join(lines))
    first, _ = read_summaries(file)
    assert (first.lost, first.commit, first.date) == (0.25, "abc1234", "2026-01-02 03:04")
    assert first.slowest[0].name == "bcast at a.c:4" and first.slowest[0].share == 0.25
    runs = list_runs([tmp_path, folder])
    assert len(runs) == 14 and runs[0] == first  # the summary of a listed trace is left out


def test_wrong_paths_and_names(tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError):
            list_runs([path])
    with pytest.raises(UsageError, match=r"did you mean|solver\.py"):
        history.group_runs(list_runs([folder]), "solvr.py")
    with pytest.raises(UsageError, match="--ranks 5"):
        history.group_runs(list_runs([folder]), ranks=5)


def test_few_runs_are_too_few() -> None:
    runs = [RunSummary(Path("t"), "a", "2026-01-01T00:00:00Z", lost=i / 10) for i in range(3)]
    (line,) = history_sentences.verdict_lines(history.make_history(runs))
    assert line.startswith("3 runs are too few to detect a change") and str(MIN_RUNS) in line
