"""Change of the time at each place between two groups of runs: work, time in calls, and waits.

Work of two calls is the same if the calls around it are: the same operation in the same function
and line. If a function has as many calls of this operation in both groups, their order counts
instead of the lines, which move when a program is edited. The test and the interval are those of
the run time (diagnosis/run_time_change.py), here for each place. All places together have the error
rate LEVEL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.ledger_stretches import KEYS, STRETCHES, TIMES, WAIT, combine_stretches
from mpiprof.account.ledger_sums import CALLS, WORK
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.causes.place import Call, describe_call
from mpiprof.diagnosis.compare import MIN_STRETCHES, identify_site
from mpiprof.diagnosis.run_variation import change_variance, compare_run_times, find_significant
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
        first, other = ([run.get(key) for run in side] for side in sides)
        change, p = _compare_place(str(key[0]), first, other)
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


def _is_complete(trace: Trace) -> bool:
    """Return whether a trace has a record of each call until the end of the run."""
    is_whole = trace.is_finalised and trace.derive("coverage") is None
    return is_whole and trace.derive("ledger_sums") is not None


def _compare_place(
    kind: str, first: Sequence[_PlaceTimes | None], other: Sequence[_PlaceTimes | None]
) -> tuple[PlaceChange, float]:
    """Return the change at a place, and its p-value; None stands for a run without the place."""
    known = [place for place in (*first, *other) if place is not None]
    before, after = (
        np.array([0.0 if place is None else place.times_ns.sum() for place in side])
        for side in (first, other)
    )
    is_single = len(known) == len(first) + len(other) == 2
    noise = list(_find_noise(*known)) if is_single else []
    test = compare_run_times(before, after, noise)
    means = float(before.mean()), float(after.mean())
    change = PlaceChange(*means, test.interval_ns, False, kind, known[0].calls)
    return change, test.p


def _find_noise(first: _PlaceTimes, other: _PlaceTimes) -> Iterator[tuple[float, float]]:
    """Yield the variance of the change from within two runs, with its degrees of freedom."""
    few = min(first.segments, other.segments, STRETCHES)
    if few < MIN_STRETCHES:
        return
    count = 1 << (few.bit_length() - 1)
    before, after = (combine_stretches(of.times_ns, count) for of in (first, other))
    yield change_variance(before, after)


def _list_places(trace: Trace, numbers: Mapping[Key, int]) -> Iterator[tuple[Key, _PlaceTimes]]:
    """Yield each place of a run with its times."""
    tables: dict[str, pd.DataFrame] = trace.derive("ledger_stretches")
    described: dict[int, Call] = {}
    for kind in (WORK, CALLS, WAIT):
        columns = [tables[kind][name].tolist() for name in KEYS[kind]]
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
