"""What was asked, what was measured, and whether it holds, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A promise: what was asked (empty: nothing), what was measured, and whether that holds."""

    what: str
    asked: str
    measured: str
    holds: bool = True


def printed(rows: Iterable[Row]) -> bool:
    """Print rows as they come; return whether all of them hold."""
    line, held = "{:32} {:16} {:28} {}", True
    print(line.format("what", "asked", "measured", "holds"))
    for row in rows:
        mark = ("yes" if row.holds else "NO") if row.asked else ""
        print(line.format(row.what, row.asked, row.measured, mark).rstrip(), flush=True)
        held &= row.holds
    return held
