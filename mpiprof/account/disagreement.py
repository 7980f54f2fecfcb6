"""Disagreement of an instance's members on operation, root, datatype, bytes or reduction.

The values are from each rank's record at entry. An unknown value (a derived datatype, counts of a
v-form, a user-defined reduction) agrees with every value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mpiprof.facts.datatypes import may_agree
from mpiprof.facts.operations import OPERATIONS, WaitRule, base_operation
from mpiprof.trace.metadata import Call, Communicator, Key

MAX_DISAGREEMENTS = 8  # maximum number of disagreements per run: the earliest ones


@dataclass(frozen=True)
class Side:
    """Ranks with an equal value in an instance; value is the operation, root, bytes or a name."""

    value: str | int
    ranks: tuple[int, ...]
    sites: tuple[int, ...]


@dataclass(frozen=True)
class Disagreement:
    """An instance with members that make different calls; kind is the class of the verdict."""

    kind: str
    key: Key
    operation: str
    sides: tuple[Side, ...]
    since_ns: int


def find_first(
    instances: Mapping[Key, Mapping[int, Call]], communicators: Sequence[Communicator]
) -> Disagreement | None:
    """Return the earliest disagreement or None; later ones may be its consequences."""
    wrong = None
    for key, calls in instances.items():
        shapes = {id(call.shape): call for call in calls.values()}
        sizes = {(call.sent, call.received) for call in calls.values()}
        # Without a root, equal shapes imply equal bytes.
        rootless = all(call.shape.root < 0 for call in shapes.values())
        if len(calls) < 2 or (len(shapes) == 1 and len(sizes) == 1 and rootless):
            continue
        since = min(call.enter_ns for call in calls.values())
        if wrong is None or since < wrong.since_ns:
            wrong = find_in_instance(key, calls, communicators[key[0]]) or wrong
    return wrong


def select_earliest(disagreements: Iterable[Disagreement]) -> list[Disagreement]:
    """Return the first few disagreements of a run, without repetitions between the same ranks."""
    distinct: dict[tuple[object, ...], Disagreement] = {}
    for entry in sorted(disagreements, key=lambda entry: (entry.since_ns, entry.key)):
        distinct.setdefault((entry.kind, entry.key[0], entry.operation, entry.sides), entry)
    return list(distinct.values())[:MAX_DISAGREEMENTS]


def find_in_instance(
    key: Key, calls: Mapping[int, Call], communicator: Communicator
) -> Disagreement | None:
    """Return the disagreement of one instance's members, or None if no value is known to differ."""
    # Operation is compared before root, and root before datatype and bytes, because ranks in
    # different operations differ in all of these.
    # A rank in MPI_Finalize has not arrived at the instance of the other ranks: see
    # hang/job_verdict.py.
    calls = {rank: call for rank, call in calls.items() if call.operation != "finalize"}
    if communicator.is_local or len(calls) < 2:
        return None
    sides = _group_by_value({r: c.operation for r, c in calls.items()}, calls)
    operation = str(sides[0].value)
    since = min(call.enter_ns for call in calls.values())
    kind = "operation"
    if len(sides) < 2:
        kind, sides = _compare_arguments(calls, communicator)
    if len(sides) < 2:
        return None
    return Disagreement(kind, key, operation, tuple(sides), since)


def _compare_arguments(
    calls: Mapping[int, Call], communicator: Communicator
) -> tuple[str, list[Side]]:
    roots = {r: c.shape.root for r, c in calls.items() if c.shape.root >= 0}
    sides = _group_by_value(roots, calls)
    base = base_operation(next(iter(calls.values())).operation)
    operation = OPERATIONS.get(base)
    neighbours = operation is not None and operation.wait_rule is WaitRule.RANK_FOR_SOURCES
    if len(sides) > 1 or communicator.is_inter or operation is None or neighbours:
        return "root", sides
    known_bytes = {r: comparable_bytes(r, c, communicator, base) for r, c in calls.items()}
    sizes = {rank: count for rank, count in known_bytes.items() if count >= 0}
    by_size = _group_by_value(sizes, calls)
    types = _group_by_type(calls)
    still_open = any(call.exit_ns == 0 for call in calls.values())
    reduces = any(call.shape.reduction for call in calls.values())
    # Correct programs send two real numbers as one complex number. Types alone block no rank.
    if len(types) > 1 and (len(by_size) > 1 or len(sizes) < 2 or reduces or still_open):
        return "type", types
    if len(by_size) > 1:
        return "count", by_size
    names = {r: c.shape.reduction for r, c in calls.items() if c.shape.reduction}
    return "reduction", _group_by_value(names, calls)


def comparable_bytes(rank: int, call: Call, communicator: Communicator, base: str) -> int:
    """Return the bytes that must be equal on all members; -1 if unknown or allowed to differ."""
    root, size = call.shape.root, len(communicator.ranks)
    if not OPERATIONS[base].sized or call.shape.type == "MPI_PACKED":
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


def _group_by_value(values: Mapping[int, str | int], calls: Mapping[int, Call]) -> list[Side]:
    """Group ranks by value, the largest group first."""
    groups: dict[str | int, list[int]] = {}
    for rank, value in sorted(values.items()):
        groups.setdefault(value, []).append(rank)
    return [
        Side(value, tuple(ranks), tuple(dict.fromkeys(calls[r].site for r in ranks)))
        for value, ranks in sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    ]


def _group_by_type(calls: Mapping[int, Call]) -> list[Side]:
    """Group ranks by datatype; names that may denote matching types are joined."""
    stands_for: dict[str, str] = {}
    for call in calls.values():
        name = call.shape.type
        if name and name not in stands_for:
            stands_for[name] = next((k for k in stands_for.values() if may_agree(k, name)), name)
    names = {r: stands_for[c.shape.type] for r, c in calls.items() if c.shape.type}
    return _group_by_value(names, calls)


def odd_ranks(sides: Sequence[Side]) -> tuple[int, ...]:
    """Return the ranks outside the largest group, or all ranks if there are two largest groups."""
    if len(sides) > 1 and len(sides[0].ranks) > len(sides[1].ranks):
        sides = sides[1:]
    return tuple(sorted(rank for side in sides for rank in side.ranks))
