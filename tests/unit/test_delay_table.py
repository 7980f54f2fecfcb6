"""Numbers of pairs of sites, and sums over the intervals of each rank and pair, by definition."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from mpiprof.account.delay_library import number_pairs, sum_intervals

RANKS, KEYS = 4, 5


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_numbered_in_order_of_their_codes(seed: int) -> None:
    random = np.random.default_rng(seed)
    low, count, rows = -3, 6, [0, 4, 60][seed]
    first, second = (random.integers(low, low + count, rows) for _ in range(2))
    codes, number = number_pairs(first, second, low, count)
    expected = (first - low) * count + second - low
    assert codes.tolist() == sorted(set(expected.tolist()))
    assert codes[number].tolist() == expected.tolist()


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_sums_of_intervals_equal_their_definition(rows: int) -> None:
    random = np.random.default_rng(rows)
    begin = random.integers(0, 1000, rows)
    of: dict[str, Any] = {
        "rank": random.integers(0, RANKS, rows),
        "key": random.integers(0, KEYS, rows),
        "begin_ns": begin,
        "end_ns": begin + random.integers(1, 1000, rows),
        "cost": random.random(rows) * random.integers(0, 2, rows),
        "direct": random.random(rows),
    }
    codes, sums = sum_intervals({"count": rows, "keys": KEYS} | of, RANKS)
    expected: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0, 0])
    for rank, key, begin_ns, end_ns, cost, direct in zip(*of.values(), strict=True):
        row = expected[int(rank * KEYS + key)]
        added = (cost, direct, float(end_ns - begin_ns), 1, int(cost > 0))
        row[:] = [total + value for total, value in zip(row, added, strict=True)]
    assert codes.tolist() == sorted(expected)
    names = ("cost_ns", "direct_ns", "work_ns", "intervals", "late_intervals")
    found = zip(*(sums[name].tolist() for name in names), strict=True)
    assert [list(row) for row in found] == [expected[code] for code in codes.tolist()]
