"""The papers' own numbers, from values/NAME.csv, each with its source in the paper.

Columns: the exhibit, the row and the column of the number in it, the value, its unit, the source
(section and paragraph, caption, or table), and the line of the number in the paper's text as
Markdown. That text has one paragraph, caption, formula or row of a table per line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "values"
COLUMNS = ("exhibit", "row", "column", "value", "unit", "source", "line")


@dataclass(frozen=True)
class PaperValue:
    """One number of a paper."""

    exhibit: str
    row: str
    column: str
    value: float
    unit: str
    source: str
    line: int = 0


@dataclass(frozen=True)
class PaperValues:
    """All numbers of a paper."""

    values: tuple[PaperValue, ...]

    def of_exhibit(self, exhibit: str) -> list[PaperValue]:
        """Return an exhibit's numbers."""
        return [value for value in self.values if value.exhibit == exhibit]

    def column(self, exhibit: str, column: str) -> dict[str, float]:
        """Return one column of an exhibit's numbers, by row."""
        return {v.row: v.value for v in self.of_exhibit(exhibit) if v.column == column}

    def find(self, exhibit: str, row: str, column: str) -> float:
        """Return one number; raises KeyError if the paper has no such number."""
        return self.column(exhibit, column)[row]


def read_paper_values(name: str) -> PaperValues:
    """Return the numbers of a paper."""
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return PaperValues(tuple(_parse_rows(csv.DictReader(file))))


def _parse_rows(reader: csv.DictReader[str]) -> Iterator[PaperValue]:
    for row in reader:
        exhibit, head, column, value, unit, source, line = (row[name] for name in COLUMNS)
        yield PaperValue(exhibit, head, column, float(value), unit, source, int(line))
