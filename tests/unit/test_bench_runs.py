"""Several runs of a study: one table of medians with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiprof.__main__ import main
from mpiprof.collectives.papers.harness.intervals import IntervalEstimate
from mpiprof.collectives.papers.harness.repetition import combine_tables, find_labels, repeat_study
from mpiprof.collectives.papers.harness.study import Report, Row, format_cell, write


def make_table(*rows: dict[str, Any]) -> dict[str, Any]:
    conditions = {"processes": "2 ranks have 2 processors"}
    columns = list(rows[0])
    return {"title": "A study", "conditions": conditions, "columns": columns, "rows": list(rows)}


def make_row(ms: float, *, block: int = 8, holds: str = "yes") -> dict[str, Any]:
    measured = {"value": ms, "interval": [ms - 1, ms + 1]}
    labels = {"case": "bcast", "compared": f"chain:{block} / line"}
    return labels | {"ms": "1.0 / 2.0", "measured": measured, "95 %": "a to b", "holds": holds}


def test_medians_and_the_range_of_five_runs() -> None:
    """Block sizes follow from measured times, so that they do not distinguish rows."""
    tables = [make_table(make_row(ms, block=int(ms))) for ms in (10.0, 12.0, 11.0, 14.0, 10.5)]
    report = combine_tables(tables)
    (row,) = report.rows
    assert row["compared"] == "chain:10 / line" and row["measured"] == 11.0
    assert (row["measured"].low, row["measured"].high) == (10.0, 14.0)
    assert row["95 %"] == "10 to 14" and format_cell(row["measured"]) == "11"
    assert report.conditions["runs"] == "5, medians with their range"
    six = combine_tables([*tables, tables[0]])
    assert six.conditions["runs"] == "6, medians with intervals of 95 %"


def test_a_verdict_names_the_runs_that_share_it() -> None:
    tables = [make_table(make_row(1.0, holds=text)) for text in ("yes", "NO", "yes")]
    assert combine_tables(tables).rows[0]["holds"] == "yes (2 of 3)"
    assert combine_tables(tables[::2]).rows[0]["holds"] == "yes"
    marks = [make_table(make_row(1.0, holds=text)) for text in ("", "*", "")]
    assert combine_tables(marks).rows[0]["holds"] == "* (1 of 3)"
    assert combine_tables(marks[::2]).rows[0]["holds"] == ""


def test_rows_that_a_run_lacks_are_counted() -> None:
    other = make_row(1.0) | {"case": "alltoall"}
    report = combine_tables([make_table(make_row(1.0), other), make_table(make_row(2.0))])
    assert len(report.rows) == 1 and report.notes == ["1 rows are not in all runs, and left out."]


def test_an_unknown_value_of_a_run_leaves_the_median_unknown() -> None:
    unknown = make_row(1.0) | {"measured": None}
    assert np.isnan(
        combine_tables([make_table(make_row(1.0)), make_table(unknown)]).rows[0]["measured"]
    )


def test_labels_are_the_columns_before_the_results() -> None:
    assert find_labels(make_table(make_row(1.0))) == ["case", "compared"]


def test_each_run_writes_its_files_and_all_runs_one_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ms = iter([10.0, 12.0])

    def start(path: Path) -> int:
        row: Row = {"bytes": 8, "ms ": IntervalEstimate(next(ms), 1.0, 20.0)}
        write(Report(tuple(row), [row], conditions={"processes": "2"}), "A study", path)
        return 0

    assert repeat_study(start, 2, tmp_path, tmp_path / "r.csv") == 0
    assert {p.name for p in tmp_path.glob("*.csv")} == {"r.csv", "r-run1.csv", "r-run2.csv"}
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert row == {"bytes": 8, "ms ": {"value": 11.0, "interval": [10.0, 12.0]}}
    assert "run 2 of 2" in capsys.readouterr().out


def test_a_failed_run_ends_the_repetition(tmp_path: Path) -> None:
    codes = iter([0, 3])

    def start(path: Path) -> int:
        write(Report(("a",), [{"a": 1.5}]), "A study", path)
        return next(codes)

    assert repeat_study(start, 5, tmp_path, None) == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--simulate", "4", "--runs", "5"], "--runs requires -n or --cluster"),
        (["-n", "2", "--runs", "0"], "--runs must be above 0"),
    ],
)
def test_wrong_use_of_runs_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "reduction", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
