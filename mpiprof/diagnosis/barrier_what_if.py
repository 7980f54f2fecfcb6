"""Time that a run would save without a barrier, by replay of the recorded instances.

    with:     work  | barrier |  work   bcast  work  | barrier | ...
    without:  work  work   bcast  work  ...

Each rank retains its own time between two calls. Each operation, also the barrier, retains its
duration after its earliest possible begin (metrics/wait_states.py). So only waiting can vanish.
Waiting that moves to the next operation gains nothing: if the same rank is always late, the other
ranks wait for it later. So the gain is the time by which the last rank ends a window of consecutive
instances earlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mpiprof.diagnosis.delay_chain import BatchData
from mpiprof.metrics.instance_rows import Signature
from mpiprof.metrics.instance_series import meets_run
from mpiprof.metrics.wait_states import earliest_exit
from mpiprof.operations import WaitRule
from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Bool, Int

WINDOW_BARRIERS = 64  # barriers per window
WINDOWS = 16
INSTANCES = 4 * WINDOW_BARRIERS  # instances per window


@dataclass
class BarrierWhatIf:
    """Sums over the windows of one barrier.

    callsite: its number. calls: maximum number of its calls. barriers_seen: number of calls so far.
    All counts exclude communicators of one rank. followers: number of times that each call site
    directly followed, in the added batches only.
    """

    callsite: int
    calls: int
    barriers_seen: int = 0
    replayed: int = 0
    gained_ns: float = 0.0
    followers: Counter[int] = field(default_factory=Counter)

    @property
    def saved_ns(self) -> float:
        """Time that all ranks would save over the calls so far; at least 0."""
        return max(self.gained_ns, 0.0) * self.barriers_seen / max(self.replayed, 1)

    @property
    def replay_interval(self) -> int:
        """One of this many windows is replayed."""
        return max(self.calls // (WINDOW_BARRIERS * WINDOWS), 1)

    def replays_any(self, count: int) -> bool:
        """Return whether any of the next `count` barriers is in a replayed window."""
        return meets_run(self.barriers_seen, count, WINDOW_BARRIERS, self.replay_interval)

    def add(
        self, batch: Batch, batch_data: BatchData, signatures: Sequence[Signature], sites: Int
    ) -> None:
        """Replay the windows that begin in a batch; `sites` is the call site of each instance."""
        barriers = np.flatnonzero(sites == self.callsite)
        self._count_followers(batch_data, sites, barriers)
        window = (self.barriers_seen + np.arange(len(barriers))) // WINDOW_BARRIERS
        self.barriers_seen += len(barriers)
        every = self.replay_interval
        until = 0
        for first in np.flatnonzero(window % every == 0).tolist():
            if barriers[first] < until:
                continue
            last = int(np.searchsorted(window, window[first], "right"))
            end = int(barriers[last]) if last < len(barriers) else len(batch)
            until = self._replay(batch, batch_data, signatures, int(barriers[first]), end)

    def _count_followers(self, batch_data: BatchData, sites: Int, barriers: Int) -> None:
        after = barriers[barriers + 1 < len(sites)] + 1
        after = after[_came_directly(batch_data, after)]
        followers, times = np.unique(sites[after], return_counts=True)
        self.followers.update(dict(zip(followers.tolist(), times.tolist(), strict=True)))

    def _replay(
        self,
        batch: Batch,
        batch_data: BatchData,
        signatures: Sequence[Signature],
        first: int,
        end: int,
    ) -> int:
        """Replay columns from `first` to at most `end`; return the column after the last."""
        end = min(end, first + INSTANCES)
        joined = _came_directly(batch_data, slice(first, end))
        free = batch.arrival_ns[:, first]  # arrival of each rank without the barrier
        barriers, column = 0, first
        for column in range(first, end):
            signature = signatures[int(batch_data.signature[column])]
            arrival, finish = batch.arrival_ns[:, column], batch.exit_ns[:, column]
            if not _can_be_replayed(signature, batch, column) or (
                column > first and not joined[column - first]
            ):
                break
            if column > first:
                free = free + arrival - batch.exit_ns[:, column - 1]
            barrier = signature.callsite == self.callsite
            barriers += barrier
            begin = free if barrier else _earliest_begin(signature, free)
            free = begin + finish - _earliest_begin(signature, arrival)
            ended = finish
        else:
            column = end
        self.replayed += max(barriers, 1)  # a barrier that cannot be replayed counts as gain 0
        if column > first + 1:
            self.gained_ns += float(ended.max() - free.max()) * len(free)
        return max(column, first + 1)


def _came_directly(batch_data: BatchData, columns: Int | slice) -> Bool:
    """Return whether all ranks came directly from the communicator's previous instance."""
    if isinstance(columns, slice) and columns.start:  # views are faster than copies
        previous: Int | slice = slice(columns.start - 1, columns.stop - 1)
    else:
        columns = np.arange(len(batch_data.signature))[columns]
        previous = columns - 1
    exit_ns = batch_data.exit_ns[:, previous]
    return np.asarray((batch_data.before.exit[:, columns] == exit_ns).all(0))


def _can_be_replayed(signature: Signature, batch: Batch, column: int) -> bool:
    has_wait_rule = signature.state is not None and signature.group.rule is not WaitRule.UNSPECIFIED
    blocking = bool((batch.begin_ns[:, column] == batch.arrival_ns[:, column]).all())
    return (
        signature.is_whole and has_wait_rule and blocking and bool(batch.exit_ns[:, column].all())
    )


def _earliest_begin(signature: Signature, arrival: Int) -> Int:
    """Return the earliest time at which each rank can begin an operation."""
    first = earliest_exit(arrival[:, None], signature.group)[..., 0]
    return np.maximum(first, arrival)
