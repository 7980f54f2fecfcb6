"""Significant changes between recordings of a program, call site by call site.

Each run is compared with the first, or a group of runs with another group. In groups, tests take
the mean of each run as one value, so that variation between runs is no change. For single runs,
causes/run_variation.py estimates the variation between runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.message_volume import column_means
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.causes.habits.significance import stretch_means
from mpiprof.causes.run_variation import (
    STRETCHES,
    UNTESTED,
    Comparison,
    RunSite,
    compare_run_means,
    compare_runs,
    find_significant,
    mean_arrivals,
    own_times,
)
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MIN_STRETCHES = 4  # minimum number of instances in both runs for a test
MIN_RUNS = 2  # of one side; the other side may have a single run
# The other half of the errors (5 % in all) is for the sum over all call sites.
SIGNIFICANCE_LEVEL = 0.025
TOTAL_COLUMNS = ("total_elapsed_ns", "total_wait_ns")
MEAN_COLUMNS = ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")
COUNT_COLUMNS = ("instances", "total_instances")
COMPARED_COLUMNS = (*TOTAL_COLUMNS, *MEAN_COLUMNS, *COUNT_COLUMNS, "algorithm")
COLUMNS = (
    *("other", "operation", "sites", "callsite", "other_callsite", "matched"),
    *(f"{prefix}{name}" for name in COMPARED_COLUMNS for prefix in ("", "other_")),
    *(f"{name}_{what}" for name in MEAN_COLUMNS for what in ("change", "p", "usual", "interval")),
    "significant",
)


def compare(traces: Sequence[Trace], to: Sequence[Trace] = ()) -> pd.DataFrame:
    """Return one row per call site and other trace, by change of its time over all ranks.

    to: runs that all of `traces` are compared with, as one group with another; without it each of
    `traces` is compared with the first. Figures of a group are means over its runs.
    Differences between groups are judged by the differences within the groups.

    other (1..: which trace), operation, sites (of the first trace where it is there), callsite and
    other_callsite (-1: not there), matched ("line": same file, line and function; "function": same
    but for lines that moved; "": only in one); of the first trace and, with `other_` before it, of
    the other: TOTAL_COLUMNS (over all ranks and instances), mean_elapsed_ns, wait_ns (over ranks)
    and worst_imbalance_ns (means an instance), COUNT_COLUMNS, algorithm; of each mean `..._change`
    (other / first - 1), `..._p` (probability of such a difference between runs of an unchanged
    program; NaN with fewer than MIN_STRETCHES instances, or without MIN_RUNS runs on a side where
    there are several), `..._usual` (difference in ns that such runs rarely exceed) and
    `..._interval` (half the width of the 95 % interval of the change, in ns); significant: one of
    these differs, by Holm's correction over all tests of the table.
    """
    groups = [traces, to] if to else [[trace] for trace in traces]
    first, *other_groups = (_RunGroup(group) for group in groups)
    rows: list[dict[str, Any]] = []
    for number, other_group in enumerate(other_groups, 1):
        for callsite, other_callsite, how in match_callsites(
            first.callsites, other_group.callsites
        ):
            row = _make_row(first.callsites, other_group.callsites, callsite, other_callsite)
            tests = _test_metrics(first, other_group, callsite, other_callsite)
            rows.append({"other": number, "matched": how, **row, **tests})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    p = frame[[f"{name}_p" for name in MEAN_COLUMNS]].to_numpy(np.float64)
    significant: Any = find_significant(p, SIGNIFICANCE_LEVEL).any(1)
    frame["significant"] = significant
    change = (frame["other_total_elapsed_ns"] - frame["total_elapsed_ns"]).abs()
    order = np.lexsort((-change.to_numpy(np.float64), frame["other"].to_numpy(np.int64)))
    return frame.iloc[order].reset_index(drop=True)


class _RunGroup:
    """A run or a group of runs of a program: call sites with means over runs, and test values.

    means: by call site and metric, one value per run. sites: call sites of a single run.
    """

    def __init__(self, traces: Sequence[Trace]) -> None:
        first, *further_traces = traces
        self.many = bool(further_traces)
        self.callsites = first.callsites
        self.sites = {} if further_traces else _describe_sites(first)
        tables = [
            first.callsites,
            *(_align_rows(first.callsites, trace.callsites) for trace in further_traces),
        ]
        if further_traces:
            self.callsites = first.callsites.copy()
            for name in (*MEAN_COLUMNS, *TOTAL_COLUMNS):
                columns = np.stack([table[name].to_numpy(np.float64) for table in tables])
                self.callsites[name] = column_means(columns)
        self.means = {
            int(callsite): {
                name: _known_values(np.array([table[name].iloc[i] for table in tables], np.float64))
                for name in MEAN_COLUMNS
            }
            for i, callsite in enumerate(first.callsites["callsite"])
        }


def totals_by_run(traces: Sequence[Trace], name: str) -> dict[int, Float]:
    """Return a total of TOTAL_COLUMNS in each run, by call site of the first; unknown ones omitted.

    A group of runs is compared through its first run, so call sites of the others alone are not in.
    """
    first = traces[0].callsites
    tables = [first, *(_align_rows(first, trace.callsites) for trace in traces[1:])]
    columns = np.stack([table[name].to_numpy(np.float64) for table in tables])
    return {
        int(callsite): _known_values(columns[:, i]) for i, callsite in enumerate(first["callsite"])
    }


def _align_rows(first: pd.DataFrame, other_table: pd.DataFrame) -> pd.DataFrame:
    """Return another run's rows in the order of the first run's call sites; NaN if absent."""
    rows = {
        first_callsite: other_callsite
        for first_callsite, other_callsite, _ in match_callsites(first, other_table)
        if first_callsite >= 0 and other_callsite >= 0
    }
    index = [rows.get(int(callsite), -1) for callsite in first["callsite"]]
    return other_table[[*MEAN_COLUMNS, *TOTAL_COLUMNS]].reindex(index)


def _known_values(values: Float) -> Float:
    return np.asarray(values[~np.isnan(values)])


def match_callsites(
    first: pd.DataFrame, other_table: pd.DataFrame
) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of call sites of two traces (-1: absent) and how they were matched.

    First by operation, file name, line and function. The rest is matched by all except the line, in
    order of lines, if both traces have equally many.
    """
    left, right = _number_keys(first), _number_keys(other_table)
    for key in [key for key in left if key in right]:
        yield left.pop(key), right.pop(key), "line"
    loose_left, loose_right = _group_loosely(left), _group_loosely(right)
    for key, first_keys in loose_left.items():
        other_keys = loose_right.get(key, [])
        equal_counts = len(first_keys) == len(other_keys)
        for i, first_key in enumerate(first_keys):
            yield (
                left[first_key],
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
        sites = tuple(sorted(identify_site(site) for site in row["sites"]))
        key: tuple[Any, ...] = (row["operation"], row["started"], sites)
        callsites[(*key, occurrences[key])] = int(row["callsite"])
        occurrences[key] += 1
    return callsites


def identify_site(site: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the file name, function and line of a call site, "" or 0 if unknown."""
    name = PurePath(str(site["file"])).name if site.get("file") else ""
    function = f"{site.get('function') or ''} {site.get('method') or ''}".strip()
    return name, function, int(site.get("line") or 0)


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
    first: pd.DataFrame, other_table: pd.DataFrame, callsite: int, other_callsite: int
) -> dict[str, Any]:
    first_row: Any = first.loc[callsite] if callsite >= 0 else None
    other_row: Any = other_table.loc[other_callsite] if other_callsite >= 0 else None
    present_row = other_row if first_row is None else first_row
    row = {"operation": present_row["operation"], "sites": present_row["sites"]}
    row |= {"callsite": callsite, "other_callsite": other_callsite}
    absent = {"algorithm": "", "total_elapsed_ns": 0} | dict.fromkeys(COUNT_COLUMNS, 0)
    for prefix, source_row in (("", first_row), ("other_", other_row)):
        for name in COMPARED_COLUMNS:
            row[prefix + name] = (
                absent.get(name, np.nan) if source_row is None else source_row[name]
            )
    for name in MEAN_COLUMNS:
        before, after = float(row[name]), float(row[f"other_{name}"])
        row[f"{name}_change"] = after / before - 1 if before > 0 else np.nan
    return row


def _describe_sites(trace: Trace) -> dict[int, RunSite]:
    """Return the call sites of a single run, or none if it has no single instances."""
    if trace.record == "summary" or not len(trace.callsites):
        return {}
    series: dict[int, pd.DataFrame] = trace.series(tuple(range(len(trace.callsites))))
    inside = trace.run_times.collective.value
    own_ns = max(float(trace.process_time_ns) - inside, 0.0) / trace.ranks
    sizes = trace.callsites["size"].tolist()
    calls = {
        callsite: instances * sizes[callsite] / trace.ranks
        for callsite, instances in enumerate(trace.callsites["total_instances"].tolist())
    }
    rank_work_ns = own_times(own_ns, series, calls)
    scales = callsite_scales(trace).tolist()
    totals = dict(list(trace.rank_totals.groupby("callsite")))
    return {
        callsite: RunSite(
            {name: _stretch_means(instances[name].to_numpy(np.float64)) for name in MEAN_COLUMNS},
            int(sizes[callsite]),
            mean_arrivals(totals[callsite], scales[callsite]) if callsite in totals else [],
            rank_work_ns[callsite],
        )
        for callsite, instances in series.items()
    }


def _stretch_means(values: Float) -> Float:
    known_values = _known_values(values)
    return stretch_means(known_values[None, :], STRETCHES)[0] if len(known_values) else known_values


def _test_metrics(
    first: _RunGroup, other_group: _RunGroup, callsite: int, other_callsite: int
) -> dict[str, float]:
    """Return the results of the tests of a call site, as columns."""
    results: dict[str, float] = {}
    for name in MEAN_COLUMNS:
        test = _test_metric(first, other_group, callsite, other_callsite, name)
        results |= {f"{name}_p": test.p, f"{name}_usual": test.usual_ns}
        results[f"{name}_interval"] = test.interval_ns
    return results


def _test_metric(
    first: _RunGroup, other_group: _RunGroup, callsite: int, other_callsite: int, name: str
) -> Comparison:
    if first.many or other_group.many:
        means = [
            group.means.get(number, {}).get(name, np.zeros(0))
            for group, number in ((first, callsite), (other_group, other_callsite))
        ]
        counts = sorted(map(len, means))
        enough = counts[0] >= 1 and counts[1] >= MIN_RUNS
        return compare_run_means(*means) if enough else UNTESTED
    site, other_site = first.sites.get(callsite), other_group.sites.get(other_callsite)
    if site is None or other_site is None:
        return UNTESTED
    enough = min(len(run_site.stretches[name]) for run_site in (site, other_site)) >= MIN_STRETCHES
    return compare_runs(site, other_site, name) if enough else UNTESTED
