"""The chain of lateness: from who came last back to where that began.

A rank comes late because it left its previous collective late, or because it took longer since
then than the others. Who left late had come late there too, or had waited there for another rank
that came late, or the operation itself kept it. Each step back compares the rank with the median of
the others of the group at their own steps back, and notes what it adds; the greatest part, over the
whole walk, is the origin. (Faraj et al., Section 5, followed through more than one instance.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.analysis.measured import Signature
from mpiprof.analysis.waits import awaited
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.described import Communicator, Shape
from mpiprof.trace.types import Array, Bool, Float, Int, Int32

HOPS = 32  # back at least, where so many steps are there
WORK = 1 << 17  # of all walks of a call site: of each step what it costs in ranks of a group
STEP = 16  # ranks whose comparison costs as much as a step by itself
STEADY = 16  # steps that tell where lateness is collected that goes on further back
ENOUGH = 0.25  # of the lateness: what is left below it is not followed further, in few steps
LITTLE = 0.01  # the same after many: there each adds a little

START = -1  # no collective before: the start of the run
UNSEEN = -2  # one that was not kept any more, or could not be matched


@dataclass(frozen=True)
class Origin:
    """Where lateness arose: on a rank, before or inside a call site, after leaving another one.

    how: "outside" (between the two), "point_to_point" (of that, in messages), "inside" (in the
    operation itself), "unknown" (further back than was followed).
    """

    rank: int
    callsite: int
    after: int
    how: str


@dataclass(frozen=True)
class Step:
    """An instance that the lateness went through, and the rank that was late there."""

    callsite: int
    rank: int
    communicator: int
    sequence: int


@dataclass(frozen=True)
class Walk:
    """Who came last in an instance, by how much (ns), whence, and the way from there to here.

    added: what each step added at the origin, the last one first; cut: whether it goes on further
    back than was followed.
    """

    first_arrival: int
    late: float
    origin: Origin
    steps: tuple[Step, ...]
    added: tuple[float, ...] = ()
    cut: bool = False


@dataclass(eq=False)
class Kept:
    """A batch as far as walks need it; `signature`: per instance, an index into a list."""

    communicator: Communicator
    sequence: Int
    arrival: Int
    finish: Int
    before: Before
    signature: Int32

    @property
    def size(self) -> int:
        """How many calls it holds."""
        return int(self.arrival.size)

    @staticmethod
    def of(batch: Batch) -> Kept:
        """Keep a batch that was read with what came before each call."""
        assert batch.before is not None
        signature = np.full(len(batch), -1, np.int32)
        return Kept(
            batch.communicator,
            batch.sequence,
            batch.arrival,
            batch.finish,
            batch.before,
            signature,
        )


@dataclass(eq=False)
class Unread:
    """A batch of so many calls that is read where a walk leads to it.

    sequences: gives between which numbers its own lie; read: gives it.
    """

    communicator: Communicator
    size: int
    sequences: Callable[[], tuple[int, int]]
    read: Callable[[], Kept]


class Context:
    """The newest batches, by communicator: two generations, so that no walk meets a gap.

    turned: rings hold the last calls only, so that none before is not the start of the run.
    """

    def __init__(
        self, shapes: Sequence[Shape], signatures: Sequence[Signature], turned: bool = False
    ) -> None:
        self.signatures, self.turned = signatures, turned
        self.communicator = np.array([s.communicator for s in shapes] + [-1], np.int64)
        self.size = 0
        self.batches: dict[int, list[Kept | Unread]] = {}
        self.older: dict[int, list[Kept | Unread]] = {}

    def add(self, kept: Kept | Unread) -> None:
        """Keep one more batch."""
        self.batches.setdefault(kept.communicator.index, []).append(kept)
        self.size += kept.size

    def forget(self) -> None:
        """Let the older generation go."""
        self.older, self.batches, self.size = self.batches, {}, 0

    def find(self, front: Front, row: int) -> tuple[Kept, int] | None:
        """Return the instance that a member's record before belongs to, and its column.

        Starts of a persistent operation share one sequence number, and so do calls on communicators
        alike that share a row of the tables: there the member's times tell which it is.
        """
        communicator = int(self.communicator[front.shape[row]])
        sequence, rank = int(front.sequence[row]), int(front.ranks[row])
        for generation in (self.batches, self.older):
            held = generation.get(communicator, [])
            for place in reversed(range(len(held))):
                kept = held[place]
                if isinstance(kept, Unread):
                    first, last = kept.sequences()
                    if not first <= sequence <= last:
                        continue
                    kept = held[place] = kept.read()
                begin, end = (
                    np.searchsorted(kept.sequence, sequence, side) for side in ("left", "right")
                )
                at, own = np.arange(begin, end), kept.communicator.column(rank)
                at = at[_is_at(kept, own, at, front.enter[row], front.exit[row])]
                if len(at):
                    return kept, int(at[0])
        return None

    def signature(self, kept: Kept, column: int) -> Signature:
        """Return what kind of instance one is."""
        return self.signatures[int(kept.signature[column])]


@dataclass
class Front:
    """The members of a group, each at one of its calls: when it came, and what it did before."""

    ranks: Int
    arrive: Float
    enter: Float
    exit: Float
    outside: Float
    shape: Int
    sequence: Int

    @staticmethod
    def of(kept: Kept, column: int) -> Front:
        """All members at an instance."""
        before = kept.before
        return Front(
            kept.communicator.ranks,
            kept.arrival[:, column].astype(np.float64),
            known(before.enter[:, column], before.enter[:, column] < 0),
            known(before.exit[:, column], before.exit[:, column] <= 0),
            before.outside[:, column].astype(np.float64),
            before.shape[:, column],
            before.sequence[:, column],
        )

    def back(self, context: Context) -> Front:
        """All members one call earlier; NaN where that is not known."""
        n = len(self.ranks)
        nan = np.full(n, np.nan)
        none = np.full(n, -1, np.int64)
        found = Front(
            self.ranks, self.enter, nan.copy(), nan.copy(), nan.copy(), none.copy(), none.copy()
        )
        left = np.flatnonzero(self.shape >= 0)
        while len(left):
            instance = context.find(self, int(left[0]))
            keys = np.stack([context.communicator[self.shape[left]], self.sequence[left]])
            there: Bool = (keys == keys[:, :1]).all(0)
            if instance is not None:
                earlier = Front.of(*instance)
                row = {rank: j for j, rank in enumerate(earlier.ranks.tolist())}
                rows = np.array([row.get(rank, -1) for rank in self.ranks[left].tolist()])
                kept, column = instance
                there &= _is_at(kept, rows, column, self.enter[left], self.exit[left]) & (rows >= 0)
                for name in ("enter", "exit", "outside", "shape", "sequence"):
                    getattr(found, name)[left[there]] = getattr(earlier, name)[rows[there]]
            there[0] = True
            left = left[~there]
        return found


def _is_at(
    kept: Kept, row: int | Int, column: int | Int, enter: float | Float, exit_: float | Float
) -> Bool:
    """Whether calls with these times, NaN unknown, started instances or completed them."""
    found: Bool = (kept.arrival[row, column] == enter) | (kept.finish[row, column] == exit_)
    return found


def known(values: Int, missing: Bool) -> Float:
    """Return times as floats, NaN where missing."""
    return np.where(missing, np.nan, values.astype(np.float64))


def after_others(values: Array, row: int) -> float:
    """Return by how much one value exceeds the median of the others; 0 without others."""
    others = np.delete(values, row)
    others = others[~np.isnan(others)]
    if not len(others) or np.isnan(values[row]):
        return 0.0
    return float(values[row] - np.median(others))


def waited_for(signature: Signature, kept: Kept, column: int, row: int) -> tuple[int, int] | None:
    """Return the row that another one waited for in an instance, and how long (ns)."""
    if signature.state is None:
        return None
    arrival = kept.arrival[:, column]
    last = int(awaited(signature.state, arrival[:, None], signature.group)[row, 0])
    wait = int(min(arrival[last], kept.finish[row, column]) - arrival[row])
    return (last, wait) if wait > 0 else None


class _Walking:
    """One walk: what each place added to the lateness, and the steps so far."""

    def __init__(self) -> None:
        self.added: dict[Origin, list[float]] = {}
        self.reached: dict[Origin, int] = {}
        self.steps: list[Step] = []

    def add(self, origin: Origin, amount: float) -> None:
        """Add what a place adds, or takes away: in many steps it may do both by chance."""
        self.added.setdefault(origin, []).append(amount)
        if amount > 0:
            self.reached[origin] = len(self.steps)

    def result(self, first_arrival: int, late: float, left: float, rank: int, at: int) -> Walk:
        """Return the walk, of which `left` was not followed further back than a rank at a place."""
        whole = {origin: sum(of) for origin, of in self.added.items() if sum(of) > 0}
        origin = max(whole, key=lambda o: whole[o], default=None)
        most = whole[origin] if origin is not None else 0.0
        steady = origin is not None and len(self.added[origin]) >= STEADY
        if origin is None or (left > most and not (steady and most > (late - left) / 2)):
            steps = tuple(reversed(self.steps))
            return Walk(first_arrival, late, Origin(rank, at, UNSEEN, "unknown"), steps)
        steps = tuple(reversed(self.steps[: self.reached[origin]]))
        added = tuple(self.added[origin])
        return Walk(first_arrival, late, origin, steps, added, left > 0)


def hops(walks: int, size: int) -> int:
    """Return how far back each of so many walks among so many ranks may go."""
    return max(HOPS, WORK // (max(walks, 1) * (size + STEP)))


def walk(context: Context, kept: Kept, column: int, least: int, most: int = HOPS) -> Walk | None:
    """Follow the last rank of an instance back, `most` steps.

    None where nobody is late by more than `least`.
    """
    front = Front.of(kept, column)
    row = int(np.argmax(front.arrive))
    late = total = after_others(front.arrive, row)
    if late <= least:
        return None
    walking = _Walking()
    here = (kept, column)
    unknown = 0.0
    for _ in range(most):
        rank = int(front.ranks[row])
        callsite = context.signature(*here).callsite
        walking.steps.append(
            Step(callsite, rank, here[0].communicator.index, int(here[0].sequence[here[1]]))
        )
        if np.isnan(front.exit[row]):
            if front.shape[row] < 0 and not context.turned:
                walking.add(Origin(rank, callsite, START, "outside"), late)
            else:
                unknown = late
            break
        earlier = context.find(front, row)
        after = UNSEEN if earlier is None else context.signature(*earlier).callsite
        left = after_others(front.exit, row)
        messages = min(max(after_others(front.outside, row), 0.0), max(late - left, 0.0))
        walking.add(Origin(rank, callsite, after, "point_to_point"), messages)
        walking.add(Origin(rank, callsite, after, "outside"), late - left - messages)
        enough = total * (ENOUGH if len(walking.steps) < STEADY else LITTLE)
        if left < enough:
            break
        if earlier is None:
            unknown = left
            break
        found = _before(context, front, row, earlier, left)
        front, row, late, inside = found
        walking.add(Origin(rank, after, UNSEEN, "inside"), inside)
        if late < enough:
            break
        here = earlier
    else:
        unknown = late
    return walking.result(int(kept.arrival[:, column].min()), total, unknown, rank, callsite)


def _before(
    context: Context, front: Front, row: int, earlier: tuple[Kept, int], left: float
) -> tuple[Front, int, float, float]:
    """Explain why a rank left an instance late, by `left`.

    Returns the front there, the row that was late at it (another one where the rank had waited
    for it, and be it shortly: that one came later still), by how much, and what the operation
    itself added.
    """
    kept, column = earlier
    rank = int(front.ranks[row])
    inside = left - after_others(front.enter, row)
    own = kept.communicator.column(rank)
    waited = waited_for(context.signature(kept, column), kept, column, own)
    if waited is None or inside <= 0 or waited[1] < inside / 2:
        return front.back(context), row, left - inside, max(inside, 0.0)
    cause = int(kept.communicator.ranks[waited[0]])
    where = np.flatnonzero(front.ranks == cause)
    if len(where) and context.find(front, int(where[0])) == earlier:
        back, at = front.back(context), int(where[0])
    else:
        back, at = Front.of(kept, column), waited[0]
    late = after_others(back.arrive, at)
    return back, at, late, max(inside - waited[1], 0.0)
