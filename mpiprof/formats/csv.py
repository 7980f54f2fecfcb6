"""A trace as CSV: one file per table of formats/export_columns.py; missing values are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd


def write(path: Path, pieces: Iterable[pd.DataFrame], step: Callable[[pd.DataFrame], None]) -> int:
    """Write a table and return its number of rows; `step` is called with each written piece."""
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for i, piece in enumerate(pieces):
            piece.to_csv(file, index=False, header=i == 0)
            rows += len(piece)
            step(piece)
    return rows
