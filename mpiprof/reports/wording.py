"""Findings in words: what costs most, who is late there, and what to look at."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from mpiprof.reports.places import places
from mpiprof.reports.units import count, duration, factor, share, size

# Who waits in each of the wait states.
WHO_WAITS = {
    "nxn": "all others wait for the last",
    "barrier": "all others wait for the last",
    "late_root": "those who receive wait for the root only",
    "early_root": "only the root waits, for its last sender",
    "early_scan": "ranks wait for those below them",
    "neighbor": "ranks wait for their neighbours",
}
NOTABLE_SHARE = 0.01


def findings(callsites: Any, total_ns: float, most: int = 3) -> list[str]:
    """Return the call sites that cost most waiting, each in a few sentences.

    `total_ns` is the time of all ranks together, which the costs are measured against.
    """
    rows = callsites.sort_values("total_wait_ns", ascending=False).head(most).to_dict("records")
    least = NOTABLE_SHARE * float(callsites["total_wait_ns"].sum())
    costly = [row for row in rows if row["total_wait_ns"] > least]
    return [sentence(row, total_ns) for row in costly]


def sentence(row: dict[str, Any], total_ns: float) -> str:
    """Return what one call site costs, why, and where to look."""
    where = f"{row['operation']} at {places(row['sites'])}"
    cost = f"costs {duration(row['total_wait_ns'])} of waiting"
    if total_ns > 0:
        cost += f", {share(row['total_wait_ns'] / total_ns)} of all ranks' time"
    parts = [f"{where} {cost}.", _spread(row), _who(row)]
    return " ".join(part for part in parts if part)


def _spread(row: dict[str, Any]) -> str:
    spread, ratio = row["worst_imbalance_ns"], row["worst_factor"]
    if math.isnan(spread):
        return ""
    text = f"The last process comes {duration(spread)} after the first"
    text += ", on average" if row["instances"] > 1 else ""
    if not math.isnan(ratio):
        what = f"of {size(row['bytes'])}" if row["bytes"] > 0 else "without data"
        text += f", the time of {factor(ratio)} messages {what}"
    return text + "."


def _who(row: dict[str, Any]) -> str:
    rank, often, members = row["latest_rank"], row["latest_share"], row["size"]
    if pd.isna(rank) or math.isnan(often):
        return ""
    waiting = max(WHO_WAITS, key=lambda state: row.get(f"total_wait_{state}_ns", 0))
    if row["instances"] == 1:
        return f"Rank {rank} came last in its only instance; {WHO_WAITS[waiting]}."
    times = f"{share(often)} of its {count(row['instances'])} instances"
    if often < 0.5 and often < 2 / members:
        return (
            f"No rank is late more than others (rank {rank} most often, in {times}): look for "
            "noise, or for work that moves from rank to rank."
        )
    return (
        f"Rank {rank} comes last in {times}, and {WHO_WAITS[waiting]}: look at what it does "
        "before this call."
    )


def clock(error_ns: float, nodes: int, *, partial: bool) -> str:
    """Return how far the clocks of different nodes can be trusted."""
    if nodes <= 1:
        return "one node, one clock: times of different ranks compare exactly"
    if partial:
        return "not synchronised (--partial): times of different nodes don't compare"
    if math.isnan(error_ns) or error_ns < 0:
        return f"error between the {nodes} nodes unknown: their times don't compare"
    return f"{nodes} nodes, error at most ±{duration(error_ns)}: smaller differences mean nothing"


def completeness(trace: Any) -> list[str]:
    """Return what is missing from a trace, a line each; empty when nothing is."""
    lines = []
    if trace.dropped:
        lines.append(f"{count(trace.dropped)} records were dropped: the figures lack these calls")
    if not trace.complete:
        lines.append("INCOMPLETE: not every process ended in MPI_Finalize, or files are cut")
    lines += [str(problem) for problem in trace.problems[:5]]
    if len(trace.problems) > 5:
        lines.append(f"and {len(trace.problems) - 5} more problems of this kind")
    return lines
