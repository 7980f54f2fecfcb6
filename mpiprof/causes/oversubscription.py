"""Oversubscription: ranks that are ready to run, but wait for a processor that others have.

    rank 0   work ── waits for processor 3 ── work | call ──── | work
    rank 1   ── waits for processor 3 ── work ─────────── | call | ── waits ── work

Counters show how long a rank waits for a processor between two calls. Ranks of a node with at least
MIN_QUEUE_SHARE of such time between their calls share processors if they may run on fewer of them
than there are ranks. Otherwise they wait for other programs. That is a cause if MIN_WAITING_SHARE
of the ranks of the node wait, because a rank that waits alone is found as a habit of this rank. A
rank that the quota of its control group stops waits for no other program.

The run is replayed without the time in these queues. If ranks share processors, it also lacks the
time of their calls beyond the usual one, because a rank whose message has come waits for its turn,
too. The usual time is a low quantile: in such a run most calls are longer.

The cause is stated first if ranks share processors, or if they wait longer than they run. Then all
work and all calls take longer at times, so some other causes are not sought.

The function is silent about a run without counters, and about nodes with unknown affinities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mpiprof.causes.cause import Cause, FoundCause
from mpiprof.causes.place import Pair, add_up, find_place
from mpiprof.causes.processor_sets import list_crowds
from mpiprof.causes.removal import (
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
    subtract_removal,
)
from mpiprof.causes.repeated_stops import find_stopped_time
from mpiprof.causes.segments import read_calls_without_waits
from mpiprof.interface.format_units import capitalise, format_count, format_ranks, format_share
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float

MIN_QUEUE_SHARE = 0.05  # of the time between calls of a rank that waits
MIN_WAITING_SHARE = 0.5  # of the ranks of a node, and at least two, that wait for other programs
MIN_THROTTLED_SHARE = 0.5  # of the time in queues, of a rank that waits for its quota
MIN_SAVED_SHARE = 0.01  # of the run time
MAX_QUEUE_RATIO = 1.0  # of the time in queues over that on a processor, without shared processors
MAX_SHARED_RATIO = 0.25  # the same of ranks that share processors
USUAL_QUANTILE = 0.1  # of the times of calls without waits


@dataclass(frozen=True)
class Oversubscription(Cause):
    """Ranks that wait for a processor.

    waiting_ranks: `ranks` are the same if they share processors, and () if they wait for other
    programs, because none of them is the cause. processors: on which the ranks may run if these are
    too few, otherwise (). nodes: number of their nodes. node_processors, node_ranks: of these
    nodes; 0 processors if their number is unknown. all_ranks: whether the job has no other ranks.
    queue_share: of their time between calls. queue_ratio: the same time over that on a processor.
    """

    name: ClassVar[str] = "oversubscription"
    repair: ClassVar[str] = "With a processor for each rank"
    icon: ClassVar[str] = "paused"
    waiting_ranks: tuple[int, ...]
    processors: tuple[int, ...]
    nodes: int
    node_processors: int
    node_ranks: int
    all_ranks: bool
    queue_share: float
    queue_ratio: float

    @property
    def is_first(self) -> bool:
        """Return whether the waiting for processors disturbs all other times of the run."""
        return self.queue_ratio >= (MAX_SHARED_RATIO if self.processors else MAX_QUEUE_RATIO)

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        share = format_share(self.queue_share)
        return f"{capitalise(self._format_who())} waited for a processor {share} of the time"

    @property
    def clause(self) -> str:
        """Return who waits for a processor, how long, and who has it."""
        share = f"{format_share(self.queue_share)} of the time between their calls"
        if self.processors:
            awaited = "it" if len(self.processors) == 1 else "one"
            shared = self._format_shared()
            return f"{self._format_who()} share {shared}, and wait for {awaited} {share}"
        return f"{self._format_who()} wait for a processor {share}, because other programs have it"

    def _format_who(self) -> str:
        is_everybody = self.all_ranks and not self.processors
        return "all ranks" if is_everybody else format_ranks(self.waiting_ranks)

    def _format_shared(self) -> str:
        count = len(self.processors)
        if self.nodes > 1:
            return f"processors on {format_count(self.nodes)} nodes"
        return f"processor {self.processors[0]}" if count == 1 else f"{count} processors"

    @property
    def reason(self) -> str:
        """Return the reason in few words."""
        return "shared processors" if self.processors else "other programs"

    @property
    def advice(self) -> str:
        """Return how each rank gets a processor."""
        where = "their nodes" if self.nodes > 1 else "their node"
        if not self.processors:
            return f"Check for other programs and for further threads on {where}."
        have = "have" if self.nodes > 1 else "has"
        if not self.node_processors:
            return f"Bind these ranks to separate processors, or start fewer ranks on {where}."
        enough = f"{where} {have} {self.node_processors} for {self.node_ranks} ranks"
        if self.node_processors >= self.node_ranks:
            return f"Bind these ranks to separate processors: {enough}."
        return f"Start at most as many ranks on a node as it has processors: {enough}."


@dataclass(frozen=True)
class Queues:
    """Time between the calls of each rank in a run or a window of it, as far as it has counters.

    throttled_ns: time in which the quota of its control group stopped it, which may be in queues.
    used: processors on which each rank was seen. place_ns: time in queues by place and rank.
    """

    queue_ns: Float
    processor_ns: Float
    length_ns: Float
    throttled_ns: Float
    used: dict[int, frozenset[int]]
    place_ns: dict[Pair, Float]


@dataclass(frozen=True)
class Crowd:
    """Ranks that wait for a processor; processors: as in Oversubscription."""

    ranks: tuple[int, ...]
    processors: tuple[int, ...]


def sum_queues(trace: Trace) -> Queues:
    """Return the time that the ranks wait for processors in a run or a window of it."""
    table, ranks = _read_counted(trace), trace.ranks
    rank = table["rank"].to_numpy(np.int64)
    length_ns = (table["end_ns"] - table["begin_ns"] + table["gap_ns"].clip(lower=0)).to_numpy()
    queue_ns = table["queue_ns"].to_numpy(np.float64)

    def add(values: Array, rows: Any = slice(None)) -> Float:
        return np.bincount(rank[rows], values[rows], ranks).astype(np.float64)

    seen = [table[name].to_numpy(np.int64) for name in ("first_processor", "last_processor")]
    pairs = np.unique(np.stack([np.tile(rank, 2), np.concatenate(seen)]), axis=1).T.tolist()
    used = {
        number: frozenset(processor for of, processor in pairs if of == number and processor >= 0)
        for number in np.unique(rank).tolist()
    }
    by_place: Any = table.groupby(["before_site_id", "after_site_id"]).indices
    places = {
        (int(before), int(after)): add(queue_ns, rows) for (before, after), rows in by_place.items()
    }
    throttled_ns = table["throttled_ns"].clip(lower=0).to_numpy(np.float64)
    return Queues(
        add(queue_ns),
        add(table["processor_ns"].to_numpy()),
        add(length_ns),
        add(throttled_ns),
        used,
        places,
    )


def _read_counted(trace: Trace) -> pd.DataFrame:
    table = trace.intervals
    return table[(table["processor_ns"] >= 0) & (table["queue_ns"] >= 0)]


def _join_queues(windows: Sequence[Queues]) -> Queues:
    columns = [(of.queue_ns, of.processor_ns, of.length_ns, of.throttled_ns) for of in windows]
    queue_ns, processor_ns, length_ns, throttled_ns = np.sum(columns, 0)
    used: dict[int, frozenset[int]] = {}
    for window in windows:
        for rank, processors in window.used.items():
            used[rank] = used.get(rank, frozenset()) | processors
    places = add_up([window.place_ns for window in windows])
    return Queues(queue_ns, processor_ns, length_ns, throttled_ns, used, places)


def choose_crowds(trace: Trace, windows: Sequence[Queues]) -> list[Oversubscription]:
    """Return the ranks that share processors, and those that wait for other programs."""
    queues = _join_queues(windows)
    is_waiting = queues.queue_ns >= np.maximum(MIN_QUEUE_SHARE * queues.length_ns, 1.0)
    crowds = list(_list_crowds(trace, queues, is_waiting)) if is_waiting.any() else []
    sharing = [crowd for crowd in crowds if crowd.processors]
    waiting = [crowd for crowd in crowds if not crowd.processors]
    return [_describe_crowds(trace, queues, of_kind) for of_kind in (sharing, waiting) if of_kind]


def _list_crowds(trace: Trace, queues: Queues, is_waiting: Bool) -> Iterator[Crowd]:
    """Yield the ranks that share processors on each node, and its other ranks that wait."""
    for ranks in _group_by_node(trace).values():
        allowed = {
            rank: frozenset(trace.tables.processes[rank]["processors"])
            for rank in ranks
            if rank in trace.tables.processes
        }
        if len(allowed) < len(ranks) or not all(allowed.values()):
            continue
        waiting = {rank for rank in ranks if is_waiting[rank]}
        for members, processors in list_crowds(allowed, queues.used, waiting):
            yield Crowd(members, tuple(sorted(processors)))
            waiting -= set(members)
        # A rank with a quota waits for its quota, not for other programs.
        is_throttled = queues.throttled_ns >= MIN_THROTTLED_SHARE * queues.queue_ns
        waiting = {rank for rank in waiting if not is_throttled[rank]}
        if len(waiting) >= max(MIN_WAITING_SHARE * len(ranks), 2):
            yield Crowd(tuple(sorted(waiting)), ())


def _group_by_node(trace: Trace) -> Mapping[str, list[int]]:
    nodes: dict[str, list[int]] = {}
    for rank, node in sorted(trace.node_ids.items()):
        nodes.setdefault(node, []).append(rank)
    return nodes


def _describe_crowds(trace: Trace, queues: Queues, crowds: Sequence[Crowd]) -> Oversubscription:
    """Return the crowds of a kind as one cause."""
    ranks = sorted({rank for crowd in crowds for rank in crowd.ranks})
    by_node = _group_by_node(trace)
    names = {trace.node_ids[rank] for rank in ranks}
    node_ranks = [rank for name in names for rank in by_node[name]]
    queue_ns, processor_ns, length_ns = (
        float(values[ranks].sum())
        for values in (queues.queue_ns, queues.processor_ns, queues.length_ns)
    )
    places = {pair: float(values[ranks].sum()) for pair, values in queues.place_ns.items()}
    main = max(places, key=lambda pair: places[pair])
    return Oversubscription(
        tuple(ranks) if crowds[0].processors else (),
        (find_place(trace, main),),
        tuple(ranks),
        tuple(sorted({processor for crowd in crowds for processor in crowd.processors})),
        len(names),
        sum(trace.tables.processes[by_node[name][0]]["node_processors"] for name in names),
        len(node_ranks),
        len(ranks) == trace.ranks,
        queue_ns / max(length_ns, 1.0),
        queue_ns / max(processor_ns, 1.0),
    )


def remove_queues(
    trace: Trace, crowds: Sequence[Oversubscription], asleep: Removal, stopped: Sequence[int]
) -> list[tuple[Removal, Saving, float]]:
    """Return the time that each crowd waits in a run or a window of it, and its effect.

    The last value is the time in queues, without that in calls. Time in calls while a rank was
    stopped is no waiting for a processor. asleep: of single events. stopped: ranks with repeated
    stops.
    """
    if not crowds:
        return []
    results = []
    stops = join_removals([asleep, *(find_stopped_time(trace, stopped) if stopped else ())])
    for crowd in crowds:
        removal = queues = _remove_from_work(trace, crowd.waiting_ranks)
        if crowd.processors:
            calls = _remove_from_calls(trace, crowd.ranks)
            removal = join_removals([queues, subtract_removal(calls, stops)])
        results.append((removal, replay_without(trace, removal), queues.total_ns))
    return results


def _remove_from_work(trace: Trace, ranks: Sequence[int]) -> Removal:
    table = _read_counted(trace)
    table = table[table["rank"].isin(ranks)]
    length_ns = (table["end_ns"] - table["begin_ns"]).to_numpy(np.float64)
    rank, end = (table[name].to_numpy(np.int64) for name in ("rank", "end_ns"))
    return Removal(rank, end, np.minimum(table["queue_ns"].to_numpy(np.float64), length_ns))


def _remove_from_calls(trace: Trace, ranks: Sequence[int]) -> Removal:
    rank, begin, end, site = read_calls_without_waits(trace)
    length_ns = (end - begin).astype(np.float64)
    excess_ns = np.zeros(len(rank))
    for number in np.unique(site).tolist():
        is_at_site = site == number
        usual_ns = np.quantile(length_ns[is_at_site], USUAL_QUANTILE)
        excess_ns[is_at_site] = np.maximum(length_ns[is_at_site] - usual_ns, 0.0)
    return Removal(rank, end, excess_ns).take(np.isin(rank, ranks) & (excess_ns > 0))


def make_causes(
    crowds: Sequence[Oversubscription],
    windows: Sequence[Sequence[tuple[Removal, Saving, float]]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the causes among crowds; windows: of the run, as remove_queues."""
    causes = []
    for cause, *parts in zip(crowds, *windows, strict=True):
        removal = join_removals([removal for removal, _, _ in parts])
        saving = join_savings([saving for _, saving, _ in parts])
        queue_ns = sum(of_window for _, _, of_window in parts)
        saving = Saving(saving.run_ns, saving.waiting_ns, removal.total_ns - queue_ns, queue_ns)
        if saving.run_ns >= MIN_SAVED_SHARE * run_ns:
            causes.append(FoundCause(cause, removal, saving))
    return causes
