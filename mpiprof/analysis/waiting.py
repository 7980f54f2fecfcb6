"""Who waits in what is pending, for whom, and who will make no more calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mpiprof.analysis.positions import Key, Pending, Position

WAITS_FOR_MESSAGES = ("point_to_point", "completion")


def waits_in(position: Position, one: Pending) -> bool:
    """Whether a rank waits in an instance: in its call, or in a Wait after having started it."""
    if any(call.key == one.key for call in position.open):
        return True
    return position.between == "completion" and one.key in position.started


def keeps(one: Pending, positions: Sequence[Position]) -> bool:
    """Whether a rank waits in an instance; one that was only started keeps nobody."""
    return any(waits_in(positions[rank], one) for rank in one.arrived)


def started_only(one: Pending, positions: Sequence[Position]) -> bool:
    """Whether no rank is in a call of an instance: who waits may wait for something else."""
    return not any(call.key == one.key for rank in one.arrived for call in positions[rank].open)


def whom(positions: Sequence[Position], pending: Sequence[Pending]) -> dict[int, set[int]]:
    """Return for each rank that waits in something pending who has not come to it."""
    found: dict[int, set[int]] = {}
    for one in pending:
        absent = one.missing or unattended(one, positions)
        for rank in one.arrived:
            if absent and waits_in(positions[rank], one):
                found.setdefault(rank, set()).update(absent)
    return found


def unattended(one: Pending, positions: Sequence[Position]) -> list[int]:
    """Return who has started an instance, not completed it, and is outside MPI.

    MPI may go on with it only while it is called, and so keep those who wait for it.
    """
    return [
        rank for rank in one.arrived
        if one.key in positions[rank].started
        and not positions[rank].open and not positions[rank].between
    ]  # fmt: skip


def waits_for_messages(position: Position) -> bool:
    """Whether all threads of a rank are in point-to-point calls or a Wait, as far as is known."""
    return position.between in WAITS_FOR_MESSAGES and not position.open


def leaves(position: Position) -> bool:
    """Whether a rank will make no more calls: it is in MPI_Finalize, or through."""
    return position.finished or any(call.operation == "finalize" for call in position.open)


def took_part(position: Position, one: Pending) -> bool:
    """Whether a rank has been in an instance with anything but MPI_Finalize, or is past it."""
    if position.rank in one.missing:
        return False
    return not any(c.key == one.key and c.operation == "finalize" for c in position.open)


def ends(
    one: Pending, positions: Sequence[Position], pending: Sequence[Pending], long: set[Key]
) -> tuple[list[int], list[int]]:
    """Follow those who have not come because they wait elsewhere to whom they wait for.

    Who has a thread to spare waits elsewhere only if it has long done so. Returns who waits for
    nobody; and those on the way who wait, but have a thread to spare.
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
            spare.update([rank] if positions[rank].free and not leaves(positions[rank]) else [])
        elif not mine:
            found.add(rank)
    return sorted(found), sorted(spare)
