"""Order statistics of values in groups, compared with sorted values."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.account.row_order import count_members, find_medians, find_upper_medians, select_values
from mpiprof.trace.types import Array, Float, Int


def sort_groups(group: Int, values: Float, groups: int) -> list[Float]:
    return [np.sort(values[group == number]) for number in range(groups)]


def make_values(kind: str, count: int, random: np.random.Generator) -> Array:
    if kind == "equal":
        return np.ones(count)
    if kind == "few":
        return random.integers(0, 3, count).astype(np.float64)
    values = random.exponential(1e6, count)
    return {"ascending": np.sort(values), "descending": -np.sort(values)}.get(kind, values)


@pytest.mark.parametrize("kind", ["random", "equal", "few", "ascending", "descending"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
def test_medians_are_those_of_sorted_values(kind: str, count: int) -> None:
    random, groups = np.random.default_rng(count), 9
    group = random.integers(0, groups - 1, count)  # the last group is empty
    values = make_values(kind, count, random)
    ordered = sort_groups(group, values, groups)
    lower = [of[(len(of) - 1) // 2] if len(of) else 0.0 for of in ordered]
    upper = [of[len(of) // 2] if len(of) else 0.0 for of in ordered]
    assert find_medians(group, values, groups).tolist() == lower
    assert find_upper_medians(group, values, groups).tolist() == upper


def test_each_value_is_selected_by_its_index() -> None:
    random, groups = np.random.default_rng(2), 5
    group, values = random.integers(0, groups, 200), random.normal(size=200)
    ordered = sort_groups(group, values, groups)
    count = count_members(group, groups)
    for at in range(-1, int(count.max()) + 1):
        selected = select_values(group, values, np.full(groups, at), count)
        expected = [of[at] if 0 <= at < len(of) else 0.0 for of in ordered]
        assert selected.tolist() == expected


def test_undefined_values_end() -> None:
    values = np.array([np.nan, 1.0, np.nan, 2.0])
    assert len(find_medians(np.zeros(4, np.int64), values, 1)) == 1


def test_rows_of_unknown_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="3 values of 2 rows in 1 groups"):
        select_values(np.zeros(2, np.int64), np.zeros(3), np.zeros(1, np.int64), np.array([2]))
