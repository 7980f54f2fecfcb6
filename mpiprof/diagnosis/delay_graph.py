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

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Bool, Float, Int


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
class _Items:
    """Intervals and waits of all ranks by rank and time. index: of an interval, or of a group."""

    begin: Int  # positions: the time within the run, plus an offset for each rank
    end: Int
    is_wait: Bool
    index: Int
    key: Int
    stride: int
    origin: int

    def positions(self, rank: Int, time_ns: Int) -> Int:
        """Return the positions of times on ranks."""
        return np.asarray(rank * self.stride + (time_ns - self.origin))


@dataclass(frozen=True)
class _Edges:
    """Shares of a group's cost: group, cause (index of an interval or a group), and share."""

    group: Int
    cause: Int
    share: Float

    def take(self, chosen: Bool) -> _Edges:
        """Return the chosen edges."""
        return _Edges(self.group[chosen], self.cause[chosen], self.share[chosen])


@dataclass(frozen=True)
class _Entries:
    """Items within windows: window, item and length of each overlap, by window and time."""

    window: Int
    item: Int
    length: Int


class DelayGraph:
    """Shares of intervals and of earlier waits in each group of waits."""

    def __init__(self, waits: Waits, intervals: Intervals, ranks: int) -> None:
        self.waits, self.ranks, self.interval_count = waits, ranks, len(intervals.rank)
        groups, keys = len(waits.awaited), int(intervals.key.max(initial=-1)) + 1
        self.length = (waits.end_ns - waits.begin_ns).astype(np.float64)
        items = _sort_items(waits, intervals, keys)
        late = _find_entries(items, waits.awaited, waits.since_ns, waits.until_ns)
        early = _find_entries(items, waits.rank, waits.since_ns[waits.group], waits.begin_ns)
        code, excess = _compare_windows(waits, items, late, early, self.length, keys + 2)
        share, self.rest_share = _share_items(items, late, code, excess, groups, keys + 2)
        # Position in the order of time, the latest group first.
        self.place = np.empty(groups, np.int64)
        self.place[np.argsort(-waits.until_ns, kind="stable")] = np.arange(groups)
        is_wait = items.is_wait[late.item]
        self.work = _Edges(late.window, items.index[late.item], share).take(~is_wait)
        passed = _Edges(late.window, items.index[late.item], share).take(is_wait)
        # A wait that does not end before the awaited rank arrives is no cause (damaged times).
        earlier = self.place[passed.cause] > self.place[passed.group]
        later = passed.take(~earlier)
        self.rest_share += _sum_groups(later.group, later.share, groups)
        self.passed = passed.take(earlier)

    def compute_costs(self, chosen: Float | None = None) -> DelayCosts:
        """Return the costs of all waits, or of some groups: `chosen` is 1 for these, else 0.

        The costs of all intervals and the rests add up to the sum of these waits.
        """
        waits, groups = self.waits, len(self.waits.awaited)
        direct = _sum_groups(waits.group, self.length, groups)
        if chosen is not None:
            direct *= chosen
        total = self._pass_back(direct)
        work = self.work
        return DelayCosts(
            _sum_groups(work.cause, total[work.group] * work.share, self.interval_count),
            _sum_groups(work.cause, direct[work.group] * work.share, self.interval_count),
            _sum_groups(waits.awaited, total * self.rest_share, self.ranks),
            total,
        )

    def _pass_back(self, direct: Float) -> Float:
        """Return the cost of each group: its waits, and its shares in the costs of later groups."""
        from scipy import sparse
        from scipy.sparse.linalg import spsolve_triangular

        passed, groups = self.passed, len(direct)
        if not len(passed.group):
            return direct
        cells = self.place[passed.cause], self.place[passed.group]
        matrix = sparse.csr_matrix((-passed.share, cells), (groups, groups))
        matrix.setdiag(1.0)
        ordered = np.empty(groups)
        ordered[self.place] = direct
        solved = spsolve_triangular(matrix, ordered, lower=True, unit_diagonal=True)
        return np.asarray(solved[self.place])


def _sum_groups(group: Int, values: Float | Int | Bool, count: int) -> Float:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, count).astype(np.float64)


def _sort_items(waits: Waits, intervals: Intervals, wait_key: int) -> _Items:
    """Return all intervals and waits by rank and time; waits have the key `wait_key`."""
    begin = np.concatenate([intervals.begin_ns, waits.begin_ns])
    end = np.concatenate([intervals.end_ns, waits.end_ns])
    rank = np.concatenate([intervals.rank, waits.rank])
    origin = int(min(begin.min(initial=0), waits.since_ns.min(initial=0)))
    latest = max(end.max(initial=0), waits.until_ns.max(initial=0))
    stride = int(latest) - origin + 1
    index = np.concatenate([np.arange(len(intervals.rank)), waits.group])
    key = np.concatenate([intervals.key, np.full(len(waits.rank), wait_key, np.int64)])
    is_wait = np.arange(len(index)) >= len(intervals.rank)
    order = np.argsort(rank * stride + (begin - origin), kind="stable")
    begin, end = (rank * stride + (times - origin) for times in (begin, end))
    # Intervals of several threads may overlap; the time counts once.
    begin, end = begin[order], np.maximum.accumulate(end[order])
    begin[1:] = np.maximum(begin[1:], end[:-1])
    return _Items(begin, end, is_wait[order], index[order], key[order], stride, origin)


def _find_entries(items: _Items, rank: Int, low_ns: Int, high_ns: Int) -> _Entries:
    """Return the items of each window: the rank's time from low to high."""
    low, high = items.positions(rank, low_ns), items.positions(rank, high_ns)
    first = np.searchsorted(items.end, low, side="right")
    count = np.maximum(np.searchsorted(items.begin, high, side="left") - first, 0)
    window = np.repeat(np.arange(len(rank)), count)
    item = np.arange(len(window)) + np.repeat(first - np.cumsum(count) + count, count)
    length = np.minimum(items.end[item], high[window]) - np.maximum(items.begin[item], low[window])
    return _Entries(window, item, length)


def _compare_windows(
    waits: Waits, items: _Items, late: _Entries, early: _Entries, weight: Float, keys: int
) -> tuple[Int, Float]:
    """Return the cells (group x keys + key) of the awaited ranks' windows, and their excess in ns.

    The early ranks of a group are averaged with their waits as weights. The last key is the rest of
    the window, the one before is waits. The excess of work in all keys together is at most that of
    the whole window's work, because the early ranks may do the same work under other keys.
    """
    groups = len(waits.awaited)
    whole = _sum_groups(waits.group, weight, groups)
    part = weight / whole[waits.group]
    late_window = (waits.until_ns - waits.since_ns).astype(np.float64)
    early_window = (waits.begin_ns - waits.since_ns[waits.group]).astype(np.float64)
    late_rest = late_window - _sum_groups(late.window, late.length, groups)
    early_rest = early_window - _sum_groups(early.window, early.length, len(waits.rank))
    rest_code = np.arange(groups) * keys + keys - 1
    late_code = late.window * keys + items.key[late.item]
    code: Int
    code, inverse = np.unique(np.concatenate([late_code, rest_code]), return_inverse=True)
    excess = _sum_groups(inverse, np.concatenate([late.length, late_rest]), len(code))
    early_code = waits.group[early.window] * keys + items.key[early.item]
    early_code = np.concatenate([early_code, waits.group * keys + keys - 1])
    usual = np.concatenate([early.length * part[early.window], early_rest * part])
    at = np.minimum(np.searchsorted(code, early_code), len(code) - 1)
    same = code[at] == early_code
    excess -= _sum_groups(at[same], usual[same], len(code))
    # All work of the windows, under any key.
    is_wait = early_code % keys == keys - 2
    waited = _sum_groups(early_code[is_wait] // keys, usual[is_wait], groups)
    worked = _sum_groups(waits.group, early_window * part, groups) - waited
    mine = _sum_groups(late.window, late.length * items.is_wait[late.item], groups)
    net = np.maximum(late_window - mine - worked, 0.0)
    excess = np.maximum(excess, 0.0)
    is_work = code % keys != keys - 2
    of_work = _sum_groups(code[is_work] // keys, excess[is_work], groups)
    scale = np.where(of_work > 0, net / np.where(of_work > 0, of_work, 1.0), 0.0)
    excess[is_work] *= np.minimum(scale, 1.0)[code[is_work] // keys]
    return code, excess


def _share_items(
    items: _Items, late: _Entries, code: Int, excess: Float, groups: int, keys: int
) -> tuple[Float, Float]:
    """Return the share of a group's cost that each entry bears, and the share of the rest.

    Entries of one cell share its excess by their lengths beyond the usual length, which is what
    remains without the excess.
    """
    whole = _sum_groups(code // keys, excess, groups)
    cell_share = excess / np.where(whole > 0, whole, 1.0)[code // keys]
    cell = np.searchsorted(code, late.window * keys + items.key[late.item])
    count = np.bincount(cell, minlength=len(code))
    length = _sum_groups(cell, late.length, len(code))
    usual = (length - excess) / np.maximum(count, 1)
    beyond = np.maximum(late.length - usual[cell], 0.0)
    beyond_sum = _sum_groups(cell, beyond, len(code))
    share = cell_share[cell] * beyond / np.where(beyond_sum > 0, beyond_sum, 1.0)[cell]
    rest = np.searchsorted(code, np.arange(groups) * keys + keys - 1)
    return share, np.where(whole > 0, cell_share[rest], 1.0)
