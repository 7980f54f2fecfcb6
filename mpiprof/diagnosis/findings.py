"""Findings of each call site and of the whole run as data, the costliest first.

Only this module draws conclusions. Reports, pages, comparisons and JSON put these findings into
words and add none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.arrival_matrix import ArrivalMatrix
from mpiprof.diagnosis.causes import Causes, is_early_by_exit, ranks_late_by_messages
from mpiprof.diagnosis.delay_origin import (
    find_accumulating_rank,
    find_begin,
    find_callsite_inside,
    find_origins,
    select_walks,
)
from mpiprof.diagnosis.outliers import count_also_costly, find_early_ranks
from mpiprof.diagnosis.pattern import Pattern, columns_with_ranks, count_late_instances, find_spans
from mpiprof.diagnosis.patterns import find_patterns
from mpiprof.diagnosis.sampling import take_sample
from mpiprof.operations import WAIT_STATES
from mpiprof.trace.trace import Trace

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
NOTABLE_SHARE = 0.01  # minimum share of all wait for a finding
MIN_REST_SHARE = 0.2  # minimum share of a call site's wait, unexplained by patterns, for a finding
MAIN_SHARE = 0.5  # share of the instances in which lateness began at one origin
MIN_FREQUENCY = 0.1  # minimum share of the calls that follow a barrier
MIN_INSTANCES = 5  # minimum number of instances to determine which rank is mostly last
MAX_CERTAINTY = 0.999


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


@dataclass(frozen=True)
class Finding:
    """One fault and its cost to all ranks together over the run.

    - cause: an entry of CAUSES. share: cost over the run time of all ranks.
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
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """The latest rank, or None if the finding concerns no ranks."""
        return self.ranks[0] if self.ranks else None


def find_findings(trace: Trace, gains: Sequence[Gain] = ()) -> list[Finding]:
    """Return the findings of the hot call sites that matter, the costliest first."""
    table = trace.callsites
    least = NOTABLE_SHARE * float(table["total_wait_ns"].sum()) if len(table) else 0.0
    found = [one for callsite in trace.hot for one in trace.conclusions(callsite)]
    found += [_gain_finding(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    costly = [
        one for one in _join_findings(found) if one.cost_ns > least or one.cause == "algorithm"
    ]
    return _sort_findings(costly)


def find_conclusions(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site, the costliest first. Their sum is at most its wait.

    A finding that pays only after another repair follows that other finding.
    """
    row: Any = trace.callsites.loc[callsite]
    waiting = float(row["total_wait_ns"])
    facts = _common_evidence(row)
    if not waiting > 0:
        return []
    if trace.clock_error_ns > 0 and not row["worst_imbalance_ns"] > trace.clock_error_ns:
        explained = facts | {"clock_error_ns": trace.clock_error_ns}
        return [replace(_make_finding(trace, "clock", waiting, callsite, explained), certainty=0.0)]
    causes: Causes = trace.causes(callsite)
    grid = ArrivalMatrix(trace, take_sample(trace, callsite))
    if grid.instance_count == 1 and facts["instances"] == 1:
        facts["ahead"] = find_early_ranks(grid, grid.arrival)
    facts["followed"] = any(block.group.through is not None for block in grid.blocks)
    known, left = find_patterns(grid) if grid.instance_count else ([], 0.0)
    whole = left + sum(one.gain_ns for one in known)
    scale = waiting / whole if whole > 0 else 0.0
    found = [_pattern_finding(trace, one, grid, scale, causes, facts) for one in known]
    found = [
        _link_prerequisite(one, pattern.once, found)
        for one, pattern in zip(found, known, strict=True)
    ]
    found += _barrier_findings(trace, causes, facts)
    if not known or left >= MIN_REST_SHARE * whole:
        besides = [one.cause for one in known]
        found.append(
            _rest_finding(trace, left * scale if known else waiting, causes, facts, besides)
        )
    return _sort_findings(found)


def _link_prerequisite(one: Finding, once: int | None, found: Sequence[Finding]) -> Finding:
    """Return a finding with the finding to be repaired before it pays, if any."""
    if once is None or found[once].ranks == one.ranks:
        return one
    first = {"cause": found[once].cause, "ranks": list(found[once].ranks)}
    return replace(one, evidence={**one.evidence, "once": first})


def _sort_findings(found: Sequence[Finding]) -> list[Finding]:
    """Sort findings by cost, but keep each one behind the findings to be repaired before it."""
    known = {(at, one.cause, one.ranks): one for one in found for at in one.callsites}

    def place(one: Finding, behind: int = 0) -> tuple[float, int]:
        once = one.evidence.get("once")
        key = (one.callsites[0], once["cause"], tuple(once["ranks"])) if once else None
        first = known.get(key) if key else None
        if first is None or behind > len(found):  # joined findings may form a cycle
            return -one.cost_ns, 0
        cost, depth = place(first, behind + 1)
        return max(-one.cost_ns, cost), depth + 1

    return sorted(found, key=place)


def _make_finding(
    trace: Trace, cause: str, cost: float, callsite: int, evidence: Mapping[str, Any]
) -> Finding:
    whole = max(trace.process_time_ns, 1)
    return Finding(cause, round(cost), cost / whole, (callsite,), evidence=evidence)


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
    one: Pattern,
    grid: ArrivalMatrix,
    scale: float,
    causes: Causes,
    facts: Mapping[str, Any],
) -> Finding:
    """Return a pattern as a finding, with the origin of the lateness."""
    number = grid.number[one.instances]
    walks = select_walks(take_sample(trace, causes.callsite).walks, one, grid)
    ranks, began = find_origins(trace, walks, one, grid.instance_count)
    by = find_accumulating_rank(one, began, len(grid.ranks))
    if by is not None:
        one, ranks = by, by.ranks
    cause, callsites = one.cause, (causes.callsite,)
    if began.get("origin_how") == "inside" and began["origin_share"] >= MAIN_SHARE:
        cause = "inside"
        callsites = tuple(dict.fromkeys((causes.callsite, began["origin_callsite"])))
    scaled = facts["instances"] / max(grid.instance_count, 1)
    taken = columns_with_ranks(one, grid)
    evidence = {
        **facts,
        "late_ns": one.late_ns,
        "late_instances": round(count_late_instances(one, grid) * scaled),
        "taken_instances": round(len(taken) * scaled),
        "spans": [] if np.isin(taken, one.instances).all() else find_spans(number, grid),
        "offsets": list(one.offsets),
        "step": one.step,
        "each": one.each,
        **_describe_change(one, grid),
        "recorded": [int(grid.number[0]), int(grid.number[-1])],
        "host": _node_host(trace, one.node),
        **began,
    }
    if one.cause == "early" and causes.point_to_point.value >= MAIN_SHARE:
        # The other ranks may merely wait for messages.
        evidence["point_to_point"] = causes.point_to_point.value
    elif one.cause == "early" and is_early_by_exit(causes, ranks):
        evidence["let_go_early"] = True
    if cause == "rank" and not one.each and began.get("origin_callsite") == causes.callsite:
        evidence["in_messages"] = ranks_late_by_messages(causes, ranks)
    if one.cause == "outlier":
        costly = count_also_costly(grid.compute_waiting(grid.arrival), one.instances)
        evidence["also_costly"] = round(costly * scaled)
    found = _make_finding(trace, cause, one.gain_ns * scale, causes.callsite, evidence)
    return replace(
        found,
        callsites=callsites,
        ranks=ranks,
        node=one.node,
        period=one.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - one.p, 0.0), MAX_CERTAINTY),
    )


def _describe_change(one: Pattern, grid: ArrivalMatrix) -> dict[str, Any]:
    """Return how lateness changes over the run, in levels or steadily; {} if it is constant."""
    if one.grows is not None:
        return {"grows": list(one.grows)}
    at = grid.number.tolist()
    levels = [[at[first], at[last], late] for first, last, late in one.levels]
    return {"levels": levels} if levels else {}


def _node_host(trace: Trace, node: str | None) -> str | None:
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)


def _barrier_findings(trace: Trace, causes: Causes, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the cost of a barrier before the call sites that often follow it immediately."""
    after = causes.followers[causes.followers["share"] >= MIN_FREQUENCY]
    others = after[after["callsite"] != causes.callsite]
    callsites = (causes.callsite, *map(int, others["callsite"]))
    waiting = float(trace.callsites.loc[list(callsites), "total_wait_ns"].sum())
    saved = min(causes.saved_ns, waiting)
    if saved > 0 and len(others):
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
    one = _make_finding(trace, "noise", cost, causes.callsite, explained)
    elsewhere = began.get("origin_callsite", causes.callsite) != causes.callsite
    often = began.get("origin_share", 0.0) >= MAIN_SHARE and facts["instances"] > 1
    if began.get("origin_how") == "inside" and often and elsewhere and not besides:
        places = (causes.callsite, began["origin_callsite"])
        return replace(one, cause="inside", callsites=places, ranks=(began["origin_rank"],))
    return replace(one, certainty=0.0)


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
    one = _make_finding(trace, "algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(one, algorithm=gain.algorithm)


def _join_findings(found: Sequence[Finding]) -> list[Finding]:
    """Join findings with one cause: the same late ranks and origin, a slow node, one barrier.

    The evidence is from the costliest finding.
    """
    groups: dict[Any, list[Finding]] = {}
    for number, one in enumerate(found):
        groups.setdefault(_finding_key(one, number), []).append(one)
    joined = []
    for of in groups.values():
        of.sort(key=lambda one: -one.cost_ns)
        positions = dict.fromkeys(callsite for one in of for callsite in one.callsites)
        cost, share = sum(one.cost_ns for one in of), sum(one.share for one in of)
        joined.append(replace(of[0], cost_ns=cost, share=share, callsites=tuple(positions)))
    return joined


def _finding_key(one: Finding, number: int) -> Any:
    """Return the key that findings of one cause share; `number` if findings are never joined."""
    if one.cause == "barrier":
        return one.cause, one.callsites[0]
    if one.cause == "node":
        return one.cause, one.ranks
    if one.cause in ("noise", "clock", "algorithm", "outlier") or not one.ranks:
        return one.cause, number
    origin = one.evidence.get("origin_callsite"), one.evidence.get("origin_how")
    return one.cause, frozenset(one.ranks), one.period, origin
