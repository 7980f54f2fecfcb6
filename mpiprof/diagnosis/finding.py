"""One finding: a fault of a run as data, with its cost. Reports put it into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_CERTAINTY = 0.999
NEGLIGIBLE_SHARE = 0.01  # share of all ranks' time below which waiting is negligible
MIN_CERTAINTY = 0.5  # minimum certainty for a cause to be called certain
MIN_CAUSE_SHARE = 0.5  # of the waiting at a call site, from which a finding is its cause
MIN_PARTIAL_SHARE = 0.1  # of the waiting at a call site, from which a finding is one of its causes

NOT_BLAMED = ("noise", "clock", "algorithm", "barrier", "none")  # causes without late ranks

# Causes of findings, by their names in the JSON output.
CAUSES = {
    "rank": "the same ranks are late",
    "early": "some ranks have less to do",
    "periodic": "ranks are late again and again, at even distances",
    "moving": "lateness goes from rank to rank in a pattern",
    "gradient": "lateness grows along the ranks",
    "outlier": "few instances hold most of the waiting",
    "inside": "lateness is made inside a collective",
    "node": "the ranks of a node are late",
    "noise": "no rank in particular is late",
    "algorithm": "another algorithm would be faster",
    "barrier": "a barrier makes ranks wait twice",
    "clock": "the clocks can't tell who is late",
    "none": "nothing is to be gained",
}


@dataclass(frozen=True)
class WaitSite:
    """A call site at which a finding causes waiting.

    callsite: number of a call site of collectives, or operation and site_id of one of messages.
    share: of the waiting at this call site.
    """

    callsite: int | tuple[str, int]
    wait_ns: float
    share: float


@dataclass(frozen=True)
class Finding:
    """One fault and its cost to all ranks together over the run.

    - cause: an entry of CAUSES. share: cost over the run time of all ranks.
    - saved_ns: time by which the run would end earlier without the fault, at least 0.
    - callsites: call sites of collectives concerned, the costliest first. ranks: ranks concerned,
      the latest first. waits_at: all call sites at which a delay causes waiting, in this order.
    - period: number of instances between occurrences.
    - first_instance, last_instance: of the first call site, or None if instances do not matter.
    - certainty: 0 to 1, that the finding is not by chance. 0 if no rank is blamed with certainty.
    - evidence: figures, named after their columns.
    """

    cause: str
    cost_ns: int
    share: float
    callsites: tuple[int, ...]
    ranks: tuple[int, ...] = ()
    node: str | None = None
    algorithm: str | None = None
    period: int | None = None
    first_instance: int | None = None
    last_instance: int | None = None
    certainty: float = MAX_CERTAINTY
    saved_ns: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict)
    waits_at: tuple[WaitSite, ...] = ()

    @property
    def main_callsite(self) -> int | tuple[str, int] | None:
        """The call site with most of the waiting: a number, or operation and site of messages."""
        if self.waits_at:
            return self.waits_at[0].callsite
        return self.callsites[0] if self.callsites else None

    def share_at(self, callsite: int | tuple[str, int]) -> float:
        """Return the share of the waiting at a call site that the finding causes, 0 if unknown."""
        return next((at.share for at in self.waits_at if at.callsite == callsite), 0.0)

    @property
    def rank(self) -> int | None:
        """The latest rank, or None if the finding concerns no ranks."""
        return self.ranks[0] if self.ranks else None


def is_blamed(finding: Finding) -> bool:
    """Return whether a finding blames ranks with certainty, so that they get the accent."""
    certain = finding.certainty >= MIN_CERTAINTY
    return bool(finding.ranks) and certain and finding.cause not in NOT_BLAMED


def names_late_ranks(finding: Finding) -> bool:
    """Return whether a finding blames ranks that work longer; early ranks have less to do."""
    return is_blamed(finding) and finding.cause != "early"


def find_causes_at(
    findings: Sequence[Finding], callsite: int | tuple[str, int], least: float = MIN_CAUSE_SHARE
) -> list[Finding]:
    """Return the findings that blame ranks for the waiting at a call site, the costliest first.

    Each causes at least a share of the waiting there, or most of its own waiting is there.
    """
    causes = [
        finding
        for finding in findings
        if is_blamed(finding)
        and (finding.share_at(callsite) >= least or finding.main_callsite == callsite)
    ]
    return sorted(causes, key=lambda finding: -finding.share_at(callsite))
