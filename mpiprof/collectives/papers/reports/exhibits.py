"""Entries of a paper's report: its exhibits, how each is obtained, and the claims about it.

An exhibit is a table, figure, formula, theorem or section of
the paper. Its rows come from runs (runs.py), which several exhibits may share. `show` turns
these rows into figures and tables. A claim's check compares the rows with the paper's statement.
claims/NAME.json has the runs, exhibits and claims of a paper (paper_file.py).

values/NAME.csv has the paper's own numbers. Columns: the exhibit, the row and the column of the
number in it, the value, its unit, the source, and the line of the number in the paper's text as
Markdown, which has one paragraph, caption, formula or row of a table per line. statements/NAME.csv
has definitions, algorithms and formulas that a test proves. Their truth does not depend on a
machine, unlike that of the claims. Columns: the section of the paper, the statement in our words,
the part of mpiprof that implements it, and the test.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpiprof.collectives.papers.harness.figures import Figure, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.runs import Run

FOLDER = Path(__file__).parent
HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold here"
# A counter-example in the paper's own model, which depends on no machine, shows that a statement is
# false.
REFUTED = "refuted"
NOT_REPRODUCED = "not reproduced"
# The statement is about a machine or a library that does not exist any more.
NOT_REPRODUCIBLE = "not reproducible"
THIS_MACHINE = "this machine"
STATES = (HOLDS, IN_PART, FAILS, REFUTED, NOT_REPRODUCED, NOT_REPRODUCIBLE)


def read_table(kind: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a table of a paper, in the order of the file."""
    with (FOLDER / kind / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


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
    values = []
    for row in read_table("values", name):
        number, line = float(row.pop("value")), int(row.pop("line"))
        values.append(PaperValue(value=number, line=line, **row))
    return PaperValues(tuple(values))


@dataclass(frozen=True)
class Statement:
    """A definition, algorithm or formula of a paper, and its test as pytest names it."""

    section: str
    text: str
    place: str
    test: str


def read_statements(name: str) -> list[Statement]:
    """Return the statements of a paper, in its order."""
    return [Statement(*row.values()) for row in read_table("statements", name)]


# ---- exhibits


@dataclass(frozen=True)
class ClaimVerdict:
    """Result of a claim: one of STATES, and its reason."""

    state: str
    reason: str


@dataclass(frozen=True)
class Table:
    """A table of an exhibit."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Content:
    """Figures, tables and notes of one exhibit."""

    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Results:
    """Rows of the runs by name, and the paper's numbers.

    A run's further tables are named after the run and the table, such as "apps instances".
    """

    rows: Mapping[str, list[Row]]
    values: PaperValues
    places: Mapping[str, str] = field(default_factory=dict)  # of measured runs, by run

    def find_place(self, run: str) -> str:
        """Return where a run was measured."""
        return self.places.get(run, THIS_MACHINE)

    def select(self, run: str, **labels: Any) -> list[Row]:
        """Return the rows of a run that have these labels; "_" in a name means a space."""
        columns = {name.replace("_", " "): value for name, value in labels.items()}
        return [row for row in self.rows[run] if columns.items() <= row.items()]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper in our words, and its check."""

    text: str
    check: Callable[[Results], ClaimVerdict]


@dataclass(frozen=True)
class Exhibit:
    """A table, figure, formula or theorem of the paper.

    Without the rows of `runs` the exhibit is not reproduced. The rows of `optional_runs` may be
    missing, for example because --quick leaves out the run.
    """

    number: str  # "Figure 4"
    section: str
    shows: str
    runs: tuple[str, ...] = ()
    show: Callable[[Results], Content] = field(default=lambda _: Content())
    claims: tuple[Claim, ...] = ()
    optional_runs: tuple[str, ...] = ()

    @property
    def all_runs(self) -> tuple[str, ...]:
        """Return the names of all runs that this exhibit uses."""
        return (*self.runs, *self.optional_runs)


@dataclass(frozen=True)
class Paper:
    """A paper: citation, runs by name, and exhibits in the paper's order."""

    name: str
    citation: str
    link: str  # DOI or page of the paper
    runs: Mapping[str, Run]
    exhibits: Sequence[Exhibit]


# ---- checks


def judge(holds: object, reason: str, otherwise: str = FAILS) -> ClaimVerdict:
    """Return the verdict on a statement; `otherwise` is the state of one that does not hold."""
    return ClaimVerdict(HOLDS if holds else otherwise, reason)


def judge_share(right: int, total: int, reason: str) -> ClaimVerdict:
    """Return the verdict on cases of which so many agree with the paper."""
    state = HOLDS if right == total else IN_PART if right else FAILS
    return ClaimVerdict(state, f"{right} of {total} {reason}")


# ---- figures and tables


def make_table(title: str, rows: Sequence[Row]) -> Table:
    """Return a table of all columns."""
    return Table(title, tuple(rows[0]), rows)


def make_series(
    rows: Sequence[Row], x: str, y: str, by: str, names: Mapping[Any, str]
) -> list[Series]:
    """Return a line for each of the named values of a column, without lines that have no point."""
    points = {v: sorted((row[x], row[y]) for row in rows if row[by] == v) for v in names}
    return [Series.of_points(name, points[v]) for v, name in names.items() if points[v]]
