"""One thing that a study measures: an operation, its sizes, and the algorithm that it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpiprof.model.schedule import Problem
from mpiprof.model.variant import Variant

AUTO = "auto"  # the choice that leaves choosing to the selector, which begins afresh
AUTO_AGAIN = "auto again"  # the rule by which it goes on
LINE = "line"  # one message from the first to the last rank: what the network itself takes


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    labels: its columns in the table. choice: `native`, `auto`, or an algorithm as `run --switch`
    takes it, with its parameters behind colons. members: "world", "permuted", "partial" (all but
    the last), "ends" (the first and the last), a number (so many of the first ranks), or "8+8" (two
    groups).
    arrivals: MAX_IF and the time of a message; each rank comes up to so many messages late, by a
    pattern that changes with the lap.
    """

    labels: dict[str, Any]
    operation: str
    choice: str
    problem: Problem
    members: str = "world"
    gaps: bool = False
    maxloc: bool = False
    arrivals: tuple[int, int] = (1, 0)

    @property
    def name(self) -> str:
        """The algorithm without its parameters."""
        return self.choice.partition(":")[0]

    @property
    def is_native(self) -> bool:
        """Whether it is the library's own choice, or one of its own by name."""
        return self.name == "native"

    def rule(self) -> str:
        """Return the choice as the library reads it; empty: the library's own."""
        if self.choice == "native" or self.operation == LINE:
            return ""
        if self.choice == AUTO:
            return AUTO
        return f"{self.operation} {self.choice} 0 -1"


def parameters_of(case: Case) -> Problem:
    """Return a case's problem with the parameters of its choice."""
    return Variant.read(case.choice).apply(case.problem)
