"""Options of a study, and one case of it: an operation, its sizes, and its algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpiprof.collectives.machine import Machine
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.variant import Variant
from mpiprof.facts.operations import SELECTORS


@dataclass(frozen=True)
class Options:
    """Options of the command line; empty values mean the study's default."""

    sizes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    laps: int = 0
    minutes: float = 15.0
    quick: bool = False
    output: Path | None = None
    machine: Path | None = None
    is_calibrated: bool = False  # `calibrate` has measured `machine` on the study's ranks
    full: bool = False
    only: tuple[str, ...] = ()  # parts of the study
    algorithms: tuple[str, ...] = ()
    per_node: int = 1
    node_port: bool = False
    figures: tuple[str, ...] = ()


AGAIN = "{} again"  # rule that continues the previous search of a selector
LINE = "line"  # one message from the first to the last rank, which measures the network itself


@dataclass(frozen=True)
class Case:
    """One case to measure."""

    labels: dict[str, Any]  # columns in the table
    operation: str
    # `native`, one of SELECTORS, which start without history, or an algorithm as in `run --switch`
    choice: str
    problem: Problem
    # "world", "permuted", "partial" (all but the last rank), "ends" (the first and last rank), a
    # number (so many of the first ranks), or "8+8" (two groups).
    members: str = "world"
    gaps: bool = False
    maxloc: bool = False
    # MAX_IF and the time of a message: each rank is late by less than MAX_IF messages, in a pattern
    # that depends on the lap.
    arrivals: tuple[int, int] = (1, 0)

    @property
    def name(self) -> str:
        """The algorithm without its parameters."""
        return self.choice.partition(":")[0]

    @property
    def is_native(self) -> bool:
        """True for the library's own choice, and for one of the library's algorithms by name."""
        return self.name == "native"

    def recorder_rule(self) -> str:
        """Return the choice as the recorder reads it; "" for the library's own."""
        if self.choice == "native" or self.operation == LINE:
            return ""
        if self.choice in SELECTORS:
            return self.choice
        return f"{self.operation} {self.choice} 0 -1"


def problem_with_parameters(case: Case, machine: Machine) -> Problem:
    """Return a case's problem with the parameters of its choice and a machine's message times."""
    problem = Variant.parse(case.choice).set_parameters(case.problem)
    return replace(problem, alpha=machine.alpha, beta=machine.beta)
