"""Statements of a paper that a test proves: statements/NAME.csv.

These are definitions, algorithms and formulas. Their truth does not depend on a machine, unlike
that of the claims (papers/exhibits.py). Columns: the section of the paper, the statement in our
words, the part of mpiprof that implements it, and the test.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "statements"
COLUMNS = ("section", "statement", "place", "test")


@dataclass(frozen=True)
class Statement:
    """A definition, algorithm or formula of a paper, and its test as pytest names it."""

    section: str
    text: str
    place: str
    test: str


def read_statements(name: str) -> list[Statement]:
    """Return the statements of a paper, in its order."""
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [Statement(*(row[column] for column in COLUMNS)) for row in csv.DictReader(file)]
