"""Waiting that remains if all ranks work equally long: wavefronts, pipelines and queues.

    rank 0   work | send | ────────── wait ────────── | recv
    rank 1   wait | recv | work | send | ─── wait ─── | recv
    rank 2   ──── wait ──────── | recv | work | send | recv

The order of messages makes these ranks wait for each other, although nobody is late. The run is
replayed with the mean length of all segments of work at each place, and of all calls at each call
site, without the time that other causes explain. The waiting that remains is due to the
dependences. It is a cause if it is MIN_SHARE of the waiting of the run, and MIN_TIME_SHARE of the
time of all ranks.

In a run that does not fit in memory, each window of it is replayed with the mean lengths of the
run.

The functions are silent about waiting in collectives alone, and about a record that lacks calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.segments import Work, read_call_segments, read_segments, read_work
from mpiprof.account.work_intervals import INSIDE, number_same_work
from mpiprof.causes.cause import Cause, FoundCause, Removal, Saving, join_removals, replay_without
from mpiprof.causes.place import Pair, add_up, find_place, format_call
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MIN_SHARE = 0.5  # of the waiting
MIN_WORK_SHARE = 0.1  # of the longest work of a group, from which other places are the same work
MIN_MESSAGE_SHARE = 0.3  # of the waiting that is for messages
MIN_TIME_SHARE = 0.05  # of the time of all ranks


@dataclass(frozen=True)
class Wavefront(Cause):
    """Waiting due to dependences. share: of the waiting in messages and collectives."""

    name: ClassVar[str] = "wavefront"
    title: ClassVar[str] = "Ranks wait in turn, as in a sweep, a pipeline or a queue"
    reason: ClassVar[str] = "order of the messages"
    advice: ClassVar[str] = (
        "Let the turns overlap: smaller blocks, several sweeps at once, shorter locks."
    )
    icon: ClassVar[str] = "paused"
    share: float

    @property
    def clause(self) -> str:
        """Return that the dependences cause the waiting."""
        turns = f"ranks wait in turn for each other, mostly in {format_call(self.places[0].before)}"
        return f"{turns}, and would do so if all ranks worked equally long"


@dataclass(frozen=True)
class Waiting:
    """Waiting in a run or a window of it, in ns.

    all_ns: of all ranks. of_messages_ns: for messages, by call site. lengths: the number and the
    time of the segments of work and of the calls at each place; INSIDE marks calls.
    """

    all_ns: float
    of_messages_ns: dict[Pair, Float]
    lengths: dict[Pair, Float]


def sum_waiting(trace: Trace) -> Waiting:
    """Return the waiting, and the lengths of work and calls, in a run or a window of it."""
    delays: Delays = trace.derive("delays_found")
    waits = delays.waits
    wait_ns = (waits.end_ns - waits.begin_ns) * delays.counted[waits.group]
    # The calls are not joined with the work, which would need memory for a copy of both.
    lengths = _sum_lengths(read_work(trace)) | _sum_lengths(read_call_segments(trace))
    return Waiting(float(wait_ns.sum()), _sum_message_waits(trace), lengths)


def is_notable(trace: Trace, windows: Sequence[Waiting]) -> bool:
    """Return whether ranks wait long enough, and for messages; windows: of the run."""
    all_ns = sum(window.all_ns for window in windows)
    of_messages_ns = add_up([window.of_messages_ns for window in windows]).values()
    is_long = all_ns >= MIN_TIME_SHARE * trace.process_time_ns
    return bool(is_long and np.sum(list(of_messages_ns)) >= MIN_MESSAGE_SHARE * all_ns)


def find_means(windows: Sequence[Waiting]) -> dict[Pair, float]:
    """Return the mean length of the same work, or of the calls, at each place in a run.

    At places with far less than the longest work of their group, such as between two receives in
    succession, ranks only pass on: they have a mean of their own.
    """
    sums = add_up([window.lengths for window in windows])
    group = number_same_work(list(sums))
    count, time_ns = np.array(list(sums.values())).reshape(-1, 2).T
    mean_ns = time_ns / np.maximum(count, 1)
    longest_ns = np.zeros(len(group))
    np.maximum.at(longest_ns, group, mean_ns)
    works = mean_ns >= MIN_WORK_SHARE * longest_ns[group]
    group = np.where(works, group, len(group) + np.arange(len(group)))
    means = np.bincount(group, time_ns) / np.maximum(np.bincount(group, count), 1)
    return dict(zip(sums, means[group].tolist(), strict=True))


def balance(trace: Trace, causes: Removal, means: dict[Pair, float]) -> tuple[float, float]:
    """Return the waiting that causes explain, and the waiting that equal work removes as well.

    trace: a run or a window of it. causes, means: of the run.
    """
    segments = read_segments(trace)
    mean = np.array([means[place] for place in segments.places])[segments.place]
    balanced = Removal(segments.rank, segments.end_ns, segments.length_ns - mean)
    explained = causes.take(np.isin(causes.keys, balanced.keys))
    balanced = balanced.take(~np.isin(balanced.keys, explained.keys))
    joined = join_removals([explained, balanced])
    return replay_without(trace, explained).waiting_ns, replay_without(trace, joined).waiting_ns


def make_causes(
    trace: Trace, waiting: Sequence[Waiting], windows: Sequence[tuple[float, float]]
) -> list[FoundCause]:
    """Return the waiting due to dependences, or [].

    waiting, windows: of the run, as sum_waiting and balance.
    """
    all_ns = sum(window.all_ns for window in waiting)
    removed_ns = max(max(sum(values), 0.0) for values in zip(*windows, strict=True))
    rest_ns = all_ns - removed_ns
    if rest_ns < max(MIN_SHARE * all_ns, MIN_TIME_SHARE * trace.process_time_ns):
        return []
    of_messages_ns = add_up([window.of_messages_ns for window in waiting])
    main_place = max(of_messages_ns, key=lambda place: float(of_messages_ns[place][0]))
    cause = Wavefront((), (find_place(trace, main_place),), rest_ns / all_ns)
    return [FoundCause(cause, Removal.nothing(), Saving(0.0, rest_ns))]


def _sum_lengths(segments: Work) -> dict[Pair, Float]:
    """Return the number and the time of the segments at each place."""
    places = len(segments.places)
    count = np.bincount(segments.place, minlength=places).astype(np.float64)
    time_ns = np.bincount(segments.place, segments.length_ns, places)
    return dict(zip(segments.places, np.stack([count, time_ns], 1), strict=True))


def _sum_message_waits(trace: Trace) -> dict[Pair, Float]:
    """Return the waiting for messages at each call site."""
    waits, calls = trace.message_waits, trace.message_calls
    site = calls["site_id"].to_numpy()[waits["call"].to_numpy()]
    sites, number = np.unique(site, return_inverse=True)
    sums = np.bincount(number, waits["wait_ns"].to_numpy()).astype(np.float64)
    return {(site, INSIDE): sums[at : at + 1] for at, site in enumerate(sites.tolist())}
