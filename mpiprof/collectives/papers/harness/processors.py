"""Processors on which the ranks of a study run, so that it can state whether ranks share them.

A launcher may bind each rank to a processor of its own. So the processors of a machine are those
that any of its ranks may use.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.collectives.papers.harness.clock import clock_identity


@dataclass(frozen=True)
class RankProcessors:
    """Numbers of ranks and processors of one machine."""

    ranks: int
    processors: int

    @property
    def is_shared(self) -> bool:
        """Return whether ranks outnumber processors."""
        return self.ranks > self.processors

    def __str__(self) -> str:
        several = f"{self.processors} processor{'s' * (self.processors > 1)}"
        return f"{self.ranks} ranks {'share' if self.is_shared else 'have'} {several}"


def count_usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def measure_processor_use(world: Any) -> RankProcessors:
    """Return the use of the machine with the most ranks per processor; collective."""
    return find_most_used(world.allgather((clock_identity(), sorted(os.sched_getaffinity(0)))))


def find_most_used(ranks: Sequence[tuple[str, Sequence[int]]]) -> RankProcessors:
    """Return the use of the fullest machine, from each rank's machine and usable processors."""
    uses = []
    for machine in dict.fromkeys(name for name, _ in ranks):
        on_machine = [processors for name, processors in ranks if name == machine]
        uses.append(RankProcessors(len(on_machine), len(set().union(*on_machine))))
    return max(uses, key=lambda use: use.ranks / use.processors)
