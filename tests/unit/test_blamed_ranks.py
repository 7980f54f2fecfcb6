"""Names of blamed ranks: a delay that moves through all ranks does not blame all at once."""

from __future__ import annotations

from typing import Any

import pytest

from mpiprof.causes.finding import Finding, HabitEvidence, WaitSite
from mpiprof.reports.words.callsite_sentences import format_cause
from mpiprof.reports.words.ranks_and_steps import accented_ranks, name_ranks, takes_plural


def make_finding(cause: str, ranks: tuple[int, ...], **evidence: Any) -> Finding:
    at = (WaitSite(0, 8, 0.8),)
    return Finding(cause, 10, 0.1, (0,), ranks, evidence=HabitEvidence(**evidence), waits_at=at)


@pytest.mark.parametrize(
    ("finding", "name", "is_plural", "cell"),
    [
        (make_finding("rank", (5,)), "rank 5", False, "5 in 80 %"),
        (make_finding("rank", (5, 6)), "ranks 5-6", True, "5-6 in 80 %"),
        (make_finding("moving", (0, 1, 2)), "ranks 0-2 in turn", True, "in turn: 80 %"),
        (
            make_finding("moving", (0, 1, 2), all_ranks=True),
            "each rank in turn",
            False,
            "in turn: 80 %",
        ),
        (make_finding("moving", (0, 1), speed=2.0), "ranks 0-1", True, "0-1 in 80 %"),
        (
            make_finding("moving", (0, 1), speed=2.0, all_ranks=True),
            "a group of ranks",
            False,
            "moving: 80 %",
        ),
    ],
)
def test_ranks_are_named_as_the_delay_concerns_them(
    finding: Finding, name: str, is_plural: bool, cell: str
) -> None:
    assert name_ranks(finding) == name
    assert takes_plural(finding) is is_plural
    assert format_cause(finding, 0) == cell


def test_no_rank_is_accented_if_a_delay_moves_through_all() -> None:
    assert accented_ranks(make_finding("rank", (5, 6))) == (5, 6)
    assert accented_ranks(make_finding("moving", (0, 1, 2))) == (0, 1, 2)
    assert accented_ranks(make_finding("moving", (0, 1, 2), all_ranks=True)) == ()
