"""Whether the members of an instance call the same: operation, root, datatype, bytes, reduction.

Taken from what each rank's record says at entry. What is not known of a rank (a derived datatype,
counts of a v-form, a reduction of the program's own) agrees with everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mpiprof.analysis.operations import WAITS, base_operation
from mpiprof.analysis.positions import Call, Key, Position
from mpiprof.datatypes import may_agree
from mpiprof.trace.described import Communicator

MOST = 8  # of a whole run that are kept: the earliest
UNSIZED = ("barrier", "gatherv", "scatterv", "alltoallv", "alltoallw")


@dataclass(frozen=True)
class Side:
    """Ranks that say the same in an instance: value is their operation, root, bytes or name."""

    value: str | int
    ranks: tuple[int, ...]
    sites: tuple[int, ...]


@dataclass(frozen=True)
class Disagreement:
    """An instance whose members do not call the same; kind is the class of the verdict."""

    kind: str
    key: Key
    operation: str
    sides: tuple[Side, ...]
    since_ns: int


def instances(positions: Sequence[Position]) -> dict[Key, dict[int, Call]]:
    """Return the newest calls of all ranks by instance, then by rank."""
    found: dict[Key, dict[int, Call]] = {}
    for position in positions:
        for call in position.recent:
            found.setdefault(call.key, {})[position.rank] = call
    return found


def first(
    found: Mapping[Key, Mapping[int, Call]], communicators: Sequence[Communicator]
) -> Disagreement | None:
    """Return the earliest instance whose members disagree: what is wrong later may follow of it."""
    wrong = None
    for key, calls in found.items():
        shapes = {id(call.shape): call for call in calls.values()}
        sizes = {(call.sent, call.received) for call in calls.values()}
        if len(calls) < 2 or (len(shapes) == 1 and len(sizes) == 1 and _is_flat(calls)):
            continue
        since = min(call.enter_ns for call in calls.values())
        if wrong is None or since < wrong.since_ns:
            wrong = of_instance(key, calls, communicators[key[0]]) or wrong
    return wrong


def earliest(found: Iterable[Disagreement]) -> list[Disagreement]:
    """Return the first few of a run's, each once where the same ranks say the same again."""
    known: dict[tuple[object, ...], Disagreement] = {}
    for one in sorted(found, key=lambda one: (one.since_ns, one.key)):
        known.setdefault((one.kind, one.key[0], one.operation, one.sides), one)
    return list(known.values())[:MOST]


def _is_flat(calls: Mapping[int, Call]) -> bool:
    """Whether equal shapes mean equal bytes: where no rank is a root with other bytes."""
    return next(iter(calls.values())).shape.root < 0


def of_instance(
    key: Key, calls: Mapping[int, Call], communicator: Communicator
) -> Disagreement | None:
    """Return what the members of one instance disagree in, None where nothing is known to differ.

    The operation comes before the root, the root before datatype and bytes: who calls another
    operation disagrees in all of it.
    """
    # Who is in MPI_Finalize has not come to what the others wait in: hang.py.
    calls = {rank: call for rank, call in calls.items() if call.operation != "finalize"}
    if communicator.local or len(calls) < 2:
        return None
    sides = _sides({r: c.operation for r, c in calls.items()}, calls)
    operation = sides[0].value if sides else ""
    since = min(call.enter_ns for call in calls.values())
    kind = "operation"
    if len(sides) < 2:
        kind, sides = _of_arguments(calls, communicator)
    if len(sides) < 2:
        return None
    return Disagreement(kind, key, str(operation), tuple(sides), since)


def _of_arguments(calls: Mapping[int, Call], communicator: Communicator) -> tuple[str, list[Side]]:
    roots = {r: c.shape.root for r, c in calls.items() if c.shape.root >= 0}
    sides = _sides(roots, calls)
    base = base_operation(next(iter(calls.values())).operation)
    if len(sides) > 1 or communicator.inter or WAITS.get(base) in (None, "neighbor", "gathering"):
        return "root", sides
    sizes = {r: b for r, c in calls.items() if (b := block(r, c, communicator, base)) >= 0}
    by_size = _sides(sizes, calls)
    types = _sides_of_types(calls)
    still_open = any(call.exit_ns == 0 for call in calls.values())
    reduces = any(call.shape.reduction for call in calls.values())
    # Working programs send two numbers as one complex: that alone keeps nobody.
    if len(types) > 1 and (len(by_size) > 1 or len(sizes) < 2 or reduces or still_open):
        return "type", types
    if len(by_size) > 1:
        return "count", by_size
    names = {r: c.shape.reduction for r, c in calls.items() if c.shape.reduction}
    return "reduction", _sides(names, calls)


def block(rank: int, call: Call, communicator: Communicator, base: str) -> int:
    """Return the bytes that all members must agree on, -1 where they are unknown or may differ."""
    root, size = call.shape.root, len(communicator.ranks)
    if base in UNSIZED or call.shape.type == "MPI_PACKED":
        return -1
    if base == "allgatherv":
        return call.received
    if base in ("bcast", "gather", "scatter"):
        if root < 0:
            return -1
        gives = base != "gather" if rank == root else base == "gather"
        moved = call.sent if gives else call.received
        return moved // size if rank == root and base != "bcast" and moved >= 0 else moved
    return call.sent


def _sides(values: Mapping[int, str | int], calls: Mapping[int, Call]) -> list[Side]:
    """Group ranks by what they say, the largest group first."""
    groups: dict[str | int, list[int]] = {}
    for rank, value in sorted(values.items()):
        groups.setdefault(value, []).append(rank)
    return [
        Side(value, tuple(ranks), tuple(dict.fromkeys(calls[r].site for r in ranks)))
        for value, ranks in sorted(groups.items(), key=lambda one: (-len(one[1]), one[1]))
    ]


def _sides_of_types(calls: Mapping[int, Call]) -> list[Side]:
    """Group ranks by datatype; names that may agree are one."""
    stands_for: dict[str, str] = {}
    for call in calls.values():
        name = call.shape.type
        if name and name not in stands_for:
            stands_for[name] = next((k for k in stands_for.values() if may_agree(k, name)), name)
    names = {r: stands_for[c.shape.type] for r, c in calls.items() if c.shape.type}
    return _sides(names, calls)


def odd(sides: Sequence[Side]) -> tuple[int, ...]:
    """Return the ranks outside of the one largest group; of groups of equal size, all."""
    if len(sides) > 1 and len(sides[0].ranks) > len(sides[1].ranks):
        sides = sides[1:]
    return tuple(sorted(rank for side in sides for rank in side.ranks))
