"""Findings of each call site and of the whole run as data, in the order of the time they save.

Only this module draws conclusions. Reports, pages, comparisons and JSON put these findings into
words and add none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.arrival_matrix import ArrivalMatrix, CallsiteArrivals, find_host
from mpiprof.diagnosis.causes import Causes, is_early_by_exit, ranks_late_by_messages
from mpiprof.diagnosis.delay_findings import are_delays_followed, find_delay_findings
from mpiprof.diagnosis.delay_origin import (
    find_accumulating_rank,
    find_begin,
    find_callsite_inside,
    find_origins,
    select_walks,
)
from mpiprof.diagnosis.finding import MAX_CERTAINTY, MIN_CERTAINTY, NEGLIGIBLE_SHARE, Finding
from mpiprof.diagnosis.outliers import count_also_costly, find_early_ranks
from mpiprof.diagnosis.pattern import Pattern, columns_with_ranks, count_late_instances, find_spans
from mpiprof.diagnosis.patterns import find_patterns
from mpiprof.diagnosis.sampling import take_sample
from mpiprof.operations import WAIT_STATES
from mpiprof.trace.trace import Trace

NOTABLE_SHARE = 0.01  # minimum share of all wait for a finding
MIN_REST_SHARE = 0.2  # minimum share of a call site's wait, unexplained by patterns, for a finding
MAIN_SHARE = 0.5  # share of the instances in which lateness began at one origin
MIN_FREQUENCY = 0.1  # minimum share of the calls that follow a barrier
UNCERTAIN_WEIGHT = 0.1  # of the time saved by an uncertain finding, in the order of findings
NEGLIGIBLE_WEIGHT = 1e-3  # the same of a negligible finding, which follows all others
COST_WEIGHT = 0.1  # of the waiting per rank, if less time is saved
MIN_INSTANCES = 5  # minimum number of instances to determine which rank is mostly last


@dataclass(frozen=True)
class Gain:
    """Gain from another algorithm at a call site, as simulated or replayed by the caller.

    algorithm: with its parameters. saved_ns: time of all ranks over all instances, within error_ns.
    how: "simulated" or "replayed".
    """

    callsite: int
    algorithm: str
    saved_ns: float
    error_ns: float
    how: str


def find_findings(trace: Trace, gains: Sequence[Gain] = ()) -> list[Finding]:
    """Return the findings of the hot call sites that matter, in their order."""
    table = trace.callsites
    least = NOTABLE_SHARE * float(table["total_wait_ns"].sum()) if len(table) else 0.0
    if not are_delays_followed(trace):
        findings = [finding for callsite in trace.hot for finding in trace.conclusions(callsite)]
    else:
        others = [finding for callsite in trace.hot for finding in _other_findings(trace, callsite)]
        findings = [*find_delay_findings(trace), *others]
        least = NOTABLE_SHARE * sum(finding.cost_ns for finding in findings)
    findings += [_gain_finding(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    costly = [
        finding
        for finding in _join_findings(findings)
        if finding.cost_ns > least or finding.cause == "algorithm"
    ]
    return sort_findings(costly, trace.run_ns)


def find_conclusions(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site in their order. Their costs are at most its wait.

    A finding that pays only after another repair follows that other finding.
    """
    row: Any = trace.callsites.loc[callsite]
    waiting = float(row["total_wait_ns"])
    facts = _common_evidence(row)
    if not waiting > 0:
        return []
    if are_delays_followed(trace):
        others = _other_findings(trace, callsite)
        return sort_findings([*find_delay_findings(trace, callsite), *others], trace.run_ns)
    if _is_hidden_by_clocks(trace, row):
        return [_clock_finding(trace, row)]
    causes: Causes = trace.causes(callsite)
    grid = CallsiteArrivals(trace, take_sample(trace, callsite))
    if grid.instance_count == 1 and facts["instances"] == 1:
        facts["ahead"] = find_early_ranks(grid, grid.arrival)
    facts["followed"] = any(block.group.through is not None for block in grid.blocks)
    patterns, unexplained_ns = find_patterns(grid) if grid.instance_count else ([], 0.0)
    whole = unexplained_ns + sum(one.gain_ns for one in patterns)
    scale = waiting / whole if whole > 0 else 0.0
    findings = [_pattern_finding(trace, one, grid, scale, causes, facts) for one in patterns]
    findings = [
        _link_prerequisite(one, pattern.once, findings)
        for one, pattern in zip(findings, patterns, strict=True)
    ]
    findings += _barrier_findings(trace, causes, facts)
    if not patterns or unexplained_ns >= MIN_REST_SHARE * whole:
        besides = [one.cause for one in patterns]
        findings.append(
            _rest_finding(
                trace, unexplained_ns * scale if patterns else waiting, causes, facts, besides
            )
        )
    return sort_findings(findings, trace.run_ns)


def _other_findings(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site that delays do not show: a barrier, inexact clocks."""
    row: Any = trace.callsites.loc[callsite]
    if not row["total_wait_ns"] > 0:
        return []
    if _is_hidden_by_clocks(trace, row):
        return [_clock_finding(trace, row)]
    if row["operation"] != "barrier":
        return []
    return list(_barrier_findings(trace, trace.causes(callsite), _common_evidence(row)))


def _is_hidden_by_clocks(trace: Trace, row: Any) -> bool:
    """Return whether arrivals at a call site differ by less than the error of the clocks."""
    return bool(trace.clock_error_ns > 0 and not row["worst_imbalance_ns"] > trace.clock_error_ns)


def _clock_finding(trace: Trace, row: Any) -> Finding:
    explained = _common_evidence(row) | {"clock_error_ns": trace.clock_error_ns}
    cost = float(row["total_wait_ns"])
    return replace(
        _make_finding(trace, "clock", cost, int(row["callsite"]), explained), certainty=0.0
    )


def _link_prerequisite(finding: Finding, once: int | None, findings: Sequence[Finding]) -> Finding:
    """Return a finding with the finding to be repaired before it pays, if any."""
    if once is None or findings[once].ranks == finding.ranks:
        return finding
    first = {"cause": findings[once].cause, "ranks": list(findings[once].ranks)}
    return replace(finding, evidence={**finding.evidence, "once": first})


def sort_findings(findings: Sequence[Finding], run_ns: float) -> list[Finding]:
    """Sort findings by run time saved, each one behind the findings to be repaired before it.

    A repair that saves nothing alone may be a part of one that does, so the waiting counts a
    little. An uncertain finding follows certain ones unless it saves far more.
    """
    findings_by_key = {
        (at, finding.cause, finding.ranks): finding
        for finding in findings
        for at in finding.callsites
    }

    def weigh(finding: Finding) -> float:
        weight = 1.0 if finding.certainty >= MIN_CERTAINTY else UNCERTAIN_WEIGHT
        time = max(finding.saved_ns, COST_WEIGHT * finding.share * run_ns)
        return time * (weight if finding.share >= NEGLIGIBLE_SHARE else NEGLIGIBLE_WEIGHT)

    def place(finding: Finding, behind: int = 0) -> tuple[float, int]:
        once = finding.evidence.get("once")
        key = (finding.callsites[0], once["cause"], tuple(once["ranks"])) if once else None
        first = findings_by_key.get(key) if key else None
        if first is None or behind > len(findings):  # joined findings may form a cycle
            return -weigh(finding), 0
        cost, depth = place(first, behind + 1)
        return max(-weigh(finding), cost), depth + 1

    return sorted(findings, key=place)


def _make_finding(
    trace: Trace, cause: str, cost: float, callsite: int, evidence: Mapping[str, Any]
) -> Finding:
    """Return a finding that saves the mean time of the ranks of its call site."""
    whole, saved_ns = max(trace.process_time_ns, 1), cost / evidence["size"]
    return Finding(
        cause, round(cost), cost / whole, (callsite,), saved_ns=saved_ns, evidence=evidence
    )


def _common_evidence(row: Any) -> dict[str, Any]:
    """Return the common evidence of all findings of a call site; None for unknown values."""
    facts: dict[str, Any] = {
        "instances": int(row["instances"]),
        "size": int(row["size"]),
        **{
            name: None if pd.isna(row[name]) else float(row[name])
            for name in ("bytes", "worst_imbalance_ns", "worst_factor")
        },
    }
    return facts | {"state": max(WAIT_STATES, key=lambda state: row[f"total_wait_{state}_ns"])}


def _pattern_finding(
    trace: Trace,
    pattern: Pattern,
    grid: ArrivalMatrix,
    scale: float,
    causes: Causes,
    facts: Mapping[str, Any],
) -> Finding:
    """Return a pattern as a finding, with the origin of the lateness."""
    number = grid.number[pattern.instances]
    walks = select_walks(take_sample(trace, causes.callsite).walks, pattern, grid)
    ranks, began = find_origins(trace, walks, pattern, grid.instance_count)
    by = find_accumulating_rank(pattern, began, len(grid.ranks))
    if by is not None:
        pattern, ranks = by, by.ranks
    cause, callsites = pattern.cause, (causes.callsite,)
    if began.get("origin_how") == "inside" and began["origin_share"] >= MAIN_SHARE:
        cause = "inside"
        callsites = tuple(dict.fromkeys((causes.callsite, began["origin_callsite"])))
    scaled = facts["instances"] / max(grid.instance_count, 1)
    present_columns = columns_with_ranks(pattern, grid)
    evidence = {
        **facts,
        "late_ns": pattern.late_ns,
        "late_instances": round(count_late_instances(pattern, grid) * scaled),
        "taken_instances": round(len(present_columns) * scaled),
        "spans": []
        if np.isin(present_columns, pattern.instances).all()
        else find_spans(number, grid),
        "offsets": list(pattern.offsets),
        "step": pattern.step,
        "each": pattern.each,
        **_describe_change(pattern, grid),
        "recorded": [int(grid.number[0]), int(grid.number[-1])],
        "host": find_host(trace, pattern.node),
        **began,
    }
    if pattern.cause == "early" and causes.point_to_point.value >= MAIN_SHARE:
        # The other ranks may merely wait for messages.
        evidence["point_to_point"] = causes.point_to_point.value
    elif pattern.cause == "early" and is_early_by_exit(causes, ranks):
        evidence["let_go_early"] = True
    if cause == "rank" and not pattern.each and began.get("origin_callsite") == causes.callsite:
        evidence["in_messages"] = ranks_late_by_messages(causes, ranks)
    if pattern.cause == "outlier":
        costly = count_also_costly(grid.compute_waiting(grid.arrival), pattern.instances)
        evidence["also_costly"] = round(costly * scaled)
    finding = _make_finding(trace, cause, pattern.gain_ns * scale, causes.callsite, evidence)
    saved_ns = finding.saved_ns
    if pattern.cause != "early":
        saved_ns = _find_saved_time(grid, pattern) * facts["instances"] / grid.instance_count
    return replace(
        finding,
        saved_ns=saved_ns,
        callsites=callsites,
        ranks=ranks,
        node=pattern.node,
        period=pattern.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - pattern.p, 0.0), MAX_CERTAINTY),
    )


def _find_saved_time(grid: ArrivalMatrix, pattern: Pattern) -> float:
    """Return how much earlier the last ranks arrive if a pattern's ranks come with the others."""
    ranks = () if pattern.each or pattern.cause == "gradient" else pattern.ranks
    without = grid.arrival - grid.compute_excess(ranks, pattern.instances)
    last, last_without = (
        np.nanmax(arrival[:, pattern.instances], 0) for arrival in (grid.arrival, without)
    )
    return float((last - last_without).sum())


def _describe_change(pattern: Pattern, grid: ArrivalMatrix) -> dict[str, Any]:
    """Return how lateness changes over the run, in levels or steadily; {} if it is constant."""
    if pattern.grows is not None:
        return {"grows": list(pattern.grows)}
    at = grid.number.tolist()
    levels = [[at[first], at[last], late] for first, last, late in pattern.levels]
    return {"levels": levels} if levels else {}


def _barrier_findings(trace: Trace, causes: Causes, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the cost of a barrier before the call sites that often follow it immediately."""
    after = causes.followers[causes.followers["share"] >= MIN_FREQUENCY]
    other_followers = after[after["callsite"] != causes.callsite]
    callsites = (causes.callsite, *map(int, other_followers["callsite"]))
    waiting = float(trace.callsites.loc[list(callsites), "total_wait_ns"].sum())
    saved = min(causes.saved_ns, waiting)
    if saved > 0 and len(other_followers):
        yield replace(
            _make_finding(trace, "barrier", saved, causes.callsite, facts), callsites=callsites
        )


def _rest_finding(
    trace: Trace, cost: float, causes: Causes, facts: Mapping[str, Any], besides: list[str]
) -> Finding:
    """Return the unexplained rest: noise, or lateness that arose inside a collective."""
    sample = take_sample(trace, causes.callsite)
    began = find_begin(trace, sample.walks, [1.0] * len(sample.walks))
    if began:
        began["origin_share"] *= len(sample.walks) / max(sample.walked, 1)
    explained = {
        **facts,
        "besides": besides,
        "by_rank": causes.by_rank.value,
        "by_node": causes.by_node.value,
        "random": causes.random.value,
        "mostly_last": _find_mostly_last(trace.callsites.loc[causes.callsite], facts),
        **began,
    }
    source, part = find_callsite_inside(sample.walks)
    if source is not None and part >= MAIN_SHARE and facts["instances"] > 1:
        explained["inside"] = {"callsite": source, "share": part}
    finding = _make_finding(trace, "noise", cost, causes.callsite, explained)
    elsewhere = began.get("origin_callsite", causes.callsite) != causes.callsite
    often = began.get("origin_share", 0.0) >= MAIN_SHARE and facts["instances"] > 1
    if began.get("origin_how") == "inside" and often and elsewhere and not besides:
        places = (causes.callsite, began["origin_callsite"])
        return replace(finding, cause="inside", callsites=places, ranks=(began["origin_rank"],))
    return replace(finding, certainty=0.0)


def _find_mostly_last(row: Any, facts: Mapping[str, Any]) -> tuple[int, float] | None:
    """Return the rank that is last far more often than by chance, and its share of the instances.

    Returns None if there is no such rank, or if ranks do not wait for the last one. It may still be
    chance, because a wandering rank is last for long.
    """
    least = (1 + 1 / facts["size"]) / 2
    waited = WAIT_STATES[facts["state"]].is_for_last and facts["instances"] >= MIN_INSTANCES
    if not waited or pd.isna(row["latest_rank"]) or row["latest_share"] < least:
        return None
    return int(row["latest_rank"]), float(row["latest_share"])


def _gain_finding(trace: Trace, gain: Gain) -> Finding:
    evidence = {
        **_common_evidence(trace.callsites.loc[gain.callsite]),
        "error_ns": gain.error_ns,
        "how": gain.how,
        "ran": trace.callsites.loc[gain.callsite, "algorithm"],
    }
    finding = _make_finding(trace, "algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(finding, algorithm=gain.algorithm)


def _join_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings with one cause: the same late ranks and origin, a slow node, one barrier.

    The evidence is from the costliest finding.
    """
    groups: dict[Any, list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(_finding_key(finding, number), []).append(finding)
    joined = []
    for of in groups.values():
        of.sort(key=lambda finding: -finding.cost_ns)
        positions = dict.fromkeys(callsite for finding in of for callsite in finding.callsites)
        cost, share = sum(finding.cost_ns for finding in of), sum(finding.share for finding in of)
        saved_ns = max(finding.saved_ns for finding in of)  # one delay may show at several sites
        one = replace(of[0], cost_ns=cost, share=share, saved_ns=saved_ns)
        joined.append(replace(one, callsites=tuple(positions)))
    return joined


def _finding_key(finding: Finding, number: int) -> Any:
    """Return the key that findings of one cause share; `number` if findings are never joined."""
    if finding.cause == "barrier":
        return finding.cause, finding.callsites[0]
    if finding.cause == "node":
        return finding.cause, finding.ranks
    if finding.cause in ("noise", "clock", "algorithm", "outlier") or not finding.ranks:
        return finding.cause, number
    origin = finding.evidence.get("origin_callsite"), finding.evidence.get("origin_how")
    return finding.cause, frozenset(finding.ranks), finding.period, origin
