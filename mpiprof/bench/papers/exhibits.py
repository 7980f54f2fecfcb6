"""Entries of a paper's report: its exhibits, how each is obtained, and the claims about it.

A paper is a module with PAPER. An exhibit is a table, figure, formula, theorem or section of the
paper. Its rows come from runs (papers/runs.py), which several exhibits may share. `show` turns
these rows into figures and tables. A claim's check compares the rows with the paper's statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpiprof.bench.harness.figures import Figure, Series
from mpiprof.bench.harness.study import Row, format_cell
from mpiprof.bench.papers.paper_values import PaperValues
from mpiprof.bench.papers.runs import Run
from mpiprof.interface.format_units import format_percent

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold here"
# A counter-example in the paper's own model, which depends on no machine, shows that a statement is
# false.
REFUTED = "refuted"
NOT_REPRODUCED = "not reproduced"
# The statement is about a machine or a library that does not exist any more.
NOT_REPRODUCIBLE = "not reproducible"
THIS_MACHINE = "this machine"
STATES = (HOLDS, IN_PART, FAILS, REFUTED, NOT_REPRODUCED, NOT_REPRODUCIBLE)


@dataclass(frozen=True)
class Verdict:
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
        wanted = {name.replace("_", " "): value for name, value in labels.items()}
        return [row for row in self.rows[run] if wanted.items() <= row.items()]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper in our words, and its check."""

    text: str
    check: Callable[[Results], Verdict]


@dataclass(frozen=True)
class Exhibit:
    """A table, figure, formula or theorem of the paper; `missing` is why it is not reproduced.

    Without the rows of `runs` the exhibit is not reproduced. The rows of `optional_runs` may be
    missing, for example because --quick leaves out the run.
    """

    number: str  # "Figure 4"
    section: str
    shows: str
    runs: tuple[str, ...] = ()
    show: Callable[[Results], Content] = field(default=lambda _: Content())
    claims: tuple[Claim, ...] = ()
    missing: str = ""
    optional_runs: tuple[str, ...] = ()

    @property
    def all_runs(self) -> tuple[str, ...]:
        """Return the names of all runs that this exhibit uses."""
        return () if self.missing else (*self.runs, *self.optional_runs)


@dataclass(frozen=True)
class Paper:
    """A paper: citation, runs by name, and exhibits in the paper's order."""

    name: str
    citation: str
    link: str  # DOI or page of the paper
    runs: Mapping[str, Run]
    exhibits: Sequence[Exhibit]


# ---- checks


def judge_share(right: int, total: int, reason: str) -> Verdict:
    """Return the verdict on cases of which so many agree with the paper."""
    state = HOLDS if right == total else IN_PART if right else FAILS
    return Verdict(state, f"{right} of {total} {reason}")


def judge_values(
    measured: Mapping[str, float], expected: Mapping[str, float], error: float
) -> Verdict:
    """Return the verdict on values that must be within a relative error of the paper's."""
    close = [abs(value / expected[key] - 1) <= error for key, value in measured.items()]
    pairs = "; ".join(
        f"{key}: {format_cell(v)} ({format_cell(expected[key])})" for key, v in measured.items()
    )
    near = f"within {format_percent(error)} of" if error else "equal to"
    reason = f"{near} the paper's number. Here, and (in the paper): {pairs}"
    return judge_share(sum(close), len(close), reason)


# ---- figures


def make_series(
    rows: Sequence[Row], x: str, y: str, by: str, names: Mapping[str, str]
) -> list[Series]:
    """Return a line for each of the named values of a column, without lines that have no point."""
    lines = []
    for value, name in names.items():
        points = [(row[x], row[y]) for row in rows if row[by] == value]
        if points:
            lines.append(Series.of_points(name, sorted(points)))
    return lines
