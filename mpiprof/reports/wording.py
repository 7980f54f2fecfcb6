"""Findings in words: what costs most, who is late there, and what to look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from mpiprof.analysis.chain import START
from mpiprof.analysis.findings import origin
from mpiprof.reports.places import pattern_of, places
from mpiprof.units import count, duration, factor, ranks, share, size

if TYPE_CHECKING:
    from mpiprof.analysis.causes import Causes
    from mpiprof.analysis.findings import Finding
    from mpiprof.analysis.variance import Estimate
    from mpiprof.trace import Trace

# Who waits in each of the wait states.
WHO_WAITS = {
    "nxn": "all others wait for the last",
    "barrier": "all others wait for the last",
    "late_root": "those who receive wait for the root only",
    "early_root": "only the root waits, for its last sender",
    "early_scan": "ranks wait for those below them",
    "neighbor": "ranks wait for their neighbours",
    "gathering": "all others wait for the last",
}
MOSTLY = 0.5

# What each kind of finding asks for, as a heading.
TITLES = {
    "rank": "Rebalance {who} at {where}",
    "node": "Node {who} is slower than the others",
    "noise": "Arrivals scatter at {where}",
    "algorithm": "Try {who} for {where}",
    "barrier": "Remove the {where}",
    "clock": "The clocks can't tell who is late at {where}",
}


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


def finding_title(trace: Trace, found: Finding) -> str:
    """Return what a finding asks for, in a short line."""
    who = found.algorithm or (found.evidence.get("host") or found.node) or ranks_named(found.ranks)
    return TITLES[found.kind].format(who=who, where=where(trace, found.callsites[0]))


def finding(trace: Trace, found: Finding) -> str:
    """Return what a finding costs, its evidence and the next step."""
    place = where(trace, found.callsites[0])
    more = len(found.callsites) - 1
    if more and found.kind in ("rank", "node"):
        place += f" (and {more} more call site{'s' * (more > 1)})"
    cost = f"{duration(float(found.cost_ns))} of waiting"
    if found.kind in ("algorithm", "barrier"):
        cost = f"{duration(float(found.cost_ns))} of all ranks' time"
    of = "" if found.kind in ("algorithm", "barrier") else " of all ranks' time"
    part = f", {share(found.share)}{of}" if found.share > 0 else ""
    verb = "would gain" if found.kind == "algorithm" else "costs"
    row = row_of(trace, found.callsites[0])
    spread = "" if found.kind in ("algorithm", "barrier") else _spread(row)
    parts = [f"{place} {verb} {cost}{part}.", spread, *_EVIDENCE[found.kind](trace, found)]
    return " ".join(part for part in parts if part)


def row_of(trace: Trace, callsite: int) -> dict[str, Any]:
    """Return the row of a call site."""
    row: Any = trace.callsites.loc[callsite]
    return dict(row)


def where(trace: Trace, callsite: int) -> str:
    """Return a call site as "allreduce at app.py:12 step"; of none, the start of the run."""
    if callsite not in trace.callsites.index:
        return "the start of the run" if callsite == START else "an unknown place"
    row = row_of(trace, callsite)
    return f"{row['operation']} at {places(row['sites'])}"


def ranks_named(members: Sequence[int]) -> str:
    """Return "rank 5" or "ranks 5, 7"."""
    return f"rank{'s' * (len(members) > 1)} {ranks(list(members))}"


def _of_rank(trace: Trace, found: Finding) -> list[str]:
    known = found.evidence
    return [lateness(trace, found.callsites[0], found.ranks, known), _look(trace, found)]


def lateness(trace: Trace, callsite: int, members: Sequence[int], known: Mapping[str, Any]) -> str:
    """Return which ranks are late at a call site, by how much, how often, and whence."""
    text = f"Rank {members[0]} is late by {duration(known['late_ns'])}"
    if len(members) > 1:
        named = ranks_named(members).capitalize()
        text = f"{named} are late; rank {members[0]} by {duration(known['late_ns'])}"
    phases = trace.phases(callsite)
    instances = int(row_of(trace, callsite)["instances"])
    if instances == 1:
        times = "in its only instance"
    elif len(known["late_phases"]) == len(phases):
        times = f"in {share(known['late_share'])} of its {count(instances)} instances"
    else:
        rows = phases.iloc[list(known["late_phases"])]
        spans = zip(rows["first_instance"], rows["last_instance"], strict=True)
        named = ", ".join(f"{first} to {last}" for first, last in spans)
        times = f"in {share(known['late_share'])} of its instances {named}"
    return f"{text} {times}{_whence(trace, callsite, members[0], known)}."


def _whence(trace: Trace, callsite: int, rank: int, known: Mapping[str, Any]) -> str:
    """Return where a rank's lateness comes from, as the end of a sentence about it."""
    how, began = known.get("origin_how", "unknown"), known.get("origin_rank", rank)
    if how == "unknown":
        return ""
    source = where(trace, known["origin_callsite"])
    if how == "inside":
        return f", because {source} kept rank {began} longer than others"
    if known["origin_callsite"] != callsite:
        other = f", where rank {began} was late" if began != rank else ""
        return f", and arrives there already late from {source}{other}"
    what = "in point-to-point messages" if how == "point_to_point" else "outside MPI collectives"
    return f", for what it does {what} since {where(trace, known['origin_after'])}"


def _look(trace: Trace, found: Finding) -> str:
    known = found.evidence
    how = known.get("origin_how", "unknown")
    if how == "unknown":
        return "Look at what it does before this call."
    rank, origin = known["origin_rank"], where(trace, known["origin_callsite"])
    if how == "inside":
        return f"Look at the algorithm and the sizes of {origin}."
    what = "exchanges" if how == "point_to_point" else "does"
    if known["origin_after"] == known["origin_callsite"]:
        return f"Look at what rank {rank} {what} between two of these calls."
    return (
        f"Look at what rank {rank} {what} from {where(trace, known['origin_after'])} to {origin}."
    )


def _of_node(_: Trace, found: Finding) -> list[str]:
    known = found.evidence
    name = known.get("host") or found.node
    return [
        f"The ranks on {name} come {duration(known['late_ns'])} later than those on other nodes.",
        "Look there for a slower processor, other jobs, or a network that is shared.",
    ]


def _of_noise(trace: Trace, found: Finding) -> list[str]:
    known = found.evidence
    parts = [period(trace.phases(found.callsites[0]))]
    began = _often_from(trace, found)
    if not known["besides"]:
        return [*parts, began or _who(row_of(trace, found.callsites[0]))]
    text = f"This comes on top of what {known['besides']} causes"
    if began:
        return [*parts, f"{text}.", began]
    return [
        *parts,
        f"{text}, from other ranks each time: look for noise, or for work that moves from rank to "
        "rank.",
    ]


def _often_from(trace: Trace, found: Finding) -> str:
    """Return where lateness began that is no rank's, if it was mostly at one place elsewhere."""
    known = found.evidence
    place = known.get("origin_callsite", found.callsites[0])
    if place == found.callsites[0] or known["origin_share"] < MOSTLY or known["instances"] == 1:
        return ""
    text = f"In {share(known['origin_share'])} of instances the last rank comes late because"
    rank, name = known["origin_rank"], where(trace, place)
    if known["origin_how"] == "inside":
        return f"{text} {name} kept rank {rank} longer than others. {_look(trace, found)}"
    if known["origin_how"] == "unknown":
        return ""
    return f"{text} rank {rank} was late at {name}. {_look(trace, found)}"


def _of_algorithm(trace: Trace, found: Finding) -> list[str]:
    known = found.evidence
    pattern = pattern_of(row_of(trace, found.callsites[0])["sites"])
    return [
        f"So much (± {duration(known['error_ns'])}) would {found.algorithm} save, {known['how']} "
        f"under the recorded arrivals; it ran on {known['ran']}.",
        f"Try: run --switch {pattern}={found.algorithm}",
    ]


def _of_barrier(trace: Trace, found: Finding) -> list[str]:
    after = " and ".join(where(trace, callsite) for callsite in found.callsites[1:])
    return [
        f"So much later do ranks get on in {after}, which follows at once: they wait twice for "
        "different ranks.",
        "Remove the barrier if nothing depends on it, such as files or one-sided access.",
    ]


def _of_clock(_: Trace, found: Finding) -> list[str]:
    bound = duration(found.evidence["clock_error_ns"])
    return [
        f"That is within ±{bound}, the error between the clocks of the nodes: who is late there "
        "is not known.",
        "Record longer, to MPI_Finalize, with synchronising collectives over all nodes.",
    ]


_EVIDENCE: dict[str, Callable[[Trace, Finding], list[str]]] = {
    "rank": _of_rank,
    "node": _of_node,
    "noise": _of_noise,
    "algorithm": _of_algorithm,
    "barrier": _of_barrier,
    "clock": _of_clock,
}


def causes(trace: Trace, found: Causes) -> list[str]:
    """Return why the arrivals at a call site differ, in sentences."""
    parts = []
    if not math.isnan(found.inherited.value):
        parts.append(
            f"Of the spread of the arrivals (its variance) {_between(found.inherited)} came in "
            f"with the exits from the collective before; {_between(found.outside)} arose since "
            f"then outside MPI collectives and {_between(found.point_to_point)} in point-to-point "
            "messages."
        )
    if not math.isnan(found.random.value):
        nodes = f", {_between(found.by_node)} by node" if len(found.nodes) > 1 else ""
        parts.append(
            f"{_between(found.by_rank)} is systematic by rank{nodes}, {_between(found.random)} "
            "moves at random from instance to instance."
        )
    if found.late_ranks:
        known = {
            "late_ns": found.late_ns,
            "late_share": found.late_share,
            "late_phases": found.late_phases,
            **origin(found),
        }
        parts.append(lateness(trace, found.callsite, found.late_ranks, known))
    if found.instances < found.complete_instances:
        seen, there = count(found.instances), count(found.complete_instances)
        parts.append(f"This is from {seen} of {there} instances.")
    return parts


def period(phases: pd.DataFrame) -> str:
    """Return which instances of a call site are different again and again; empty if none are."""
    if not len(phases) or not phases["period"].iloc[0]:
        return ""
    every, offset = int(phases["period"].iloc[0]), int(phases["period_offset"].iloc[0])
    spread = float(phases["period_worst_imbalance_ns"].mean())
    numbers = ", ".join(str(offset + i * every) for i in range(3))
    return (
        f"Every {ordinal(every)} instance ({numbers}, ...) is different: it spreads over "
        f"{duration(spread)}."
    )


def ordinal(number: int) -> str:
    """Return "2nd" for 2, "11th" for 11."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 < number % 100 < 14 else ends.get(number % 10, 'th')}"


def _between(found: Estimate) -> str:
    """Return a share with its confidence interval, in percent."""
    value, low, high = (
        f"{100 * v + 0.0:.0f}".replace("-0", "0") if abs(100 * v) < 1 else f"{100 * v:.0f}"
        for v in (found.value, found.low, found.high)
    )
    return f"{value} %" if low in (high, "nan") else f"{value} % ({low} to {high})"


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
