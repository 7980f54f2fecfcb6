"""What is worth doing, as data, the costliest first; the words are the reports' own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from mpiprof.analysis.causes import Causes
from mpiprof.analysis.operations import STATES
from mpiprof.trace.trace import Trace

NOTABLE_SHARE = 0.01  # of all waiting
PART = 0.05  # of a call site's waiting that a rank or node must explain
REST = 0.2  # of it that is worth a finding of its own where no rank or node explains it


@dataclass(frozen=True)
class Gain:
    """What another algorithm would bring at a call site, from whoever simulated or replayed it.

    algorithm: with its parameters; saved_ns: time of all ranks over all instances, within error_ns;
    how: "simulated" or "replayed".
    """

    callsite: int
    algorithm: str
    saved_ns: float
    error_ns: float
    how: str


@dataclass(frozen=True)
class Finding:
    """One thing worth doing, and what not doing it costs all ranks together over the run.

    kind: "rank" (rebalance it), "node" (slow), "noise" (no rank in particular), "algorithm" (try
    it), "barrier" (remove it), "clock" (its bound is too wide to tell who is late); share: of all
    ranks' run time; callsites: those it concerns, the costliest first; ranks: the latest first;
    evidence: figures, by the names of the columns they come from.
    """

    kind: str
    cost_ns: int
    share: float
    callsites: tuple[int, ...]
    ranks: tuple[int, ...] = ()
    node: str | None = None
    algorithm: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """The rank that is latest, None where it is no matter of ranks."""
        return self.ranks[0] if self.ranks else None


def findings(trace: Trace, gains: Sequence[Gain] = ()) -> list[Finding]:
    """Return what is worth doing about the hot call sites, the costliest first."""
    table = trace.callsites
    least = NOTABLE_SHARE * float(table["total_wait_ns"].sum()) if len(table) else 0.0
    found = [one for callsite in trace.hot for one in _of_callsite(trace, callsite)]
    found += [_of_gain(trace, gain) for gain in gains if gain.saved_ns > gain.error_ns]
    whole = max(trace.duration_ns * trace.ranks, 1)
    costly = [
        replace(one, share=one.cost_ns / whole)
        for one in _joined(found)
        if one.cost_ns > least or one.kind == "algorithm"
    ]
    return sorted(costly, key=lambda one: -one.cost_ns)


def _of_callsite(trace: Trace, callsite: int) -> Iterator[Finding]:
    row: Any = trace.callsites.loc[callsite]
    waiting = float(row["total_wait_ns"])
    facts = _facts(row)
    if trace.clock_error_ns > 0 and not row["worst_imbalance_ns"] > trace.clock_error_ns:
        told = facts | {"clock_error_ns": trace.clock_error_ns}
        yield _finding("clock", waiting, callsite, told)
        return
    causes: Causes = trace.causes(callsite)
    explained, besides = 0.0, []
    for one in (_of_ranks(causes, facts), _of_node(causes, facts)):
        if one is not None and one.cost_ns >= PART * waiting:
            explained += one.cost_ns
            besides.append(f"node {one.node}" if one.node else f"rank {one.rank}")
            yield one
    for follower in causes.followers.to_dict("records"):
        if follower["saved_ns"] > 0:
            one = _finding("barrier", follower["saved_ns"], callsite, facts)
            yield replace(one, callsites=(callsite, int(follower["callsite"])))
    if waiting - explained >= REST * waiting:
        told = facts | _moving(causes, trace.phases(callsite))
        told["besides"] = " and ".join(besides)
        yield _finding("noise", waiting - explained, callsite, told)


def _moving(causes: Causes, phases: pd.DataFrame) -> dict[str, Any]:
    """Return what is known of lateness that no rank or node explains."""
    return {
        "by_rank": causes.by_rank.value,
        "by_node": causes.by_node.value,
        "random": causes.random.value,
        "phases": len(phases),
        "period": int(phases["period"].max()) if len(phases) else 0,
        **_origin(causes.chain),
    }


def _facts(row: Any) -> dict[str, Any]:
    """Return what every finding about a call site tells of it; None where not known."""
    facts: dict[str, Any] = {
        "instances": int(row["instances"]),
        "size": int(row["size"]),
        **{
            name: None if pd.isna(row[name]) else float(row[name])
            for name in ("bytes", "worst_imbalance_ns", "worst_factor", "latest_share")
        },
        "latest_rank": None if pd.isna(row["latest_rank"]) else int(row["latest_rank"]),
    }
    return facts | {"state": max(STATES, key=lambda state: row[f"total_wait_{state}_ns"])}


def _finding(kind: str, cost: float, callsite: int, evidence: Mapping[str, Any]) -> Finding:
    return Finding(kind, round(cost), 0.0, (callsite,), evidence=evidence)


def _of_ranks(causes: Causes, facts: Mapping[str, Any]) -> Finding | None:
    if not causes.late_ranks:
        return None
    row = causes.ranks[causes.ranks["rank"] == causes.late_ranks[0]].iloc[0]
    names = ("error_ns", "inherited_ns", "point_to_point_ns")
    evidence = {
        **facts,
        "late_ns": causes.late_ns,
        "late_share": causes.late_share,
        "late_phases": list(causes.late_phases),
        **{name: float(row[name]) for name in names},
        **origin(causes),
    }
    one = _finding("rank", causes.late_wait_ns, causes.callsite, evidence)
    return replace(one, ranks=causes.late_ranks)


def origin(causes: Causes) -> dict[str, Any]:
    """Return where the lateness of the latest rank began most often; empty if that is not known."""
    chain = causes.chain
    return _origin(chain[[path[-1][1] == causes.late_ranks[0] for path in chain["path"]]])


def _origin(chain: pd.DataFrame) -> dict[str, Any]:
    if not len(chain):
        return {}
    most = chain.iloc[0]
    return {
        **{f"origin_{name}": int(most[name]) for name in ("rank", "callsite", "after")},
        "origin_how": str(most["how"]),
        "origin_share": float(most["share"]),
        "origin_hops": float(most["hops"]),
    }


def _of_node(causes: Causes, facts: Mapping[str, Any]) -> Finding | None:
    if causes.slow_node is None:
        return None
    row = causes.nodes[causes.nodes["node"] == causes.slow_node].iloc[0]
    told = {name: float(row[name]) for name in ("late_ns", "error_ns")}
    evidence = {**facts, **told, "host": row["host"], "by_node": causes.by_node.value}
    one = _finding("node", causes.node_wait_ns, causes.callsite, evidence)
    return replace(one, node=causes.slow_node)


def _of_gain(trace: Trace, gain: Gain) -> Finding:
    evidence = {
        **_facts(trace.callsites.loc[gain.callsite]),
        "error_ns": gain.error_ns,
        "how": gain.how,
        "ran": trace.callsites.loc[gain.callsite, "algorithm"],
    }
    one = _finding("algorithm", gain.saved_ns, gain.callsite, evidence)
    return replace(one, algorithm=gain.algorithm)


def _joined(found: Sequence[Finding]) -> list[Finding]:
    """Join what is said of the same ranks, node or barrier at several call sites.

    The evidence is that of the costliest.
    """
    groups: dict[Any, list[Finding]] = {}
    for one in found:
        what: Any = one.ranks or one.node
        if one.kind == "barrier":
            what = one.callsites[0]
        key = (one.kind, what) if what is not None and what != () else (one.kind, id(one))
        groups.setdefault(key, []).append(one)
    joined = []
    for of in groups.values():
        of.sort(key=lambda one: -one.cost_ns)
        places = dict.fromkeys(callsite for one in of for callsite in one.callsites)
        cost = sum(one.cost_ns for one in of)
        joined.append(replace(of[0], cost_ns=cost, callsites=tuple(places)))
    return joined
