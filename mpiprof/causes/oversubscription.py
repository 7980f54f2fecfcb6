"""Oversubscription: ranks that are ready to run, but wait for a processor that others have.

    rank 0   work ── waits for processor 3 ── work | call ──── | work
    rank 1   ── waits for processor 3 ── work ─────────── | call | ── waits ── work

Counters show how long a rank waits for a processor between two calls. Ranks of a node with at least
MIN_QUEUE_SHARE of such time between their calls share processors if they may run on fewer of them
than there are ranks. Otherwise they wait for other programs. That is a cause if MIN_WAITING_SHARE
of the ranks of the node wait, because a rank that waits alone is found as a habit of this rank. A
rank that the quota of its control group stops waits for no other program.

Ranks may be bound to fewer processors than the other ranks of their node, also during the run. They
are a cause of their own, with the time of their binding only.

The run is replayed without the time in these queues. If ranks share processors, it also lacks the
time of their calls beyond the usual one, because a rank whose message has come waits for its turn,
too. The usual time is a low quantile: in such a run most calls are longer.

While n ranks share k processors, they wait at most n / k - 1 times as long as they run. If they
wait longer, other programs or further threads run there, and have a share of this time. n includes
all ranks of their node, because the others may run there, too.

The cause is stated first if ranks share processors, or if they wait longer than they run. Then all
work and all calls take longer at times, so some other causes are not sought.

The function is silent about a run without counters, and about nodes with unknown affinities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
    subtract_removal,
)
from mpiprof.causes.place import find_place
from mpiprof.causes.processor_queues import (
    Queues,
    join_queues,
    remove_from_calls,
    remove_from_queues,
)
from mpiprof.causes.processor_sets import Crowd, find_bindings, format_period, list_crowds
from mpiprof.causes.repeated_stops import find_stopped_time
from mpiprof.interface.format_units import capitalise, format_count, format_ranks, format_share
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool

MIN_QUEUE_SHARE = 0.05  # of the time between calls of a rank that waits
MIN_WAITING_SHARE = 0.5  # of the ranks of a node, and at least two, that wait for other programs
MIN_THROTTLED_SHARE = 0.5  # of the time in queues, of a rank that waits for its quota
MIN_SAVED_SHARE = 0.01  # of the run time
MAX_QUEUE_RATIO = 1.0  # of the time in queues over that on a processor, without shared processors
MIN_FIRST_SHARE = 0.2  # of the time between calls, from which the waiting is stated first
MIN_OTHERS_SHARE = 0.2  # of the time in queues, from which other programs are stated
MAX_SHARED_RATIO = 0.25  # the same of ranks that share processors


@dataclass(frozen=True)
class Oversubscription(Cause):
    """Ranks that wait for a processor.

    waiting_ranks: `ranks` are the same if they share processors, and () if they wait for other
    programs, because none of them is the cause. processors: on which the ranks may run if these are
    too few, otherwise (). nodes: number of their nodes. node_processors, node_ranks: of these
    nodes; 0 processors if their number is unknown. all_ranks: whether the job has no other ranks.
    queue_share: of their time between calls. queue_ratio: the same time over that on a processor.
    is_bound: whether other ranks of the node, or the same ranks at the start, may run on further
    processors. bound_when: the time of a binding that was made during the run, as text.
    is_explained: whether another cause names ranks that are bound, or that a quota stops.
    others_share: of the time in queues, that others than these ranks have the processors at least.
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
    is_bound: bool = False
    bound_when: str = ""
    is_explained: bool = False
    others_share: float = 0.0

    @property
    def is_first(self) -> bool:
        """Return whether the ranks are bound, or mostly disturbed and no other cause names some."""
        is_notable = self.is_disturbing and self.queue_share >= MIN_FIRST_SHARE
        return self.is_bound or (is_notable and not self.is_explained)

    @property
    def saves_more(self) -> bool:
        """Return whether even the usual time of calls contains time in queues."""
        return self.others_share >= MIN_OTHERS_SHARE

    @property
    def is_disturbing(self) -> bool:
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
            bound = f"are bound to {shared}{self.bound_when}"
            are = f"{self._format_who()} {bound if self.is_bound else f'share {shared}'}"
            if self.queue_share < MIN_QUEUE_SHARE:  # they wait for it inside their calls
                return f"{are}, and take turns"
            return f"{are}, and wait for {awaited} {share}{self._format_others()}"
        return f"{self._format_who()} wait for a processor {share}, because other programs have it"

    def _format_who(self) -> str:
        is_everybody = self.all_ranks and not self.processors
        return "all ranks" if is_everybody else format_ranks(self.waiting_ranks)

    def _format_others(self) -> str:
        if self.others_share < MIN_OTHERS_SHARE:
            return ""
        share = format_share(self.others_share)
        return f", at least {share} of this because other programs or further threads run there"

    def _format_shared(self) -> str:
        count = len(self.processors)
        if self.nodes > 1:
            return f"processors on {format_count(self.nodes)} nodes"
        return f"processor {self.processors[0]}" if count == 1 else f"{count} processors"

    @property
    def reason(self) -> str:
        """Return the reason in few words."""
        if self.is_bound:
            return "bound to the same processor"
        return "shared processors" if self.processors else "other programs"

    @property
    def advice(self) -> str:
        """Return how each rank gets a processor."""
        where = "their nodes" if self.nodes > 1 else "their node"
        if not self.processors:
            return f"Check for other programs and for further threads on {where}."
        look = ""
        if self.others_share >= MIN_OTHERS_SHARE:
            look = f"Check for other programs and for further threads on {where}. "
        return look + self._advise_processors(where)

    def _advise_processors(self, where: str) -> str:
        have = "have" if self.nodes > 1 else "has"
        if not self.node_processors:
            return f"Bind these ranks to separate processors, or start fewer ranks on {where}."
        enough = f"{where} {have} {self.node_processors} for {self.node_ranks} ranks"
        if self.node_processors >= self.node_ranks:
            return f"Bind these ranks to separate processors: {enough}."
        remove = "Remove this binding, and start" if self.is_bound else "Start"
        return f"{remove} at most as many ranks on a node as it has processors: {enough}."


def choose_crowds(
    trace: Trace, windows: Sequence[Queues], *, has_quota: bool = False
) -> list[Oversubscription]:
    """Return the ranks that share processors, and those that wait for other programs.

    has_quota: whether quotas stop some ranks.
    """
    queues = join_queues(windows)
    crowds = list(_list_crowds(trace, queues))
    changed = list(_list_bound_crowds(trace, queues.bound)) if queues.bound else []
    causes: list[Oversubscription] = []
    for of_kind, times in (
        (changed, queues.bound),
        ([crowd for crowd in crowds if crowd.is_bound], queues),
        ([crowd for crowd in crowds if crowd.processors and not crowd.is_bound], queues),
        ([crowd for crowd in crowds if not crowd.processors], queues),
    ):
        if of_kind and times is not None:
            cause = _describe_crowds(trace, times, of_kind)
            others_explain = has_quota or any(cause.is_bound for cause in causes)
            if others_explain and not cause.is_bound:
                cause = replace(cause, is_explained=True, others_share=0.0)
            causes.append(cause)
    return causes


def _is_waiting(queues: Queues) -> Bool:
    waits: Bool = queues.queue_ns >= np.maximum(MIN_QUEUE_SHARE * queues.length_ns, 1.0)
    return waits


def _read_affinities(trace: Trace, ranks: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return the processors of some ranks at the start, {} if those of a rank are unknown."""
    processes = trace.tables.processes
    allowed = {rank: frozenset(processes.get(rank, {}).get("processors", ())) for rank in ranks}
    return allowed if all(allowed.values()) else {}


def find_crowded_nodes(trace: Trace) -> dict[int, str]:
    """Return the node of each rank that shares too few processors with other ranks of its node."""
    return {
        rank: node
        for node, ranks in _group_by_node(trace).items()
        for crowd in list_crowds(_read_affinities(trace, ranks), {}, ranks)
        for rank in crowd.ranks
    }


def _list_bound_crowds(trace: Trace, queues: Queues) -> Iterator[Crowd]:
    """Yield the ranks that share processors because the affinity of some of them has changed.

    They may wait for a processor only inside their calls, which counters do not show.
    """
    bindings = find_bindings(trace)
    for ranks in _group_by_node(trace).values():
        at_start = _read_affinities(trace, ranks)
        changed = {rank: bindings[rank].processors for rank in at_start if rank in bindings}
        crowds_at_start = {
            (crowd.ranks, crowd.processors) for crowd in list_crowds(at_start, {}, ranks)
        }
        for crowd in list_crowds(at_start | changed, queues.used, ranks):
            is_new = (crowd.ranks, crowd.processors) not in crowds_at_start
            if is_new and changed.keys() & set(crowd.ranks):
                yield replace(crowd, is_bound=True)


def _list_crowds(trace: Trace, queues: Queues) -> Iterator[Crowd]:
    """Yield the ranks that share processors on each node, and its other ranks that wait."""
    is_waiting = _is_waiting(queues)
    for ranks in _group_by_node(trace).values():
        allowed = _read_affinities(trace, ranks)
        waiting = {rank for rank in allowed if is_waiting[rank]}
        if not waiting:
            continue
        for crowd in list(list_crowds(allowed, queues.used, waiting)):
            yield crowd
            waiting -= set(crowd.ranks)
        # A rank with a quota waits for its quota, not for other programs.
        is_throttled = queues.throttled_ns >= MIN_THROTTLED_SHARE * queues.queue_ns
        waiting = {rank for rank in waiting if not is_throttled[rank]}
        if len(waiting) >= max(MIN_WAITING_SHARE * len(ranks), 2):
            yield Crowd(tuple(sorted(waiting)), frozenset())


def _group_by_node(trace: Trace) -> Mapping[str, list[int]]:
    nodes: dict[str, list[int]] = {}
    for rank, node in sorted(trace.node_ids.items()):
        nodes.setdefault(node, []).append(rank)
    return nodes


def _format_binding(trace: Trace, ranks: Sequence[int]) -> str:
    """Return when some ranks were bound during the run, "" if they were not."""
    bindings = [binding for rank, binding in find_bindings(trace).items() if rank in ranks]
    return format_period(trace, bindings) if bindings else ""


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
    queue_ratio = queue_ns / max(processor_ns, 1.0)
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
        queue_ratio,
        crowds[0].is_bound,
        _format_binding(trace, ranks) if queues.bound is None else "",
        others_share=_find_others_share(trace, crowds, queue_ratio),
    )


def _find_others_share(trace: Trace, crowds: Sequence[Crowd], queue_ratio: float) -> float:
    """Return the share of the time in queues that the ranks of a job cannot cause themselves."""
    by_node = _group_by_node(trace)
    limits = [
        len(by_node[trace.node_ids[crowd.ranks[0]]]) / len(crowd.processors) - 1
        for crowd in crowds
        if crowd.processors
    ]
    return max(1 - max(limits) / queue_ratio, 0.0) if limits and queue_ratio > 0 else 0.0


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
        bindings = find_bindings(trace) if crowd.bound_when else {}
        removal = queues = remove_from_queues(trace, crowd.waiting_ranks, bindings)
        if crowd.processors:
            calls = remove_from_calls(trace, crowd.ranks, bindings)
            removal = join_removals([queues, subtract_removal(calls, stops)])
        results.append((removal, replay_without(trace, removal), queues.total_ns))
    return results


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
        causes.append(FoundCause(cause, removal, saving))
    return [candidate for candidate in causes if _saves_time(candidate, causes, run_ns)]


def _saves_time(candidate: FoundCause, causes: Sequence[FoundCause], run_ns: float) -> bool:
    """Return whether a cause saves time, or bound ranks are in a crowd that does.

    The other ranks of this crowd are as late, so the bound ranks alone may save nothing.
    """
    crowd, savings = candidate.cause, [candidate.saving]
    if isinstance(crowd, Oversubscription) and crowd.is_bound:
        savings += [fact.saving for fact in causes if set(crowd.ranks) <= set(fact.cause.ranks)]
    return max(saving.run_ns for saving in savings) >= MIN_SAVED_SHARE * run_ns
