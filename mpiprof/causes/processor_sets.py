"""Processors on which the ranks of a node may run, and ranks that have too few of them.

The affinity, the quota of the control group and the variables for numbers of threads show before
the run whether the ranks can have a processor each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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


def list_crowds(
    allowed: Affinity, used: Affinity, waiting: Collection[int]
) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
    """Yield disjoint ranks of a node that wait for the same too few processors, most ranks first.

    allowed: processors of each rank at MPI_Init; a rank that has run elsewhere may do so. waiting:
    ranks that wait for a processor, of which a crowd has at least two.
    """
    crowds = []
    for ranks, processors in _list_processor_sets(allowed):
        available = processors.union(*(used.get(rank, frozenset()) for rank in ranks))
        members = tuple(sorted(set(ranks) & set(waiting)))
        if len(available) < len(ranks) and len(members) > 1:
            crowds.append((members, processors))
    crowds.sort(key=lambda crowd: (-len(crowd[0]), len(crowd[1])))
    taken: set[int] = set()
    for members, processors in crowds:
        if not taken & set(members):
            taken |= set(members)
            yield members, processors


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
