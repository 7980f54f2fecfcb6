"""The definition of the costs of delays, written for clarity: no order, no limit, no arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.account.delay_graph import Waits, WorkIntervals
from mpiprof.trace.types import Float

WAIT = -1  # key of waits
REST = -2  # key of time outside intervals and waits


@dataclass(frozen=True)
class Item:
    """An interval of work or a wait. index: of the interval, or of the group of waits."""

    begin: int
    end: int
    key: int
    index: int


def define_costs(
    waits: Waits, intervals: WorkIntervals, ranks: int, chosen: Float, same: Sequence[int] = ()
) -> tuple[list[float], list[float]]:
    """Return the cost of each interval, and the rest of each rank, for chosen groups of waits."""
    items: defaultdict[int, list[Item]] = defaultdict(list)
    columns = intervals.rank, intervals.begin_ns, intervals.end_ns, intervals.key
    rows = zip(*(of.tolist() for of in columns), strict=True)
    for i, (rank, begin, end, key) in enumerate(rows):
        items[rank].append(Item(begin, end, key, i))
    members: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = waits.group, waits.rank, waits.begin_ns, waits.end_ns
    for group, rank, begin, end in zip(*(of.tolist() for of in columns), strict=True):
        items[rank].append(Item(begin, end, WAIT, group))
        members[group].append((rank, begin, end))
    groups = range(len(waits.awaited))
    cost = [
        float(chosen[group]) * sum(end - begin for _, begin, end in members[group])
        for group in groups
    ]
    interval_ns, rest_ns = [0.0] * len(intervals.rank), [0.0] * ranks
    done = set()
    for group in sorted(groups, key=lambda group: -int(waits.until_ns[group])):
        done.add(group)
        awaited = int(waits.awaited[group])
        shares, rest = _share(waits, items, members[group], group, same)
        rest_ns[awaited] += rest * cost[group]
        for item, share in shares:
            if item.key != WAIT:
                interval_ns[item.index] += share * cost[group]
            elif item.index not in done:
                cost[item.index] += share * cost[group]
            else:
                rest_ns[awaited] += share * cost[group]
    return interval_ns, rest_ns


def _share(
    waits: Waits,
    items: dict[int, list[Item]],
    members: list[tuple[int, int, int]],
    group: int,
    same: Sequence[int],
) -> tuple[list[tuple[Item, float]], float]:
    """Return the share of each item in a group's cost, and the rest."""
    since, until = int(waits.since_ns[group]), int(waits.until_ns[group])
    late = items[int(waits.awaited[group])]
    excess = _sum_window(late, since, until)
    whole = sum(end - begin for _, begin, end in members)
    usual: defaultdict[int, float] = defaultdict(float)
    for rank, begin, end in members:
        for key, length in _sum_window(items[rank], since, begin).items():
            usual[key] += length * (end - begin) / whole
    own_waits = [Item(*_cut(of, since, until), WAIT, of.index) for of in late if of.key == WAIT]
    lack: defaultdict[int, float] = defaultdict(float)
    for rank, begin, end in members:
        for item in items[rank]:
            low, high = _cut(item, since, begin)
            kind = _work(item.key, same)
            missed = sum(
                _overlap(Item(*_cut(wait, low, high), WAIT, 0), other.begin, other.end)
                for wait in own_waits
                if _overlap(wait, low, high)
                for other in items[int(waits.awaited[wait.index])]
                if _work(other.key, same) == kind
            )
            lack[kind] += missed * (end - begin) / whole
    more: defaultdict[int, float] = defaultdict(float)
    for sums, sign in ((usual, 1), (excess, -1)):
        for key, of in sums.items():
            more[_work(key, same)] += sign * of
    lack |= {key: 0.0 if key == WAIT else min(of, more[key]) for key, of in lack.items()}
    matched = _match_waits(waits, items, lack, group, same)
    excess[WAIT] = excess.get(WAIT, 0.0) - sum(matched.values())
    work = sum(matched.values()) + sum(of for key, of in excess.items() if key != WAIT)
    work -= sum(of for key, of in usual.items() if key != WAIT)
    excess = {key: max(of - usual[key], 0.0) for key, of in excess.items()}
    of_work = sum(of for key, of in excess.items() if key != WAIT)
    scale = min(max(work, 0.0) / of_work, 1.0) if of_work else 0.0
    excess = {key: of * (1.0 if key == WAIT else scale) for key, of in excess.items()}
    sum_of_all = sum(excess.values())
    if not sum_of_all:
        return [], 1.0
    shares = []
    for key, of_key in excess.items():
        lengths = [(item, _overlap(item, since, until)) for item in late if item.key == key]
        inside = [(item, length - matched.get(item, 0.0)) for item, length in lengths if length]
        usual_ns = (sum(of for _, of in inside) - of_key) / max(len(inside), 1)
        beyond = [max(length - usual_ns, 0.0) for _, length in inside]
        if of_key and key != REST:
            shares += [
                (item, of_key / sum_of_all * of / sum(beyond))
                for (item, _), of in zip(inside, beyond, strict=True)
            ]
    return shares, excess[REST] / sum_of_all


def _match_waits(
    waits: Waits,
    items: dict[int, list[Item]],
    lack: dict[int, float],
    group: int,
    same: Sequence[int],
) -> dict[Item, float]:
    """Return the time of each wait in which its awaited rank does work that is lacking."""
    since, until = int(waits.since_ns[group]), int(waits.until_ns[group])
    matched: dict[Item, float] = {}
    for wait in sorted(items[int(waits.awaited[group])], key=lambda item: item.begin):
        if wait.key != WAIT or not _overlap(wait, since, until):
            continue
        low, high = max(wait.begin, since), min(wait.end, until)
        matched[wait] = 0.0
        for item in items[int(waits.awaited[wait.index])]:
            work = _work(item.key, same)
            time = max(min(float(_overlap(item, low, high)), lack.get(work, 0.0)), 0.0)
            lack[work] = lack.get(work, 0.0) - time
            matched[wait] += time
    return matched


def _work(key: int, same: Sequence[int]) -> int:
    """Return the key that stands for the same work."""
    return same[key] if 0 <= key < len(same) else key


def _sum_window(items: list[Item], low: int, high: int) -> dict[int, float]:
    """Return the time in a window by key."""
    sums: defaultdict[int, float] = defaultdict(float, {REST: float(high - low)})
    for item in items:
        length = _overlap(item, low, high)
        if length:
            sums[item.key] += length
            sums[REST] -= length
    return dict(sums)


def _cut(item: Item, low: int, high: int) -> tuple[int, int]:
    return max(item.begin, low), min(item.end, high)


def _overlap(item: Item, low: int, high: int) -> int:
    return max(min(item.end, high) - max(item.begin, low), 0)
