"""Pages of docs/results: their tables are made from the stored data, and verdicts follow goals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.checks import FILE, Row, store
from support import ROOT

sys.path.append(str(ROOT / "docs" / "tools"))
import results
from measurements import MEASUREMENTS, Columns, Pattern

PAGES = sorted({one.page for one in MEASUREMENTS})


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_stored_rows(page: str) -> None:
    text = (results.RESULTS / f"{page}.md").read_text("utf-8")
    assert results.format_table(results.load_runs(page)) in text
    assert {run.name for run in results.load_runs(page)} <= {
        one.name for one in MEASUREMENTS if one.page == page
    }


def test_names_are_unique_and_short_measurements_take_50_minutes() -> None:
    assert len({one.name for one in MEASUREMENTS}) == len(MEASUREMENTS)
    assert sum(one.minutes for one in MEASUREMENTS if not one.long) <= 50


@pytest.mark.parametrize(
    ("asked", "measured", "expected"),
    [
        ("<= 100 ns", "50 ns", 2.0),
        ("< 2 s", "4.00 s (1 to 4, median 2)", 0.5),
        (">= 25 million", "12.5 million", 0.5),
        ("at least 3", "4.5 (4 to 5)", 1.5),
        ("< 54 ms", "-16 ms", results.MAX_RATIO),
        ("< 2 s", "5 ms", None),
        ("none wrong", "3 right", None),
        ("(at least 3, at 16)", "4", None),
    ],
)
def test_the_margin_is_the_ratio_to_the_goal(
    asked: str, measured: str, expected: float | None
) -> None:
    assert results.goal_ratio(Row("", asked, measured)) == expected


def test_rows_of_benchmarks_and_studies_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "rows"))
    row = Row("a", "1", "2", False)
    store(row)
    assert results.read_rows(tmp_path / "rows") == [row]
    study = tmp_path / "study.csv"
    study.write_text("case,compared,measured,95 %,asked,holds\nx,y,3.14159,3 to 4,at least 4,NO\n")
    assert list(results.read_study(study, None)) == [
        Row("x: y", "at least 4", "3.14 (3 to 4)", False)
    ]
    columns = Columns(("case",), {"measured": "at least 3"}, {"compared": "y"})
    assert list(results.read_study(study, columns)) == [
        Row("case x: measured", "at least 3", "3.14", True)
    ]
    pattern = Pattern("cases", "all", r"(\d of \d)")
    assert list(results.match_patterns("1 of 2 cases", [pattern])) == [
        Row("cases", "all", "1 of 2", False)
    ]
    with pytest.raises(RuntimeError, match="no 'cases'"):
        list(results.match_patterns("", [pattern]))
