"""Judges the claims of a paper by rules, which are data.

The fields of a rule are these:

cases: the judged rows, which are those of a run, or those that a function returns.
paper: further columns with numbers of the paper: exhibit, row and column, which may have fields.
let: further columns, computed from others. These expressions and conditions are those of pandas.
where, agrees: conditions on the cases of the claim, and on those that confirm it.
reason: a template with the columns of the first case, `right`, `total`, and `min`, `max`, `sum` and
    `at_max` of columns. `each` lists all cases, and `distinct` each text once. `wrong` has the same
    of the cases that do not agree, and `rest` of those that are left out.
each: a template of one case.
if_wrong, if_rest: further reason if some cases do not agree, or are left out.
missing: why the claim is not reproduced without cases, or if a value of `known` columns is unknown.
otherwise: the state of a claim unless all cases agree. The reason of other claims begins with the
    number of agreeing cases.
state: the state of a claim that is not judged.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from types import SimpleNamespace
from typing import Any, TypeGuard

from mpiprof.collectives.papers.harness.study import Row, format_cell
from mpiprof.collectives.papers.reports.exhibits import (
    NOT_REPRODUCED,
    ClaimVerdict,
    Results,
    judge,
    judge_share,
)
from mpiprof.interface.format_units import (
    format_percent,
    format_round_size,
    format_share,
    format_time,
)

# Units of numbers in templates, after a colon.
UNITS = {
    "percent": format_percent,
    "share": format_share,
    "size": format_round_size,
    "time": format_time,
}


MakeCases = Callable[[Results], Any]  # returns rows, or the verdict without them


@dataclass(frozen=True)
class ClaimRule:
    """The fields of a rule, except for its cases; see the module's description."""

    reason: str = ""
    agrees: str = ""
    where: str = ""
    paper: Mapping[str, Sequence[str]] = field(default_factory=dict)
    let: Mapping[str, str] = field(default_factory=dict)
    each: str = ""
    if_wrong: str = ""
    if_rest: str = ""
    missing: str = ""
    known: Sequence[str] = ()
    otherwise: str = ""
    state: str = ""


def is_known(value: object) -> TypeGuard[float]:
    """Return whether a value of a table is a number."""
    return isinstance(value, int | float) and not isnan(value)


# ---- reasons


class ReasonFormatter(string.Formatter):
    """Formats numbers as in tables, unless the template has a format or a unit."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return the text of one field."""
        if format_spec in UNITS:
            return UNITS[format_spec](value)
        return format(value, format_spec) if format_spec else format_cell(value)


def format_text(template: str, columns: Mapping[str, Any]) -> str:
    """Return a template with the values of these columns."""
    return ReasonFormatter().vformat(template, (), columns)


@dataclass(frozen=True)
class ColumnSummary:
    """Values of each column of several rows, reduced by a function, or the row of the largest."""

    rows: Sequence[Row]
    reduce: Callable[[Sequence[Any]], Any] | None = None

    def __getitem__(self, column: str) -> Any:
        if self.reduce is None:
            return max(self.rows, key=lambda row: row[column])
        return self.reduce([row[column] for row in self.rows])


@dataclass(frozen=True)
class CaseList:
    """Texts of cases, joined by the separator after a colon, or by commas."""

    rows: Sequence[Row]
    template: str
    distinct: bool = False

    def __format__(self, separator: str) -> str:
        texts = [format_text(self.template, row) for row in self.rows]
        return (separator or ", ").join(dict.fromkeys(texts) if self.distinct else texts)

    def __str__(self) -> str:
        return format(self, "")


def summarize_cases(rows: Sequence[Row], template: str) -> dict[str, Any]:
    """Return the fields of a template that describe several cases."""
    reductions: dict[str, Callable[..., Any]] = {"min": min, "max": max, "sum": sum}
    summary = {name: ColumnSummary(rows, reduce) for name, reduce in reductions.items()}
    lists = {"each": CaseList(rows, template), "distinct": CaseList(rows, template, distinct=True)}
    return {**summary, "at_max": ColumnSummary(rows), **lists}


# ---- verdicts


def judge_cases(results: Results, rule: ClaimRule, make_cases: MakeCases) -> ClaimVerdict:
    """Return the verdict of a rule on its cases."""
    cases = make_cases(results)
    if isinstance(cases, ClaimVerdict):
        return cases
    chosen, rest = select_cases(results, rule, cases)
    unknown = any(not is_known(row[name]) for row in chosen for name in rule.known)
    if rule.missing and (unknown or not chosen):
        return ClaimVerdict(rule.state or NOT_REPRODUCED, rule.missing)
    right, wrong = _split_rows(chosen, _test_rows(chosen, rule.agrees))
    template = rule.reason + rule.if_wrong * bool(wrong) + rule.if_rest * bool(rest)
    groups = {"wrong": wrong, "rest": rest}
    texts = {name: SimpleNamespace(**summarize_cases(r, rule.each)) for name, r in groups.items()}
    columns = {**(chosen[0] if chosen else {}), **summarize_cases(chosen, rule.each), **texts}
    reason = format_text(template, {**columns, "right": len(right), "total": len(chosen)})
    if rule.state:
        return ClaimVerdict(rule.state, reason)
    if rule.otherwise:
        return judge(not wrong, reason, rule.otherwise)
    return judge_share(len(right), len(chosen), reason)


def select_cases(
    results: Results, rule: ClaimRule, cases: Sequence[Row]
) -> tuple[list[Row], list[Row]]:
    """Return the cases of a rule with its further columns, and those that it leaves out.

    Numbers that the paper does not have are NaN.
    """
    rows = [dict(row) for row in cases]
    for name, (exhibit, *identity) in rule.paper.items():
        for row in rows:
            head, column = (format_text(text, row) for text in identity)
            row[name] = results.values.column(exhibit, column).get(head, nan)
    for name, expression in rule.let.items():
        for row, value in zip(rows, _evaluate(rows, expression), strict=True):
            row[name] = value
    return _split_rows(rows, _test_rows(rows, rule.where))


def _evaluate(rows: Sequence[Row], expression: str) -> list[Any]:
    """Return the value of an expression over the columns for each row."""
    import numpy as np
    import pandas as pd

    if not rows:
        return []
    values: Any = pd.DataFrame(list(rows)).eval(expression, engine="python")
    listed: list[Any] = np.broadcast_to(values, len(rows)).tolist()
    return listed


def _test_rows(rows: Sequence[Row], condition: str) -> list[bool]:
    return list(map(bool, _evaluate(rows, condition))) if condition else [True] * len(rows)


def _split_rows(rows: Sequence[Row], tests: Sequence[bool]) -> tuple[list[Row], list[Row]]:
    pairs = list(zip(rows, tests, strict=True))
    return [row for row, test in pairs if test], [row for row, test in pairs if not test]
