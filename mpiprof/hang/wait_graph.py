"""Wait-for graph: which ranks wait in pending instances, and for which ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mpiprof.hang.rank_state import Pending, Position
from mpiprof.trace.call import Call, Key

WAITS_FOR_MESSAGES = ("point_to_point", "completion")


def open_calls(position: Position, one: Pending) -> list[Call]:
    """Return the calls in which a rank waits in an instance, MPI_Finalize excluded."""
    return [c for c in position.open if c.key == one.key and c.operation != "finalize"]


def is_waiting_in(position: Position, one: Pending) -> bool:
    """Return whether a rank waits in an instance: in its call, or in a Wait after starting it."""
    if any(call.key == one.key for call in position.open):
        return True
    return position.between == "completion" and one.key in position.started


def has_waiting_rank(one: Pending, positions: Sequence[Position]) -> bool:
    """Return whether any rank waits in an instance. A rank that only started it does not wait."""
    return any(is_waiting_in(positions[rank], one) for rank in one.arrived)


def is_started_only(one: Pending, positions: Sequence[Position]) -> bool:
    """Return whether no rank is in a call of an instance. A Wait may be for another operation."""
    return not any(call.key == one.key for rank in one.arrived for call in positions[rank].open)


def awaited_ranks(positions: Sequence[Position], pending: Sequence[Pending]) -> dict[int, set[int]]:
    """Return the ranks that each waiting rank waits for."""
    found: dict[int, set[int]] = {}
    for one in pending:
        absent = one.missing or started_and_outside(one, positions)
        for rank in one.arrived:
            if absent and is_waiting_in(positions[rank], one):
                found.setdefault(rank, set()).update(absent)
    return found


def started_and_outside(one: Pending, positions: Sequence[Position]) -> list[int]:
    """Return the ranks that started an instance, did not complete it, and are outside MPI.

    MPI may make progress only while it is called. So these ranks may block the waiting ones.
    """
    return [
        rank for rank in one.arrived
        if one.key in positions[rank].started
        and not positions[rank].open and not positions[rank].between
    ]  # fmt: skip


def waits_for_messages(position: Position) -> bool:
    """Return whether all known threads of a rank are in point-to-point calls or Waits."""
    return position.between in WAITS_FOR_MESSAGES and not position.open


def has_left(position: Position) -> bool:
    """Return whether a rank makes no more calls: it is in MPI_Finalize or has finished."""
    return position.finished or any(call.operation == "finalize" for call in position.open)


def took_part(position: Position, one: Pending) -> bool:
    """Return whether a rank took part in an instance, other than by MPI_Finalize, or is past it."""
    if position.rank in one.missing:
        return False
    return not any(c.key == one.key and c.operation == "finalize" for c in position.open)


def follow_missing(
    one: Pending, positions: Sequence[Position], pending: Sequence[Pending], long: set[Key]
) -> tuple[list[int], list[int]]:
    """Follow missing ranks that wait elsewhere to the ranks that they wait for.

    A rank with a free thread counts as waiting only in a long-pending instance. Returns the ranks
    that wait for no rank, and the waiting ranks on the way that have a free thread.
    """
    by_key = {other.key: other for other in pending}
    seen: set[int] = set()
    found: set[int] = set()
    spare: set[int] = set()
    queue = deque(one.missing)
    while queue:
        rank = queue.popleft()
        if rank in seen:
            continue
        seen.add(rank)
        mine = positions[rank].open
        lacking = [by_key[c.key].missing for c in mine if c.key in by_key]
        if positions[rank].free and not any(c.key in long for c in mine):
            found.add(rank)
        elif any(lacking):
            queue.extend(other for missing in lacking for other in missing)
            spare.update([rank] if positions[rank].free and not has_left(positions[rank]) else [])
        elif not mine:
            found.add(rank)
    return sorted(found), sorted(spare)
