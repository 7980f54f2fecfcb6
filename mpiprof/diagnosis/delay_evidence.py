"""Evidence of a delay: its intervals of work, their locations, and their reason.

Ranks that are blocked while another rank works have no work that could be moved to it. So blocked
ranks are blamed themselves, although the other rank is the exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.diagnosis.delay_matrix import MIN_REPETITION_SHARE, DelayMatrix
from mpiprof.diagnosis.delay_reasons import BLOCKED, explain_delay, find_largest_reason
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.diagnosis.sampled_code import find_sampled_code
from mpiprof.diagnosis.work_intervals import INSIDE, NOWHERE, UNRECORDED
from mpiprof.operations import MANAGEMENT_COLLECTIVES, base_operation
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float


def find_intervals(matrix: DelayMatrix, pattern: Pattern) -> Bool:
    """Return which intervals belong to the ranks and columns of a pattern."""
    in_pattern = np.zeros(matrix.instance_count + 1, np.bool_)  # the last element is for OUTSIDE
    in_pattern[pattern.instances] = True
    chosen: Bool = in_pattern[matrix.column]
    if pattern.ranks:
        chosen &= np.isin(matrix.delays.intervals.rank, pattern.ranks)
    return chosen


def blame_blocked_ranks(
    trace: Trace, cost_ns: Float, matrix: DelayMatrix, pattern: Pattern
) -> Pattern:
    """Return a pattern of early ranks as one of the other ranks, if these are blocked."""
    others = tuple(np.setdiff1d(matrix.ranks, pattern.ranks).tolist())
    if pattern.cause != "early" or not others:
        return pattern
    late = replace(pattern, cause="rank", ranks=others)
    found = find_reason(trace, matrix.delays, cost_ns, find_intervals(matrix, late))
    return late if found is not None and found["reason"] == BLOCKED else pattern


def find_blocked_location(
    trace: Trace, delays: Delays, cost_ns: Float, chosen: Bool
) -> dict[str, Any] | None:
    """Return the costliest location of some intervals if they are long because of blocked ranks."""
    found = find_reason(trace, delays, cost_ns, chosen)
    if found is None or found["reason"] != BLOCKED:
        return None
    return next(find_locations(trace, delays, cost_ns, chosen), None)


def find_reason(
    trace: Trace, delays: Delays, cost_ns: Float, chosen: Bool
) -> dict[str, Any] | None:
    """Return the reason of a delay in its costliest place, and its share; None without counters.

    reason: None if it is unknown. shares: of all reasons that are not 0. Source: the counters
    of the intervals (delay_reasons.py), compared with the intervals of the other ranks between the
    same calls, or of the same ranks at other times.
    """
    table, intervals = trace.intervals, delays.intervals
    cost = np.bincount(intervals.key[chosen], cost_ns[chosen], len(delays.sites))
    if not len(table) or not cost.any() or delays.sites[np.argmax(cost)][1] == INSIDE:
        return None
    here = intervals.key == np.argmax(cost)
    late = chosen & here & (cost_ns > 0)
    late_ranks = np.unique(intervals.rank[late])
    others = here & ~np.isin(intervals.rank, late_ranks)
    # Few intervals of a rank are long by chance. Most of them have no records.
    least = MIN_REPETITION_SHARE * late.sum() / max(len(late_ranks), 1)
    often = np.bincount(intervals.rank[others], minlength=trace.ranks) >= least
    reference = others & often[intervals.rank]
    if not others.any() and len(late_ranks) == 1:
        reference = here & ~chosen
    elif not others.any():
        # All ranks are late, at different times.
        usual_cost = float((cost_ns[late] ** 2).sum() / max(cost_ns[late].sum(), 1.0))
        late &= cost_ns >= usual_cost / 2
        reference = here & ~late
    count = len(table)  # the intervals inside calls and before lost ones have no counters
    if not late[:count].any():
        return None
    reasons = explain_delay(table[late[:count]], table[reference[:count]])
    if not reasons.excess_ns > 0:
        return None
    shares = {name: ns / reasons.excess_ns for name, ns in reasons.shares_ns.items() if ns > 0}
    return {"reason": find_largest_reason(reasons), "shares": shares}


def find_locations(
    trace: Trace, delays: Delays, cost_ns: Float, chosen: Bool
) -> Iterator[dict[str, Any]]:
    """Yield the pairs of call sites with most of the cost of some intervals, the costliest first.

    before and after: operation, file, line and function of the calls around the work, {} at the
    start of the run, or {"recorded": False} for a call that the records lack. inside: whether the
    time is in the call itself. share: of the cost. rank: the one with most of the cost. code: that
    this rank executes there, None without samples (sampled_code.py).
    """
    intervals = delays.intervals
    keys = len(delays.sites)
    cost = np.bincount(intervals.key[chosen], cost_ns[chosen], keys)
    whole = max(float(cost.sum()), 1.0)
    for key in np.argsort(-cost, kind="stable")[:3].tolist():
        if cost[key] <= 0:
            return
        sites = delays.sites[key]
        is_inside = sites[1] == INSIDE
        before = describe_call(trace, sites[0])
        after = before if is_inside else describe_call(trace, sites[1])
        here = chosen & (intervals.key == key)
        rank = int(np.bincount(intervals.rank[here], cost_ns[here]).argmax())
        yield {
            "before": before,
            "after": after,
            "share": float(cost[key]) / whole,
            "inside": is_inside,
            "rank": rank,
            "code": find_sampled_code(trace, rank, sites[:1], sites[1:]),
        }


def describe_call(trace: Trace, site: int) -> dict[str, Any]:
    """Return the operation and the location of the calls at a site of the tables."""
    if site == NOWHERE:
        return {}
    if site == UNRECORDED:
        return {"recorded": False}
    operations = [shape.operation for shape in trace.tables.shapes if shape.site == site]
    # A method of mpi4py creates a communicator at its first call.
    operations.sort(key=lambda operation: base_operation(operation) in MANAGEMENT_COLLECTIVES)
    location = describe_sites(trace.tables.sites, [[site]])[0][0]
    known = {name: value for name, value in location.items() if name != "stack"}
    return {"operation": next(iter(operations), None)} | known
