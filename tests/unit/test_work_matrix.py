"""Medians of the columns of a work matrix, against NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mpiprof.causes.habits.work_matrix import column_medians


@pytest.mark.parametrize("seed", range(60))
def test_medians_are_those_of_numpy(seed: int) -> None:
    """Odd and even numbers of rows, equal values, unknown values, and columns without values."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((int(random.integers(1, 40)), int(random.integers(0, 30))))
    values *= 10.0 ** random.integers(0, 9)
    if seed % 3:
        values[random.random(values.shape) < random.random()] = np.nan
    if seed % 5 == 0:
        values = np.rint(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about columns without values
        expected = np.nanmedian(values, 0)
    assert np.array_equal(column_medians(values), expected, equal_nan=True)


def test_a_matrix_without_rows_has_unknown_medians() -> None:
    assert np.isnan(column_medians(np.zeros((0, 3)))).tolist() == [True] * 3
