"""One finding: a fault of a run as data, with its cost. Reports put it into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_CERTAINTY = 0.999
NEGLIGIBLE_SHARE = 0.01  # share of all ranks' time below which waiting is negligible
MIN_CERTAINTY = 0.5  # minimum certainty for a cause to be called certain

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
class Finding:
    """One fault and its cost to all ranks together over the run.

    - cause: an entry of CAUSES. share: cost over the run time of all ranks.
    - saved_ns: time by which the run would end earlier without the fault, at least 0.
    - callsites: call sites concerned, the costliest first. ranks: ranks concerned, the latest
      first.
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

    @property
    def rank(self) -> int | None:
        """The latest rank, or None if the finding concerns no ranks."""
        return self.ranks[0] if self.ranks else None


def is_blamed(finding: Finding) -> bool:
    """Return whether a finding blames ranks with certainty, so that they get the accent."""
    certain = finding.certainty >= MIN_CERTAINTY
    return bool(finding.ranks) and certain and finding.cause not in NOT_BLAMED
