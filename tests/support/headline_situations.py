"""Evidence on single call sites, for the headlines in the snapshot of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.causes.arrival_statistics import LateRank
from mpiprof.causes.finding import Finding, WaitSite
from mpiprof.reports.words.callsite_sentences import callsite_headline, message_headline

COMPLETE: dict[str, Any] = {
    "size": 8,
    "complete_instances": 30,
    "instances": 30,
    "total_wait_ns": 1e9,
}
ROW: dict[str, Any] = {
    "callsite": 0,
    "worst_imbalance_ns": 2e6,
    "latest_rank": 3,
    "latest_share": 0.2,
} | COMPLETE
SITE = ("waitall", 2)
MESSAGES: dict[str, Any] = {"operation": "waitall", "site_id": 2, "total_wait_ns": 1.0}
CAUSE = Finding("rank", 1, 0.5, (0,), (3,), waits_at=(WaitSite(0, 9.0, 0.9),))


def late_rank(**changes: Any) -> LateRank:
    """Return rank 5, late by 10 ms of its own in all of 30 instances."""
    fields = {"rank": 5, "late_ns": 10e6, "last_share": 1.0, "inherited_ns": 0.0}
    fields |= {"outside_ns": 10e6, "point_to_point_ns": 0.0, "similar": 0, "instances": 30}
    return LateRank(**(fields | changes))


def make_headlines(_: Path) -> Iterator[Callable[[], object]]:
    """Make the headlines of call sites with a late rank, with a cause, and without either."""
    for late in (
        late_rank(),
        late_rank(last_share=0.87, similar=2, outside_ns=0.0, inherited_ns=10e6),
        late_rank(last_share=0.3, outside_ns=0.0, point_to_point_ns=10e6),
        late_rank(instances=1, outside_ns=np.nan),
    ):
        yield partial(callsite_headline, ROW, late, 0.0)
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"total_wait_ns": 0.0},
        {"size": 1},
        {"complete_instances": 0},
        {"latest_share": 0.6},
    )
    for change in changes:
        yield partial(callsite_headline, ROW | change, None, 0.0)
    yield partial(callsite_headline, ROW, None, 3e6)
    for rank in (3, 6):
        row = ROW | {"latest_rank": rank, "latest_share": 0.31}
        yield partial(callsite_headline, row, None, 0.0, [CAUSE])
        cause = replace(CAUSE, waits_at=(WaitSite(SITE, 9.0, 0.9),))
        row = MESSAGES | {"awaited_rank": rank, "awaited_share": 0.3}
        yield partial(message_headline, row, [cause])
    partial_cause = replace(CAUSE, waits_at=(WaitSite(0, 20.0, 0.9), WaitSite(SITE, 9.0, 0.44)))
    row = MESSAGES | {"awaited_rank": 1, "awaited_share": 0.56}
    yield partial(message_headline, row, [], [partial_cause])
