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
from typing import Any

import numpy as np

from mpiprof.diagnosis.delay_windows import Items, Shares, compare_windows, divide, find_windows
from mpiprof.metrics.collective_waits import sort_codes
from mpiprof.trace.types import Bool, Float, Int

BLOCK_MEMBERS = 1 << 16
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
        waits, place = self.waits, self.place
        items = _sort_items(waits, intervals, place)
        order = np.empty_like(place)
        order[place] = np.arange(len(place))
        of_member = place[waits.group]
        member, sizes = sort_codes(of_member), np.bincount(of_member, minlength=len(place))
        first = np.concatenate([[0], np.cumsum(sizes)])  # member of each group
        for groups in divide(sizes, BLOCK_MEMBERS):
            at, members = order[groups], member[first[groups.start] : first[groups.stop]]
            of = np.repeat(np.arange(len(at)), sizes[groups])
            times = waits.since_ns[at], waits.until_ns[at]
            early_ranks = waits.rank[members], waits.begin_ns[members]
            late, early = find_windows(items, waits.awaited[at], *times, of, *early_ranks)
            weights = late.count + 1 + np.bincount(of, early.count, len(at)).astype(np.int64)
            for part in divide(weights, block_items):
                some = slice(*np.searchsorted(of, (part.start, part.stop)).tolist())
                length = self.length[members[some]]
                of_part = of[some] - part.start
                shares = compare_windows(items, late.take(part), early.take(some), of_part, length)
                yield self._make_block(items, shares, groups.start + part.start)

    def _make_block(self, items: Items, shares: Shares, first: int) -> _Block:
        end = first + len(shares.rest)
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
    origin = int(min(intervals.begin_ns.min(initial=0), waits.since_ns.min(initial=0)))
    latest = int(max(intervals.end_ns.max(initial=0), waits.until_ns.max(initial=0)))
    latest = max(latest, int(waits.end_ns.max(initial=0)))
    stride = latest - origin + 1

    def join(of_intervals: Int, of_waits: Int) -> Int:
        rank = np.concatenate([intervals.rank, waits.rank])
        times: Int = np.concatenate([of_intervals, of_waits])
        times -= origin
        times += rank * stride
        return times

    begin = join(intervals.begin_ns, waits.begin_ns)
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    # Intervals of several threads may overlap; the time counts once.
    end = np.maximum.accumulate(join(intervals.end_ns, waits.end_ns)[order])
    begin[1:] = np.maximum(begin[1:], end[:-1])
    number = find_dtype(len(order))
    index = np.concatenate(
        [np.arange(len(intervals.rank), dtype=number), place[waits.group].astype(number)]
    )
    key = np.full(len(order), keys - 1, find_dtype(keys))
    key[: len(intervals.key)] = intervals.key
    return Items(begin, end, index[order], key[order], keys, stride, origin)


def find_dtype(limit: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type of integers below a limit."""
    return np.int32 if limit < 1 << 31 else np.int64
