"""Costs of delays: hand-computed chains, a halo exchange, and the sum of all costs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.delay_definition import define_costs
from support.halo_waits import halo_waits, order_waits
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import delay_graph
from mpiprof.account.delay_graph import DelayGraph, Waits, WorkIntervals
from mpiprof.account.work_intervals import INSIDE, NOWHERE, UNRECORDED, number_same_work
from mpiprof.trace.types import Int

RANKS = 5
Wait = tuple[int, int, int, list[tuple[int, int]]]  # awaited, until, since, members with begins
Work = tuple[int, int, int, int]  # rank, begin, end, key


def make_graph(waits: list[Wait], work: list[Work], ranks: int) -> DelayGraph:
    """Return the graph of waits that end when the awaited rank arrives."""
    members = [
        (group, rank, begin, until)
        for group, (_, until, _, of) in enumerate(waits)
        for rank, begin in of
    ]

    def columns(rows: list[tuple[int, ...]], count: int) -> list[Int]:
        return list(np.array(rows, np.int64).reshape(-1, count).T)

    groups, of_members = columns([wait[:3] for wait in waits], 3), columns(list(members), 4)
    made = order_waits(*groups, *of_members)
    return DelayGraph(made, WorkIntervals(*columns(list(work), 4)), ranks)


def costs(waits: list[Wait], work: list[Work], ranks: int) -> list[float]:
    """Return the cost of each interval."""
    values: list[float] = make_graph(waits, work, ranks).compute_costs().interval_ns.tolist()
    return values


def test_a_wait_is_caused_by_the_longer_work_of_the_awaited_rank() -> None:
    waits: list[Wait] = [(0, 9, 0, [(1, 1)])]
    assert costs(waits, [(0, 0, 9, 0), (1, 0, 1, 0)], 2) == [8, 0]


def test_a_wait_passes_its_cost_on_to_the_cause_of_the_awaited_ranks_wait() -> None:
    # Rank 1 waits for rank 0, and works as long as rank 2. Rank 2 waits for rank 1.
    waits: list[Wait] = [(0, 9, 0, [(1, 1)]), (1, 10, 0, [(2, 2)])]
    work = [(0, 0, 9, 0), (1, 0, 1, 0), (1, 9, 10, 0), (2, 0, 2, 0)]
    graph = make_graph(waits, work, 3)
    assert graph.compute_costs().interval_ns.tolist() == [16, 0, 0, 0]
    assert graph.compute_costs().direct_ns.tolist() == [8, 0, 0, 0]
    second_only = graph.compute_costs(np.array([1.0, 0.0]))  # the latest group comes first
    assert second_only.interval_ns.tolist() == [8, 0, 0, 0]
    assert second_only.direct_ns.tolist() == [0, 0, 0, 0]


def test_of_several_intervals_the_longer_ones_bear_the_cost() -> None:
    waits: list[Wait] = [(0, 13, 0, [(1, 5)])]
    mine = [(0, 0, 9, 0), *((0, 9 + i, 10 + i, 0) for i in range(4))]
    others = [(1, i, i + 1, 0) for i in range(5)]
    assert costs(waits, [*mine, *others], 2) == [8, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def test_equal_work_between_other_calls_bears_no_cost() -> None:
    # Rank 1 has the same two units of work as rank 2, but recorded calls divide them.
    waits: list[Wait] = [(0, 9, 0, [(1, 1)]), (1, 10, 0, [(2, 2)])]
    work = [(0, 0, 9, 3), (1, 0, 1, 0), (1, 9, 10, 1), (2, 0, 2, 2)]
    assert costs(waits, work, 3) == [16, 0, 0, 0]


def test_a_master_that_works_alone_bears_the_waits_of_its_workers() -> None:
    # The master waits while worker 1 does the same work as worker 2.
    since: list[Wait] = [(0, 5, 0, [(1, 0), (2, 0)]), (1, 7, 5, [(0, 5)])]
    waits = [*since, (0, 12, 5, [(1, 7), (2, 7)])]
    work = [(0, 0, 5, 0), (0, 7, 12, 0), (1, 5, 7, 1), (2, 5, 7, 1)]
    assert costs(waits, work, 3) == pytest.approx([10, 10, 2, 0])


def test_a_slow_worker_bears_the_waits_of_the_others_for_the_master() -> None:
    # The master receives from worker 1, which is as fast as worker 2, before slow worker 3.
    waits: list[Wait] = [(1, 2, 0, [(0, 0)]), (3, 8, 0, [(0, 2)])]
    waits += [(0, 9, 2, [(1, 2)]), (0, 9, 0, [(2, 2)])]  # the master needs 1 to send
    work = [(1, 0, 2, 0), (2, 0, 2, 0), (3, 0, 8, 0)]
    assert costs(waits, work, 4) == pytest.approx([2, 0, 18])


def test_the_end_of_a_pipeline_bears_no_cost_of_the_work_before() -> None:
    # Rank 1 does the same work as rank 0 after it, so the wait of rank 2 for it is longer.
    waits: list[Wait] = [(0, 1, 0, [(1, 0)]), (1, 2, 0, [(2, 0)]), (2, 3, 0, [(0, 1)])]
    work = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 2, 3, 1)]
    assert costs(waits, work, 3) == pytest.approx([3, 2, 0])


def test_stages_of_a_pipeline_do_the_same_work() -> None:
    recv, send, reduce = 4, 7, 9
    stages = [(NOWHERE, send), (send, send), (recv, send), (recv, recv)]
    assert number_same_work([(reduce, reduce), *stages]).tolist() == [0, 1, 1, 1, 1]
    assert number_same_work([]).tolist() == []


def test_time_inside_a_call_and_after_unknown_calls_is_other_work() -> None:
    sites = [(4, INSIDE), (4, 5), (9, INSIDE), (UNRECORDED, 6), (UNRECORDED, 7), (NOWHERE, 8)]
    assert number_same_work(sites).tolist() == list(range(len(sites)))


@pytest.mark.parametrize("seed", range(8))
def test_costs_of_random_waits_equal_those_of_the_definition(seed: int) -> None:
    """Every rank alternates work of several keys and waits for any other rank."""
    random = np.random.default_rng(seed)
    work: list[Work] = []
    waits: list[Wait] = []
    for rank in range(4):
        now = 0
        for _ in range(12):
            begin, end = now, now + int(random.integers(1, 9))
            now = end + 1 + int(random.integers(1, 9))
            work.append((rank, begin, end, int(random.integers(3))))
            awaited = (rank + int(random.integers(1, 4))) % 4
            since = max(end - int(random.integers(1, 30)), 0)
            waits.append((awaited, now, since, [(rank, end)]))
    made, same = make_graph(waits, work, 4).waits, [0, 0, 2]
    intervals = WorkIntervals(*(np.array(of, np.int64) for of in zip(*work, strict=True)))
    found = DelayGraph(made, intervals, 4, np.array(same)).compute_costs()
    expected = define_costs(made, intervals, 4, np.ones(len(waits)), same)
    for values, known in zip((found.interval_ns, found.rest_ns), expected, strict=True):
        assert values == pytest.approx(known, rel=1e-9, abs=1e-6)


def test_the_members_of_a_group_are_compared_with_their_waits_as_weights() -> None:
    # Rank 1 waits 6 and rank 2 waits 2: on average the early ranks work 3 in key 0.
    waits: list[Wait] = [(0, 8, 0, [(1, 2), (2, 6)])]
    work = [(0, 0, 4, 0), (0, 4, 8, 1), (1, 0, 2, 0), (2, 0, 6, 0)]
    assert costs(waits, work, 3)[:2] == pytest.approx([8 * 1 / 5, 8 * 4 / 5])


def test_time_outside_the_intervals_is_the_rest() -> None:
    graph = make_graph([(0, 9, 0, [(1, 1)])], [(1, 0, 1, 0)], 2)
    assert graph.compute_costs().rest_ns.tolist() == [8, 0]


def test_overlapping_intervals_of_two_threads_count_once() -> None:
    waits: list[Wait] = [(0, 9, 0, [(1, 1)])]
    assert costs(waits, [(0, 0, 6, 0), (0, 2, 9, 0), (0, 3, 5, 0), (1, 0, 1, 0)], 2)[2:] == [0, 0]
    assert sum(costs(waits, [(0, 0, 6, 0), (0, 2, 9, 0), (1, 0, 1, 0)], 2)) == pytest.approx(8)


def test_no_waits_have_no_costs() -> None:
    graph = make_graph([], [(0, 0, 1, 0)], 1)
    assert graph.compute_costs().interval_ns.tolist() == [0]


@pytest.mark.parametrize("ranks", [2, 8, 32])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_slow_rank_of_a_halo_exchange_bears_nearly_all_cost(ranks: int, noise: float) -> None:
    waits, intervals = halo_waits(ranks, slow=ranks // 2, steps=30, noise=noise)
    found = DelayGraph(waits, intervals, ranks).compute_costs()
    by_rank = np.bincount(intervals.rank, found.interval_ns, ranks)
    total = float((waits.end_ns - waits.begin_ns).sum())
    assert found.interval_ns.sum() + found.rest_ns.sum() == pytest.approx(total)
    assert by_rank[ranks // 2] >= 0.97 * total
    assert found.interval_ns.min() >= 0 and found.rest_ns.min() >= 0


def define_items(waits: Waits, intervals: WorkIntervals, wait_key: int) -> list[list[int]]:
    """Return begin, end, number and key of all items by rank and time, without overlaps."""
    columns = intervals.rank, intervals.begin_ns, intervals.end_ns
    rows = list(zip(*columns, range(len(intervals.rank)), intervals.key, strict=True))
    members = zip(waits.rank, waits.begin_ns, waits.end_ns, waits.group, strict=True)
    rows += [(*of_wait, wait_key) for of_wait in members][::-1]
    items: list[list[int]] = []
    for rank in range(RANKS):
        of_rank = sorted(([*row[1:]] for row in rows if row[0] == rank), key=lambda item: item[0])
        if any(later[0] < item[1] for item, later in pairwise(of_rank)):
            for item, later in pairwise(of_rank):
                later[1] = max(later[1], item[1])
                later[0] = max(later[0], item[1])
        items += [[int(value) for value in item] for item in of_rank]
    return items


@pytest.mark.parametrize("seed", range(6))
def test_items_are_ordered_without_overlaps(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, width = 60 * (seed % 3), (3, 40)[seed // 3]

    def draw(rows: int) -> tuple[Int, Int, Int]:
        rank, begin_ns = random.integers(0, RANKS - 1, rows), random.integers(0, 2000, rows)
        return rank, begin_ns, begin_ns + random.integers(0, width, rows)

    intervals = WorkIntervals(*draw(count), random.integers(0, 4, count))
    rank, begin_ns, end_ns = draw(20)
    zeros, first = np.zeros(3, np.int64), np.array([0, 5, 5, 20])
    waits = Waits(zeros, zeros, zeros, first, rank, begin_ns, end_ns)
    graph = DelayGraph(waits, intervals, RANKS)
    expected = define_items(waits, intervals, int(intervals.key.max(initial=-1)) + 1)
    assert [list(item) for item in graph._items.tolist()] == expected


@pytest.mark.parametrize(("ranks", "noise"), [(2, 0.3), (8, 0.3), (32, 0.1)])
def test_costs_equal_those_of_the_definition(ranks: int, noise: float) -> None:
    waits, intervals = halo_waits(ranks, slow=1, steps=6, noise=noise)
    for chosen in (np.ones(len(waits.awaited)), np.arange(len(waits.awaited)) % 3 == 0.0):
        found = DelayGraph(waits, intervals, ranks).compute_costs(chosen.astype(np.float64))
        expected = define_costs(waits, intervals, ranks, chosen.astype(np.float64))
        for values, known in zip((found.interval_ns, found.rest_ns), expected, strict=True):
            assert values == pytest.approx(known, rel=1e-9, abs=1e-3)


def test_costs_do_not_depend_on_the_order_of_groups_and_members() -> None:
    waits, intervals = halo_waits(8, slow=4, steps=10, noise=0.3)
    random = np.random.default_rng(1)
    number, member = (random.permutation(len(of)) for of in (waits.awaited, waits.group))
    order = np.argsort(number)
    mixed = order_waits(
        waits.awaited[order],
        waits.until_ns[order],
        waits.since_ns[order],
        number[waits.group][member],
        waits.rank[member],
        waits.begin_ns[member],
        waits.end_ns[member],
    )
    known, found = (DelayGraph(of, intervals, 8).compute_costs() for of in (waits, mixed))
    assert found.interval_ns == pytest.approx(known.interval_ns, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("reach", [1, 3, 4])
def test_a_window_contains_a_limited_number_of_items(
    reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 works 9 and 3 longer than rank 1; the ranks have never met."""
    monkeypatch.setattr(delay_graph, "MAX_REACH", reach)
    work = [(0, 0, 10, 0), (0, 10, 11, 0), (0, 11, 12, 0), (0, 12, 16, 0)]
    early = [(1, i, i + 1, 0) for i in range(4)]
    found = costs([(0, 16, 0, [(1, 4)])], [*work, *early], 2)[:4]
    assert found == pytest.approx({4: [9, 0, 0, 3], 3: [0, 2, 2, 8], 1: [0, 0, 0, 12]}[reach])


def test_a_trace_without_calls_has_no_delays(tmp_path: Path) -> None:
    assert len(mpiprof.open(Synthetic(2).write(tmp_path / "t")).delays) == 0
