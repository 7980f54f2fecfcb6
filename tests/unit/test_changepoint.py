"""Best segmentation of a series, compared with ruptures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import ruptures

from mpiprof.causes.habits.series import segment_columns


def stepped(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Return noise with up to three steps, far from zero."""
    series = random.normal(size=(rows, columns)) + 1e3 * random.normal(size=columns)
    for _ in range(random.integers(0, 4)):
        series[random.integers(0, rows) :] += random.normal(size=columns)
    return series


@pytest.mark.parametrize("seed", range(20))
def test_same_cuts_as_ruptures(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, columns = int(random.integers(20, 500)), int(random.integers(1, 6))
    shortest = [2, 8][seed % 2]
    series = stepped(random, rows, columns)
    penalty = 3.0 * (columns + 1) * np.log(rows)
    predicted = (
        ruptures.KernelCPD(kernel="linear", min_size=shortest).fit(series).predict(pen=penalty)
    )
    assert segment_columns(series, penalty, shortest).tolist() == predicted[:-1]


@pytest.mark.parametrize("seed", range(5))
def test_no_cut_is_better(seed: int) -> None:
    """Compared with all ways to cut ten rows into segments of two or more."""
    series = stepped(np.random.default_rng(seed), 10, 2)

    def cost(cuts: tuple[int, ...]) -> float:
        parts = np.split(series, cuts)
        if min(map(len, parts)) < 2:
            return np.inf
        return sum(float(((p - p.mean(0)) ** 2).sum()) for p in parts) + 1.0 * len(cuts)

    every: Iterator[tuple[int, ...]] = (
        c for n in range(5) for c in itertools.combinations(range(1, 10), n)
    )
    best = min(every, key=cost)
    assert segment_columns(series, 1.0, 2).tolist() == list(best)
