"""Wait-for graph: which ranks wait in pending instances, for which ranks, and their cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiprof.facts.operations import OPERATIONS, awaited_ranks, base_operation
from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.rank_state import Instances, Pending, Position, Positions
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call, Key

WAITS_FOR_MESSAGES = ("point_to_point", "completion")


def open_calls(position: Position, instance: Pending) -> list[Call]:
    """Return the calls in which a rank waits in an instance, MPI_Finalize excluded."""
    return [c for c in position.open if c.key == instance.key and c.operation != "finalize"]


def is_waiting_in(position: Position, instance: Pending) -> bool:
    """Return whether a rank waits in an instance: in its call, or in a Wait after starting it."""
    if any(call.key == instance.key for call in position.open):
        return True
    return position.between == "completion" and instance.key in position.started


def has_waiting_rank(instance: Pending, positions: Positions) -> bool:
    """Return whether any rank waits in an instance. A rank that only started it does not wait."""
    return any(is_waiting_in(positions[rank], instance) for rank in instance.arrived)


def is_started_only(instance: Pending, positions: Positions) -> bool:
    """Return whether no rank is in a call of an instance. A Wait may be for another operation."""
    open_keys = {call.key for rank in instance.arrived for call in positions[rank].open}
    return instance.key not in open_keys


def build_wait_graph(positions: Positions, pending: Instances) -> dict[int, set[int]]:
    """Return the ranks that each waiting rank waits for."""
    graph: dict[int, set[int]] = {}
    for instance in pending:
        absent = instance.missing or started_and_outside(instance, positions)
        for rank in instance.arrived:
            if absent and is_waiting_in(positions[rank], instance):
                graph.setdefault(rank, set()).update(absent)
    return graph


def started_and_outside(instance: Pending, positions: Positions) -> list[int]:
    """Return the ranks that started an instance, did not complete it, and are outside MPI."""
    # MPI may make progress only while it is called. So these ranks may block the waiting ones.
    return [
        rank for rank in instance.arrived
        if instance.key in positions[rank].started
        and not positions[rank].open and not positions[rank].between
    ]  # fmt: skip


def waits_for_messages(position: Position) -> bool:
    """Return whether all known threads of a rank are in point-to-point calls or Waits."""
    return position.between in WAITS_FOR_MESSAGES and not position.open


def has_left(position: Position) -> bool:
    """Return whether a rank makes no more calls: it is in MPI_Finalize or has finished."""
    return position.finished or any(call.operation == "finalize" for call in position.open)


def took_part(position: Position, instance: Pending) -> bool:
    """Return whether a rank took part in an instance, other than by MPI_Finalize, or is past it."""
    if position.rank in instance.missing:
        return False
    return not any(c.key == instance.key and c.operation == "finalize" for c in position.open)


def follow_missing(
    instance: Pending, positions: Positions, pending: Instances, long: set[Key]
) -> tuple[list[int], list[int]]:
    """Return ranks that missing ranks finally wait for, and waiting ranks with a free thread."""
    by_key = {other.key: other for other in pending}
    visited: set[int] = set()
    absent: set[int] = set()
    spare: set[int] = set()
    queue = deque(instance.missing)
    while queue:
        rank = queue.popleft()
        if rank in visited:
            continue
        visited.add(rank)
        mine = positions[rank].open
        lacking = [by_key[c.key].missing for c in mine if c.key in by_key]
        # A rank with a free thread counts as waiting only in a long-pending instance.
        if positions[rank].free and not any(c.key in long for c in mine):
            absent.add(rank)
        elif any(lacking):
            queue.extend(other for missing in lacking for other in missing)
            spare.update([rank] if positions[rank].free and not has_left(positions[rank]) else [])
        elif not mine:
            absent.add(rank)
    return sorted(absent), sorted(spare)


MAX_STARTS = 64  # maximum number of ranks from which a cycle is searched


@dataclass(frozen=True)
class Link:
    """An edge of the wait-for graph: a rank waiting in a call, and the rank it waits for."""

    rank: int
    call: Call | MessageWait
    waits_for: int


def shortest_cycle(links: Mapping[int, Sequence[Link]]) -> tuple[Link, ...]:
    """Return a shortest cycle of the wait-for graph; empty if there is none."""
    ahead = {rank: {link.waits_for for link in out if link.waits_for in links}
             for rank, out in links.items()}  # fmt: skip
    while dull := [rank for rank, out in ahead.items() if not out]:
        for rank in dull:
            del ahead[rank]
        ahead = {rank: out - set(dull) for rank, out in ahead.items()}
    best: tuple[Link, ...] = ()
    for start in list(ahead)[:MAX_STARTS]:
        cycle = _path_back(start, links, ahead)
        if cycle and (not best or len(cycle) < len(best)):
            best = cycle
    return best


def _path_back(
    start: int, links: Mapping[int, Sequence[Link]], ahead: Mapping[int, set[int]]
) -> tuple[Link, ...]:
    reached_by: dict[int, Link] = {}
    queue = deque([start])
    while queue:
        rank = queue.popleft()
        for link in links[rank]:
            if link.waits_for not in ahead or link.waits_for in reached_by:
                continue
            reached_by[link.waits_for] = link
            if link.waits_for == start:
                way = [link]
                while way[0].rank != start:
                    way.insert(0, reached_by[way[0].rank])
                return tuple(way)
            queue.append(link.waits_for)
    return ()


def find_cycle(
    trace: Trace, positions: Positions, pending: Instances, long: set[Key]
) -> tuple[tuple[Link, ...], tuple[int, ...]]:
    """Return a cycle of pending operations and the ranks to look at; both empty if it is absent."""
    links: dict[int, list[Link]] = {}
    by_key = {instance.key: instance for instance in pending}
    for position in positions:
        for call in position.open:
            instance = by_key.get(call.key)
            # A rank with a thread outside all operations may still arrive, so it adds no edge.
            stuck = not position.free and not has_left(position)
            if instance is not None and instance.missing and stuck:
                rank, is_long = position.rank, call.key in long
                for awaited in awaited_missing(trace, rank, call, instance, is_long):
                    links.setdefault(rank, []).append(Link(rank, call, awaited))
    cycle = shortest_cycle(links)
    return cycle, _odd_ranks(trace, positions, cycle) if cycle else ()


def awaited_missing(
    trace: Trace, rank: int, call: Call, instance: Pending, is_long: bool
) -> list[int]:
    """Return the missing ranks that a rank waits for."""
    missing = [member for member in instance.missing if member != rank]
    operation = OPERATIONS.get(base_operation(call.operation))
    # A library may synchronise all members, so in a long-pending instance a rank waits for all.
    if is_long or operation is None:
        return missing if is_long else []
    communicator = trace.tables.communicators[call.key[0]]
    sources = trace.tables.sources.get((communicator.index, rank), ())
    awaited = awaited_ranks(
        operation.wait_rule,
        communicator.find_column(rank),
        communicator.sizes,
        communicator.find_column(call.shape.root),
        [communicator.find_column(source) for source in sources],
    )
    return [member for member in missing if communicator.find_column(member) in awaited]


def _odd_ranks(trace: Trace, positions: Positions, cycle: Sequence[Link]) -> tuple[int, ...]:
    """Return the ranks in the less frequent operation, of all ranks that could be in any."""
    calls = {call.key: call for link in cycle if isinstance(call := link.call, Call)}
    members = [set(trace.tables.communicators[key[0]].ranks.tolist()) for key in calls]
    shared_ranks = set.intersection(*members)
    groups = []
    for key in calls:
        inside = (r for r in sorted(shared_ranks) if any(c.key == key for c in positions[r].open))
        groups.append(tuple(inside))
    groups.sort(key=len, reverse=True)
    if len(groups) == 2 and len(groups[0]) > len(groups[1]) > 0:
        return groups[1]
    return tuple(sorted(link.rank for link in cycle))
