"""Order of findings: the run time saved, certain findings first, and repairs that depend on others.

A repair may cost much waiting and save little, because another rank is nearly as late.
"""

from __future__ import annotations

from typing import Any

from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import sort_findings

MS = 1_000_000
RUN_NS = 1000.0 * MS


def finding(rank: int, cost_ms: int, saved_ms: int, **fields: Any) -> Finding:
    """Return a finding about a rank, one of 8."""
    share = cost_ms / 8000
    return Finding("rank", cost_ms * MS, share, (0,), (rank,), saved_ns=saved_ms * MS, **fields)


def order(*findings: Finding) -> list[int | None]:
    return [one.rank for one in sort_findings(findings, RUN_NS)]


def test_the_finding_that_saves_most_comes_first() -> None:
    assert order(finding(1, 2000, 40), finding(2, 600, 80), finding(3, 700, 60)) == [2, 3, 1]


def test_a_tenth_of_the_waiting_per_rank_counts_at_least() -> None:
    """Rank 1 saves nothing alone, but ranks wait 250 ms for it."""
    assert order(finding(2, 300, 20), finding(1, 2000, 0), finding(3, 300, 30)) == [3, 1, 2]


def test_uncertain_findings_follow_unless_they_save_far_more() -> None:
    unsure = finding(1, 2000, 300, certainty=0.0)
    assert order(unsure, finding(2, 600, 80)) == [2, 1]
    assert order(finding(2, 600, 80), finding(1, 7000, 900, certainty=0.0)) == [1, 2]
