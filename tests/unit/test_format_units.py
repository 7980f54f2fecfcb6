"""Numbers as reports print them: three digits and a unit."""

from __future__ import annotations

import math

import pytest

from mpiprof.interface.format_units import (
    format_count,
    format_factor,
    format_instance,
    format_runs,
    format_share,
    format_size,
    format_time,
    format_uncertain_time,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (-0.3, "0 ns"),
        (0, "0 ns"), (999, "999 ns"), (1000, "1.00 µs"), (12_345, "12.3 µs"), (999_499, "999 µs"),
        (999_600, "1.00 ms"), (3.5e9, "3.50 s"), (599e9, "599 s"), (3600e9, "1h00m"),
        (725e9, "12m05s"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_durations(ns: float, text: str) -> None:
    assert format_time(ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00"), (0.2, "0.20"), (2.9, "2.90"), (16.3, "16.3"), (91, "91.0"), (652, "652"),
        (1234, "1.2K"), (11_000, "11K"), (347_000, "347K"), (2.5e6, "2.5M"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_factors_as_in_the_paper(value: float, text: str) -> None:
    assert format_factor(value) == text


def test_small_units() -> None:
    assert format_size(131076) == "128 KB" and format_size(4096) == "4096 B"
    assert format_share(0.001) == "<1 %" and format_share(1) == "100 %"
    assert format_count(48779) == "48 779"
    assert format_runs([0, 1, 2, 3, 7]) == "0-3, 7"
    assert format_runs(list(range(0, 40, 2)), most=3) == "0, 2, 4 and 17 more"


@pytest.mark.parametrize(
    ("ns", "error_ns", "text"),
    [
        (12.3e6, math.nan, "about 12.3 ms"),
        (12.3e6, 1e3, "12.3 ms"),
        (12.3e6, 0.4e6, "12.3 ms ± 400 µs"),
    ],
)
def test_a_time_has_its_error(ns: float, error_ns: float, text: str) -> None:
    assert format_uncertain_time(ns, error_ns) == text


def test_instances_count_from_0() -> None:
    assert format_instance(0, 40) == "instance 0 of 0–39"
    assert format_instance(0, 1) == "the only instance"


@pytest.mark.parametrize("value", [-0.01, 1.01, 3.61, float("inf")])
def test_a_share_outside_0_to_100_percent_is_an_internal_fault(value: float) -> None:
    with pytest.warns(UserWarning, match="instead of 0 to 100 %"):
        assert format_share(value) == "–"


def test_rounding_leaves_shares_between_0_and_100_percent() -> None:
    assert format_share(-1e-9) == "0 %"
    assert format_share(1 + 1e-9) == "100 %"
