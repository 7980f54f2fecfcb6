"""Tables that records refer to by number: communicators, shapes, and the whole of a trace."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mpiprof.trace.affinity import AffinityChange
from mpiprof.trace.exceptions import RaisedException
from mpiprof.trace.quotas import QuotaReading
from mpiprof.trace.stalled_calls import StalledCall
from mpiprof.trace.thread_times import NamedThreads
from mpiprof.trace.types import Int

Key = tuple[int, int, int]  # communicator, sequence number, persistent operation's start (or 0)


@dataclass(frozen=True)
class Communicator:
    """A communicator as all its members see it; columns of matrices follow `ranks`.

    `groups` has the world ranks of the one group, or of both groups of an inter-communicator.
    `ranks` is their concatenation. `is_local`: only this rank could be identified as a member.
    `is_partial`: `groups` and `ranks` lack the members whose records are lost.
    """

    index: int
    identity: str
    groups: tuple[Int, ...]
    ranks: Int
    size: int
    is_local: bool
    is_inter: bool
    origin: str
    parent: str | None
    is_partial: bool = False

    def without_ranks(self, lost: Set[int]) -> Communicator:
        """Return the communicator without the members whose records are lost."""
        if lost.isdisjoint(self.ranks.tolist()):
            return self
        kept = [of[~np.isin(of, [*lost])] for of in self.groups]
        return replace(self, groups=tuple(kept), ranks=np.concatenate(kept), is_partial=True)

    @property
    def has_one_member(self) -> bool:
        """Return whether its only member waits for nobody; tables of call sites exclude it."""
        return self.size == 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes of both groups of an inter-communicator, otherwise (size, 0)."""
        first, *second = self.groups
        return len(first), sum(map(len, second))

    def find_column(self, rank: int) -> int:
        """Return the column of a world rank, or -1 if it is no member."""
        return self._columns.get(rank, -1)

    def find_columns(self, ranks: Int) -> Int:
        """Return the column of each world rank, -1 of a rank that is no member."""
        ordered, columns = self._ordered_ranks
        place = np.searchsorted(ordered, ranks, "right") - 1
        return np.where(ordered[place] == ranks, columns[place], -1)

    @cached_property
    def _ordered_ranks(self) -> tuple[Int, Int]:
        """World ranks in order, and their columns; the first one is no rank."""
        columns = np.argsort(self.ranks, kind="stable")
        return np.append(-1, self.ranks[columns]), np.append(-1, columns)

    @cached_property
    def _columns(self) -> dict[int, int]:
        return {rank: column for column, rank in enumerate(self.ranks.tolist())}


@dataclass(frozen=True)
class Shape:
    """Common properties of calls, with equality over all of them.

    `root` is a world rank, -1 without a root, -2 for a process that takes no part. `sent` and
    `received` are bytes, -1 if unknown. `site` is an index into Tables.sites, -1 if unknown. `type`
    and `reduction` are names of predefined objects, "" for others. `peer` is the world rank that a
    message comes from or goes to, -1 if there is none or if it is unknown.
    """

    operation: str
    communicator: int
    site: int
    root: int
    sent: int
    received: int
    algorithm: str
    flags: tuple[str, ...]
    type: str = ""
    reduction: str = ""
    peer: int = -1


@dataclass(frozen=True)
class Call:
    """One call of one rank; exit_ns is 0 if open; sent and received in bytes, -1 if unknown."""

    shape: Shape
    key: Key
    enter_ns: int
    exit_ns: int
    sent: int
    received: int

    @property
    def operation(self) -> str:
        """Operation without MPI_."""
        return self.shape.operation

    @property
    def site(self) -> int:
        """Index into Tables.sites, -1 if unknown."""
        return self.shape.site


class SampleKey(NamedTuple):
    """What samples of `run --where` have in common; all but the rank are indices of sites.

    before and after: calls around the samples, of any kind; -1 if unknown, or at the start of the
    run. collective_before and collective_after: collectives around them.
    """

    rank: int
    collective_before: int
    collective_after: int
    location: int
    before: int
    after: int


@dataclass
class Tables:
    """All tables, with ids that are valid for all ranks.

    where: (samples, ns) by rank, site left (-1 for the start), site entered, and sampled location.
    """

    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    exceptions: dict[int, list[RaisedException]] = field(default_factory=dict)
    affinities: dict[int, list[AffinityChange]] = field(default_factory=dict)
    quotas: dict[int, list[QuotaReading]] = field(default_factory=dict)
    stalled_calls: list[StalledCall] = field(default_factory=list)
    # Threads that computed while the calling thread slept, the busiest name first.
    threads: dict[int, list[NamedThreads]] = field(default_factory=dict)
    # By rank and number of a thread: when threads with this number ended, on the clock of the node
    thread_ends: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    # (rank, counter, reason), if the intervals of a rank lack a counter
    missing_counters: list[tuple[int, str, str]] = field(default_factory=list)
    sites: list[tuple[dict[str, Any], ...]] = field(default_factory=list)
    communicators: list[Communicator] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    duplicates: dict[int, int] = field(default_factory=dict)  # window or file to communicator
    sources: dict[tuple[int, int], Int] = field(default_factory=dict)
    destinations: dict[tuple[int, int], Int] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    shape_ids: dict[int, Int] = field(default_factory=dict)
    presite_samples: dict[SampleKey, tuple[int, int]] = field(default_factory=dict)  # count, ns
    limits: dict[int, int] = field(default_factory=dict)  # bytes, if the log has reached it
    limited_ns: dict[int, int] = field(default_factory=dict)  # time of it, node clock
    # By rank: whether a stretch in which every message call is recorded begins or ends, and when
    complete_marks: dict[int, list[tuple[bool, int]]] = field(default_factory=dict)
    truncated: bool = False

    def shape_map(self, rank: int) -> Int:
        """Return an array from a rank's shape ids to indices in `shapes`, -1 for unknown ids."""
        return self.shape_ids.get(rank, np.full(1, -1, np.int64))
