"""Changes of the processors on which a rank may run, as the recorder wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpiprof.trace.validation import check_integer, check_list, check_object


@dataclass(frozen=True)
class AffinityChange:
    """A change between two readings, whose times are on the clock of the rank's node.

    processors: on which the rank may run from then on.
    """

    after_ns: int
    at_ns: int
    processors: frozenset[int]


def parse_affinity(value: Any) -> AffinityChange:
    """Return a change from its line in the tables."""
    row = check_object(value)
    after_ns = check_integer(row["after_ns"])
    processors = check_list(row["processors"], lambda number: check_integer(number, 0))
    return AffinityChange(after_ns, check_integer(row["at_ns"], after_ns), frozenset(processors))
