"""Changes of times between two groups of runs, with their intervals: run time, and time at places.

The times at places are work, time in calls, and waits. Work of two calls is the same if the calls
around it are: the same operation in the same function and line. If a function has as many calls of
this operation in both groups, their order counts instead of the lines, which move when a program is
edited. All places together have the error rate LEVEL.

The interval of single runs contains the noise within them. Both runs are divided into equally many
stretches, and the variance of their differences is that of the change. A course that both runs
share, such as phases of the program, cancels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.ledger import (
    CALLS,
    STRETCH_KEYS,
    STRETCHES,
    TIMES,
    WAIT,
    WORK,
    combine_stretches,
)
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.causes.compare import MIN_STRETCHES, identify_site
from mpiprof.causes.place import Call, describe_call
from mpiprof.causes.run_variation import change_variance, compare_run_times, find_significant
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

LEVEL = 0.01
MIN_COMMON_SHARE = 0.5
MIN_SHARE = 0.01  # of the run time, of a change that is reported

Key = tuple[Any, ...]


@dataclass(frozen=True)
class TimeChange:
    """A time before and after, mean of the runs; in ns.

    interval_ns: half the width of the 95 % interval of the change. is_certain: whether it changes
    by more than chance, and notably.
    """

    before_ns: float
    after_ns: float
    interval_ns: float
    is_certain: bool

    @property
    def change_ns(self) -> float:
        """Time added, negative if saved."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class PlaceChange(TimeChange):
    """Time at a place, mean of the ranks.

    kind: WORK, CALLS, or WAIT for a part of the time in calls, for messages and on windows. calls:
    the calls around the work, or the call; {} at the start or the end of the record.
    """

    kind: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class _PlaceTimes:
    """A place in one run. times_ns: in each stretch, mean of the ranks. segments: of a thread."""

    calls: tuple[Call, ...]
    segments: int
    times_ns: Float


def compare_places(before: Sequence[Trace], after: Sequence[Trace]) -> list[PlaceChange]:
    """Return the change at each place, the largest first.

    Returns an empty list if a run did not end, has no record of each call, or spends most of its
    time at other places, as a program whose call sites are addresses does after a build.
    """
    if not before or not after or not all(map(_is_complete, [*before, *after])):
        return []
    numbers = number_lines([before, after])
    sides = [
        [dict(_list_places(trace, numbers[i])) for trace in side]
        for i, side in enumerate((before, after))
    ]
    if _find_common_share(sides) < MIN_COMMON_SHARE:
        return []
    run_ns = float(np.mean([trace.run_ns for trace in before]))
    changes, p_values = [], []
    for key in dict.fromkeys(key for side in sides for run in side for key in run):
        first, other_places = ([run.get(key) for run in side] for side in sides)
        change, p = _compare_place(str(key[0]), first, other_places)
        changes.append(change)
        p_values.append(p if abs(change.change_ns) >= MIN_SHARE * run_ns else 1.0)
    certain = find_significant(np.array(p_values), LEVEL).tolist()
    marked = [
        replace(change, is_certain=is_certain)
        for change, is_certain in zip(changes, certain, strict=True)
    ]
    return sorted(marked, key=lambda change: -abs(change.change_ns))


def _find_common_share(sides: Sequence[Sequence[Mapping[Key, _PlaceTimes]]]) -> float:
    """Return the share of the time that is at places of the first runs of both sides."""
    runs = [side[0] for side in sides]
    of_run = [{key: float(place.times_ns.sum()) for key, place in run.items()} for run in runs]
    common_ns = sum(of_run[0][key] + of_run[1][key] for key in of_run[0].keys() & of_run[1].keys())
    return common_ns / max(sum(sum(times.values()) for times in of_run), 1.0)


def is_whole(trace: Trace) -> bool:
    """Return whether a trace has records from the start to the end of the run."""
    return trace.is_finalised and trace.derive("coverage") is None


def _is_complete(trace: Trace) -> bool:
    """Return whether a trace has a record of each call until the end of the run."""
    return is_whole(trace) and trace.derive("ledger_sums") is not None


def _compare_place(
    kind: str, first: Sequence[_PlaceTimes | None], other_places: Sequence[_PlaceTimes | None]
) -> tuple[PlaceChange, float]:
    """Return the change at a place, and its p-value; None stands for a run without the place."""
    known_places = [place for place in (*first, *other_places) if place is not None]
    before, after = (
        np.array([0.0 if place is None else place.times_ns.sum() for place in side])
        for side in (first, other_places)
    )
    is_single = len(known_places) == len(first) + len(other_places) == 2
    noise = list(_find_noise(*known_places)) if is_single else []
    test = compare_run_times(before, after, noise)
    means = float(before.mean()), float(after.mean())
    change = PlaceChange(*means, test.interval_ns, False, kind, known_places[0].calls)
    return change, test.p


def _find_noise(first: _PlaceTimes, second: _PlaceTimes) -> Iterator[tuple[float, float]]:
    """Yield the variance of the change from within two runs, with its degrees of freedom."""
    few = min(first.segments, second.segments, STRETCHES)
    if few < MIN_STRETCHES:
        return
    count = 1 << (few.bit_length() - 1)
    before, after = (combine_stretches(place.times_ns, count) for place in (first, second))
    yield change_variance(before, after)


def _list_places(trace: Trace, numbers: Mapping[Key, int]) -> Iterator[tuple[Key, _PlaceTimes]]:
    """Yield each place of a run with its times."""
    tables: dict[str, pd.DataFrame] = trace.derive("ledger_stretches")
    described: dict[int, Call] = {}
    for kind in (WORK, CALLS, WAIT):
        columns = [tables[kind][name].tolist() for name in STRETCH_KEYS[kind]]
        segments = tables[kind]["segments"].tolist()
        times = tables[kind][TIMES].to_numpy(np.float64) / trace.ranks
        sums: dict[Key, _PlaceTimes] = {}
        for row, sites in enumerate(zip(*columns, strict=True)):
            for site in sites:
                if site not in described:
                    described[site] = {} if site == NOWHERE else describe_call(trace, site)
            calls = tuple(described[site] for site in sites)
            key = (kind, *(make_call_key(call, numbers) for call in calls))
            place = _PlaceTimes(calls, segments[row], times[row])
            if key in sums:
                count = max(sums[key].segments, place.segments)
                place = _PlaceTimes(calls, count, sums[key].times_ns + place.times_ns)
            sums[key] = place
        yield from sums.items()


def number_lines(sides: Sequence[Sequence[Trace]]) -> list[dict[Key, int]]:
    """Return for each side the number of each call among those of its function and operation.

    Empty where the sides have different numbers of calls, or runs of one side differ.
    """
    sites: list[dict[Key, set[Key]]] = []
    for side in sides:
        of_function: dict[Key, set[Key]] = defaultdict(set)
        for trace in side:
            for site in {shape.site for shape in trace.tables.shapes}:
                identity = _identify(describe_call(trace, site))
                of_function[identity[:-1]].add(identity)
        sites.append(of_function)
    numbers: list[dict[Key, int]] = [{} for _ in sides]
    for function in sites[0].keys() & sites[1].keys():
        if len(sites[0][function]) == len(sites[1][function]):
            for of_function, of_side in zip(sites, numbers, strict=True):
                ordered = sorted(of_function[function], key=lambda identity: identity[-1])
                of_side |= {identity: number for number, identity in enumerate(ordered)}
    return numbers


def make_call_key(call: Call, numbers: Mapping[Key, int]) -> Key:
    """Return the identity of a call in all runs; numbers: of `number_lines`, for its side."""
    if not call:
        return ()
    identity = _identify(call)
    number = numbers.get(identity)
    return (*identity, "line") if number is None else (*identity[:-1], number, "number")


def _identify(call: Call) -> Key:
    """Return operation, file name, function and line of a call."""
    return call.get("operation"), *identify_site(call)


@dataclass(frozen=True)
class RunTimeChange(TimeChange):
    """Mean run times of two groups of runs.

    is_assumed: both groups have a single run, so the variation between runs is assumed.
    """

    is_assumed: bool

    @property
    def is_vague(self) -> bool:
        """Return whether the interval is wider than the run time itself."""
        return self.interval_ns >= self.before_ns


def list_unended(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces of runs that did not end, whose run time is unknown."""
    return [trace for trace in traces if not trace.is_finalised]


def measure_run_times(before: Sequence[Trace], after: Sequence[Trace]) -> RunTimeChange | None:
    """Return the change of the run time; None if a run did not end."""
    if list_unended([*before, *after]):
        return None
    first, other_ns = (np.array([t.run_ns for t in side], np.float64) for side in (before, after))
    is_assumed = max(len(before), len(after)) == 1
    noise = list(_find_run_noise(before[0], after[0])) if is_assumed else []
    comparison = compare_run_times(first, other_ns, noise)
    before_ns, after_ns = float(first.mean()), float(other_ns.mean())
    is_certain = abs(after_ns - before_ns) > comparison.interval_ns
    return RunTimeChange(before_ns, after_ns, comparison.interval_ns, is_certain, is_assumed)


def _find_run_noise(first: Trace, second: Trace) -> Iterator[tuple[float, float]]:
    """Yield variances of the difference of two run times, with their degrees of freedom.

    The time in MPI_Finalize itself is not that of the program, so its difference is noise.
    """
    if "summary" in (first.record, second.record):
        return
    yield (_finalize_time(second) - _finalize_time(first)) ** 2, np.inf
    busiest = [_find_busiest(trace) for trace in (first, second)]
    count = min(STRETCHES, *(len(series) - 1 for series in busiest))
    if count >= MIN_STRETCHES:
        before, after = (_stretch_lengths(series, count) for series in busiest)
        yield change_variance(before, after)


def _finalize_time(trace: Trace) -> float:
    """Return the mean time of a rank in MPI_Finalize without waiting, in ns."""
    rows = trace.callsites[trace.callsites["operation"] == "finalize"]
    busy: float = (rows["total_elapsed_ns"] - rows["total_wait_ns"]).sum()
    return max(busy, 0.0) / trace.ranks


def _find_busiest(trace: Trace) -> pd.DataFrame:
    """Return the series of the call site with most instances, empty if there is none."""
    if not len(trace.callsites):
        return pd.DataFrame()
    every: dict[int, pd.DataFrame] = trace.series(tuple(range(len(trace.callsites))))
    return max(every.values(), key=len)


def _stretch_lengths(series: Any, count: int) -> Float:
    """Return the lengths in ns of stretches with equal numbers of instances."""
    number = series["number"].to_numpy(np.float64)
    edges = np.linspace(number[0], number[-1], count + 1)
    return np.diff(np.interp(edges, number, series["first_arrival_ns"].to_numpy(np.float64)))
