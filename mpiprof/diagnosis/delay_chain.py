"""The chain of lateness: from the last rank of an instance back to the origin of its delay.

A rank arrives late because it left its previous collective late, or because it took longer than the
other ranks since then. A rank that left late had arrived late there too, had waited for a late
rank, or was delayed by the operation itself. Each step back compares the rank with the median of
the group's other ranks, and records the lateness that the step adds. The origin is the largest
contribution over the whole walk. (Faraj et al., Section 5, extended beyond one instance.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.instance_rows import Signature
from mpiprof.metrics.wait_states import awaited_rows
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.metadata import Communicator, Shape
from mpiprof.trace.types import Array, Bool, Float, Int, Int32

MAX_HOPS = 32  # minimum number of steps back, if the run has so many
MAX_WORK = 1 << 17  # maximum cost of a call site's walks; a step costs the size of its group
MIN_HOPS = 16  # number of ranks to compare at the cost of the rest of a step
STEADY_STEPS = 16  # number of steps that show where lateness accumulates in a walk that is cut off
EXPLAINED_SHARE = 0.25  # in short walks, the search stops when less than this share remains
NEGLIGIBLE_SHARE = 0.01  # the same in long walks, where each step adds little

START = -1  # no previous collective: the start of the run
NOT_RECORDED = -2  # a previous collective that was discarded or could not be matched


@dataclass(frozen=True)
class Origin:
    """Origin of lateness: a rank, before or inside a call site, after leaving another call site.

    how: "outside" (between the two calls), "point_to_point" (in messages between the two calls),
    "inside" (in the operation itself), "unknown" (before the oldest instance followed).
    """

    rank: int
    callsite: int
    after: int
    how: str


@dataclass(frozen=True)
class Step:
    """An instance that the lateness passed through, and the rank that was late there."""

    callsite: int
    rank: int
    communicator: int
    sequence: int


@dataclass(frozen=True)
class Walk:
    """The last rank of an instance, its lateness (ns), the origin and the steps from it.

    added: contribution of each step to the origin, the last step first. cut: True if lateness
    remains before the oldest step followed.
    """

    first_arrival: int
    late: float
    origin: Origin
    steps: tuple[Step, ...]
    added: tuple[float, ...] = ()
    cut: bool = False


@dataclass(eq=False)
class BatchData:
    """The data of a batch that walks need. `signature`: index into a list, per instance."""

    communicator: Communicator
    sequence: Int
    arrival_ns: Int
    exit_ns: Int
    before: Before
    signature: Int32

    @staticmethod
    def of_batch(batch: Batch) -> BatchData:
        """Take the data from a batch that was read with the record before each call."""
        assert batch.before is not None
        times = batch.arrival_ns, batch.exit_ns
        signature = np.full(len(batch), -1, np.int32)
        return BatchData(batch.communicator, batch.sequence, *times, batch.before, signature)


@dataclass(eq=False)
class UnreadBatch:
    """A batch that is read only when a walk reaches it.

    sequences: returns the range of its sequence numbers. read: reads the batch.
    """

    communicator: Communicator
    size: int
    sequences: Callable[[], tuple[int, int]]
    read: Callable[[], BatchData]


class BatchHistory:
    """The newest batches by communicator, in two generations, so that walks meet no gap.

    turned: True if ring logs contain the last calls only. A missing previous record then does not
    mean the start of the run.
    """

    def __init__(
        self, shapes: Sequence[Shape], signatures: Sequence[Signature], turned: bool = False
    ) -> None:
        self.signatures, self.turned = signatures, turned
        self.communicator = np.array([s.communicator for s in shapes] + [-1], np.int64)
        self.size = 0
        self.batches: dict[int, list[BatchData | UnreadBatch]] = {}
        self.older: dict[int, list[BatchData | UnreadBatch]] = {}

    def add(self, data: BatchData | UnreadBatch) -> None:
        """Add a batch to the current generation."""
        self.batches.setdefault(data.communicator.index, []).append(data)
        self.size += data.size if isinstance(data, UnreadBatch) else int(data.arrival_ns.size)

    def drop_older(self) -> None:
        """Discard the older generation."""
        self.older, self.batches, self.size = self.batches, {}, 0

    def find(self, front: CallFront, row: int) -> tuple[BatchData, int] | None:
        """Return the instance of a member's previous record and its column, or None if not found.

        Starts of a persistent operation share one sequence number. So do calls on communicators
        that share a row of the tables. The member's times distinguish them.
        """
        communicator = int(self.communicator[front.shape[row]])
        sequence, rank = int(front.sequence[row]), int(front.ranks[row])
        for generation in (self.batches, self.older):
            candidates = generation.get(communicator, [])
            for column in reversed(range(len(candidates))):
                data = candidates[column]
                if isinstance(data, UnreadBatch):
                    first, last = data.sequences()
                    if not first <= sequence <= last:
                        continue
                    data = candidates[column] = data.read()
                at = np.arange(*np.searchsorted(data.sequence, [sequence, sequence + 1]))
                rank_row = data.communicator.find_column(rank)
                at = at[_is_at(data, rank_row, at, front.enter[row], front.exit[row])]
                if len(at):
                    return data, int(at[0])
        return None

    def signature_of(self, batch_data: BatchData, column: int) -> Signature:
        """Return the signature of an instance."""
        return self.signatures[int(batch_data.signature[column])]


@dataclass
class CallFront:
    """One call of each member of a group: its arrival, and the record before it."""

    ranks: Int
    arrive: Float
    enter: Float
    exit: Float
    outside: Float
    shape: Int
    sequence: Int

    @staticmethod
    def of_instance(batch_data: BatchData, column: int) -> CallFront:
        """Return the front of all members at an instance."""
        before = batch_data.before
        return CallFront(
            batch_data.communicator.ranks,
            batch_data.arrival_ns[:, column].astype(np.float64),
            np.where(before.enter[:, column] < 0, np.nan, before.enter[:, column]),
            np.where(before.exit[:, column] <= 0, np.nan, before.exit[:, column]),
            before.outside[:, column].astype(np.float64),
            before.shape[:, column],
            before.sequence[:, column],
        )

    def step_back(self, context: BatchHistory) -> CallFront:
        """Return the front one call earlier, with NaN where the call is unknown."""
        n = len(self.ranks)
        nan, none = np.full((3, n), np.nan), np.full((2, n), -1, np.int64)
        front = CallFront(self.ranks, self.enter, *nan, *none)
        pending = np.flatnonzero(self.shape >= 0)
        while len(pending):
            instance = context.find(self, int(pending[0]))
            keys = np.stack([context.communicator[self.shape[pending]], self.sequence[pending]])
            matching: Bool = (keys == keys[:, :1]).all(0)
            if instance is not None:
                batch_data, column = instance
                earlier = CallFront.of_instance(batch_data, column)
                ranks = self.ranks[pending].tolist()
                rows = np.array([batch_data.communicator.find_column(rank) for rank in ranks])
                matching &= _is_at(
                    batch_data, rows, column, self.enter[pending], self.exit[pending]
                ) & (rows >= 0)
                for name in ("enter", "exit", "outside", "shape", "sequence"):
                    getattr(front, name)[pending[matching]] = getattr(earlier, name)[rows[matching]]
            matching[0] = True
            pending = pending[~matching]
        return front


def _is_at(
    batch_data: BatchData,
    row: int | Int,
    column: int | Int,
    enter: float | Float,
    exit_: float | Float,
) -> Bool:
    """Return whether calls with these times (NaN: unknown) started or completed the instances."""
    return np.asarray(
        (batch_data.arrival_ns[row, column] == enter) | (batch_data.exit_ns[row, column] == exit_)
    )


def lateness_after_others(values: Array, row: int) -> float:
    """Return value `row` minus the median of the other values, or 0 if there are none."""
    other_values = np.delete(values, row)
    other_values = other_values[~np.isnan(other_values)]
    if not len(other_values) or np.isnan(values[row]):
        return 0.0
    return float(values[row] - np.median(other_values))


def find_awaited(
    signature: Signature, batch_data: BatchData, column: int, row: int
) -> tuple[int, int] | None:
    """Return the row that a row waited for in an instance and its wait (ns), or None if no wait."""
    if signature.state is None:
        return None
    arrival = batch_data.arrival_ns[:, column]
    last = int(awaited_rows(arrival[:, None], signature.group)[row, 0])
    wait = int(min(arrival[last], batch_data.exit_ns[row, column]) - arrival[row])
    return (last, wait) if wait > 0 else None


class _WalkState:
    """State of one walk: the lateness that each origin added, and the steps so far."""

    def __init__(self) -> None:
        self.added: dict[Origin, list[float]] = {}
        self.reached: dict[Origin, int] = {}
        self.steps: list[Step] = []

    def add(self, origin: Origin, amount: float) -> None:
        """Add a contribution, which may be negative: over many steps noise has both signs."""
        self.added.setdefault(origin, []).append(amount)
        if amount > 0:
            self.reached[origin] = len(self.steps)

    def make_walk(
        self, first_arrival: int, late: float, unexplained: float, rank: int, at: int
    ) -> Walk:
        """Return the finished walk.

        `left` is the lateness that was not followed beyond `rank` at call site `at`.
        """
        whole = {origin: sum(of) for origin, of in self.added.items() if sum(of) > 0}
        origin = max(whole, key=lambda o: whole[o], default=None)
        most = whole[origin] if origin is not None else 0.0
        steady = origin is not None and len(self.added[origin]) >= STEADY_STEPS
        if origin is None or (
            unexplained > most and not (steady and most > (late - unexplained) / 2)
        ):
            steps = tuple(reversed(self.steps))
            return Walk(first_arrival, late, Origin(rank, at, NOT_RECORDED, "unknown"), steps)
        steps = tuple(reversed(self.steps[: self.reached[origin]]))
        added = tuple(self.added[origin])
        return Walk(first_arrival, late, origin, steps, added, unexplained > 0)


def max_hops(walks: int, size: int) -> int:
    """Return the maximal number of steps for each of `walks` walks among `size` ranks."""
    return max(MAX_HOPS, MAX_WORK // (max(walks, 1) * (size + MIN_HOPS)))


def walk(
    context: BatchHistory, batch_data: BatchData, column: int, least: int, most: int = MAX_HOPS
) -> Walk | None:
    """Follow the last rank of an instance back over at most `most` steps.

    Returns None if no rank is late by more than `least`.
    """
    front = CallFront.of_instance(batch_data, column)
    row = int(np.argmax(front.arrive))
    late = total = lateness_after_others(front.arrive, row)
    if late <= least:
        return None
    walking = _WalkState()
    instance = (batch_data, column)
    unexplained = 0.0
    for _ in range(most):
        rank = int(front.ranks[row])
        callsite = context.signature_of(*instance).callsite
        walking.steps.append(
            Step(
                callsite,
                rank,
                instance[0].communicator.index,
                int(instance[0].sequence[instance[1]]),
            )
        )
        if np.isnan(front.exit[row]):
            if front.shape[row] < 0 and not context.turned:
                walking.add(Origin(rank, callsite, START, "outside"), late)
            else:
                unexplained = late
            break
        earlier = context.find(front, row)
        after = NOT_RECORDED if earlier is None else context.signature_of(*earlier).callsite
        exit_lateness = lateness_after_others(front.exit, row)
        messages = min(
            max(lateness_after_others(front.outside, row), 0.0), max(late - exit_lateness, 0.0)
        )
        walking.add(Origin(rank, callsite, after, "point_to_point"), messages)
        walking.add(Origin(rank, callsite, after, "outside"), late - exit_lateness - messages)
        enough = total * (
            EXPLAINED_SHARE if len(walking.steps) < STEADY_STEPS else NEGLIGIBLE_SHARE
        )
        if exit_lateness < enough:
            break
        if earlier is None:
            unexplained = exit_lateness
            break
        front, row, late, inside = _explain_before(context, front, row, earlier, exit_lateness)
        walking.add(Origin(rank, after, NOT_RECORDED, "inside"), inside)
        if late < enough:
            break
        instance = earlier
    else:
        unexplained = late
    return walking.make_walk(
        int(batch_data.arrival_ns[:, column].min()), total, unexplained, rank, callsite
    )


def _explain_before(
    context: BatchHistory,
    front: CallFront,
    row: int,
    earlier: tuple[BatchData, int],
    exit_lateness: float,
) -> tuple[CallFront, int, float, float]:
    """Explain why a rank left an instance late by `left`.

    Returns the front at that instance, the row of the late rank, its lateness, and the lateness
    that the operation added. The row changes if the rank waited there for another one, however
    shortly, because that other rank arrived even later.
    """
    batch_data, column = earlier
    rank = int(front.ranks[row])
    inside = exit_lateness - lateness_after_others(front.enter, row)
    earlier_row = batch_data.communicator.find_column(rank)
    waited = find_awaited(context.signature_of(batch_data, column), batch_data, column, earlier_row)
    if waited is None or inside <= 0 or waited[1] < inside / 2:
        return front.step_back(context), row, exit_lateness - inside, max(inside, 0.0)
    cause = int(batch_data.communicator.ranks[waited[0]])
    cause_rows = np.flatnonzero(front.ranks == cause)
    if len(cause_rows) and context.find(front, int(cause_rows[0])) == earlier:
        back, at = front.step_back(context), int(cause_rows[0])
    else:
        back, at = CallFront.of_instance(batch_data, column), waited[0]
    late = lateness_after_others(back.arrive, at)
    return back, at, late, max(inside - waited[1], 0.0)
