"""Cost of each interval of work: all waiting that it causes, directly or through other ranks.

A rank r waits because the awaited rank s arrives later. Let T be the last time at which the two
ranks met (one waited for the other, or both took part in a synchronising collective):

    r  T ── work ── wait of r ──────────────┐ until
    s  T ── work ──── wait of s ── work ────┘ arrives

Both windows begin at T, so the wait of r equals the work and waits of s in its window, minus those
of r in its window. The wait is divided among the intervals in which s took longer than r (same pair
of call sites) and, if s waited longer than r, among the waits of s. A wait passes its share on to
its own causes, so that all cost ends at intervals of work.

Source: Böhme et al., "Identifying the root causes of wait states in large-scale parallel
applications", ACM TOPC 3(2), 2016: delay costs, short-term and long-term. Here long-term costs are
passed on in one step, and ranks that wait for the same rank in one instance are compared together.

Cost: O(n log n) for n intervals and waits; the backward pass solves a sparse triangular system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.delay_windows import (
    Items,
    Shares,
    compare_windows,
    divide,
    find_windows,
    limit_reach,
)
from mpiprof.trace.types import Bool, Float, Int

BLOCK_ITEMS = 1 << 18  # 60 MB while windows are compared


@dataclass(frozen=True)
class Waits:
    """Waits in groups: the members of a group wait for the same rank until it arrives.

    Per group: awaited (rank), until_ns (its arrival), since_ns (when these ranks last met).
    Per member, in any order: group (index), rank, begin_ns and end_ns of its wait.
    """

    awaited: Int
    until_ns: Int
    since_ns: Int
    group: Int
    rank: Int
    begin_ns: Int
    end_ns: Int


@dataclass(frozen=True)
class Intervals:
    """Intervals of work. key: number of the pair of call sites."""

    rank: Int
    begin_ns: Int
    end_ns: Int
    key: Int


@dataclass(frozen=True)
class DelayCosts:
    """Waiting caused, in ns over all ranks.

    interval_ns: by each interval. direct_ns: the part without waits of further ranks. rest_ns: by
    each rank outside the intervals (short intervals, transfers, and time before the first meeting).
    wait_ns: by each group of waits, including the waits that it causes in turn.
    """

    interval_ns: Float
    direct_ns: Float
    rest_ns: Float
    wait_ns: Float


@dataclass(frozen=True)
class _Edges:
    """Shares of a group's cost: group (in order of time), cause (interval or group), and share."""

    group: Int
    cause: Int
    share: Float

    def take(self, chosen: Bool) -> _Edges:
        """Return the chosen edges."""
        return _Edges(self.group[chosen], self.cause[chosen], self.share[chosen])


@dataclass(frozen=True)
class _Block:
    """Edges of the groups from `first` to `end`, in order of time.

    work: to intervals. within: to groups of the block. before: to groups of earlier blocks.
    """

    first: int
    end: int
    work: _Edges
    within: _Edges
    before: _Edges


class DelayGraph:
    """Shares of intervals and of earlier waits in each group of waits.

    A forward pass finds them in blocks of groups, in order of time. The windows of a block contain
    about `block_items` intervals and waits.
    """

    def __init__(
        self, waits: Waits, intervals: Intervals, ranks: int, block_items: int = BLOCK_ITEMS
    ) -> None:
        self.waits, self.ranks, self.interval_count = waits, ranks, len(intervals.rank)
        groups = len(waits.awaited)
        self.length = (waits.end_ns - waits.begin_ns).astype(np.float64)
        self.place = np.empty(groups, np.int64)  # of each group in order of time
        self.place[np.argsort(-waits.until_ns, kind="stable")] = np.arange(groups)[::-1]
        self.rest_share = np.zeros(groups)  # by place
        self.blocks = list(self._make_blocks(intervals, block_items))

    def compute_costs(self, chosen: Float | None = None) -> DelayCosts:
        """Return the costs of all waits, or of some groups: `chosen` is 1 for these, else 0.

        The costs of all intervals and the rests add up to the sum of these waits.
        """
        waits, place = self.waits, self.place
        direct = np.bincount(place[waits.group], self.length, len(place)).astype(np.float64)
        if chosen is not None:
            direct[place] *= chosen
        total = direct.copy()
        interval_ns, direct_ns = np.zeros(self.interval_count), np.zeros(self.interval_count)
        for block in reversed(self.blocks):
            _pass_back(block, total)
            work = block.work
            np.add.at(interval_ns, work.cause, total[work.group] * work.share)
            np.add.at(direct_ns, work.cause, direct[work.group] * work.share)
        rest_ns = np.bincount(waits.awaited, (total * self.rest_share)[place], self.ranks)
        return DelayCosts(interval_ns, direct_ns, rest_ns.astype(np.float64), total[place])

    def _make_blocks(self, intervals: Intervals, block_items: int) -> Iterator[_Block]:
        """Yield the blocks of the forward pass, the earliest first."""
        waits, place, count = self.waits, self.place, len(self.place)
        items = _sort_items(waits, intervals, place)
        order = np.argsort(place)
        of = place[waits.group]
        member = np.argsort(of, kind="stable")
        of = of[member]
        awaited, since_ns, until_ns = (
            waits.awaited[order],
            waits.since_ns[order],
            waits.until_ns[order],
        )
        rank, begin_ns = waits.rank[member], waits.begin_ns[member]
        late = find_windows(items, awaited, since_ns, until_ns)
        early = find_windows(items, rank, since_ns[of], begin_ns)
        limited = np.maximum(since_ns, limit_reach(items, awaited, late))
        np.maximum.at(limited, of, limit_reach(items, rank, early))
        if (limited > since_ns).any():
            late = find_windows(items, awaited, limited, until_ns)
            early = find_windows(items, rank, np.minimum(limited[of], begin_ns), begin_ns)
        weights = late.count + 1 + np.bincount(of, early.count, count).astype(np.int64)
        for groups in divide(weights, block_items):
            members = slice(*np.searchsorted(of, (groups.start, groups.stop)).tolist())
            shares = compare_windows(
                items,
                late.take(groups),
                early.take(members),
                of[members] - groups.start,
                self.length[member[members]],
            )
            yield self._make_block(items, shares, groups)

    def _make_block(self, items: Items, shares: Shares, groups: slice) -> _Block:
        first, end = groups.start, groups.stop
        self.rest_share[first:end] = shares.rest
        group = shares.group + first
        edges = _Edges(group, items.index[shares.item], shares.share)
        is_wait = items.key[shares.item] == items.keys - 1
        work, passed = edges.take(~is_wait), edges.take(is_wait)
        # A wait that does not end before the awaited rank arrives is no cause (damaged times).
        earlier = passed.cause < passed.group
        later = passed.take(~earlier)
        np.add.at(self.rest_share, later.group, later.share)
        passed = passed.take(earlier)
        within = passed.cause >= first
        return _Block(first, end, work, passed.take(within), passed.take(~within))


def _pass_back(block: _Block, cost: Float) -> None:
    """Add to the costs of groups their shares in the costs of the block's groups.

    cost: by place; the costs of the block's groups lack only their shares within the block.
    """
    from scipy import sparse
    from scipy.sparse.linalg import spsolve_triangular

    first, end, within, before = block.first, block.end, block.within, block.before
    if len(within.group):
        cells = within.cause - first, within.group - first
        matrix = sparse.csc_matrix((-within.share, cells), (end - first, end - first))
        matrix.setdiag(1.0)
        cost[first:end] = spsolve_triangular(
            matrix, cost[first:end], lower=False, unit_diagonal=True
        )
    np.add.at(cost, before.cause, cost[before.group] * before.share)


def _sort_items(waits: Waits, intervals: Intervals, place: Int) -> Items:
    """Return all intervals and waits by rank and time; the index of a wait is its group's place."""
    keys = int(intervals.key.max(initial=-1)) + 2
    begin = np.concatenate([intervals.begin_ns, waits.begin_ns])
    end = np.concatenate([intervals.end_ns, waits.end_ns])
    rank = np.concatenate([intervals.rank, waits.rank])
    origin = int(min(begin.min(initial=0), waits.since_ns.min(initial=0)))
    latest = max(end.max(initial=0), waits.until_ns.max(initial=0))
    stride = int(latest) - origin + 1
    index = np.concatenate([np.arange(len(intervals.rank)), place[waits.group]])
    key = np.concatenate([intervals.key, np.full(len(waits.rank), keys - 1, np.int64)])
    begin, end = (rank * stride + (times - origin) for times in (begin, end))
    order = np.argsort(begin, kind="stable")
    # Intervals of several threads may overlap; the time counts once.
    begin, end = begin[order], np.maximum.accumulate(end[order])
    begin[1:] = np.maximum(begin[1:], end[:-1])
    return Items(begin, end, end - begin, index[order], key[order], keys, stride, origin)
