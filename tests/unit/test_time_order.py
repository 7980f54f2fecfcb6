"""Order by rank and time, compared with numpy's stable sort."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from mpiprof.account.row_order import (
    count_first_rows,
    find_places,
    number_codes,
    order_by_rank,
    order_by_time,
    put_in_order,
)

NOTHING = np.zeros(0, np.int64)


@pytest.mark.parametrize("ranks", [1, 2, 7])
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_ordered_by_rank_and_time(ranks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(0, 300)) if seed < 3 else 2000
    rank = random.integers(0, ranks, rows)
    time_ns = random.integers(-20, 20, rows) * [1, 1 << 20, 1 << 58][seed % 3]
    if seed % 2:  # a few parts that ascend or descend
        time_ns = np.concatenate(
            [np.sort(part)[:: random.choice([-1, 1])] for part in np.array_split(time_ns, 4)]
        )
    order, first = order_by_time(rank, time_ns, ranks)
    assert order.tolist() == np.lexsort((time_ns, rank)).tolist()
    assert first.tolist() == np.searchsorted(np.sort(rank), np.arange(ranks + 1)).tolist()
    assert order_by_rank(rank, ranks)[0].tolist() == np.argsort(rank, kind="stable").tolist()
    for given in (np.arange(rows), order):
        columns = put_in_order((rank[given], time_ns[given], given), ranks)
        assert columns[2].tolist() == order.tolist()


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_places_are_those_of_a_search_in_each_rank(after: bool, is_ordered: bool) -> None:
    random = np.random.default_rng(3)
    ranks, rows = 5, 400
    rank = np.sort(random.integers(0, ranks - 1, rows))  # the last rank has no rows
    time_ns = random.integers(-30, 30, rows) * (1 << 40)
    time_ns = time_ns[np.lexsort((time_ns, rank))]
    first = count_first_rows(rank, ranks)
    of_rank, sought = random.integers(0, ranks, 300), random.integers(-32, 32, 300) * (1 << 40)
    if is_ordered:
        order = np.lexsort((sought, of_rank))
        of_rank, sought = of_rank[order], sought[order]
    side: Literal["left", "right"] = "right" if after else "left"
    expected = [
        int(first[r] + np.searchsorted(time_ns[first[r] : first[r + 1]], ns, side))
        for r, ns in zip(of_rank.tolist(), sought.tolist(), strict=True)
    ]
    assert find_places(first, time_ns, of_rank, sought, after=after).tolist() == expected


def test_ranks_must_be_below_their_number() -> None:
    for rank in (-1, 2):
        with pytest.raises(ValueError, match="not below 2"):
            order_by_time(np.array([rank]), np.zeros(1, np.int64), 2)
        with pytest.raises(ValueError, match="not below 2"):
            find_places(np.zeros(3, np.int64), NOTHING, np.array([rank]), np.zeros(1, np.int64))


def test_codes_are_numbered_in_order() -> None:
    known, number = number_codes(np.array([7, 2, 7, 0]), 9)
    assert (known.tolist(), number.tolist()) == ([0, 2, 7], [2, 1, 2, 0])
