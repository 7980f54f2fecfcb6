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

from mpiprof.diagnosis.arrival_matrix import Grid
from mpiprof.diagnosis.causes import Causes, in_messages, let_go_early
from mpiprof.diagnosis.delay_origin import began_at, collected_by, inside_of, origins, walks_from
from mpiprof.diagnosis.outliers import ahead, also_costly
from mpiprof.diagnosis.patterns import Pattern, patterns
from mpiprof.diagnosis.samples import sample_of
from mpiprof.diagnosis.span import late_in, spans_of, taken_in
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
REST = 0.2  # minimum share of a call site's wait, unexplained by patterns, for a finding
MOSTLY = 0.5  # share of the instances in which lateness began at one origin
OFTEN = 0.1  # minimum share of the calls that follow a barrier
FEWEST = 5  # minimum number of instances to determine which rank is mostly last
MOST_SURE = 0.999


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
    certainty: float = MOST_SURE
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """The latest rank, or None if the finding concerns no ranks."""
        return self.ranks[0] if self.ranks else None


def findings(trace: Trace, gains: Sequence[Gain] = ()) -> list[Finding]:
    """Return the findings of the hot call sites that matter, the costliest first."""
    table = trace.callsites
    least = NOTABLE_SHARE * float(table["total_wait_ns"].sum()) if len(table) else 0.0
    found = [one for callsite in trace.hot for one in trace.conclusions(callsite)]
    found += [_of_gain(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    costly = [one for one in _joined(found) if one.cost_ns > least or one.cause == "algorithm"]
    return _ordered(costly)


def conclusions(trace: Trace, callsite: int) -> list[Finding]:
    """Return the findings of a call site, the costliest first. Their sum is at most its wait.

    A finding that pays only after another repair follows that other finding.
    """
    row: Any = trace.callsites.loc[callsite]
    waiting = float(row["total_wait_ns"])
    facts = _facts(row)
    if not waiting > 0:
        return []
    if trace.clock_error_ns > 0 and not row["worst_imbalance_ns"] > trace.clock_error_ns:
        told = facts | {"clock_error_ns": trace.clock_error_ns}
        return [replace(_finding(trace, "clock", waiting, callsite, told), certainty=0.0)]
    causes: Causes = trace.causes(callsite)
    grid = Grid(trace, sample_of(trace, callsite))
    if grid.instances == 1 and facts["instances"] == 1:
        facts["ahead"] = ahead(grid, grid.arrival)
    facts["followed"] = any(block.group.through is not None for block in grid.blocks)
    known, left = patterns(grid) if grid.instances else ([], 0.0)
    whole = left + sum(one.gain_ns for one in known)
    scale = waiting / whole if whole > 0 else 0.0
    found = [_of_pattern(trace, one, grid, scale, causes, facts) for one in known]
    found = [_after(one, pattern.once, found) for one, pattern in zip(found, known, strict=True)]
    found += _of_barrier(trace, causes, facts)
    if not known or left >= REST * whole:
        besides = [one.cause for one in known]
        found.append(_rest(trace, left * scale if known else waiting, causes, facts, besides))
    return _ordered(found)


def _after(one: Finding, once: int | None, found: Sequence[Finding]) -> Finding:
    """Return a finding with the finding to be repaired before it pays, if any."""
    if once is None or found[once].ranks == one.ranks:
        return one
    first = {"cause": found[once].cause, "ranks": list(found[once].ranks)}
    return replace(one, evidence={**one.evidence, "once": first})


def _ordered(found: Sequence[Finding]) -> list[Finding]:
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


def _finding(
    trace: Trace, cause: str, cost: float, callsite: int, evidence: Mapping[str, Any]
) -> Finding:
    whole = max(trace.process_time_ns, 1)
    return Finding(cause, round(cost), cost / whole, (callsite,), evidence=evidence)


def _facts(row: Any) -> dict[str, Any]:
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


def _of_pattern(
    trace: Trace,
    one: Pattern,
    grid: Grid,
    scale: float,
    causes: Causes,
    facts: Mapping[str, Any],
) -> Finding:
    """Return a pattern as a finding, with the origin of the lateness."""
    number = grid.number[one.instances]
    walks = walks_from(sample_of(trace, causes.callsite).walks, one, grid)
    ranks, began = origins(trace, walks, one, grid.instances)
    by = collected_by(one, began, len(grid.ranks))
    if by is not None:
        one, ranks = by, by.ranks
    cause, callsites = one.cause, (causes.callsite,)
    if began.get("origin_how") == "inside" and began["origin_share"] >= MOSTLY:
        cause = "inside"
        callsites = tuple(dict.fromkeys((causes.callsite, began["origin_callsite"])))
    scaled = facts["instances"] / max(grid.instances, 1)
    taken = taken_in(one, grid)
    evidence = {
        **facts,
        "late_ns": one.late_ns,
        "late_instances": round(late_in(one, grid) * scaled),
        "taken_instances": round(len(taken) * scaled),
        "spans": [] if np.isin(taken, one.instances).all() else spans_of(number, grid),
        "offsets": list(one.offsets),
        "step": one.step,
        "each": one.each,
        **_changing(one, grid),
        "recorded": [int(grid.number[0]), int(grid.number[-1])],
        "host": _host(trace, one.node),
        **began,
    }
    if one.cause == "early" and causes.point_to_point.value >= MOSTLY:
        # The other ranks may merely wait for messages.
        evidence["point_to_point"] = causes.point_to_point.value
    elif one.cause == "early" and let_go_early(causes, ranks):
        evidence["let_go_early"] = True
    if cause == "rank" and not one.each and began.get("origin_callsite") == causes.callsite:
        evidence["in_messages"] = in_messages(causes, ranks)
    if one.cause == "outlier":
        costly = also_costly(grid.waiting(grid.arrival), one.instances)
        evidence["also_costly"] = round(costly * scaled)
    found = _finding(trace, cause, one.gain_ns * scale, causes.callsite, evidence)
    return replace(
        found,
        callsites=callsites,
        ranks=ranks,
        node=one.node,
        period=one.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - one.p, 0.0), MOST_SURE),
    )


def _changing(one: Pattern, grid: Grid) -> dict[str, Any]:
    """Return how lateness changes over the run, in levels or steadily; {} if it is constant."""
    if one.grows is not None:
        return {"grows": list(one.grows)}
    at = grid.number.tolist()
    levels = [[at[first], at[last], late] for first, last, late in one.levels]
    return {"levels": levels} if levels else {}


def _host(trace: Trace, node: str | None) -> str | None:
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)


def _of_barrier(trace: Trace, causes: Causes, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the cost of a barrier before the call sites that often follow it immediately."""
    after = causes.followers[causes.followers["share"] >= OFTEN]
    others = after[after["callsite"] != causes.callsite]
    callsites = (causes.callsite, *map(int, others["callsite"]))
    waiting = float(trace.callsites.loc[list(callsites), "total_wait_ns"].sum())
    saved = min(causes.saved_ns, waiting)
    if saved > 0 and len(others):
        yield replace(
            _finding(trace, "barrier", saved, causes.callsite, facts), callsites=callsites
        )


def _rest(
    trace: Trace, cost: float, causes: Causes, facts: Mapping[str, Any], besides: list[str]
) -> Finding:
    """Return the unexplained rest: noise, or lateness that arose inside a collective."""
    sample = sample_of(trace, causes.callsite)
    began = began_at(trace, sample.walks, [1.0] * len(sample.walks))
    if began:
        began["origin_share"] *= len(sample.walks) / max(sample.walked, 1)
    told = {
        **facts,
        "besides": besides,
        "by_rank": causes.by_rank.value,
        "by_node": causes.by_node.value,
        "random": causes.random.value,
        "mostly_last": _mostly_last(trace.callsites.loc[causes.callsite], facts),
        **began,
    }
    source, part = inside_of(sample.walks)
    if source is not None and part >= MOSTLY and facts["instances"] > 1:
        told["inside"] = {"callsite": source, "share": part}
    one = _finding(trace, "noise", cost, causes.callsite, told)
    elsewhere = began.get("origin_callsite", causes.callsite) != causes.callsite
    often = began.get("origin_share", 0.0) >= MOSTLY and facts["instances"] > 1
    if began.get("origin_how") == "inside" and often and elsewhere and not besides:
        places = (causes.callsite, began["origin_callsite"])
        return replace(one, cause="inside", callsites=places, ranks=(began["origin_rank"],))
    return replace(one, certainty=0.0)


def _mostly_last(row: Any, facts: Mapping[str, Any]) -> tuple[int, float] | None:
    """Return the rank that is last far more often than by chance, and its share of the instances.

    Returns None if there is no such rank, or if ranks do not wait for the last one. It may still be
    chance, because a wandering rank is last for long.
    """
    least = (1 + 1 / facts["size"]) / 2
    waited = WAIT_STATES[facts["state"]].is_for_last and facts["instances"] >= FEWEST
    if not waited or pd.isna(row["latest_rank"]) or row["latest_share"] < least:
        return None
    return int(row["latest_rank"]), float(row["latest_share"])


def _of_gain(trace: Trace, gain: Gain) -> Finding:
    evidence = {
        **_facts(trace.callsites.loc[gain.callsite]),
        "error_ns": gain.error_ns,
        "how": gain.how,
        "ran": trace.callsites.loc[gain.callsite, "algorithm"],
    }
    one = _finding(trace, "algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(one, algorithm=gain.algorithm)


def _joined(found: Sequence[Finding]) -> list[Finding]:
    """Join findings with one cause: the same late ranks and origin, a slow node, one barrier.

    The evidence is from the costliest finding.
    """
    groups: dict[Any, list[Finding]] = {}
    for number, one in enumerate(found):
        groups.setdefault(_identity(one, number), []).append(one)
    joined = []
    for of in groups.values():
        of.sort(key=lambda one: -one.cost_ns)
        places = dict.fromkeys(callsite for one in of for callsite in one.callsites)
        cost, share = sum(one.cost_ns for one in of), sum(one.share for one in of)
        joined.append(replace(of[0], cost_ns=cost, share=share, callsites=tuple(places)))
    return joined


def _identity(one: Finding, number: int) -> Any:
    """Return the key that findings of one cause share; `number` if findings are never joined."""
    if one.cause == "barrier":
        return one.cause, one.callsites[0]
    if one.cause == "node":
        return one.cause, one.ranks
    if one.cause in ("noise", "clock", "algorithm", "outlier") or not one.ranks:
        return one.cause, number
    origin = one.evidence.get("origin_callsite"), one.evidence.get("origin_how")
    return one.cause, frozenset(one.ranks), one.period, origin
