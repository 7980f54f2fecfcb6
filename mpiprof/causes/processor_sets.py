"""Processors on which the ranks of a node may run, and ranks that have too few of them.

The affinity, the quota of the control group and the variables for numbers of threads show before
the run whether the ranks can have a processor each. An affinity may change during the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mpiprof.interface.format_units import format_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS

MAX_INEXACT_SHARE = 0.05  # of the run, of the begin of a period that is stated as exact
MAX_START_SHARE = 0.01  # of the run, in which the begin of a period is that of the run
MAX_THREADS = 1 << 16  # a larger number in a variable is no number of threads
Affinity = Mapping[int, frozenset[int]]  # of each rank of a node


@dataclass(frozen=True)
class Overload:
    """Ranks of a node whose threads exceed the processors that they may use.

    ranks: their number. threads: of all these ranks, at least one each. processors: number on which
    they may run, or which the quota of their control group allows. setting: "OMP_NUM_THREADS=4", ""
    if ranks alone exceed the processors. is_quota: whether the quota is the limit.
    """

    node: str
    ranks: int
    threads: int
    processors: float
    setting: str
    is_quota: bool


def find_overload(processes: Mapping[int, Mapping[str, Any]]) -> Overload | None:
    """Return the ranks with the most threads for their processors, or None if all have enough.

    processes: of each rank, as in `trace.tables.processes`. Ranks of unknown affinity are not
    judged, and neither are ranks with a quota beside ranks with another control group.
    """
    by_node: dict[str, dict[int, Mapping[str, Any]]] = {}
    for rank, process in processes.items():
        by_node.setdefault(process["node"], {})[rank] = process
    overloads: list[Overload] = []
    for ranks in by_node.values():
        settings = {rank: read_thread_setting(process) for rank, process in ranks.items()}
        host = next(iter(ranks.values()))["host"]
        limits = [
            (len(processors), members, False)
            for members, processors in _list_processor_sets(
                {rank: frozenset(process["processors"]) for rank, process in ranks.items()}
            )
        ]
        groups: dict[str, list[int]] = {}
        for rank, process in ranks.items():
            if process["quota"]:
                groups.setdefault(process["quota_group"], []).append(rank)
        limits += [(ranks[members[0]]["quota"], members, True) for members in groups.values()]
        for processors, members, is_quota in limits:
            threads = sum(settings[rank][0] for rank in members)
            text = max((settings[rank] for rank in members), default=(1, ""))[1]
            setting = text if len(members) <= processors else ""
            if setting == "":
                threads = len(members)
            if threads > processors:
                sizes = len(members), threads, processors
                overloads.append(Overload(host, *sizes, setting, is_quota))
    return max(overloads, key=lambda overload: overload.threads / overload.processors, default=None)


def read_thread_setting(process: Mapping[str, Any]) -> tuple[int, str]:
    """Return the largest number of threads that a variable sets, and the variable; (1, "") if none.

    OMP_NUM_THREADS may list a number for each level of nested regions: the first one counts.
    """
    settings = [(1, "")]
    for name, value in process["environment"].items():
        number = value.split(",")[0].strip()
        if name.endswith("_NUM_THREADS") and number.isdigit() and 1 < int(number) <= MAX_THREADS:
            settings.append((int(number), f"{name}={number}"))
    return max(settings, key=lambda setting: setting[0])


@dataclass(frozen=True)
class Binding:
    """Processors on which a rank may run in a part of the run, but not at its start.

    begin_ns: by when it has begun. after_ns: after when. end_ns: END_NS if it lasts.
    """

    after_ns: int
    begin_ns: int
    end_ns: int
    processors: frozenset[int]


def find_bindings(trace: Trace) -> dict[int, Binding]:
    """Return the longest changed affinity of each rank that has any."""
    bindings = {}
    for rank, changes in trace.tables.affinities.items():
        clock = trace.clock_of(rank)
        at_ns = [change.at_ns + clock.offset_at(change.at_ns) for change in changes]
        end_ns = [*at_ns[1:], END_NS]
        at_start = frozenset(trace.tables.processes.get(rank, {}).get("processors", ()))
        listed = [
            Binding(begin - change.at_ns + change.after_ns, begin, end, change.processors)
            for change, begin, end in zip(changes, at_ns, end_ns, strict=True)
            if change.processors != at_start
        ]
        if listed:
            bindings[rank] = max(listed, key=lambda binding: binding.end_ns - binding.begin_ns)
    return bindings


def format_period(trace: Trace, periods: Sequence[Binding]) -> str:
    """Return the time that periods of some ranks have in common as text, "" for the run."""

    def format_since_start(time_ns: int) -> str:
        return format_time(float(time_ns - trace.run_start_ns))

    after_ns = max(period.after_ns for period in periods)
    begin_ns = max(period.begin_ns for period in periods)
    end_ns = min(period.end_ns for period in periods)
    begin, run_ns = format_since_start(begin_ns), float(trace.run_ns)
    if end_ns != END_NS:
        return f" from {begin} to {format_since_start(end_ns)}"
    if begin_ns - trace.run_start_ns <= MAX_START_SHARE * run_ns:
        return ""
    is_exact = begin_ns - after_ns <= MAX_INEXACT_SHARE * run_ns
    return f" from {begin} on" + ("" if is_exact else " or earlier")


@dataclass(frozen=True)
class Limit:
    """The quota of a rank's control group, and for how long it has stopped the rank.

    period: in which the rank had the quota; it begins at START_NS if it did at the start.
    """

    processors: float
    group: str
    stopped_ns: float
    period: Binding


def find_limits(trace: Trace) -> dict[int, Limit]:
    """Return the quota of each rank that has stopped it longest.

    Ranks of a node that share a group share the time for which it was stopped.
    """
    limits: dict[int, Limit] = {}
    for rank, readings in trace.tables.quotas.items():
        clock, process = trace.clock_of(rank), trace.tables.processes.get(rank, {})
        current = process.get("quota", 0.0), process.get("quota_group", "")
        begin_ns, listed = START_NS, list[Limit]()
        for reading in readings:
            at_ns = reading.at_ns + clock.offset_at(reading.at_ns)
            if (reading.processors, reading.group) != current:
                listed = [replace(one, period=_end_period(one.period, at_ns)) for one in listed]
                begin_ns, current = at_ns, (reading.processors, reading.group)
            period = Binding(begin_ns, begin_ns, END_NS, frozenset())
            if reading.processors > 0:
                listed.append(Limit(*current, float(reading.stopped_ns), period))
        if listed:
            limits[rank] = max(listed, key=lambda limit: limit.stopped_ns)
    groups = Counter((trace.node_ids.get(rank), limits[rank].group) for rank in limits)
    return {
        rank: replace(
            limit, stopped_ns=limit.stopped_ns / groups[trace.node_ids.get(rank), limit.group]
        )
        for rank, limit in limits.items()
    }


def _end_period(period: Binding, at_ns: int) -> Binding:
    return replace(period, end_ns=min(period.end_ns, at_ns))


@dataclass(frozen=True)
class Crowd:
    """Ranks of a node that wait for the same too few processors.

    is_bound: whether some other ranks that share these processors may also run elsewhere.
    """

    ranks: tuple[int, ...]
    processors: frozenset[int]
    is_bound: bool = False


def list_crowds(allowed: Affinity, used: Affinity, waiting: Collection[int]) -> Iterator[Crowd]:
    """Yield the crowds of a node: disjoint ones, most ranks first, then bound ranks in these.

    allowed: processors of each rank; a rank that has run elsewhere may do so. waiting: ranks that
    wait for a processor, of which a crowd has at least two.
    """
    crowds = []
    for ranks, processors in _list_processor_sets(allowed):
        available = processors.union(*(used.get(rank, frozenset()) for rank in ranks))
        members = tuple(sorted(set(ranks) & set(waiting)))
        if len(available) < len(ranks) and len(members) > 1:
            crowds.append(Crowd(members, processors))
    crowds.sort(key=lambda crowd: (-len(crowd.ranks), len(crowd.processors)))
    disjoint = _choose_disjoint(crowds)
    yield from disjoint
    for crowd in disjoint:
        inner = [one for one in crowds if one.processors < crowd.processors]
        bound = _choose_disjoint([one for one in inner if set(one.ranks) < set(crowd.ranks)])
        if sum(len(one.ranks) for one in bound) < len(crowd.ranks):
            yield from (replace(one, is_bound=True) for one in bound)


def _choose_disjoint(crowds: Sequence[Crowd]) -> list[Crowd]:
    """Return the first crowds without common ranks."""
    chosen: list[Crowd] = []
    for crowd in crowds:
        if not any(set(crowd.ranks) & set(earlier.ranks) for earlier in chosen):
            chosen.append(crowd)
    return chosen


def _list_processor_sets(allowed: Affinity) -> Iterator[tuple[list[int], frozenset[int]]]:
    """Yield the ranks of a node that may run only on some set of processors, and the set.

    Yields nothing if the processors of a rank are unknown.
    """
    if not all(allowed.values()):
        return
    by_first: dict[int, list[int]] = {}  # ranks by their first processor
    for rank, affinity in allowed.items():
        by_first.setdefault(min(affinity), []).append(rank)
    for processors in {*allowed.values(), frozenset().union(*allowed.values())}:
        ranks = (rank for first in processors for rank in by_first.get(first, ()))
        yield sorted(rank for rank in ranks if allowed[rank] <= processors), processors
