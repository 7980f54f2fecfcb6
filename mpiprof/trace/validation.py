"""Checks of values that were read from JSON: each returns a value of the right type.

Each check raises ValueError for another type. Numbers are finite and texts are clean, because
interface/untrusted_text.py has read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MAX_INTEGER = 1 << 62  # largest plausible time or byte count
Check = Callable[[Any], Any]


def check_integer(value: Any, low: int = -MAX_INTEGER, high: int = MAX_INTEGER) -> int:
    """Return the value if it is an integer between the bounds."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r:.20} in place of a number")
    return value


def check_number(value: Any) -> float:
    """Return the value if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.20} in place of a number")
    return value


def check_text(value: Any) -> str:
    """Return the value if it is a text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.20} in place of text")
    return value


def check_flag(value: Any) -> bool:
    """Return the value if it is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.20} in place of true or false")
    return value


def check_object(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.20} in place of an object")
    return value


def check_list(value: Any, check: Check) -> list[Any]:
    """Return a list whose items pass a check."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.20} in place of a list")
    return [check(item) for item in value]


def check_optional(value: Any, check: Check) -> Any:
    """Return None, or a value that passes a check."""
    return None if value is None else check(value)


def check_fields(value: Any, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return an object whose known fields pass their checks; unknown fields remain."""
    fields = check_object(value)
    return {name: checks[name](item) if name in checks else item for name, item in fields.items()}
