"""First divergence: the call from which a rank's calls on a communicator stay shifted.

A rank that leaves a loop one step early makes the same calls as the other ranks, but one sequence
number earlier. From there on its datatypes, roots or operations differ, and it waits elsewhere.
These are consequences, so the verdict names the call that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiprof.hang.rank_state import Positions
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

MAX_SHIFT = 64  # maximum number of calls by which the ranks' calls may differ
Place = tuple[int, str]  # call site and operation
Calls = Mapping[int, Call]  # of one rank on one communicator, by sequence number


@dataclass(frozen=True)
class Divergence:
    """Ranks that made more or fewer calls on a communicator than its other members.

    fewer: true if these ranks made fewer calls. calls: the calls that only one side made, in order.
    next_call: the first call of these ranks that differs, if they made fewer calls.
    """

    communicator: int
    sequence: int
    ranks: tuple[int, ...]
    odd_ranks: tuple[int, ...]
    fewer: bool
    calls: tuple[Call, ...]
    next_call: Call
    since_ns: int


def find_first_divergence(trace: Trace, positions: Positions) -> Divergence | None:
    """Return the earliest divergence that the newest calls of the ranks show, or None."""
    by_communicator: dict[int, dict[int, dict[int, Call]]] = {}
    for position in positions:
        for call in position.recent:
            communicator, sequence, start = call.key
            if start == 0 and call.site >= 0 and call.operation != "finalize":
                ranks = by_communicator.setdefault(communicator, {})
                ranks.setdefault(position.rank, {})[sequence] = call
    found = [
        divergence for communicator, calls in by_communicator.items()
        if not trace.tables.communicators[communicator].is_local
        and (divergence := _find_in_communicator(communicator, calls)) is not None
    ]  # fmt: skip
    return min(found, key=lambda divergence: divergence.since_ns, default=None)


def _find_in_communicator(communicator: int, calls: Mapping[int, Calls]) -> Divergence | None:
    """Return the earliest divergence of members from the sequence of most members."""
    reference = _choose_reference(calls)
    ranks_by_shift: dict[tuple[int, int], list[int]] = {}
    for rank, made in calls.items():
        shifted = _find_shift(made, reference) if made is not reference else None
        if shifted is not None:
            ranks_by_shift.setdefault(shifted, []).append(rank)
    if not ranks_by_shift:
        return None
    (sequence, shift), ranks = min(ranks_by_shift.items())
    made = calls[ranks[0]]
    longer = reference if shift > 0 else made
    # Of two equally large sides, either may be wrong.
    odd_ranks = ranks if 2 * len(ranks) < len(calls) else list(calls)
    return Divergence(
        communicator,
        sequence,
        tuple(sorted(ranks)),
        tuple(sorted(odd_ranks)),
        shift > 0,
        tuple(longer[sequence + i] for i in range(abs(shift))),
        made[sequence],
        min(made[sequence].enter_ns, reference[sequence].enter_ns),
    )


def _choose_reference(calls: Mapping[int, Calls]) -> Calls:
    """Return the calls of a rank whose newest calls are those of most ranks."""
    newest = {rank: _newest_places(made) for rank, made in calls.items()}
    frequency = Counter(newest.values())
    return calls[max(calls, key=lambda rank: (frequency[newest[rank]], -rank))]


def _newest_places(calls: Calls) -> tuple[tuple[int, Place], ...]:
    """Return the sequence numbers and places of the newest calls of a rank."""
    newest = sorted(calls)[-MAX_SHIFT:]
    return tuple((sequence, _place(calls[sequence])) for sequence in newest)


def _place(call: Call) -> Place:
    return call.site, call.operation


def _find_shift(made: Calls, reference: Calls) -> tuple[int, int] | None:
    """Return the sequence number from which calls are shifted, and by how much, or None.

    The shift is positive if calls are missing in `made`. It must explain every later call of both
    sides, and no shift of the other sign may explain them.
    """
    common = sorted(made.keys() & reference.keys())
    pairs: set[tuple[Place, Place]] = set()  # call sites of one instance may differ between ranks
    first = None
    for sequence in common:
        pair = _place(made[sequence]), _place(reference[sequence])
        if pair[0] != pair[1] and pair not in pairs and sequence != common[0]:
            first = sequence
            break
        pairs.add(pair)
    if first is None:
        return None
    matches = {}
    for shift in range(-MAX_SHIFT, MAX_SHIFT + 1):
        count = _count_matches(made, reference, first, shift, pairs)
        if shift and count:
            matches[shift] = count
    if not matches or (min(matches) < 0 < max(matches)):
        return None
    return first, max(matches, key=lambda shift: (matches[shift], -abs(shift)))


def _count_matches(
    made: Calls, reference: Calls, first: int, shift: int, pairs: set[tuple[Place, Place]]
) -> int:
    """Return the number of calls that match under a shift, 0 if any differs or is unknown."""
    begin, offset = (first, shift) if shift > 0 else (first - shift, shift)
    count = 0
    for sequence in range(begin, max(made) + 1):
        if sequence + offset > max(reference):
            break
        mine, theirs = made.get(sequence), reference.get(sequence + offset)
        if mine is None or theirs is None:
            return 0
        pair = _place(mine), _place(theirs)
        if pair[0] != pair[1] and pair not in pairs:
            return 0
        count += 1
    skipped: Sequence[int] = range(first, begin) if shift < 0 else range(first, first + shift)
    longer = made if shift < 0 else reference
    return count if all(sequence in longer for sequence in skipped) else 0
