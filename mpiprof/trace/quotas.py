"""The quota of the control group of a rank during the run, as the recorder wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpiprof.trace.validation import check_integer, check_number, check_object, check_text


@dataclass(frozen=True)
class QuotaReading:
    """A reading, whose time is on the clock of the rank's node.

    processors: that the group may use, 0 without a limit. stopped_ns: for how long the quota has
    stopped the group since the rank was first seen in it.
    """

    at_ns: int
    processors: float
    group: str
    stopped_ns: int


def parse_quota(value: Any) -> QuotaReading:
    """Return a reading from its line in the tables."""
    row = check_object(value)
    return QuotaReading(
        check_integer(row["at_ns"]),
        check_number(row["processors"]),
        check_text(row["group"]),
        check_integer(row["stopped_ns"], 0),
    )
