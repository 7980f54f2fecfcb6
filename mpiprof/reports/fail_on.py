"""Conditions such as "total_wait > 1s and (size > 8 or latest_share > 30%)" over rows of data.

A condition compares columns with values, joined by `and`, `or` and brackets; `and` binds first. A
column of times may be written without its `_ns`. Values carry a unit of the column's quantity: a
time, a size or a share. A time has no unit if it is 0 or compared with the name with `_ns`. A share
without % is at most 1.
A size without a unit is in bytes.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.account import columns
from mpiprof.causes.finding import Finding
from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.interface.parse_units import SIZES, TIMES
from mpiprof.reports.json import FINDING_NAMES, PLACE_NAMES, ROW_TEXTS, RUN_NAMES, finding_as_data
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.words.division import division_as_data
from mpiprof.reports.words.finding_sentences import finding_title
from mpiprof.trace import Trace

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
THRESHOLD_MET = 3  # the exit code of --fail-on
KIND, LABEL = "row_kind", "row_label"  # of rows of `label_rows`
TOKEN_PATTERN = re.compile(r"\s*([()]|[<>=!]+|'[^']*'|\"[^\"]*\"|[^\s()<>=!'\"]+|['\"])")
VALUE_PATTERN = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)([a-zA-Zµ%]*)")
# The units of a quantity, and an example of a value; other quantities are plain numbers.
COLUMN_UNITS: dict[str, tuple[Mapping[str, float], str]] = {
    "duration": (TIMES, "a time with its unit, such as 200us, 5ms or 1s"),
    "size": (SIZES, "a size, such as 100, 64K or 1M"),
    "share": ({"": 1.0, "%": 0.01}, "a share, such as 30% or 0.3"),
}
NUMBER: tuple[Mapping[str, float], str] = ({"": 1.0}, "a number")


@dataclass(frozen=True)
class LimitComparison:
    """One comparison of a column with a value."""

    column: str
    operator: str
    value: float | str

    def is_met_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row meets the comparison; an unknown value meets no comparison."""
        row_value = row.get(self.column)
        return row_value is not None and OPERATORS[self.operator](row_value, self.value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the comparison uses."""
        return (self.column,)


@dataclass(frozen=True)
class JoinedConditions:
    """Conditions of which all (if `every` is set) or at least one must hold."""

    every: bool
    parts: tuple[LimitComparison | JoinedConditions, ...]

    def is_met_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row meets the joined conditions."""
        return (all if self.every else any)(part.is_met_by(row) for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the conditions use."""
        return tuple(column for part in self.parts for column in part.columns)


Condition = LimitComparison | JoinedConditions


def by_name(numbers: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """Return each column by its names: a column of times has a second name without `_ns`."""
    column_by_name = {column: column for column in (*numbers, *texts)}
    return column_by_name | {column[:-3]: column for column in numbers if column.endswith("_ns")}


def parse(
    expression: str, numbers: Sequence[str] | None = None, texts: Sequence[str] | None = None
) -> Condition:
    """Parse an expression over columns into a condition; raises UsageError if it is wrong.

    By default, the columns are those of the tables of call sites, the totals of the run, and the
    columns of places and findings.
    """
    if numbers is None:
        of_sites = dict.fromkeys((*columns.numbers(), *columns.message_numbers()))
        numbers = (*of_sites, *RUN_NAMES, *PLACE_NAMES, *FINDING_NAMES)
    texts = (*columns.texts(), *ROW_TEXTS) if texts is None else texts
    return _Parser(expression, numbers, texts).parse_whole()


class _Parser:
    """Parser of an expression, from left to right."""

    def __init__(self, expression: str, numbers: Sequence[str], texts: Sequence[str]) -> None:
        self.expression = expression
        self.left = [match[1] for match in TOKEN_PATTERN.finditer(expression)]
        self.numbers, self.texts = numbers, texts

    def parse_whole(self) -> Condition:
        if not self.left:
            raise UsageError("--fail-on '': say when to fail, such as 'total_wait > 1s'")
        condition = self.parse_joined()
        if self.left:
            raise self.syntax_error(f"{self.left[0]!r} is one too many")
        return condition

    def parse_joined(self, every: bool = False) -> Condition:
        parts = [self.parse_comparison() if every else self.parse_joined(every=True)]
        while self.left[:1] == ["and" if every else "or"]:
            del self.left[0]
            parts.append(self.parse_comparison() if every else self.parse_joined(every=True))
        return parts[0] if len(parts) == 1 else JoinedConditions(every, tuple(parts))

    def parse_comparison(self) -> Condition:
        if self.left[:1] == ["("]:
            del self.left[0]
            condition = self.parse_joined()
            if self.left[:1] != [")"]:
                raise self.syntax_error("a bracket is not closed")
            del self.left[0]
            return condition
        if len(self.left) < 3 or self.left[1] not in OPERATORS:
            raise self.syntax_error(f"no comparison at {' '.join(self.left[:3])!r}")
        name, sign, value = self.left[:3]
        del self.left[:3]
        column = self.parse_column(name)
        if column in self.texts:
            if sign not in ("==", "!="):
                raise UsageError(f"{column} is text: compare it with == or !=, not {sign}")
            return LimitComparison(column, sign, value.strip("'\""))
        if self.left and self.left[0] in (*TIMES, *SIZES, "%"):  # "1 s"
            value += self.left.pop(0)
        return LimitComparison(column, sign, self.parse_number(name, column, value))

    def parse_column(self, name: str) -> str:
        column_by_name = by_name(self.numbers, self.texts)
        if name in column_by_name:
            return column_by_name[name]
        remedy = suggest_names(name, column_by_name)
        raise UsageError(f"no column {name!r} in {self.expression!r}; {remedy}")

    def parse_number(self, name: str, column: str, text: str) -> float:
        units, expected = COLUMN_UNITS.get(columns.quantity_of(column), NUMBER)
        match = VALUE_PATTERN.fullmatch(text)
        number, unit = match.groups() if match else ("nan", "")
        factor = units.get(unit, units.get(unit.upper(), math.nan))
        if units is TIMES and not unit and (float(number) == 0 or name.endswith("_ns")):
            factor = 1.0
        value = float(number) * factor
        is_part = units is COLUMN_UNITS["share"][0] and not column.endswith("_change")
        if is_part and not unit and abs(value) > 1:
            value = math.nan  # "wait_share > 20" is meant in percent
        if not math.isfinite(value):
            raise UsageError(f"{text!r} in {self.expression!r}: {column} is {expected}")
        return value

    def syntax_error(self, why: str) -> UsageError:
        return UsageError(
            f"can't read {self.expression!r}: {why}; write COLUMN OP VALUE, OP one of "
            f"{' '.join(OPERATORS)}, joined by 'and', 'or' and brackets"
        )


def label_rows(
    kind: str, rows: Iterable[Mapping[str, Any]], labels: Iterable[str]
) -> list[dict[str, Any]]:
    """Return rows of a kind ("place", ...), with `kind.` before the names of their columns."""
    return [
        {f"{kind}.{name}": value for name, value in row.items()} | {KIND: kind, LABEL: label}
        for row, label in zip(rows, labels, strict=True)
    ]


def list_rows(
    trace: Trace, findings: Sequence[Finding], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of the places and findings of a run, if columns of them are named."""
    rows = []
    if any(name.startswith("place.") for name in names):
        places = division_as_data(trace)["places"]
        rows += label_rows("place", places, (place["place"] for place in places))
    if any(name.startswith("finding.") for name in names):
        findings = findings or trace.findings()
        data = (finding_as_data(trace, finding) for finding in findings)
        titles = (finding_title(trace, finding) for finding in findings)
        rows += label_rows("finding", data, titles)
    return rows


def judge(
    expression: str, condition: Condition, rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
) -> int:
    """Return 3 and report it if a row or the run meets the condition, otherwise return 0.

    rows: of call sites, and those of `label_rows`.
    """
    _warn_of_unknown(expression, condition, rows, run)
    if all(column in run for column in condition.columns):
        met, by = condition.is_met_by(run), "the run"
    else:
        met_rows = [row for row in rows if condition.is_met_by({**run, **row})]
        met, by = bool(met_rows), _name_rows(met_rows)
    if met:
        print(f"mpiprof: --fail-on {expression!r} is met by {by}", file=sys.stderr)
    return THRESHOLD_MET if met else 0


def _name_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of rows of the kind of the first, and the first."""
    if not rows:
        return ""
    kind = rows[0].get(KIND, "call site")
    count = sum(row.get(KIND, "call site") == kind for row in rows)
    label = rows[0].get(LABEL) or routine_at(rows[0])
    return f"{count} {kind}{'s' * (count > 1)}, first {label}"


def _warn_of_unknown(
    expression: str, condition: Condition, rows: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
) -> None:
    """Warn about columns without any known value: no limit on them can be met.

    A run without causes has no rows of them.
    """
    for column in dict.fromkeys(condition.columns):
        is_of_cause = column.startswith(("cause.", "finding."))
        if rows and not is_of_cause and all({**run, **row}.get(column) is None for row in rows):
            why = f"{column} is not known here, so nothing meets it"
            print(f"mpiprof: --fail-on {expression!r}: {why}", file=sys.stderr)


def refuse_incomplete(trace: Any) -> None:
    """Raise TraceError if a trace is incomplete, because its numbers may then be too small."""
    if not trace.is_complete:
        why = next(iter(trace.problems), "not all of it was recorded")
        remedy = "--incomplete has it judged all the same"
        raise TraceError(f"{trace.path}: incomplete, so --fail-on can't judge it ({why}); {remedy}")
