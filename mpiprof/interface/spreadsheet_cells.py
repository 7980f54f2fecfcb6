"""Texts in CSV files, which spreadsheet programs evaluate if they begin like a formula."""

from __future__ import annotations

import re
from typing import Any

_FORMULA = re.compile(r"[\s\x00]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def protect_cell(value: Any) -> Any:
    """Return a value for a CSV file: a text that begins like a formula gets an apostrophe.

    Numbers remain numbers, also as text.
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
