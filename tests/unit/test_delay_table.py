"""Numbers of pairs of sites: equal to those of sorted codes, whatever the number of cells."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.account.row_order import number_codes
from mpiprof.account.work_intervals import INSIDE, NOWHERE, number_pairs


@pytest.mark.parametrize("limit", [60, 600, 100_000])
def test_codes_are_numbered_in_order(limit: int) -> None:
    for rows in (0, 4, 60):
        code = np.random.default_rng(rows).integers(0, limit, rows)
        codes, number = number_codes(code, limit)
        assert codes.tolist() == sorted(set(code.tolist()))
        assert codes[number].tolist() == code.tolist()


@pytest.mark.parametrize("sites", [3, 1000])
def test_pairs_of_sites_are_numbered_in_order(sites: int) -> None:
    random = np.random.default_rng(sites)
    before, after = (random.integers(least, sites, 60) for least in (NOWHERE, INSIDE))
    number, pairs = number_pairs(before.astype(np.int32), after)
    expected = list(zip(before.tolist(), after.tolist(), strict=True))
    assert pairs == sorted(set(expected))
    assert [pairs[at] for at in number.tolist()] == expected
