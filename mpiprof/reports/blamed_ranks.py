"""Names of the ranks that a finding blames: together, in turn, or a whole node."""

from __future__ import annotations

from mpiprof.diagnosis.evidence import HabitEvidence
from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import format_ranks

EACH_IN_TURN, MOVING_GROUP = "each rank in turn", "a group of ranks"


def name_ranks(finding: Finding) -> str:
    """Return "rank 5", "ranks 3, 7", "ranks 0-3 in turn" or "each rank in turn"; "" without ranks.

    A delay that moves through all ranks does not blame all of them at once.
    """
    ranks = format_ranks(finding.ranks)
    if finding.cause != "moving":
        return ranks
    is_all = finding.habit.all_ranks
    if finding.habit.speed:
        return MOVING_GROUP if is_all else ranks
    return EACH_IN_TURN if is_all else f"{ranks} in turn"


def takes_plural(finding: Finding) -> bool:
    """Return whether a verb after `name_ranks` is in the plural."""
    return len(finding.ranks) > 1 and name_ranks(finding) not in (EACH_IN_TURN, MOVING_GROUP)


def accented_ranks(finding: Finding) -> tuple[int, ...]:
    """Return the ranks that a picture accents: none if the delay moves through all ranks."""
    is_all = isinstance(finding.evidence, HabitEvidence) and finding.evidence.all_ranks
    return () if is_all else finding.ranks
