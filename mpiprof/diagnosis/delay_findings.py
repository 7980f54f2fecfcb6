"""Findings from delays: who works longer, between which calls, and the waiting that it causes.

The waiting in messages and collectives is followed to intervals of work (delay_graph.py). Patterns
are sought in this work (delay_matrix.py), not in arrivals, because a rank that waits for a late
rank arrives late as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpiprof.diagnosis.delay_costs import NOWHERE, Delays
from mpiprof.diagnosis.delay_matrix import DelayMatrix
from mpiprof.diagnosis.finding import MAX_CERTAINTY, Finding
from mpiprof.diagnosis.pattern import Pattern, count_late_instances, find_spans
from mpiprof.diagnosis.patterns import find_patterns
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_SHARE = 0.01  # share of all ranks' time in waits for messages, from which they are followed
MAX_CALLS = 1 << 25
MIN_REST_SHARE = 0.2  # minimum share of the waiting, unexplained by patterns, for a finding


def are_messages_followed(trace: Trace) -> bool:
    """Return whether waiting in messages matters, so that findings come from delays.

    Memory for delays grows with the number of calls, so they are not computed for very long runs.
    """
    waits: Float = trace.message_waits["wait_ns"].to_numpy()
    if float(waits.sum()) < MIN_SHARE * max(trace.process_time_ns, 1):
        return False
    table = trace.callsites
    calls = int((table["instances"] * table["size"]).sum()) + len(trace.message_calls)
    if calls > MAX_CALLS:
        trace.problems.add(f"waits for messages are not followed: more than {MAX_CALLS:,} calls")
    return calls <= MAX_CALLS


def find_delay_findings(trace: Trace, callsite: int | None = None) -> list[Finding]:
    """Return the findings for all waits of the run, or those at one call site of collectives."""
    delays: Delays = trace.derive("delays_found")
    chosen = np.ones(len(delays.callsite), np.bool_)
    if callsite is not None:
        chosen = delays.callsite == callsite
    costs = delays.graph.compute_costs(chosen)
    waiting = float(costs.interval_ns.sum() + costs.rest_ns.sum())
    if not waiting > 0:
        return []
    grid = DelayMatrix(trace, delays, costs, chosen)
    patterns = [one for one in find_patterns(grid)[0] if _is_by_work(trace, delays, one)]
    findings = [
        _pattern_finding(trace, delays, grid, pattern, costs.interval_ns) for pattern in patterns
    ]
    rest = waiting - sum(pattern.gain_ns for pattern in patterns)
    if not patterns or rest >= MIN_REST_SHARE * waiting:
        evidence = {"work": None, "instances": grid.instance_count, "besides": bool(patterns)}
        findings.append(_make_finding(trace, "noise", rest, certainty=0.0, evidence=evidence))
    return sorted(findings, key=lambda finding: -finding.cost_ns)


def _is_by_work(trace: Trace, delays: Delays, pattern: Pattern) -> bool:
    """Return whether a pattern is about work: early ranks may wait by their role.

    Examples of such roles are the root of a reduction, and a receiver in a pipeline. In a
    synchronising collective all ranks have the same role.
    """
    if pattern.cause != "early":
        return True
    waits = delays.waits
    mine = np.isin(waits.rank, pattern.ranks)
    wait_ns = np.where(mine, waits.end_ns - waits.begin_ns, 0)
    met = trace.derive("collective_waits").is_meeting
    in_meeting = np.zeros(len(waits.awaited), np.bool_)
    in_meeting[: len(met)] = met
    return bool(wait_ns[in_meeting[waits.group]].sum() >= wait_ns.sum() / 2)


def _make_finding(trace: Trace, cause: str, cost: float, **fields: Any) -> Finding:
    whole = max(trace.process_time_ns, 1)
    callsites = fields.pop("callsites", ())
    return Finding(cause, round(cost), cost / whole, callsites, **fields)


def _pattern_finding(
    trace: Trace, delays: Delays, grid: DelayMatrix, pattern: Pattern, cost_ns: Float
) -> Finding:
    number = grid.number[pattern.instances]
    chosen = _find_intervals(delays, grid, pattern)
    evidence = {
        "late_ns": pattern.late_ns,
        "late_instances": count_late_instances(pattern, grid),
        "instances": grid.instance_count,
        "spans": find_spans(number, grid) if len(number) < grid.instance_count else [],
        "offsets": list(pattern.offsets),
        "step": pattern.step,
        "each": pattern.each,
        "levels": [list(level) for level in pattern.levels],
        "grows": None if pattern.grows is None else list(pattern.grows),
        "synchronised": grid.synchronised,
        "recorded": [0, grid.instance_count - 1],
        "host": _find_host(trace, pattern.node),
        "saved_ns": _find_saved_time(trace, delays, grid, pattern, cost_ns),
        "work": list(_find_locations(trace, delays, cost_ns, chosen)),
    }
    return _make_finding(
        trace,
        pattern.cause,
        pattern.gain_ns,
        ranks=pattern.ranks,
        node=pattern.node,
        period=pattern.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - pattern.p, 0.0), MAX_CERTAINTY),
        evidence=evidence,
        callsites=_find_callsites(delays, pattern),
    )


def _find_saved_time(
    trace: Trace, delays: Delays, grid: DelayMatrix, pattern: Pattern, cost_ns: Float
) -> float:
    """Return how much earlier the run would end if a pattern's ranks worked as long as the median.

    The work is removed where it causes waiting.
    """
    excess = grid.compute_excess(pattern.ranks, pattern.instances)
    removed = grid.spread_over_intervals(delays, excess, cost_ns)
    removed = np.minimum(removed, delays.intervals.end_ns - delays.intervals.begin_ns)
    lead = delays.replay.compute_leads(delays.intervals, removed)
    end = np.array([trace.spans.get(rank, (0, 0))[1] for rank in range(trace.ranks)])
    return float(end.max() - (end - lead).max())


def _find_host(trace: Trace, node: str | None) -> str | None:
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)


def _find_intervals(delays: Delays, grid: DelayMatrix, pattern: Pattern) -> Bool:
    """Return which intervals belong to the ranks and steps of a pattern."""
    in_step = np.zeros(grid.instance_count, np.bool_)
    in_step[pattern.instances] = True
    chosen: Bool = in_step[grid.step]
    if pattern.ranks:
        chosen &= np.isin(delays.intervals.rank, pattern.ranks)
    return chosen


def _find_locations(
    trace: Trace, delays: Delays, cost_ns: Float, chosen: Bool
) -> Iterator[dict[str, Any]]:
    """Yield the pairs of call sites with most of the cost of some intervals, the costliest first.

    before and after: operation, file, line and function of the calls around the work, or {} at the
    start of the run. share: of the cost.
    """
    intervals = delays.intervals
    keys = len(delays.sites)
    cost = np.bincount(intervals.key[chosen], cost_ns[chosen], keys)
    whole = max(float(cost.sum()), 1.0)
    for key in np.argsort(-cost, kind="stable")[:3].tolist():
        if cost[key] <= 0:
            return
        before, after = (_describe_call(trace, site) for site in delays.sites[key])
        yield {"before": before, "after": after, "share": float(cost[key]) / whole}


def _describe_call(trace: Trace, site: int) -> dict[str, Any]:
    """Return the operation and the location of the calls at a site of the tables."""
    if site == NOWHERE:
        return {}
    operations = (shape.operation for shape in trace.tables.shapes if shape.site == site)
    location = describe_sites(trace.tables.sites, [[site]])[0][0]
    names = ("file", "line", "function")
    return {"operation": next(operations, None)} | {name: location[name] for name in names}


def _find_callsites(delays: Delays, pattern: Pattern) -> tuple[int, ...]:
    """Return the call sites of collectives where ranks wait for a pattern's ranks."""
    waits = delays.waits
    for_ranks = np.isin(waits.awaited, pattern.ranks) & (delays.callsite >= 0)
    length = np.bincount(waits.group, waits.end_ns - waits.begin_ns, len(waits.awaited))
    of: Int = delays.callsite[for_ranks]
    cost = np.bincount(of, length[for_ranks]) if len(of) else np.zeros(0)
    return tuple(int(at) for at in np.argsort(-cost, kind="stable")[:3] if cost[at] > 0)
