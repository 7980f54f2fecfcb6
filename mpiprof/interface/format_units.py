"""Formats numbers for people: three digits and a unit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence

UNKNOWN = "–"
MAX_TEXT = 300  # characters of a text from a trace on a page
UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
FACTOR_UNITS = (("K", 1e3), ("M", 1e6), ("G", 1e9))
SHARE_ROUNDING = 1e-6  # by which sums of parts may differ from their whole
MIN_ERROR_SHARE = 0.005  # of a time, from which its error is shown
SIZE_UNITS = (("KB", 2.0**10), ("MB", 2.0**20), ("GB", 2.0**30), ("TB", 2.0**40))


def format_time(ns: float) -> str:
    """Return a time in ns, µs, ms or s, or as minutes and hours."""
    if math.isnan(ns):
        return UNKNOWN
    if abs(ns) < 1000:
        return f"{round(ns)} ns"
    if abs(ns) < 600e9:
        scaled, unit = _scale(ns, UNITS[1:])
        return f"{_three_digits(scaled)} {unit}"
    minutes, seconds = divmod(round(abs(ns) / 1e9), 60)
    sign = "-" if ns < 0 else ""
    if minutes < 60:
        return f"{sign}{minutes}m{seconds:02d}s"
    return f"{sign}{minutes // 60}h{minutes % 60:02d}m"


def format_uncertain_time(ns: float, error_ns: float) -> str:
    """Return a time with its error: "12.3 ms ± 400 µs", or "about 12.3 ms" if that is unknown.

    An error that does not change the three digits is left out.
    """
    if math.isnan(error_ns):
        return f"about {format_time(ns)}"
    if error_ns <= MIN_ERROR_SHARE * abs(ns):
        return format_time(ns)
    return f"{format_time(ns)} ± {format_time(error_ns)}"


def format_link(alpha_ns: float, beta_ns: float) -> str:
    """Return message times in words, such as "2.00 µs and 0.1 ns a byte"."""
    return f"{format_time(alpha_ns)} and {beta_ns:.3g} ns a byte"


def unit_of(largest_ns: float) -> tuple[str, float]:
    """Return the unit in which times up to `largest_ns` are shown, and the unit's length in ns."""
    return next((unit for unit in reversed(UNITS) if abs(largest_ns) >= unit[1]), UNITS[0])


def format_rough_time(seconds: float) -> str:
    """Return a rough duration for a user who waits."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(seconds, 1):.0f} s"


def format_factor(value: float) -> str:
    """Return an imbalance factor in the paper's style: 0.20, 16.3, 652, 1.2K, 347K."""
    if math.isnan(value):
        return UNKNOWN
    if abs(value) < 999.5:
        return _three_digits(value)
    scaled, unit = _scale(value, FACTOR_UNITS)
    return f"{scaled:.1f}{unit}" if abs(scaled) < 9.95 else f"{scaled:.0f}{unit}"


def format_size(number: float) -> str:
    """Return a number of bytes in B, KB, MB or GB (powers of 1024)."""
    if math.isnan(number):
        return UNKNOWN
    if abs(number) < 9999.5:
        return f"{number:.0f} B"
    scaled, unit = _scale(number, SIZE_UNITS)
    return f"{_three_digits(scaled)} {unit}"


def format_round_size(number: float) -> str:
    """Return a chosen size, not a measured one: 64 KB, where `size` returns 64.0 KB."""
    for unit, scale in (("MB", 1 << 20), ("KB", 1 << 10)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f} B"


def format_share(value: float) -> str:
    """Return a part of a whole in percent; values outside 0 to 1 are an internal fault."""
    if math.isnan(value):
        return UNKNOWN
    if not -SHARE_ROUNDING <= value <= 1 + SHARE_ROUNDING:
        fact = f"A share is {100 * value:.0f} % instead of 0 to 100 %"
        warnings.warn(f"{fact}, so it is shown as unknown. Report this trace.", stacklevel=2)
        return UNKNOWN
    return format_percent(min(max(value, 0.0), 1.0))


def format_percent(value: float) -> str:
    """Return a ratio in percent, which may be above 1 or below 0, unlike a share."""
    if math.isnan(value):
        return UNKNOWN
    percent = 100 * value
    if 0 < percent < 0.5:
        return "<1 %"
    return f"{percent:.0f} %"


def format_change(value: float) -> str:
    """Return other / first - 1 in percent, with its sign; large values as a multiple."""
    return f"{100 * value:+.0f} %" if abs(value) < 10 else f"× {value + 1:.0f}"


def format_count(number: float) -> str:
    """Return a whole number with thin groups of thousands: 48 779."""
    if math.isnan(number):
        return UNKNOWN
    return f"{number:,.0f}".replace(",", " ")


def format_instance(number: int, count: int) -> str:
    """Return the number of an instance among all of its call site: "instance 20 of 0–39".

    Instances count from 0, as in files, addresses and options.
    """
    return f"instance {number} of 0–{count - 1}" if count > 1 else "the only instance"


def format_estimate(total: float, known: float) -> str:
    """Return a count, with ~ if it is an estimate from fewer known items."""
    return format_count(total) if total == known else f"~{format_count(total)}"


def between(low: float, high: float, shown: Callable[[float], str]) -> str:
    """Return the bounds of an estimate ("31 % to 38 %"), or "" if it is exact."""
    ends = shown(low), shown(high)
    return f"{ends[0]} to {ends[1]}" if low < high and ends[0] != ends[1] else ""


def format_ordinal(number: int) -> str:
    """Return "2nd" for 2, "11th" for 11."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 < number % 100 < 14 else ends.get(number % 10, 'th')}"


def find_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def format_runs(members: list[int], most: int = 8) -> str:
    """Return rank numbers as runs, such as "0-3, 7"; a long list is cut and counted."""
    runs = find_runs(sorted(members))
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:most]]
    omitted = sum(b - a + 1 for a, b in runs[most:])
    return ", ".join(shown) + (f" and {omitted} more" if omitted else "")


def format_ranks(members: Sequence[int]) -> str:
    """Return "rank 5" or "ranks 5, 7"; "" without ranks."""
    return f"rank{'s' * (len(members) > 1)} {format_runs(sorted(members))}" if members else ""


def capitalise(words: str) -> str:
    """Return words as the start of a sentence; names in them remain as they are."""
    return words[:1].upper() + words[1:]


def lower_first(sentence: str) -> str:
    """Return a sentence for use after other words, with a small first letter."""
    return sentence[:1].lower() + sentence[1:]


def _scale(value: float, units: Sequence[tuple[str, float]]) -> tuple[float, str]:
    """Return a value in the unit that needs at most three digits before the point, and the unit."""
    unit, scale = next((u for u in units if abs(value) < 999.5 * u[1]), units[-1])
    return value / scale, unit


def _three_digits(value: float) -> str:
    size = abs(value)
    if size < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def shorten_text(value: object) -> str:
    """Return text from a trace, cut to a length suitable for a page."""
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
