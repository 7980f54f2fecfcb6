"""Type and range checks for the values of a tables line."""

from __future__ import annotations

from typing import Any

MAX_INTEGER = 1 << 62  # largest plausible time or byte count


def check_integer(value: Any, low: int = -MAX_INTEGER, high: int = MAX_INTEGER) -> int:
    """Return the value if it is an integer between the bounds, else ValueError."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r:.20} in place of a number")
    return value


def check_text(value: Any) -> str:
    """Return the value if it is a string, else ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.20} in place of text")
    return value
