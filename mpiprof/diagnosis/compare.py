"""Significant changes between recordings of a program, call site by call site.

Each run is compared with the first, or a group of runs with another group. In groups, tests take
the mean of each run as one value, so that variation between runs is no change. For single runs they
take means of consecutive instances (at most STRETCHES), because instances are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.significance import stretch_means
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

STRETCHES = 32
FEWEST = 4  # minimum number of instances in both runs for a test
FEWEST_RUNS = 2
LEVEL = 0.05
TOTALS = ("total_elapsed_ns", "total_wait_ns")
MEANS = ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")
COUNTS = ("instances", "total_instances")
COMPARED = (*TOTALS, *MEANS, *COUNTS, "algorithm")
COLUMNS = (
    "other",
    "operation",
    "sites",
    "callsite",
    "other_callsite",
    "matched",
    *(f"{prefix}{name}" for name in COMPARED for prefix in ("", "other_")),
    *(f"{name}_{what}" for name in MEANS for what in ("change", "p")),
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
    the other: TOTALS (over all ranks and instances), mean_elapsed_ns, wait_ns (over ranks) and
    worst_imbalance_ns (means an instance), COUNTS, algorithm; of each mean `..._change` (other /
    first - 1) and `..._p` (Welch's test; NaN with fewer than FEWEST instances, or FEWEST_RUNS runs
    where there are several); significant: one of these differs, by Holm's correction over all tests
    of the table.
    """
    groups = [traces, to] if to else [[trace] for trace in traces]
    first, *others = (_Runs(group) for group in groups)
    rows: list[dict[str, Any]] = []
    for number, other in enumerate(others, 1):
        for one, two, how in matched(first.callsites, other.callsites):
            row = _row(first.callsites, other.callsites, one, two)
            values = first.values.get(one, {}), other.values.get(two, {})
            least = FEWEST_RUNS if first.many or other.many else FEWEST
            rows.append({"other": number, "matched": how, **row, **_tests(*values, least)})
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["significant"] = _holm(frame[[f"{name}_p" for name in MEANS]].to_numpy(np.float64))
    change = (frame["other_total_elapsed_ns"] - frame["total_elapsed_ns"]).abs()
    order = np.lexsort((-change.to_numpy(np.float64), frame["other"].to_numpy(np.int64)))
    ordered: pd.DataFrame = frame.iloc[order].reset_index(drop=True)
    return ordered


class _Runs:
    """A run or a group of runs of a program: call sites with means over runs, and test values."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        first, *rest = traces
        self.many = bool(rest)
        self.callsites = first.callsites
        if not rest:
            self.values = _values(first)
            return
        tables = [first.callsites, *(_aligned(first.callsites, one.callsites) for one in rest)]
        self.callsites = first.callsites.copy()
        for name in (*MEANS, *TOTALS):
            columns = np.stack([table[name].to_numpy(np.float64) for table in tables])
            known = (~np.isnan(columns)).sum(0)
            mean = np.nansum(columns, 0) / np.where(known, known, np.nan)
            self.callsites[name] = mean
        self.values = {
            int(callsite): {
                name: _known(np.array([table[name].iloc[i] for table in tables], np.float64))
                for name in MEANS
            }
            for i, callsite in enumerate(first.callsites["callsite"])
        }


def _aligned(first: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return another run's rows in the order of the first run's call sites; NaN if absent."""
    rows = {one: two for one, two, _ in matched(first, other) if one >= 0 and two >= 0}
    index = [rows.get(int(callsite), -1) for callsite in first["callsite"]]
    found: pd.DataFrame = other[[*MEANS, *TOTALS]].reindex(index)
    return found


def _known(values: Float) -> Float:
    return np.asarray(values[~np.isnan(values)])


def matched(first: pd.DataFrame, other: pd.DataFrame) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of call sites of two traces (-1: absent) and how they were matched.

    First by operation, file name, line and function. The rest is matched by all except the line, in
    order of lines, if both traces have equally many.
    """
    left, right = _keys(first), _keys(other)
    for key in [key for key in left if key in right]:
        yield left.pop(key), right.pop(key), "line"
    loose_left, loose_right = _loose(left), _loose(right)
    for key, ours in loose_left.items():
        theirs = loose_right.get(key, [])
        same = len(ours) == len(theirs)
        for i, mine in enumerate(ours):
            yield left[mine], right.pop(theirs[i]) if same else -1, "function" if same else ""
    for callsite in right.values():
        yield -1, callsite, ""


def _keys(table: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """Return call sites by operation, sites and a number that distinguishes equal keys."""
    found: dict[tuple[Any, ...], int] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in table[["callsite", "operation", "sites", "started"]].to_dict("records"):
        sites = tuple(sorted(_site(site) for site in row["sites"]))
        key: tuple[Any, ...] = (row["operation"], row["started"], sites)
        found[(*key, seen[key])] = int(row["callsite"])
        seen[key] += 1
    return found


def _site(site: Mapping[str, Any]) -> tuple[str, str, int]:
    name = PurePath(str(site["file"])).name if site["file"] else ""
    return name, str(site["function"] or ""), int(site["line"] or 0)


def _loose(keys: Mapping[tuple[Any, ...], int]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Group keys by everything that is unchanged when lines are inserted above the call."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for key in sorted(keys, key=lambda key: [line for *_, line in key[2]]):
        operation, started, sites, _ = key
        places = tuple((file, function) for file, function, _ in sites)
        groups.setdefault((operation, started, places), []).append(key)
    return groups


def _row(first: pd.DataFrame, other: pd.DataFrame, one: int, two: int) -> dict[str, Any]:
    ours: Any = first.loc[one] if one >= 0 else None
    theirs: Any = other.loc[two] if two >= 0 else None
    there = theirs if ours is None else ours
    row = {"operation": there["operation"], "sites": there["sites"]}
    row |= {"callsite": one, "other_callsite": two}
    absent = {"algorithm": "", "total_elapsed_ns": 0} | dict.fromkeys(COUNTS, 0)
    for prefix, of in (("", ours), ("other_", theirs)):
        for name in COMPARED:
            row[prefix + name] = absent.get(name, np.nan) if of is None else of[name]
    for name in MEANS:
        before, after = float(row[name]), float(row[f"other_{name}"])
        row[f"{name}_change"] = after / before - 1 if before > 0 else np.nan
    return row


def _values(trace: Trace) -> dict[int, dict[str, Float]]:
    """Return the means of consecutive instances of each call site, by metric."""
    if trace.record == "summary":
        return {}
    found: dict[int, pd.DataFrame] = trace.series(tuple(range(len(trace.callsites))))
    return {
        callsite: {name: _stretches(series[name].to_numpy(np.float64)) for name in MEANS}
        for callsite, series in found.items()
    }


def _stretches(values: Float) -> Float:
    known = _known(values)
    return stretch_means(known[None, :], STRETCHES)[0] if len(known) else known


def _tests(ours: Mapping[str, Float], theirs: Mapping[str, Float], least: int) -> dict[str, float]:
    found = {f"{name}_p": np.nan for name in MEANS}
    if not ours or not theirs:
        return found
    for name in MEANS:
        a, b = ours[name], theirs[name]
        if min(len(a), len(b)) < least:
            continue
        if np.ptp(a) == 0 and np.ptp(b) == 0:  # the test statistic is undefined here
            found[f"{name}_p"] = float(a[0] == b[0])
        else:
            found[f"{name}_p"] = _p_alike(a, b)
    return found


def _p_alike(a: Float, b: Float) -> float:
    """Return the p-value of the difference between two sample means (Welch's t-test)."""
    from scipy import special

    of_a, of_b = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    free = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    score = abs(a.mean() - b.mean()) / np.sqrt(of_a + of_b)
    return 2 * float(special.stdtr(free, -score))


def _holm(p: Float) -> Any:
    """Return the rows with a significant p at LEVEL for the whole table; NaN is ignored."""
    order = np.argsort(p, axis=None)
    known = int((~np.isnan(p)).sum())
    limits = LEVEL / (known - np.arange(known))
    passed = np.flatnonzero(p.reshape(-1)[order[:known]] > limits)
    count = int(passed[0]) if len(passed) else known
    found = np.zeros(p.size, np.bool_)
    found[order[:count]] = True
    return found.reshape(p.shape).any(1) if len(p) else np.zeros(0, np.bool_)
