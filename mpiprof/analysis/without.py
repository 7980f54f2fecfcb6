"""How much shorter the run would be without a barrier, replayed on what was recorded.

    with:     work  | barrier |  work   bcast  work  | barrier | ...
    without:  work  work   bcast  work  ...

Each rank keeps its own work between two calls, and each operation, the barrier too, what it took
after the moment in which it could begin (see waits.py): only waiting can go. Waiting that only
moves to the next operation brings nothing: where the same rank is late each time, the others wait
for it later instead. So the gain is what the last rank of a window of consecutive instances ends
earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mpiprof.analysis.chain import Kept
from mpiprof.analysis.measured import Signature
from mpiprof.analysis.series import meets
from mpiprof.analysis.waits import earliest
from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Bool, Int

SPAN = 64  # barriers in a window
WINDOWS = 16
INSTANCES = 4 * SPAN  # in a window


@dataclass
class Without:
    """Sums over the windows of one barrier; callsite: its number, calls: how many it has at most.

    seen: how many there were, on communicators of several ranks, as all here. What follows it is
    counted in the batches that are added.
    """

    callsite: int
    calls: int
    seen: int = 0
    replayed: int = 0
    gained_ns: float = 0.0
    followers: dict[int, int] = field(default_factory=dict)

    @property
    def saved_ns(self) -> float:
        """What all ranks together would save over what was seen; never below 0."""
        return max(self.gained_ns, 0.0) * self.seen / max(self.replayed, 1)

    @property
    def every(self) -> int:
        """Of how many windows one is replayed."""
        return max(self.calls // (SPAN * WINDOWS), 1)

    def wants(self, count: int) -> bool:
        """Whether some of the next so many barriers are in a window that is replayed."""
        return meets(self.seen, count, SPAN, self.every)

    def skip(self, count: int) -> None:
        """Leave out so many barriers."""
        self.seen += count

    def add(self, batch: Batch, kept: Kept, signatures: Sequence[Signature], sites: Int) -> None:
        """Replay the windows that begin in a batch; sites: the call site of each instance."""
        barriers = np.flatnonzero(sites == self.callsite)
        self._follow(kept, sites, barriers)
        window = (self.seen + np.arange(len(barriers))) // SPAN
        self.seen += len(barriers)
        every = self.every
        until = 0
        for first in np.flatnonzero(window % every == 0).tolist():
            if barriers[first] < until:
                continue
            last = int(np.searchsorted(window, window[first], "right"))
            end = int(barriers[last]) if last < len(barriers) else len(batch)
            until = self._replay(batch, kept, signatures, int(barriers[first]), end)

    def _follow(self, kept: Kept, sites: Int, barriers: Int) -> None:
        after = barriers[barriers + 1 < len(sites)] + 1
        found, times = np.unique(sites[after[_joined(kept, after)]], return_counts=True)
        for site, count in zip(found.tolist(), times.tolist(), strict=True):
            self.followers[site] = self.followers.get(site, 0) + count

    def _replay(
        self, batch: Batch, kept: Kept, signatures: Sequence[Signature], first: int, end: int
    ) -> int:
        """Replay the columns from `first` on, at most to `end`; return where it ended."""
        end = min(end, first + INSTANCES)
        joined = _joined(kept, np.arange(first, end))
        free = batch.arrival[:, first]  # when each rank would come
        barriers, column = 0, first
        for column in range(first, end):
            signature = signatures[int(kept.signature[column])]
            arrival, finish = batch.arrival[:, column], batch.finish[:, column]
            if not _can_be_replayed(signature, batch, column) or (
                column > first and not joined[column - first]
            ):
                break
            if column > first:
                free = free + arrival - batch.finish[:, column - 1]
            barrier = signature.callsite == self.callsite
            barriers += barrier
            begin = free if barrier else _begin(signature, free)
            free = begin + finish - _begin(signature, arrival)
            ended = finish
        else:
            column = end
        self.replayed += max(barriers, 1)  # one that can't be replayed is held to gain nothing
        if column > first + 1:
            self.gained_ns += float(ended.max() - free.max()) * len(free)
        return max(column, first + 1)


def _joined(kept: Kept, columns: Int) -> Bool:
    """Whether all ranks came to an instance from the one before it on the communicator."""
    same: Bool = (kept.before.exit[:, columns] == kept.finish[:, columns - 1]).all(0)
    return same


def _can_be_replayed(signature: Signature, batch: Batch, column: int) -> bool:
    known = bool(signature.present.all()) and signature.comparable
    known &= signature.state not in (None, "gathering")  # of which who waited is not known
    blocking = bool((batch.begin[:, column] == batch.arrival[:, column]).all())
    return known and blocking and bool((batch.finish[:, column] != 0).all())


def _begin(signature: Signature, arrival: Int) -> Int:
    """When each rank can begin an operation at the earliest."""
    assert signature.state is not None
    first = earliest(signature.state, arrival[:, None], signature.group)[..., 0]
    begin: Int = np.maximum(first, arrival)
    return begin
