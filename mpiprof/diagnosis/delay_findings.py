"""Findings from delays: who works longer, between which calls, and the waiting that it causes.

The waiting in messages and collectives is followed to intervals of work (delay_graph.py). Patterns
are sought in this work (delay_matrix.py), not in arrivals, because a rank that waits for a late
rank arrives late as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mpiprof.diagnosis.delay_callsites import CallsiteWaits, find_main_callsite, make_waits_at
from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.diagnosis.delay_evidence import (
    blame_blocked_ranks,
    describe_call,
    find_blocked_location,
    find_intervals,
    find_locations,
    find_reason,
)
from mpiprof.diagnosis.delay_matrix import DelayMatrix, RepetitionMatrix, StepMatrix
from mpiprof.diagnosis.finding import MAX_CERTAINTY, Finding, WaitSite
from mpiprof.diagnosis.joined_patterns import FoundPattern, join_matrices, join_patterns, sum_gains
from mpiprof.diagnosis.pattern import Pattern, count_late_instances, find_spans
from mpiprof.diagnosis.patterns import find_patterns
from mpiprof.diagnosis.run_steps import find_steps, group_steps
from mpiprof.diagnosis.shared_processors import find_shared_processors
from mpiprof.diagnosis.work_intervals import INSIDE
from mpiprof.diagnosis.work_matrix import find_host
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float

MIN_SECOND_SHARE = 0.1  # minimum cost of a pattern, over that of the costliest one
MIN_INSIDE_SHARE = 0.5  # of a delay's cost inside a collective, from which it is no work
MAX_PAIRS = 3  # of call sites that are examined
MIN_PAIR_SHARE = 0.05  # of the cost of all delays, from which a pair is examined
MAX_PAIR_FACTOR = 2.0  # by which pairs may explain more than steps
MIN_EXPLAINED_SHARE = 0.8  # of the cost, from which patterns in steps are sufficient
MIN_WORK_SHARE = 0.5  # of early ranks' delay, by which they work less between the same calls
MIN_HIDDEN_SHARE = 0.5  # of the waiting without work, from which missing records may be the reason
MIN_REST_SHARE = 0.2  # minimum share of the waiting, unexplained by patterns, for a finding


def find_delay_findings(trace: Trace, callsite: int | None = None) -> list[Finding]:
    """Return the findings for all waits of the run, or those at one call site of collectives."""
    delays: Delays = trace.derive("delays_found")
    chosen = delays.counted
    if callsite is not None:
        chosen = chosen * (delays.callsite == callsite)
    costs = delays.costs if callsite is None else delays.graph.compute_costs(chosen)
    waiting, cost_ns = float(costs.interval_ns.sum() + costs.rest_ns.sum()), costs.interval_ns
    if not waiting > 0:
        return []
    found = _find_patterns(trace, delays, cost_ns, chosen)
    count = max((matrix.count for matrix, _ in found), default=len(delays.meetings_of_all))
    joined = join_matrices(found)
    # The removal of a large delay leaves small remains, which are not delays themselves.
    least = MIN_SECOND_SHARE * max(map(sum_gains, joined), default=0.0)
    kept = [parts for parts in joined if sum_gains(parts) >= least]
    intervals = [np.any([find_intervals(*part) for part in parts], axis=0) for parts in kept]
    callsites = CallsiteWaits(trace, delays, chosen)
    waits_at, rest_at = make_waits_at(callsites, [parts[0][1] for parts in kept], intervals)
    findings = [
        _pattern_finding(trace, parts, cost_ns, mine, at)
        for parts, mine, at in zip(kept, intervals, waits_at, strict=True)
    ]
    rest = waiting - sum(finding.cost_ns for finding in findings)
    if not findings or rest >= MIN_REST_SHARE * waiting:
        hidden = costs.rest_ns.sum() >= MIN_HIDDEN_SHARE * waiting
        evidence: dict[str, Any] = {"work": None, "instances": count, "besides": bool(findings)}
        evidence["missing"] = _find_missing_records(trace, delays) if hidden else None
        evidence["inside"] = _find_collective_inside(trace, delays, cost_ns)
        evidence["shared_processors"] = _find_shared_processors(trace)
        evidence["mainly_at"] = None if findings else find_main_callsite(rest_at)
        others = ~np.any([np.zeros(len(cost_ns), np.bool_), *intervals], axis=0)
        evidence["blocked"] = find_blocked_location(trace, delays, cost_ns, others)
        fields = {"evidence": evidence, "waits_at": rest_at, "saved_ns": rest / trace.ranks}
        findings.append(_make_finding(trace, "noise", rest, certainty=0.0, **fields))
    return findings


def _find_shared_processors(trace: Trace) -> dict[str, Any] | None:
    """Return the fields of SharedProcessors, or None if no ranks wait for shared processors."""
    found = find_shared_processors(trace.intervals, trace.node_ids)
    return None if found is None else asdict(found)


def _find_collective_inside(trace: Trace, delays: Delays, cost_ns: Float) -> dict[str, Any] | None:
    """Return the collective inside which most of the waiting arises, or None."""
    cost = np.bincount(delays.intervals.key, cost_ns, len(delays.sites))
    inside = np.array([after == INSIDE for _, after in delays.sites], np.bool_)
    if not cost[inside].sum() >= MIN_INSIDE_SHARE * cost.sum() > 0:
        return None
    return describe_call(trace, delays.sites[int(np.argmax(cost * inside))][0])


def _find_missing_records(trace: Trace, delays: Delays) -> str | None:
    """Return which records would show more causes: "messages", "instances" or None."""
    if len(delays.message_time.rank):
        return "messages"
    return "instances" if trace.sampling_interval > 1 else None


def _find_patterns(
    trace: Trace, delays: Delays, cost_ns: Float, chosen: Float
) -> list[FoundPattern]:
    """Return the patterns in the run's steps or, if these explain little, in pairs of call sites.

    In a step, the work between all calls adds up. A delay between two of them may be hidden by the
    noise of the others, and two delays may cancel. With noise, pairs explain more in any case: all
    waiting that a delay causes, where steps count only what would vanish without it.
    """

    def search(grids: Iterator[DelayMatrix]) -> list[FoundPattern]:
        patterns = (
            (matrix, blame_blocked_ranks(trace, cost_ns, matrix, one))
            for matrix in grids
            for one in join_patterns(find_patterns(matrix)[0])
        )
        return [
            (matrix, one)
            for matrix, one in patterns
            if _is_by_work(matrix, one, cost_ns) and count_late_instances(one, matrix)
        ]

    steps = find_steps(trace, delays)
    by_step: list[FoundPattern] = []
    if steps is not None:
        callsites = group_steps(delays, steps, chosen)
        by_step = search(StepMatrix(trace, delays, steps, of, cost_ns, chosen) for of in callsites)
    # If a step has one interval of work, pairs of call sites show nothing else.
    explained = sum_gains(by_step) >= MIN_EXPLAINED_SHARE * float(cost_ns.sum())
    if explained or (steps is not None and not steps.is_divided):
        return by_step
    by_pair = search(_make_pair_matrices(trace, delays, cost_ns))
    if steps is not None:
        # All outliers of the run show in its steps. Periods without a rank are periods of the step.
        by_pair = [(matrix, one) for matrix, one in by_pair if one.ranks and one.cause != "outlier"]
    return by_step if MAX_PAIR_FACTOR * sum_gains(by_step) >= sum_gains(by_pair) else by_pair


def _make_pair_matrices(trace: Trace, delays: Delays, cost_ns: Float) -> Iterator[DelayMatrix]:
    """Yield a matrix for each pair of call sites with much cost."""
    cost = np.bincount(delays.intervals.key, cost_ns, len(delays.sites))
    for key in np.argsort(-cost, kind="stable")[:MAX_PAIRS].tolist():
        if cost[key] >= MIN_PAIR_SHARE * cost.sum() > 0:
            yield RepetitionMatrix(trace, delays, key, cost_ns)


def _is_by_work(matrix: DelayMatrix, pattern: Pattern, cost_ns: Float) -> bool:
    """Return whether a pattern is about work: early ranks may wait by their role.

    Examples of such roles are the root of a reduction, and a receiver in a pipeline. In a
    synchronising collective all ranks have the same role, and so have ranks that work between the
    same calls for a shorter time.
    """
    if pattern.cause != "early":
        return True
    waits, intervals = matrix.delays.waits, matrix.delays.intervals
    mine = np.isin(waits.rank, pattern.ranks)
    wait_ns = np.where(mine, waits.end_ns - waits.begin_ns, 0)
    in_meeting = matrix.delays.communicator[waits.group] >= 0
    if wait_ns[in_meeting].sum() >= wait_ns.sum() / 2:
        return True
    here = intervals.key == np.argmax(np.bincount(intervals.key, cost_ns))
    is_early = np.isin(intervals.rank, pattern.ranks)
    if not (here & is_early).any() or not (here & ~is_early).any():
        return False
    length = intervals.end_ns - intervals.begin_ns
    less = float(np.median(length[here & ~is_early]) - np.median(length[here & is_early]))
    return less >= MIN_WORK_SHARE * pattern.late_ns


def _make_finding(trace: Trace, cause: str, cost: float, **fields: Any) -> Finding:
    whole = max(trace.process_time_ns, 1)
    callsites = tuple(at.callsite for at in fields["waits_at"] if isinstance(at.callsite, int))
    return Finding(cause, round(cost), cost / whole, callsites, **fields)


def _pattern_finding(
    trace: Trace,
    parts: Sequence[FoundPattern],
    cost_ns: Float,
    chosen: Bool,
    waits_at: tuple[WaitSite, ...],
) -> Finding:
    """Return the finding of a pattern.

    parts: the same pattern in one or several matrices. chosen: its intervals of work.
    """
    matrix, pattern = parts[0]
    number, delays = matrix.number[pattern.instances], matrix.delays
    work = list(find_locations(trace, delays, cost_ns, chosen))
    is_inside = bool(work) and work[0]["inside"] and work[0]["share"] >= MIN_INSIDE_SHARE
    late = (count_late_instances(one, of) * of.count / of.instance_count for of, one in parts)
    evidence = {
        "late_ns": pattern.late_ns,
        "late_instances": round(sum(late)),
        "instances": sum(of.count for of, _ in parts),
        "spans": find_spans(number, matrix) if len(number) < matrix.instance_count else [],
        "offsets": list(pattern.offsets),
        "step": pattern.step,
        "each": pattern.each,
        "stay": _find_stay(matrix, pattern) if pattern.cause == "moving" else None,
        "late_by_rank": _find_lateness(matrix, pattern),
        "levels": [list(level) for level in pattern.levels],
        "grows": None if pattern.grows is None else list(pattern.grows),
        "unit": matrix.unit,
        "sampled": trace.sampling_interval > 1,
        "spared": _find_spared_ranks(trace, pattern),
        "steps_of": [of.callsite for of, _ in parts if of.callsite is not None],
        "recorded": [int(matrix.number[0]), int(matrix.number[-1])],
        "host": find_host(trace, pattern.node),
        "work": work,
        "reason": find_reason(trace, delays, cost_ns, chosen),
        "mainly_at": find_main_callsite(waits_at),
        "alone_ns": matrix.alone_ns if pattern.cause in ("rank", "periodic") else None,
    }
    cost = sum_gains(parts)
    # If early ranks take over work, all ranks end earlier by the mean of the waiting.
    saved_ns, saved_work_ns = cost / trace.ranks, 0.0
    if pattern.cause != "early":
        saved_ns, saved_work_ns = _find_saved_time(trace, parts)
    evidence["saved_work_ns"] = saved_work_ns
    return _make_finding(
        trace,
        "inside" if is_inside and pattern.cause == "rank" else pattern.cause,
        cost,
        saved_ns=saved_ns,
        ranks=pattern.ranks,
        node=pattern.node,
        period=pattern.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - pattern.p, 0.0), MAX_CERTAINTY),
        evidence=evidence,
        waits_at=waits_at,
    )


def _find_spared_ranks(trace: Trace, pattern: Pattern) -> list[int]:
    """Return the ranks that are not late if most ranks are, otherwise []."""
    is_majority = pattern.cause == "rank" and 2 * len(pattern.ranks) > trace.ranks
    return np.setdiff1d(np.arange(trace.ranks), pattern.ranks).tolist() if is_majority else []


def _find_saved_time(trace: Trace, parts: Sequence[FoundPattern]) -> tuple[float, float]:
    """Return how much earlier the run would end if a pattern's ranks worked as long as the median.

    The second time is the work that they would not do, as a mean of all ranks. The rest of the
    first is less waiting. A late rank does not wait but works, so the time saved may exceed the
    waiting.

    If all ranks differ, all are at most at the median of all. The excess in a step is removed from
    work that no other rank does.
    """
    groups, intervals = trace.derive("work_groups"), parts[0][0].delays.intervals
    before = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
    length = before
    for matrix, pattern in parts:
        ranks = () if pattern.each or pattern.cause == "gradient" else pattern.ranks
        others = ~np.isin(np.arange(trace.ranks), ranks)
        chosen = find_intervals(matrix, replace(pattern, ranks=ranks))
        limited, comparable = groups.limit(length, chosen, others if others.any() else ~others)
        excess = matrix.compute_excess(ranks, pattern.instances)
        rest = np.where(comparable, 0.0, matrix.spread_over_intervals(excess, ranks))
        length = np.maximum(limited - rest, 0.0)
    replay = trace.derive("replay")
    ends = replay.find_ends(intervals)
    saved = float(replay.find_saved_time(trace, intervals.rank, ends, before - length))
    scales = [matrix.find_scale(pattern.instances) for matrix, pattern in parts]
    scale = np.average(scales, weights=[max(pattern.gain_ns, 1.0) for _, pattern in parts])
    saved = max(saved * float(scale), 0.0)
    work = min(float((before - length).sum() * scale) / trace.ranks, saved)
    # At least one rank waits for each delay. Estimates of a sample may differ. Without ranks, the
    # delays of other patterns are removed, too.
    is_exact = scale == 1 and parts[0][1].ranks
    return (saved if is_exact else min(saved, sum_gains(parts))), work


def _find_stay(matrix: DelayMatrix, pattern: Pattern) -> int:
    """Return the number of columns for which the delay stays at a rank before it moves.

    It is that of most columns, because noise divides the stay at some ranks.
    """
    latest = np.nanargmax(matrix.work_ns[:, pattern.instances], axis=0)
    edges = np.flatnonzero(np.diff(latest)) + 1
    lengths = np.diff([0, *edges, len(latest)])
    return round(float(np.median(np.repeat(lengths, lengths))))


def _find_lateness(matrix: DelayMatrix, pattern: Pattern) -> list[tuple[int, float]]:
    """Return the usual delay of each rank of a pattern in ns, the largest first."""
    excess = matrix.compute_excess(pattern.ranks, pattern.instances)[:, pattern.instances]
    row = np.searchsorted(matrix.ranks, pattern.ranks)
    late = np.median(excess[row], axis=1).tolist() if len(row) else []
    return sorted(zip(pattern.ranks, late, strict=True), key=lambda pair: -pair[1])
