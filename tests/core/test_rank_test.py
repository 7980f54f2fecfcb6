"""Medians of scores, from core/selection/online/rank_test.c, and those of Python."""

from __future__ import annotations

import ctypes
import random
import statistics

import pytest
from support.compilation import of_the_core

LIMITS = (-(1 << 63), (1 << 63) - 1)


@pytest.fixture(scope="module")
def medians(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the medians into a separate library."""
    shared_object = tmp_path_factory.mktemp("medians") / "medians.so"
    of_the_core(shared_object, ["selection/online/rank_test"], "-shared", "-fPIC")
    library = ctypes.CDLL(str(shared_object))
    for name in ("median_of", "median_spaced", "spread_of"):
        getattr(library, f"rank_test_{name}").restype = ctypes.c_int64
    return library


def random_values(generator: random.Random) -> list[int]:
    """Return up to a whole window of values of any size, often equal ones."""
    bits = generator.choice([1, 3, 20, 40, 61])
    return [generator.randint(-(1 << bits), 1 << bits) for _ in range(generator.randint(1, 256))]


@pytest.mark.parametrize("seed", range(20))
def test_medians_and_spreads_are_those_of_python(seed: int, medians: ctypes.CDLL) -> None:
    generator = random.Random(seed)
    for _ in range(20):
        values = random_values(generator)
        array = (ctypes.c_int64 * len(values))(*values)
        middle = statistics.median_low(values)
        assert medians.rank_test_median_of(array, len(values)) == middle
        spread = statistics.median_low([abs(value - middle) for value in values])
        assert medians.rank_test_spread_of(array, len(values)) == spread
        every_third = values[::3]
        spaced = medians.rank_test_median_spaced(array, ctypes.c_size_t(24), len(every_third))
        assert spaced == statistics.median_low(every_third)


def test_medians_at_the_limits_of_64_bits(medians: ctypes.CDLL) -> None:
    for values in ([LIMITS[0]], [LIMITS[1]], list(LIMITS), [*LIMITS, LIMITS[1]]):
        array = (ctypes.c_int64 * len(values))(*values)
        found = medians.rank_test_median_of(array, len(values))
        assert found == statistics.median_low(values)
    assert medians.rank_test_median_of((ctypes.c_int64 * 1)(), 0) == 0
