"""Windows of ranks since they last met, and the shares of their intervals and waits in a wait.

The window of the awaited rank is compared with those of the ranks that wait for it, by pairs of
call sites (keys). delay_graph.py describes the method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float, Int

# Intervals and waits of a rank that a window contains at most. Two ranks that have not met for so
# long are compared over this window only.
MAX_REACH = 1 << 12
MAX_CELLS_PER_ITEM = 4  # cells beyond this number are sparse, so they are numbered by sorting


@dataclass(frozen=True)
class Items:
    """Intervals and waits of all ranks, by rank and time and without overlaps.

    begin, end: positions, which are times plus an offset for each rank. index: of the
    interval, or of the wait's group. key: of the interval; a wait has the last key,
    keys - 1.
    """

    begin: Int
    end: Int
    index: Int
    key: Int
    keys: int
    stride: int
    origin: int

    def locate(self, rank: Int, time_ns: Int) -> Int:
        """Return the positions of times on ranks."""
        return np.asarray(rank.astype(np.int64) * self.stride + (time_ns - self.origin))


@dataclass(frozen=True)
class Windows:
    """Windows of ranks from `low` to `high` (positions), with `count` items from `first` on."""

    low: Int
    high: Int
    first: Int
    count: Int

    def take(self, chosen: slice) -> Windows:
        """Return some windows."""
        return Windows(self.low[chosen], self.high[chosen], self.first[chosen], self.count[chosen])


@dataclass(frozen=True)
class Shares:
    """Shares of items in the cost of groups: group, item and share, by group; rest of each group.

    The shares of a group and its rest add up to 1.
    """

    group: Int
    item: Int
    share: Float
    rest: Float


@dataclass(frozen=True)
class _Entries:
    """Items within windows: window, item and length of each overlap, by window and time."""

    window: Int
    item: Int
    length: Float


def find_windows(
    items: Items, awaited: Int, since_ns: Int, until_ns: Int, of: Int, rank: Int, begin_ns: Int
) -> tuple[Windows, Windows]:
    """Return the windows of the awaited rank of each group, and of the ranks that wait for it.

    of: group of each rank. begin_ns: of its wait.
    """
    late = _find_windows(items, awaited, since_ns, until_ns)
    early = _find_windows(items, rank, since_ns[of], begin_ns)
    if max(late.count.max(initial=0), early.count.max(initial=0)) > MAX_REACH:
        since_ns = np.maximum(since_ns, _limit_reach(items, awaited, late))
        np.maximum.at(since_ns, of, _limit_reach(items, rank, early))
        late = _find_windows(items, awaited, since_ns, until_ns)
        early = _find_windows(items, rank, np.minimum(since_ns[of], begin_ns), begin_ns)
    return late, early


def _find_windows(items: Items, rank: Int, low_ns: Int, high_ns: Int) -> Windows:
    """Return the windows of ranks from low to high."""
    low, high = items.locate(rank, low_ns), items.locate(rank, high_ns)
    first, count = np.empty_like(low), np.empty_like(low)
    order = np.argsort(high)  # searches in order are several times faster
    first[order] = found = np.searchsorted(items.end, low[order], side="right")
    last = np.searchsorted(items.begin, high[order], side="left")
    count[order] = np.maximum(last - found, 0)
    return Windows(low, high, first, count)


def _limit_reach(items: Items, rank: Int, windows: Windows) -> Int:
    """Return the earliest begin of each window in ns with at most MAX_REACH items in it."""
    first = windows.first + np.maximum(windows.count - MAX_REACH, 0)
    limit = np.full(len(first), np.iinfo(np.int64).min)
    far = np.flatnonzero(windows.count > MAX_REACH)
    limit[far] = items.begin[first[far]] - rank[far] * items.stride + items.origin
    return limit


def divide(weights: Int, limit: int) -> Iterator[slice]:
    """Yield consecutive slices whose weights add up to at most the limit, or of one element."""
    total = np.concatenate([[0], np.cumsum(weights)])
    begin = 0
    while begin < len(weights):
        end = int(np.searchsorted(total, total[begin] + limit, side="right")) - 1
        yield slice(begin, max(end, begin + 1))
        begin = max(end, begin + 1)


def compare_windows(items: Items, late: Windows, early: Windows, of: Int, weight: Float) -> Shares:
    """Return the shares of the items in the windows `late` in the costs of groups.

    late: one window per group, of the awaited rank. early: windows of the ranks that wait, each of
    the group `of`. They are averaged with `weight`.

    The excess of work in all keys together is at most that of the whole window's work, because the
    early ranks may do the same work under other keys. Items with one key share its excess by their
    lengths beyond the usual length, which is what remains without the excess.
    """
    groups, mine, others = len(late.first), _list_items(items, late), _list_items(items, early)
    part = weight / np.bincount(of, weight, groups)[of]
    usual = others.length * part[others.window]
    late_ns, early_ns = (windows.high - windows.low for windows in (late, early))
    late_rest = late_ns - _sum(mine.window, mine.length, groups)
    early_rest = _sum(of, early_ns * part, groups) - _sum(of[others.window], usual, groups)
    # Cells: pairs of a group and a key in the windows of awaited ranks.
    code = mine.window * items.keys + items.key[mine.item]
    cells = _number_cells(code, groups * items.keys)
    cell = cells.find(code)[1]
    found, same = cells.find(of[others.window] * items.keys + items.key[others.item])
    length = _sum(cell, mine.length, cells.count)
    excess = np.maximum(length - _sum(same, usual[found], cells.count), 0.0)
    rest = np.maximum(late_rest - early_rest, 0.0)
    # All work of the windows, under any key.
    wait_key, group = items.keys - 1, cells.code // items.keys
    is_wait = items.key[mine.item] == wait_key
    net = late_ns - _sum(mine.window[is_wait], mine.length[is_wait], groups)
    is_wait = items.key[others.item] == wait_key
    waited = _sum(of[others.window[is_wait]], usual[is_wait], groups)
    net = net - (_sum(of, early_ns * part, groups) - waited)
    is_work = cells.code % items.keys != wait_key
    of_work = _sum(group, excess * is_work, groups) + rest
    scale = np.clip(net, 0.0, of_work) / np.where(of_work > 0, of_work, 1.0)
    excess *= np.where(is_work, scale[group], 1.0)
    rest *= scale
    whole = _sum(group, excess, groups) + rest
    # The division among the items of a cell.
    borne = np.flatnonzero(excess[cell] > 0)
    cell, window = cell[borne], mine.window[borne]
    count = np.bincount(cell, minlength=cells.count)
    standard = (length - excess) / np.maximum(count, 1)
    beyond = np.maximum(mine.length[borne] - standard[cell], 0.0)
    unit = excess / np.maximum(_sum(cell, beyond, cells.count), 1e-300)
    share = unit[cell] * beyond / whole[window]
    kept = share > 0
    rest_share = np.where(whole > 0, rest / np.where(whole > 0, whole, 1.0), 1.0)
    return Shares(window[kept], mine.item[borne[kept]], share[kept], rest_share)


@dataclass(frozen=True)
class _Cells:
    """Numbered codes, in order. is_dense: all codes up to `count` have their own number."""

    code: Int
    count: int
    is_dense: bool

    def find(self, code: Int) -> tuple[slice | Int, Int]:
        """Return which codes are known, and their numbers."""
        if self.is_dense:
            return slice(None), code
        if not self.count:
            return slice(0), code[:0]
        at = np.minimum(np.searchsorted(self.code, code), self.count - 1)
        known = np.flatnonzero(self.code[at] == code)
        return known, at[known]


def _number_cells(code: Int, limit: int) -> _Cells:
    """Number the codes below a limit; codes that do not occur get numbers too if they are few."""
    if limit <= MAX_CELLS_PER_ITEM * len(code):
        return _Cells(np.arange(limit), limit, True)
    known = np.unique(code)
    return _Cells(known, len(known), False)


def _list_items(items: Items, windows: Windows) -> _Entries:
    """Return the items of each window."""
    ends = np.cumsum(windows.count)
    window = np.repeat(np.arange(len(ends)), windows.count)
    item = np.arange(len(window)) + np.repeat(windows.first - ends + windows.count, windows.count)
    length = (items.end[item] - items.begin[item]).astype(np.float64)
    # Windows begin and end within items.
    used = np.flatnonzero(windows.count)
    first, last = windows.first[used], windows.first[used] + windows.count[used] - 1
    length[ends[used] - windows.count[used]] -= np.maximum(
        windows.low[used] - items.begin[first], 0
    )
    length[ends[used] - 1] -= np.maximum(items.end[last] - windows.high[used], 0)
    return _Entries(window, item, length)


def _sum(group: Int, values: Float, count: int) -> Float:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, count).astype(np.float64, copy=False)
