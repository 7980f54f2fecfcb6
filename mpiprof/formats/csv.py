"""A trace as CSV: one file per table of formats/export_columns.py; missing values are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from mpiprof.interface.spreadsheet_cells import protect_cell


def write(path: Path, pieces: Iterable[pd.DataFrame], step: Callable[[pd.DataFrame], None]) -> int:
    """Write a table and return its number of rows; `step` is called with each written piece."""
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for i, piece in enumerate(pieces):
            _protect_texts(piece).to_csv(file, index=False, header=i == 0)
            rows += len(piece)
            step(piece)
    return rows


def _protect_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts no spreadsheet evaluates."""
    texts = [
        name
        for name in table
        if not (is_numeric_dtype(table[name]) or is_bool_dtype(table[name].dtype))
    ]
    return table.assign(**{str(name): _protect_column(table[name]) for name in texts})


def _protect_column(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(protect_cell)
    return column.map(protect_cell)
