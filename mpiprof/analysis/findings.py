"""What costs most, as data; the words are the reports' own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.analysis.operations import STATES
from mpiprof.trace.trace import Trace


@dataclass(frozen=True)
class Finding:
    """A call site that costs: waiting over all ranks and instances, and the evidence.

    `state` is its largest wait state (see operations.STATES); `share` the part of all ranks' run
    time; imbalance and factor are means over instances, NaN where unknown; `latest_rank` is None
    where nobody was late by more than the clocks' error.
    """

    callsite: int
    operation: str
    cost_ns: int
    share: float
    state: str
    worst_imbalance_ns: float
    worst_factor: float
    latest_rank: int | None
    latest_share: float


def costliest(trace: Trace, most: int = 3) -> list[Finding]:
    """Give the call sites that cost most waiting, the costliest first; none that cost nothing."""
    table = trace.callsites
    whole = max(trace.duration_ns * trace.ranks, 1)
    found = []
    for row in table.sort_values("total_wait_ns", ascending=False).head(most).to_dict("records"):
        if row["total_wait_ns"] <= 0:
            break
        costs = [row[f"total_wait_{state}_ns"] for state in STATES]
        latest = row["latest_rank"]
        known = isinstance(latest, int | np.integer)
        found.append(
            Finding(
                int(row["callsite"]),
                str(row["operation"]),
                int(row["total_wait_ns"]),
                float(row["total_wait_ns"]) / whole,
                STATES[int(np.argmax(costs))],
                float(row["worst_imbalance_ns"]),
                float(row["worst_factor"]),
                int(latest) if known else None,
                float(row["latest_share"]),
            )
        )
    return found
