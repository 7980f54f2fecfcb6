"""Repeated stops: a rank is off the processor again and again, and the other ranks are not.

    rank 1   work ── stopped ── work | call | work | call ── stopped ── | work ── stopped ── | call
    others   work | call ── waits ───────── | work | call ──── waits ── | work | call ─ waits ─────

A limit of processor time stops a rank many times for a short time, and so does a slow file. None of
these stops stands out alone. Counters show how long a rank was neither running nor ready to run
between two calls, and in which of its calls. A stop is such time beyond the usual one at this
place, at least MIN_STOP_NS. The usual time is the median of the rank or, if that is less, the
median of the ranks. The stops are a cause if there are MIN_STOPS, if they take STANDS_OUT times as
long in all as those of the next rank, and if the run ends earlier by MIN_SAVED_SHARE without them.

The function is silent about a run without counters, about places where most ranks sleep, and about
stops in a call before the awaited ranks have come. If a habit of the rank explains nearly the same
time, the report states the habit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpiprof.account.row_order import find_medians
from mpiprof.account.segments import Work, read_calls_without_waits, read_work
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.place import find_place
from mpiprof.interface.format_units import capitalise, format_count, format_ranks, format_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float

MIN_STOP_NS = 1_000_000
MIN_STOPS = 3  # of each rank; fewer are single events
MIN_LOST_NS = 20_000_000  # of a rank in all; operating systems disturb all programs for less
MIN_SAVED_SHARE = 0.01  # of the run time
STANDS_OUT = 5.0  # time of the stops of a rank over that of the next rank
MAX_PLACES = 2
MAIN_SHARE = 0.9  # of the time of the stops, in the stretch that the sentence states
CLOCK_ROUNDING_NS = 10  # of the times of a call in the log and in the tables

STOP = np.dtype(
    [(name, np.int64) for name in ("rank", "begin_ns", "end_ns", "lost_ns", "before", "after")]
)


@dataclass(frozen=True)
class RepeatedStops(Cause):
    """Stops of the same ranks.

    begin_ns, end_ns: of the stretch with most of the stops, since the start of the run. count,
    lost_ns: of all stops of the rank that was off the processor longest.
    """

    name: ClassVar[str] = "repeated_stops"
    reason: ClassVar[str] = "stopped or asleep"
    icon: ClassVar[str] = "paused"
    weight: ClassVar[float] = 0.9
    begin_ns: int
    end_ns: int
    count: int
    lost_ns: int

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        ranks, lost = capitalise(format_ranks(self.ranks)), format_time(self.lost_ns)
        return f"{ranks} had no processor {format_count(self.count)} times, for {lost} in all"

    @property
    def clause(self) -> str:
        """Return when, who, how often, how long and where."""
        is_one, count = len(self.ranks) == 1, format_count(self.count)
        times = f"{count} times" if is_one else f"up to {count} times each"
        was = f"{'was' if is_one else 'were'} off the processor {times}"
        length = f"for {format_time(self.lost_ns / self.count)} on average"
        total = f"{format_time(self.lost_ns)} in all"
        when = f"mostly from {format_time(self.begin_ns)} to {format_time(self.end_ns)}"
        ranks = format_ranks(self.ranks)
        return f"{ranks} {was}, {length}, {total}, {when} and {self.places[0]}"

    @property
    def advice(self) -> str:
        """Return where to look."""
        ranks = format_ranks(self.ranks)
        limit = f"Check for a limit of the processor time of {ranks}, or for signals that stop"
        object_pronoun = "them" if len(self.ranks) > 1 else "it"
        return (
            f"{limit} {object_pronoun}. Otherwise look for files or locks that {ranks} waited for."
        )


def list_stops(trace: Trace) -> Array:
    """Return the stops of a run or a window of it, as rows of STOP."""
    return np.concatenate([_find_stops_in_work(trace), _find_stops_in_calls(trace)])


def _find_stops_in_work(trace: Trace) -> Array:
    """Return the stops between two calls."""
    table = trace.intervals
    table = table[(table["processor_ns"] >= 0) & (table["queue_ns"] >= 0)]
    busy_ns = table["processor_ns"] + table["queue_ns"] + table["other_threads_ns"].clip(lower=0)
    off_ns = (table["end_ns"] - table["begin_ns"] - busy_ns).to_numpy(np.float64)
    if not (off_ns >= MIN_STOP_NS).any():
        return np.zeros(0, STOP)
    work = read_work(trace)
    stride = int(max(work.end_ns.max(initial=0), table["end_ns"].max())) + 1
    ends = work.rank * stride + work.end_ns  # in order
    of_table = table["rank"].to_numpy(np.int64) * stride + table["end_ns"].to_numpy()
    row = np.minimum(np.searchsorted(ends, of_table), len(ends) - 1)
    is_here = ends[row] == of_table
    asleep_ns = np.zeros(len(ends))
    asleep_ns[row[is_here]] = off_ns[is_here].clip(min=0)
    cell = work.place * trace.ranks + work.rank
    lost_ns = asleep_ns - _find_usual_sleep(work, trace.ranks, asleep_ns)[cell]
    chosen = np.flatnonzero(lost_ns >= MIN_STOP_NS)
    pairs = np.array(work.places, np.int64)[work.place[chosen]]
    columns = work.rank, work.begin_ns, work.end_ns, lost_ns
    return _make_stops(*(column[chosen] for column in columns), *pairs.T)


def _find_usual_sleep(work: Work, ranks: int, asleep_ns: Float) -> Float:
    """Return the usual sleep in a segment of work, of each place and rank.

    It is at most that of the median rank at the place, because a limit may stop a rank each time.
    """
    cell, cells = work.place * ranks + work.rank, len(work.places) * ranks
    own_ns = find_medians(cell, asleep_ns, cells)
    works = np.flatnonzero(np.bincount(cell, minlength=cells))
    place = works // ranks
    of_place_ns = find_medians(place, own_ns[works], len(work.places))
    return np.minimum(own_ns, np.repeat(of_place_ns, ranks))


def _find_stops_in_calls(trace: Trace) -> Array:
    """Return the stops inside calls, after the awaited ranks have come."""
    calls = [call for call in trace.tables.stalled_calls if call.asleep_ns >= MIN_STOP_NS]
    if not calls:
        return np.zeros(0, STOP)
    rank, enter, exit_, asleep = np.array(
        [(call.rank, call.enter_ns, call.exit_ns, call.asleep_ns) for call in calls], np.int64
    ).T
    offset = [trace.clock_of(call.rank).offset_at(call.enter_ns) for call in calls]
    enter, exit_ = enter + offset, exit_ + offset
    of_rank, begin, end, site = read_calls_without_waits(trace)
    stride = int(max(end.max(initial=0), exit_.max())) + 1
    row = np.searchsorted(of_rank * stride + end, rank * stride + exit_ - CLOCK_ROUNDING_NS)
    row = np.minimum(row, len(end) - 1)
    lost = np.minimum(asleep, exit_ - np.maximum(enter, begin[row]))
    chosen = np.flatnonzero((of_rank[row] == rank) & (lost >= MIN_STOP_NS))
    inside = np.full(len(chosen), INSIDE)
    columns = (column[chosen] for column in (rank, enter, end[row], lost))
    return _make_stops(*columns, site[row[chosen]], inside)


def _make_stops(*columns: Array) -> Array:
    stops = np.empty(len(columns[0]), STOP)
    for name, column in zip(STOP.names or (), columns, strict=True):
        stops[name] = column
    return stops


def choose_ranks(windows: Sequence[Array], ranks: int) -> tuple[int, ...]:
    """Return the ranks whose stops take far longer than those of all other ranks, or ().

    windows: as list_stops.
    """
    stops = np.concatenate(windows)
    lost_ns = np.bincount(stops["rank"], stops["lost_ns"], ranks)
    is_often = np.bincount(stops["rank"], minlength=ranks) >= MIN_STOPS
    order = np.argsort(-lost_ns, kind="stable")
    for count in range(1, ranks // 2 + 1):
        chosen = order[:count]
        if not is_often[chosen].all() or lost_ns[chosen[-1]] < MIN_LOST_NS:
            break
        if lost_ns[chosen[-1]] >= STANDS_OUT * lost_ns[order[count]]:
            return tuple(sorted(chosen.tolist()))
    return ()


def remove_stops(trace: Trace, ranks: Sequence[int]) -> tuple[Removal, Saving]:
    """Return the time of the stops of some ranks in a run or a window of it, and its effect."""
    if not ranks:
        return Removal.nothing(), Saving(0.0, 0.0)
    stopped, held = find_stopped_time(trace, ranks)
    joined = join_removals([stopped, held])
    saving = replay_without(trace, joined)
    return joined, replace(saving, calls_ns=joined.total_ns - stopped.total_ns)


def find_stopped_time(trace: Trace, ranks: Sequence[int]) -> tuple[Removal, Removal]:
    """Return the time of the stops of some ranks, and that of other ranks' calls meanwhile."""
    stops = list_stops(trace)
    stops = stops[np.isin(stops["rank"], ranks)]
    removal = Removal(stops["rank"], stops["end_ns"], stops["lost_ns"].astype(np.float64))
    is_inside = stops["after"] == INSIDE
    held = _find_held_calls(trace, stops[is_inside]) if is_inside.any() else Removal.nothing()
    return removal, held


def _find_held_calls(trace: Trace, stops: Array) -> Removal:
    """Return the time that calls of other ranks take longer during stops inside calls.

    The stopped rank has arrived, or has posted its messages, so this time is no known waiting.
    """
    rank, begin, end, site = read_calls_without_waits(trace)
    sites, number = np.unique(site, return_inverse=True)
    excess = end - begin - find_medians(number, (end - begin).astype(float), len(sites))[number]
    stop, other_ranks = (grid.ravel() for grid in np.indices((len(stops), trace.ranks)))
    is_other = other_ranks != stops["rank"][stop]
    stop, other_ranks = stop[is_other], other_ranks[is_other]
    from_ns, to_ns = (stops["end_ns"] - stops["lost_ns"])[stop], stops["end_ns"][stop]
    stride = int(max(end.max(initial=0), to_ns.max())) + 1
    row = np.searchsorted(rank * stride + end, other_ranks * stride + (from_ns + to_ns) // 2)
    row = np.minimum(row, len(end) - 1)
    overlap = np.minimum(to_ns, end[row]) - np.maximum(from_ns, begin[row])
    lost = np.minimum(overlap, excess[row])
    is_held = (rank[row] == other_ranks) & (2 * overlap >= to_ns - from_ns) & (lost > 0)
    return Removal(other_ranks[is_held], end[row][is_held], lost[is_held].astype(np.float64))


def make_causes(
    trace: Trace,
    ranks: tuple[int, ...],
    stops: Sequence[Array],
    windows: Sequence[tuple[Removal, Saving]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the cause if the stops of some ranks cost run time.

    stops, windows: of the run, as list_stops and remove_stops.
    """
    saving = join_savings([saving for _, saving in windows])
    if not ranks or saving.run_ns < MIN_SAVED_SHARE * run_ns:
        return []
    rows = np.concatenate(stops)
    cause = _describe_stops(trace, rows[np.isin(rows["rank"], ranks)], ranks)
    return [FoundCause(cause, join_removals([removal for removal, _ in windows]), saving)]


def _describe_stops(trace: Trace, stops: Array, ranks: tuple[int, ...]) -> RepeatedStops:
    lost_ns = np.bincount(stops["rank"], stops["lost_ns"])
    longest = int(lost_ns.argmax())
    places, number = np.unique(stops[["before", "after"]], return_inverse=True)
    main = np.argsort(-np.bincount(number, stops["lost_ns"]), kind="stable")[:MAX_PLACES]
    return RepeatedStops(
        ranks,
        tuple(find_place(trace, places[index].item()) for index in main.tolist()),
        *_find_main_stretch(stops, int(trace.run_start_ns)),
        int((stops["rank"] == longest).sum()),
        round(lost_ns[longest]),
    )


def _find_main_stretch(stops: Array, start_ns: int) -> tuple[int, int]:
    """Return begin and end of the shortest stretch with MAIN_SHARE of the time of the stops."""
    stops = np.sort(stops, order="end_ns")
    lost = np.append(0, np.cumsum(stops["lost_ns"]))
    last = np.searchsorted(lost, lost[:-1] + math.ceil(MAIN_SHARE * lost[-1])) - 1
    first = np.flatnonzero(last < len(stops))
    length = stops["end_ns"][last[first]] - stops["begin_ns"][first]
    index = first[length.argmin()]
    begin_ns, end_ns = int(stops["begin_ns"][index]), int(stops["end_ns"][last[index]])
    return begin_ns - start_ns, end_ns - start_ns
