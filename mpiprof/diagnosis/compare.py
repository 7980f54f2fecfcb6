"""Significant changes between recordings of a program, call site by call site.

Each run is compared with the first, or a group of runs with another group. In groups, tests take
the mean of each run as one value, so that variation between runs is no change. For single runs they
take means of consecutive instances (at most STRETCHES), because instances are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.significance import stretch_means
from mpiprof.metrics.message_volume import column_means
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

STRETCHES = 32
MIN_STRETCHES = 4  # minimum number of instances in both runs for a test
MIN_RUNS = 2
SIGNIFICANCE_LEVEL = 0.05
MAIN_SHARE = 0.5  # minimum share of the change for it to count as waiting
NOTABLE_SHARE = 0.1  # minimum untested change, of the time in collectives, to prevent a verdict
COMPONENT_SHARE = 0.25  # minimum ratio of opposite effects for a mixed verdict
TOTAL_COLUMNS = ("total_elapsed_ns", "total_wait_ns")
MEAN_COLUMNS = ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")
COUNT_COLUMNS = ("instances", "total_instances")
COMPARED_COLUMNS = (*TOTAL_COLUMNS, *MEAN_COLUMNS, *COUNT_COLUMNS, "algorithm")
COLUMNS = (
    *("other", "operation", "sites", "callsite", "other_callsite", "matched"),
    *(f"{prefix}{name}" for name in COMPARED_COLUMNS for prefix in ("", "other_")),
    *(f"{name}_{what}" for name in MEAN_COLUMNS for what in ("change", "p")),
    "significant",
)


def compare(traces: Sequence[Trace], to: Sequence[Trace] = ()) -> pd.DataFrame:
    """Return one row per call site and other trace, by change of its time over all ranks.

    to: runs that all of `traces` are compared with, as one group with another; without it each of
    `traces` is compared with the first. Figures of a group are means over its runs, and what
    differs is told from how its runs differ among themselves.

    other (1..: which trace), operation, sites (of the first trace where it is there), callsite and
    other_callsite (-1: not there), matched ("line": same file, line and function; "function": same
    but for lines that moved; "": only in one); of the first trace and, with `other_` before it, of
    the other: TOTAL_COLUMNS (over all ranks and instances), mean_elapsed_ns, wait_ns (over ranks)
    and worst_imbalance_ns (means an instance), COUNT_COLUMNS, algorithm; of each mean `..._change`
    (other / first - 1) and `..._p` (Welch's test; NaN with fewer than MIN_STRETCHES instances,
    or MIN_RUNS runs where there are several); significant: one of these differs, by Holm's
    correction over all tests of the table.
    """
    groups = [traces, to] if to else [[trace] for trace in traces]
    first, *others = (_RunGroup(group) for group in groups)
    rows: list[dict[str, Any]] = []
    for number, other in enumerate(others, 1):
        for callsite, other_callsite, how in match_callsites(first.callsites, other.callsites):
            row = _make_row(first.callsites, other.callsites, callsite, other_callsite)
            values = first.values.get(callsite, {}), other.values.get(other_callsite, {})
            least = MIN_RUNS if first.many or other.many else MIN_STRETCHES
            rows.append({"other": number, "matched": how, **row, **_test_metrics(*values, least)})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["significant"] = _holm_significant(
        frame[[f"{name}_p" for name in MEAN_COLUMNS]].to_numpy(np.float64)
    )
    change = (frame["other_total_elapsed_ns"] - frame["total_elapsed_ns"]).abs()
    order = np.lexsort((-change.to_numpy(np.float64), frame["other"].to_numpy(np.int64)))
    return frame.iloc[order].reset_index(drop=True)


class _RunGroup:
    """A run or a group of runs of a program: call sites with means over runs, and test values."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        first, *rest = traces
        self.many = bool(rest)
        self.callsites = first.callsites
        if not rest:
            self.values = _test_values(first)
            return
        tables = [
            first.callsites,
            *(_align_rows(first.callsites, trace.callsites) for trace in rest),
        ]
        self.callsites = first.callsites.copy()
        for name in (*MEAN_COLUMNS, *TOTAL_COLUMNS):
            columns = np.stack([table[name].to_numpy(np.float64) for table in tables])
            self.callsites[name] = column_means(columns)
        self.values = {
            int(callsite): {
                name: _known_values(np.array([table[name].iloc[i] for table in tables], np.float64))
                for name in MEAN_COLUMNS
            }
            for i, callsite in enumerate(first.callsites["callsite"])
        }


def _align_rows(first: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return another run's rows in the order of the first run's call sites; NaN if absent."""
    rows = {
        first_callsite: other_callsite
        for first_callsite, other_callsite, _ in match_callsites(first, other)
        if first_callsite >= 0 and other_callsite >= 0
    }
    index = [rows.get(int(callsite), -1) for callsite in first["callsite"]]
    return other[[*MEAN_COLUMNS, *TOTAL_COLUMNS]].reindex(index)


def _known_values(values: Float) -> Float:
    return np.asarray(values[~np.isnan(values)])


def match_callsites(first: pd.DataFrame, other: pd.DataFrame) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of call sites of two traces (-1: absent) and how they were matched.

    First by operation, file name, line and function. The rest is matched by all except the line, in
    order of lines, if both traces have equally many.
    """
    left, right = _number_keys(first), _number_keys(other)
    for key in [key for key in left if key in right]:
        yield left.pop(key), right.pop(key), "line"
    loose_left, loose_right = _group_loosely(left), _group_loosely(right)
    for key, first_keys in loose_left.items():
        other_keys = loose_right.get(key, [])
        equal_counts = len(first_keys) == len(other_keys)
        for i, mine in enumerate(first_keys):
            yield (
                left[mine],
                right.pop(other_keys[i]) if equal_counts else -1,
                "function" if equal_counts else "",
            )
    for callsite in right.values():
        yield -1, callsite, ""


def _number_keys(table: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """Return call sites by operation, sites and a number that distinguishes equal keys."""
    callsites: dict[tuple[Any, ...], int] = {}
    occurrences: Counter[tuple[Any, ...]] = Counter()
    for row in table[["callsite", "operation", "sites", "started"]].to_dict("records"):
        sites = tuple(sorted(_site_key(site) for site in row["sites"]))
        key: tuple[Any, ...] = (row["operation"], row["started"], sites)
        callsites[(*key, occurrences[key])] = int(row["callsite"])
        occurrences[key] += 1
    return callsites


def _site_key(site: Mapping[str, Any]) -> tuple[str, str, int]:
    name = PurePath(str(site["file"])).name if site["file"] else ""
    return name, str(site["function"] or ""), int(site["line"] or 0)


def _group_loosely(
    keys: Mapping[tuple[Any, ...], int],
) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Group keys by everything that is unchanged when lines are inserted above the call."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for key in sorted(keys, key=lambda key: [line for *_, line in key[2]]):
        operation, started, sites, _ = key
        locations = tuple((file, function) for file, function, _ in sites)
        groups.setdefault((operation, started, locations), []).append(key)
    return groups


def _make_row(
    first: pd.DataFrame, other: pd.DataFrame, callsite: int, other_callsite: int
) -> dict[str, Any]:
    first_row: Any = first.loc[callsite] if callsite >= 0 else None
    other_row: Any = other.loc[other_callsite] if other_callsite >= 0 else None
    present_row = other_row if first_row is None else first_row
    row = {"operation": present_row["operation"], "sites": present_row["sites"]}
    row |= {"callsite": callsite, "other_callsite": other_callsite}
    absent = {"algorithm": "", "total_elapsed_ns": 0} | dict.fromkeys(COUNT_COLUMNS, 0)
    for prefix, of in (("", first_row), ("other_", other_row)):
        for name in COMPARED_COLUMNS:
            row[prefix + name] = absent.get(name, np.nan) if of is None else of[name]
    for name in MEAN_COLUMNS:
        before, after = float(row[name]), float(row[f"other_{name}"])
        row[f"{name}_change"] = after / before - 1 if before > 0 else np.nan
    return row


def _test_values(trace: Trace) -> dict[int, dict[str, Float]]:
    """Return the means of consecutive instances of each call site, by metric."""
    if trace.record == "summary":
        return {}
    series_by_callsite: dict[int, pd.DataFrame] = trace.series(tuple(range(len(trace.callsites))))
    return {
        callsite: {name: _stretch_means(series[name].to_numpy(np.float64)) for name in MEAN_COLUMNS}
        for callsite, series in series_by_callsite.items()
    }


def _stretch_means(values: Float) -> Float:
    known_values = _known_values(values)
    return stretch_means(known_values[None, :], STRETCHES)[0] if len(known_values) else known_values


def _test_metrics(
    first_values: Mapping[str, Float], other_values: Mapping[str, Float], least: int
) -> dict[str, float]:
    p_values = {f"{name}_p": np.nan for name in MEAN_COLUMNS}
    if not first_values or not other_values:
        return p_values
    for name in MEAN_COLUMNS:
        a, b = first_values[name], other_values[name]
        if min(len(a), len(b)) < least:
            continue
        if np.ptp(a) == 0 and np.ptp(b) == 0:  # the test statistic is undefined here
            p_values[f"{name}_p"] = float(a[0] == b[0])
        else:
            p_values[f"{name}_p"] = _welch_p(a, b)
    return p_values


def _welch_p(a: Float, b: Float) -> float:
    """Return the p-value of the difference between two sample means (Welch's t-test)."""
    from scipy import special

    of_a, of_b = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    free = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    score = abs(a.mean() - b.mean()) / np.sqrt(of_a + of_b)
    return 2 * float(special.stdtr(free, -score))


def _holm_significant(p: Float) -> Any:
    """Return the rows that are significant at SIGNIFICANCE_LEVEL for the whole table."""
    order = np.argsort(p, axis=None)
    tests = int((~np.isnan(p)).sum())
    limits = SIGNIFICANCE_LEVEL / (tests - np.arange(tests))
    passed = np.flatnonzero(p.reshape(-1)[order[:tests]] > limits)
    count = int(passed[0]) if len(passed) else tests
    significant = np.zeros(p.size, np.bool_)
    significant[order[:count]] = True
    return significant.reshape(p.shape).any(1) if len(p) else np.zeros(0, np.bool_)


# Verdict on a comparison.


@dataclass(frozen=True)
class ChangedCallsite:
    """A call site that differs significantly.

    row: row of the table, by column. measure: first of MEAN_COLUMNS that differs. effect_ns: time
    added (negative if saved) for all ranks over the instances of the first trace. It is 0 if only
    the spread of arrivals differs. waiting: True if most of the effect is waiting, None if the time
    in the call does not differ.
    """

    row: Mapping[str, Any]
    measure: str
    effect_ns: float
    waiting: bool | None


@dataclass(frozen=True)
class Difference:
    """Difference between a trace and another, or between two groups of runs.

    - outcome: "slower", "faster", "mixed", "same" (no significant difference), "unknown" (no test
      was possible, or not for the largest difference).
    - effect_ns: sum of the significant effects. before_ns, after_ns: time of all ranks in
      collectives.
    - changed: call sites that differ, the largest effect first.
    - compared, tested, only: numbers of call sites in both, with enough instances, and in one
      alone.
    - certainty: 0 to 1, of the first of `changed`, over all tests of the table.
    - untested: row of a call site with too few calls, whose difference makes the rest irrelevant.
    """

    outcome: str
    effect_ns: float
    before_ns: float
    after_ns: float
    changed: tuple[ChangedCallsite, ...]
    compared: int
    tested: int
    only: int
    certainty: float
    untested: Mapping[str, Any] | None = None

    @property
    def worst(self) -> ChangedCallsite | None:
        """The call site with the largest slowdown, or None."""
        return next((callsite for callsite in self.changed if callsite.effect_ns > 0), None)

    @property
    def best(self) -> ChangedCallsite | None:
        """The call site with the largest speed-up, or None."""
        return next((callsite for callsite in self.changed if callsite.effect_ns < 0), None)


def judge_difference(table: pd.DataFrame) -> Difference:
    """Return the verdict on the rows of `compare.compare` for one other trace."""
    rows: list[Any] = table.to_dict("records")
    both = [row for row in rows if row["callsite"] >= 0 and row["other_callsite"] >= 0]
    p = np.array([[row[f"{name}_p"] for name in MEAN_COLUMNS] for row in both], np.float64)
    p = p.reshape(len(both), len(MEAN_COLUMNS))
    changed = sorted(
        (_make_changed(row) for row in both if row["significant"]),
        key=lambda callsite: -abs(callsite.effect_ns),
    )
    tests = int((~np.isnan(p)).sum())
    outcome = (
        _judge_outcome([callsite.effect_ns for callsite in changed])
        if changed or tests
        else "unknown"
    )
    seldom = [row for row, of in zip(both, p, strict=True) if np.isnan(of).all()]
    untested = max(seldom, key=lambda row: abs(_added_time(row)), default=None)
    before = float(table["total_elapsed_ns"].sum())
    notable = untested is not None and abs(_added_time(untested)) >= NOTABLE_SHARE * before
    if outcome == "same" and notable:
        outcome = "unknown"
    else:
        untested = None
    least = min(changed[0].row[f"{name}_p"] for name in MEAN_COLUMNS) if changed else 1.0
    return Difference(
        outcome,
        sum(callsite.effect_ns for callsite in changed),
        before,
        float(table["other_total_elapsed_ns"].sum()),
        tuple(changed),
        len(both),
        int((~np.isnan(p)).any(1).sum()),
        len(rows) - len(both),
        max(1.0 - least * tests, 0.0) if changed else 0.0,
        untested,
    )


def _added_time(row: Mapping[str, Any]) -> float:
    return float(row["other_total_elapsed_ns"] - row["total_elapsed_ns"])


def _judge_outcome(effects: list[float]) -> str:
    slower = sum(effect for effect in effects if effect > 0)
    faster = -sum(effect for effect in effects if effect < 0)
    if not slower and not faster:
        return "same"
    if min(slower, faster) >= COMPONENT_SHARE * max(slower, faster):
        return "mixed"
    return "slower" if slower > faster else "faster"


def _make_changed(row: Mapping[str, Any]) -> ChangedCallsite:
    differing = [name for name in MEAN_COLUMNS if row[f"{name}_p"] < SIGNIFICANCE_LEVEL]
    measure = differing[0] if differing else MEAN_COLUMNS[0]
    instances = float(row["total_instances"])
    each = row["total_elapsed_ns"] / instances
    added = row["other_total_elapsed_ns"] / float(row["other_total_instances"]) - each
    waits = row["other_wait_ns"] - row["wait_ns"]
    if measure == MEAN_COLUMNS[0]:
        return ChangedCallsite(
            row, measure, added * instances, bool(added and waits / added >= MAIN_SHARE)
        )
    return ChangedCallsite(row, measure, waits * instances if measure == "wait_ns" else 0.0, None)
