"""Values of a line of the tables: of the type that they must have, within what can be."""

from __future__ import annotations

from typing import Any

LIMIT = 1 << 62  # times and byte counts beyond it cannot be


def integer(value: Any, low: int = -LIMIT, high: int = LIMIT) -> int:
    """Return the value if it is an integer between the bounds, else ValueError."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r:.20} where a number is expected")
    return value


def text(value: Any) -> str:
    """Return the value if it is a string, else ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.20} where text is expected")
    return value
