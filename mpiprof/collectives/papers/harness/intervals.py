"""Values with their confidence intervals, and their texts, which have only certain digits.

All studies use `Estimate` for measured values, so that tables, pages and CSV files show no digit
that another run would change.
"""

from __future__ import annotations

import math
from math import comb, floor, hypot, isfinite, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.interface.format_units import format_time, unit_of

MOST_DIGITS = 4  # of exact values too, such as simulated times
COVERAGE = 0.95
# Fewest values whose range is an interval of 95 % for their median (1 - 2 / 2^6 = 97 %).
FEWEST_VALUES = 6


class IntervalEstimate(float):
    """A value with the limits of its 95 % interval; `str` returns only the certain digits."""

    low: float  # NaN if only the digits are known
    high: float
    width: float  # 0 for an exact value

    def __new__(
        cls, value: float, low: float = math.nan, high: float = math.nan, width: float | None = None
    ) -> IntervalEstimate:
        """Return the value; equal limits mark an exact one. `width` alone only sets the digits."""
        estimate = super().__new__(cls, value)
        estimate.low, estimate.high = low, high
        estimate.width = high - low if width is None else width
        return estimate

    def __str__(self) -> str:
        """Return the certain digits; an exact value has all of them."""
        return format_within(self, self.width) if self.width > 0 else float.__repr__(self)

    @property
    def margin(self) -> IntervalEstimate:
        """Return half of the width, with one digit."""
        return IntervalEstimate(self.width / 2, width=self.width)

    def scale(self, factor: float) -> IntervalEstimate:
        """Return the estimate in another unit."""
        limits = self.low * factor, self.high * factor
        return IntervalEstimate(self * factor, *limits, self.width * abs(factor))

    @property
    def interval_text(self) -> str:
        """Return the limits with the digits of the value, or "" if the value is exact."""
        if not self.low < self.high:
            return ""
        low, high = (format_within(limit, self.width) for limit in (self.low, self.high))
        return f"{low} to {high}"


def estimate_within(value: float, half: float) -> IntervalEstimate:
    """Return a value with half of the width of its interval."""
    return IntervalEstimate(value, value - half, value + half)


def estimate_quotient(above: IntervalEstimate, below: IntervalEstimate) -> IntervalEstimate:
    """Return the quotient of independent estimates; their relative errors add in squares."""
    error = hypot(above.width / above, below.width / below) / 2 if above and below else 0.0
    value = above / below if below else math.nan
    return estimate_within(value, abs(value) * error)


def format_within(value: float, width: float) -> str:
    """Return a value rounded at the first digit of half the width of its interval.

    A value without width is exact: it has MOST_DIGITS digits, or all before the point. An unknown
    value is "".
    """
    if np.isnan(value):
        return ""
    if not (width > 0 and isfinite(width) and isfinite(value)):
        return f"{value:.{MOST_DIGITS}g}" if abs(value) < 1000 else f"{value:.0f}"
    place = _first_place(float(f"{width / 2:.0e}"))  # 0.0996 has the place of 0.1
    if value:  # at least one digit, and at most MOST_DIGITS
        first = _first_place(value)
        place = min(max(place, first - MOST_DIGITS + 1), first)
    return f"{value:.{-place}f}" if place < 0 else f"{round(float(value), -place) + 0.0:.0f}"


def format_time_within(ns: IntervalEstimate) -> str:
    """Return a time in the unit that suits it, with the digits that its interval allows."""
    if not ns.width > 0:
        return format_time(ns)
    unit, length = unit_of(ns)
    return f"{format_within(ns / length, ns.width / length)} {unit}"


def _first_place(value: float) -> int:
    """Return the power of ten of a number's first digit."""
    return floor(log10(abs(value)))


def median_interval(values: NDArray[Any]) -> IntervalEstimate:
    """Return the median with its interval of COVERAGE, or the range of fewer than FEWEST_VALUES."""
    ordered = np.sort(np.asarray(values, np.float64))
    count = len(ordered)
    outside, skipped = 2 / 2**count, 0  # probability that the median is outside of the limits
    while skipped + 1 < count / 2 and outside + 2 * comb(count, skipped + 1) / 2**count <= 0.05:
        skipped += 1
        outside += 2 * comb(count, skipped) / 2**count
    limits = float(ordered[skipped]), float(ordered[count - 1 - skipped])
    return IntervalEstimate(float(np.median(ordered)), *limits)
