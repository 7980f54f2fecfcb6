"""Names in CSV files: no spreadsheet program evaluates them, and numbers remain numbers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpiprof.formats import table_files
from mpiprof.interface.spreadsheet_cells import protect_cell

FORMULAS = ("=1+1", "+1+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "-1+2")
PLAIN = ("a=b", "-1", "+1.5e-3", "-.5", "", "app.py:12", "naïve", 3, -3, -1.5, None, True)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_an_apostrophe(text: str) -> None:
    assert protect_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", PLAIN)
def test_other_values_remain(value: Any) -> None:
    assert protect_cell(value) is value


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_a_written_table_has_no_formula(tmp_path: Path, dtype: str) -> None:
    formulas = [text for text in FORMULAS if "\r" not in text]  # no name has line breaks
    names = pd.Series([*formulas, "plain"], dtype=dtype)
    numbers = range(-5, len(names) - 5)
    flags = [True] * len(names)
    table = pd.DataFrame({"name": names, "number": numbers, "flag": flags})
    path = tmp_path / "table.csv"
    assert table_files.write_csv(path, [table], lambda _: None) == len(names)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [*(f"'{text}" for text in formulas), "plain"]
    assert [int(row["number"]) for row in rows] == list(numbers)
    assert {row["flag"] for row in rows} == {"True"}
