"""Expressions such as "worst_factor>50 and wait_ns>=1e9" over the columns of a table as data."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.errors import UsageError
from mpiprof.reports.json import NUMBERS, TEXTS
from mpiprof.reports.places import places

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
THRESHOLD_MET = 3  # the exit code of --fail-on
TERM = re.compile(r"\s*([A-Za-z_]+)\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*$")


@dataclass(frozen=True)
class Term:
    """One comparison of a column with a value."""

    column: str
    operator: str
    value: float | str

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a call site meets it; what is not known meets nothing."""
        found = row[self.column]
        return found is not None and OPERATORS[self.operator](found, self.value)


def parse(
    expression: str, numbers: Sequence[str] = NUMBERS, texts: Sequence[str] = TEXTS
) -> list[Term]:
    """Return the terms that all must hold; raises UsageError for anything else.

    The columns are those of the JSON report, or others that are given.
    """
    parts = re.split(r"\s+and\s+", expression.strip())
    return [_term(part, expression, numbers, texts) for part in parts]


def _term(part: str, expression: str, numbers: Sequence[str], texts: Sequence[str]) -> Term:
    columns = ", ".join([*numbers, *texts])
    found = TERM.match(part)
    if found is None:
        raise UsageError(
            f"can't read {part!r} in {expression!r}: write COLUMN OP NUMBER, OP one of "
            f"{' '.join(OPERATORS)}, terms joined by 'and'; columns: {columns}"
        )
    column, sign, value = found.groups()
    if column in texts:
        if sign not in ("==", "!="):
            raise UsageError(f"{column} is text: compare it with == or !=, not {sign}")
        return Term(column, sign, value.strip("'\""))
    if column not in numbers:
        raise UsageError(f"no column {column!r}; columns: {columns}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"{value!r} in {expression!r} is no number")
    return Term(column, sign, number)


def holds(terms: list[Term], row: Mapping[str, Any]) -> bool:
    """Return whether a call site, as a row of data, meets all terms."""
    return all(term.holds(row) for term in terms)


def exit_code(expression: str, terms: list[Term], rows: Sequence[Mapping[str, Any]]) -> int:
    """Return 3, and say so, when a call site, as a row of data, meets all terms; else 0."""
    met = [row for row in rows if terms and holds(terms, row)]
    if not met:
        return 0
    many = f"{len(met)} call site" + "s" * (len(met) > 1)
    first = f"{met[0]['operation']} at {places(met[0]['sites'])}"
    print(f"mpiprof: --fail-on {expression!r} is met by {many}, first {first}", file=sys.stderr)
    return THRESHOLD_MET
