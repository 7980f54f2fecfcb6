"""A table of promises: requirement, measurement, and verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A promise: its subject, the requirement ("" if none), the measurement, and the verdict."""

    what: str
    asked: str
    measured: str
    holds: bool = True


def printed(rows: Iterable[Row]) -> bool:
    """Print the rows as they come, and return whether all promises hold."""
    line, held = "{:32} {:16} {:28} {}", True
    print(line.format("what", "asked", "measured", "holds"))
    for row in rows:
        mark = ("yes" if row.holds else "NO") if row.asked else ""
        print(line.format(row.what, row.asked, row.measured, mark).rstrip(), flush=True)
        held &= row.holds
    return held
