"""Shared code of the papers' studies: set-up, laps within a time limit, tables, files.

A study is a module with TITLE, `make_cases(setup)` and `make_report(results, setup)`. The same
cases are measured inside MPI or simulated, and the report does not depend on which. These are
optional: LAPS and QUICK_LAPS replace the usual number of laps, PARTS has the names for --only, and
OPERATIONS those whose algorithms --only selects too. A study in loops (harness/loop.py) has
`make_loops(setup)`, `make_report(results, selected, setup)`, LAPS and QUICK_LAPS for the number of
instances, and MIN_LAPS for the minimum under a time limit.
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.account.message_volume import message_time_on_link
from mpiprof.collectives import catalogue
from mpiprof.collectives.machine import DEFAULT, Machine
from mpiprof.collectives.papers.harness.case import LINE, Case, Options, problem_with_parameters
from mpiprof.collectives.papers.harness.figures import Figure, draw, svg
from mpiprof.collectives.papers.harness.intervals import (
    FEWEST_VALUES,
    IntervalEstimate,
    estimate_within,
    format_within,
    median_interval,
)
from mpiprof.collectives.papers.harness.processors import RankProcessors
from mpiprof.collectives.papers.harness.timing import LEAD_NS, LEAD_RANK_NS, Int
from mpiprof.collectives.simulate import count_port_bytes, lower_bound, simulate
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_link
from mpiprof.interface.output_files import write_atomically, write_text
from mpiprof.interface.spreadsheet_cells import protect_cell

Values = NDArray[np.float64]
Row = dict[str, Any]
RESAMPLE_COUNT = 1000
MIN_LAPS = FEWEST_VALUES
REQUIRED_RANKS = 16  # of an emulated cluster, to which the requirements apply
STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:75em}td,th{padding:.15em .7em;text-align:"
    "right;border-bottom:1px solid #ddd}table{border-collapse:collapse}"
    "svg{margin:1em 1em 1em 0;font-size:12px}"
)
NATIVE_MESSAGES = 4  # times the bound: assumed time of a library that was not yet measured


@dataclass(frozen=True)
class Setup:
    """Environment of a study: ranks, message times, library, and whether it is simulated."""

    ranks: int
    options: Options
    machine: Machine = DEFAULT
    library: str = ""
    shared_nodes: bool = False  # there are several nodes, and some have more than one rank
    simulated: bool = False
    processors: RankProcessors | None = None  # of the ranks, None if simulated
    computation: str = "none"  # of the ranks between calls, in words
    times_source: str = ""  # of message times, in words; "" if measured on the ranks or a file's
    laps: int = 1
    per_node: int = 1  # simulated processes per node, placed in the order of ranks
    fault: str = ""  # why message times are unusable, so that `machine` is assumed; "" if usable
    link: Mapping[str, Any] | None = None  # measured times by message size, if known

    @property
    def message_times_text(self) -> str:
        """Return the message times in words."""
        return format_link(self.machine.alpha, self.machine.beta)

    @property
    def warnings(self) -> list[str]:
        """Return the consequences of unusable message times; [] if they are usable."""
        if not self.fault:
            return []
        return [
            f"Message times are not usable: {self.fault}. {self.message_times_text} are assumed "
            "for block sizes and for how late ranks come, and there are no factors. Measure with "
            "`calibrate -o FILE` on a quiet machine, and repeat with --machine FILE."
        ]

    def message_ns(self, size: int) -> float:
        """Return T of so many bytes in ns, measured if possible; NaN if times are not usable."""
        if self.fault:
            return np.nan
        measured = float(message_time_on_link(self.link, np.array(size, np.float64)))
        fitted = self.machine.message_time(size, between=True, one_way=True)
        return fitted if np.isnan(measured) else measured

    def find_choices(
        self, operation: str, choices: Sequence[str], *, inter: bool = False
    ) -> list[str]:
        """Return the wanted choices that exist and are selected; native only with a library."""
        available = {a.name for a in catalogue.find_all(operation, intercommunicator=inter)}
        if not self.simulated:
            available.add("native")
        if self.options.algorithms:
            available &= set(self.options.algorithms)
        return [w for w in choices if w.partition(":")[0] in available]


@dataclass(frozen=True)
class CaseResult:
    """A case's times in ns, by lap: last exit minus last arrival, and two means over members."""

    case: Case
    total: Values
    elapsed: Values
    spread: Values  # last minus first arrival: error of the start, or the imposed pattern
    score: Values = field(default_factory=lambda: np.zeros(0))  # without waits for late members

    @property
    def median_ms(self) -> float:
        """Median over the laps."""
        return float(np.median(self.total)) / 1e6

    @property
    def min_ms(self) -> float:
        """Minimum over the laps."""
        return float(self.total.min()) / 1e6


@dataclass
class Report:
    """A study's result: a table, text below it, figures, and further tables by name."""

    columns: Sequence[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    figures: Sequence[Figure] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, list[Row]] = field(default_factory=dict)  # only written, as CSV


@dataclass(frozen=True)
class Requirement:
    """Requirement on a ratio, and its text in the table; no test if it does not apply here."""

    text: str
    is_met: Callable[[float], bool] | None = None

    def judge(self, value: float) -> Row:
        """Return the columns of the requirement and of the verdict on a value."""
        holds = "" if self.is_met is None else "yes" if self.is_met(value) else "NO"
        return {"asked": self.text, "holds": holds}


def at_least(bound: float, text: str = "") -> Requirement:
    """Return the requirement on a ratio that must reach a bound."""
    return Requirement(text or f"at least {bound:g}", lambda value: value >= bound)


def at_most(bound: float, text: str = "") -> Requirement:
    """Return the requirement on a ratio that must not exceed a bound."""
    return Requirement(text or f"at most {bound:g}", lambda value: value <= bound)


def remove_verdict(row: Row) -> None:
    """Put a row's requirement into parentheses, because it applies to another set-up."""
    row |= {"asked": f"({row['asked'].strip('()')}, at {REQUIRED_RANKS})", "holds": ""}


def list_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of a table in the order in which the rows have them."""
    return list(dict.fromkeys(column for row in rows for column in row))


def group_results(
    results: Sequence[CaseResult], columns: Sequence[str]
) -> Iterator[list[CaseResult]]:
    """Yield adjacent results of cases that have equal labels in some columns."""
    for _, group in groupby(results, lambda r: [r.case.labels[c] for c in columns]):
        yield list(group)


def make_row(result: CaseResult, group: Sequence[CaseResult], rivals: Mapping[str, str]) -> Row:
    """Return a case's labels and times, and the time of each rival over its own.

    rivals: name in the column, and algorithm. Ratios of rivals outside of the group are NaN.
    """
    results = {r.case.labels["algorithm"]: r for r in group}
    median = median_interval(result.total / 1e6)
    shortest = IntervalEstimate(result.min_ms, width=median.width)
    row = result.case.labels | {"least ms": shortest, "median ms": median}
    if len(result.total) > 1:
        row["95 %"] = median.interval_text
    for name, algorithm in rivals.items():
        rival = results.get(algorithm)
        row[f"{name} / this"] = estimate_ratio(rival, result) if rival else np.nan
    return row


def estimate_ratio(above: CaseResult, below: CaseResult) -> IntervalEstimate:
    """Return the ratio of the medians of two results of the same laps."""
    return ratio_interval(above.total, below.total, paired=True)


# ---- numbers


def ratio_interval(
    above: Values,
    below: Values,
    statistic: Callable[..., Any] = np.median,
    row: int = 1,  # adjacent values that are drawn together, because drift affects them equally
    *,
    paired: bool = False,  # draw the same indices from both, because the two alternated
) -> IntervalEstimate:
    """Return the ratio of medians, or means, with its 95 % interval, by separate resampling."""
    value = float(statistic(above) / statistic(below))
    if min(len(above), len(below)) < 2:
        return IntervalEstimate(value, value, value)
    random = np.random.default_rng(0)
    indices = _draw_indices(random, len(above), row)
    indices_below = indices if paired else _draw_indices(random, len(below), row)
    over, under = statistic(above[indices], axis=1), statistic(below[indices_below], axis=1)
    low, high = np.percentile(over / under, (2.5, 97.5))
    return IntervalEstimate(value, float(low), float(high))


def _draw_indices(random: np.random.Generator, count: int, row: int) -> Int:
    """Return RESAMPLE_COUNT times `count` indices, drawn in circular rows."""
    starts = random.integers(0, count, (RESAMPLE_COUNT, -(-count // row), 1))
    indices: Int = (starts + np.arange(row)).reshape(RESAMPLE_COUNT, -1)[:, :count] % count
    return indices


def estimate_mean(values: Values) -> IntervalEstimate:
    """Return the mean with its 95 % confidence interval; a single value is exact."""
    mean, half = float(values.mean()), 0.0
    if len(values) > 1:
        from scipy import special

        error = values.std(ddof=1) / len(values) ** 0.5
        half = float(special.stdtrit(len(values) - 1, 0.975) * error)
    return estimate_within(mean, half)


# ---- expected duration


def estimate_case_ns(case: Case, machine: Machine) -> float:
    """Return the approximate time of a case in ns."""
    problem = problem_with_parameters(case, machine)
    if case.operation == LINE:
        return machine.message_time(problem.bytes, between=True, one_way=True)
    late = (case.arrivals[0] - 1) * case.arrivals[1] * 0.95
    if not case.is_native:
        inter = bool(problem.remote_size)
        with contextlib.suppress(MpiprofError):
            algorithm = catalogue.find(case.operation, case.name, intercommunicator=inter)
            return late + simulate(algorithm, problem, machine).after_last
    return late + NATIVE_MESSAGES * lower_bound(case.operation, problem, machine)


def estimate_lap_s(cases: Iterable[Case], setup: Setup) -> float:
    """Return the approximate time of a lap of all cases in s, with the agreements on starts."""
    start = 1.5 * LEAD_NS + 2 * LEAD_RANK_NS * setup.ranks + 4 * setup.machine.alpha
    return sum(estimate_case_ns(case, setup.machine) + start for case in cases) / 1e9


def fit_laps(setup: Setup, default: int, lap_s: float) -> int:
    """Return the requested number of laps, or as many of `wanted` as the time limit allows."""
    if setup.options.laps:
        return setup.options.laps
    affordable = int(setup.options.minutes * 60 / lap_s) - 1  # one lap is untimed
    return max(min(default, affordable), MIN_LAPS)


def port_busy_ms(case: Case, machine: Machine) -> float:
    """Return the mean time in ms that a member's port is busy with the bytes that it must move."""
    moved = count_port_bytes(case.operation, case.problem)
    return float(moved.mean()) * machine.beta / 1e6


# ---- output


def print_table(report: Report) -> None:
    """Print a report's table and notes."""
    columns = []
    for name in report.columns:
        cells = [name, *(format_cell(row.get(name, "")) for row in report.rows)]
        width = max(map(len, cells))
        numeric = all(isinstance(row.get(name, 0), int | float) for row in report.rows)
        columns.append([text.rjust(width) if numeric else text.ljust(width) for text in cells])
    for line in zip(*columns, strict=True):
        print("  ".join(line).rstrip())
    for note in report.notes:
        print(f"\n{note}")


def format_cell(value: Any) -> str:
    """Return a value of a table as text: numbers with the digits that their interval allows."""
    width = value.width if isinstance(value, IntervalEstimate) else 0.0
    return format_within(value, width) if isinstance(value, float) else str(value)


def write(report: Report, title: str, output: Path, forms: Sequence[str] = ()) -> list[Path]:
    """Write tables as CSV, also in JSON, the page as HTML, each figure in `forms`; return paths."""
    stem = output.with_suffix("") if output.suffix in (".csv", ".html", ".json") else output
    stem.parent.mkdir(parents=True, exist_ok=True)
    table, page, data = (Path(f"{stem}.{form}") for form in ("csv", "html", "json"))
    _write_table(table, report.columns, report.rows)
    write_text(page, _make_page(report, title))
    contents = {"title": title, "conditions": dict(report.conditions), "notes": report.notes}
    rows = [{name: _make_value(value) for name, value in row.items()} for row in report.rows]
    table_of_json = {"columns": list(report.columns), "rows": rows}
    write_text(data, json.dumps(contents | table_of_json, allow_nan=False))
    files = [table, page, data]
    for name, table_rows in report.tables.items():
        files.append(Path(f"{stem}-{name}.csv"))
        _write_table(files[-1], list_columns(table_rows), table_rows)
    for number, figure in enumerate(report.figures, 1):
        for form in forms:
            files.append(Path(f"{stem}-{number}.{form}"))
            with write_atomically(files[-1]) as unfinished:
                draw(figure, unfinished, form)
    return files


def _write_table(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    with write_atomically(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows({n: protect_cell(value) for n, value in row.items()} for row in rows)


def _make_page(report: Report, title: str) -> str:
    notes = "".join(f"<pre>{escape(note)}</pre>" for note in report.notes)
    figures = "".join(map(svg, report.figures))
    stated = (f"<dt>{escape(k)}<dd>{escape(v)}" for k, v in report.conditions.items())
    conditions = f"<dl>{''.join(stated)}</dl>" if report.conditions else ""
    table = make_html_table(report.columns, report.rows)
    return make_page(title, f"{conditions}{figures}{notes}{table}")


def _make_value(value: Any) -> Any:
    """Return a value of the JSON file: with all digits, and its interval beside it."""
    if isinstance(value, IntervalEstimate) and value.low < value.high:
        return {"value": float(value), "interval": [value.low, value.high]}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def make_page(title: str, body: str, style: str = "") -> str:
    """Return a self-contained page; `style`: further rules."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}{style}</style><h1>{escape(title)}</h1>{body}</html>\n"
    )


def make_html_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table as HTML."""
    import pandas as pd

    cells = [[format_cell(row.get(c, "")) for c in columns] for row in rows]
    return str(pd.DataFrame(cells, columns=list(columns)).to_html(index=False, border=0))
