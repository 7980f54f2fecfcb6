"""Work that ranks do one at a time, in turn, while the others wait: a serial section that moves.

    rank 0   gather | ── work ── | bcast | ... gather | wait ──────── bcast | ...
    rank 1   gather | wait ──────── bcast | ... gather | ── work ── | bcast | ...

At such a place, the segments of work of all ranks hardly overlap: the sum of their times exceeds
the time that they cover by at most MAX_OVERLAP_SHARE of the work of all ranks but the busiest one.
The run is replayed without this work. It is a cause if the run then ends earlier by MIN_SAVED_SHARE
of its time, and by MIN_OWN_SHARE of the removed work of all ranks: then the other ranks wait for
whoever works. Examples are a root that changes, the owners of the columns of a matrix, ordered
output, and work with a lock.

The function is silent if one rank does MAX_RANK_SHARE of the work (exclusive_work.py), and if the
ranks have other work meanwhile. It is not asked about a run whose ranks mostly wait for processors
(oversubscription.py): they wake late from their calls, so their work is at different times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from mpiprof.account.segments import Work, read_work
from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.place import Pair, add_up, find_place
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MAX_OVERLAP_SHARE = 0.1  # of the work of all ranks but the busiest one, at the same time
MAX_RANK_SHARE = 0.8  # of the work, that one rank does
MIN_WORK_SHARE = 0.1  # of the mean segment, from which a segment is work
MIN_SAVED_SHARE = 0.01  # of the run time
MIN_WINDOW_SHARE = 0.001  # of a window of the run, for the work at a place
MIN_OWN_SHARE = 0.5  # of the removed work, that the run time would lack
MAX_REPLAYS = 4

RemovedWork: TypeAlias = tuple[Removal, Saving]


@dataclass(frozen=True)
class SerialTurns(Cause):
    """Work of one rank at a time.

    work_ns, count: all of it, and the number of its segments. working_ranks: number of ranks.
    """

    name: ClassVar[str] = "serial_turns"
    title: ClassVar[str] = "Ranks work one at a time"
    reason: ClassVar[str] = "serial work"
    advice: ClassVar[str] = "Divide this work among the ranks, or let them work at the same time."
    icon: ClassVar[str] = "processor"
    weight: ClassVar[float] = 0.1  # causes that name ranks come first if they save a tenth of it
    work_ns: int
    count: int
    working_ranks: int

    @property
    def clause(self) -> str:
        """Return how many ranks work one at a time, how long and where."""
        each = f"for {format_time(self.work_ns / self.count)} {self.places[0]}"
        times = f"{format_count(self.count)} times in all"
        return (
            f"{self.working_ranks} ranks work one at a time, {each}, {times}, while the others wait"
        )


def sum_turns(trace: Trace) -> dict[Pair, Float]:
    """Return the work of each rank by place, and then the time that all segments cover, in ns.

    trace: a run or a window of it.
    """
    work, ranks = read_work(trace), trace.ranks
    places, cell = len(work.places), work.place * ranks + work.rank
    of_ranks = np.bincount(cell, work.length_ns, places * ranks).reshape(places, ranks)
    covered = np.array([_cover(work, of_ranks[place].sum(), place) for place in range(places)])
    return dict(zip(work.places, np.column_stack([of_ranks, covered]), strict=True))


def _cover(work: Work, work_ns: float, place: int) -> float:
    """Return the time that the segments at a place cover; 0 if they overlap or are short.

    work_ns: sum of their times.
    """
    span_ns = float(work.end_ns.max() - work.begin_ns.min())
    if not MIN_WINDOW_SHARE * span_ns <= work_ns <= (1 + MAX_OVERLAP_SHARE) * span_ns:
        return 0.0
    chosen = np.flatnonzero(work.place == place)
    chosen = chosen[np.argsort(work.begin_ns[chosen], kind="stable")]
    begin, until = work.begin_ns[chosen], np.maximum.accumulate(work.end_ns[chosen])
    before = np.concatenate([begin[:1], until[:-1]])
    return float(np.maximum(until - np.maximum(begin, before), 0).sum())


def choose_places(windows: Sequence[dict[Pair, Float]], run_ns: float) -> list[Pair]:
    """Return the places at which ranks work one at a time, the costliest first; as sum_turns."""
    sums = add_up(windows)
    work_ns = {place: float(values[:-1].sum()) for place, values in sums.items()}
    serial = [
        place
        for place, values in sums.items()
        if work_ns[place] >= MIN_SAVED_SHARE * run_ns and _are_apart(values[:-1], values[-1])
    ]
    return sorted(serial, key=lambda place: -work_ns[place])[:MAX_REPLAYS]


def _are_apart(work_ns: Float, covered_ns: float) -> bool:
    """Return whether several ranks work, at different times; work_ns: of each rank."""
    whole_ns, other_ns = work_ns.sum(), work_ns.sum() - work_ns.max()
    is_divided = other_ns >= (1 - MAX_RANK_SHARE) * whole_ns
    return bool(is_divided and whole_ns - covered_ns <= MAX_OVERLAP_SHARE * other_ns)


def remove_turns(trace: Trace, places: Sequence[Pair]) -> list[RemovedWork]:
    """Return the removal of the work at each place of a run or a window of it, and its saving."""
    work = read_work(trace) if places else None
    return [_remove_place(trace, work, place) for place in places if work is not None]


def make_causes(
    trace: Trace, places: Sequence[Pair], windows: Sequence[Sequence[RemovedWork]], run_ns: float
) -> list[FoundCause]:
    """Return the places whose work makes the others wait; windows: of the run, as remove_turns."""
    causes = []
    for place, *parts in zip(places, *windows, strict=True):
        saving = join_savings([saving for _, saving in parts])
        removal = join_removals([removal for removal, _ in parts])
        least_ns = max(MIN_SAVED_SHARE * run_ns, MIN_OWN_SHARE * removal.total_ns)
        count = np.bincount(removal.rank, minlength=trace.ranks)
        if saving.run_ns >= least_ns and np.count_nonzero(count) > 1:
            numbers = round(removal.total_ns), int(count.sum()), int(np.count_nonzero(count))
            cause = SerialTurns((), (find_place(trace, place),), *numbers)
            causes.append(FoundCause(cause, removal, saving))
    return causes


def _remove_place(trace: Trace, work: Work, place: Pair) -> RemovedWork:
    number = work.places.index(place) if place in work.places else -1
    chosen = np.flatnonzero(work.place == number)
    length = work.length_ns[chosen].astype(np.float64)
    # Shorter segments are passes to the next call.
    least_ns = MIN_WORK_SHARE * (length @ length) / max(float(length.sum()), 1.0)
    removal = Removal(work.rank[chosen], work.end_ns[chosen], length).take(length >= least_ns)
    return removal, replay_without(trace, removal)
