"""Findings as text: the problem, the evidence and the advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpiprof.diagnosis.delay_chain import START
from mpiprof.diagnosis.findings import Finding
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ordinal,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.advice import advise, find_other_callsite, is_by_messages, split_ranks
from mpiprof.reports.evidence import MAX_SPANS, evidence_text, instance_range
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace

# Heading for each cause, which names the required action.
TITLES = {
    "rank": "Rebalance {who} before {where}",
    "early": "Give more work to {who} before {where}",
    "periodic": "{who} late again and again at {where}",
    "moving": "Lateness moves from rank to rank at {where}",
    "gradient": "Lateness grows along the ranks at {where}",
    "outlier": "Single instances of {where} cost most",
    "inside": "Lateness is made inside {origin}",
    "node": "Node {who} is slower than the others",
    "noise": "Arrivals scatter at {where}",
    "algorithm": "Try {who} for {where}",
    "barrier": "Remove the {where}",
    "clock": "The clocks can't tell who is late at {where}",
}


def finding_title(trace: Trace, found: Finding) -> str:
    """Return the heading of a finding, one short line."""
    ranks, _ = split_ranks(found)
    who = found.algorithm or found.evidence.get("host") or format_ranks(ranks) or "Ranks"
    if found.cause == "periodic":
        who = capitalise(who)
    if found.evidence.get("each"):
        who = "the ranks"
    here = format_callsite(trace, found.callsites[0])
    if "let_go_early" in found.evidence:
        return f"Look at whom the others wait for before {here}"
    if is_by_messages(found) and found.cause != "moving":
        return f"Look at the messages before {here}"
    origin = format_callsite(trace, found.callsites[-1])
    return TITLES[found.cause].format(who=who, where=here, origin=origin)


def finding_text(trace: Trace, found: Finding) -> str:
    """Return the problem, the evidence and the advice."""
    return f"{problem_and_evidence(trace, found)} {advise(trace, found)}"


def problem_and_evidence(trace: Trace, found: Finding) -> str:
    """Return the problem with its cost, and the evidence."""
    return f"{problem_sentence(trace, found)} {evidence_text(trace, found)}".rstrip()


def problem_sentence(trace: Trace, found: Finding) -> str:
    """Return the problem and its cost in one sentence."""
    return f"{problem_clause(trace, found)}: {cost_clause(found)}{_prerequisite_clause(found)}."


def _prerequisite_clause(found: Finding) -> str:
    """Return what must be repaired before a finding's waiting vanishes, or "" if nothing."""
    once = found.evidence.get("once")
    if once is None:
        return ""
    if not once["ranks"]:
        return ", once no other finding hides it"
    s = "" if len(once["ranks"]) > 1 else "s"
    return f", once {format_ranks(once['ranks'])} come{s} with the others"


def problem_clause(trace: Trace, found: Finding) -> str:
    """Return the problem without its cost, as a clause."""
    return _CLAUSES[found.cause](trace, found)


def cost_clause(found: Finding) -> str:
    """Return the cost of a finding."""
    cost, share = format_time(float(found.cost_ns)), format_share(found.share)
    if found.cause in ("algorithm", "barrier"):
        return f"{cost} of all ranks' time, {share}"
    return f"{cost} of waiting" + (f", {share} of all ranks' time" if found.share > 0 else "")


def _ranks_and_ending(found: Finding) -> tuple[str, str]:
    """Return the ranks of a finding as a subject, and the ending of its verb."""
    return capitalise(format_ranks(found.ranks)), "" if len(found.ranks) > 1 else "s"


def instances_clause(found: Finding) -> str:
    """Return the instances that a finding covers, as the end of a clause; "" if it covers all."""
    spans = found.evidence.get("spans") or []
    if not spans:
        return ""
    begin, end = found.evidence["recorded"]  # a ring log has lost earlier instances
    if len(spans) > MAX_SPANS:
        late, taken = found.evidence["late_instances"], found.evidence["taken_instances"]
        return f" in {format_count(late)} of its {format_count(taken)} instances"
    if len(spans) == 1:
        first, final = spans[0]
        return instance_range(first, final, begin, end)
    return " in instances " + " and ".join(f"{first} to {final}" for first, final in spans)


# The problem


def _rank_clause(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, format_callsite(trace, found.callsites[0])
    when = instances_clause(found)
    who, s = _ranks_and_ending(found)
    late = format_time(known["late_ns"])
    changing = (*known.get("grows", ()), *(by for *_, by in known.get("levels", ())))
    if (len(found.ranks) > 1 or changing) and found.cause == "rank":
        late = f"up to {format_time(max(changing, default=known['late_ns']))}"
    how, place = known.get("origin_how", "unknown"), known.get("origin_callsite", START)
    if known.get("each"):
        late = f"{format_ranks(found.ranks)} {late} after the median of the others"
        return f"Each rank comes at its own time to {here}{when}, {late}"
    come = f"{who} come{s} {late} later than the others to {here}{when}"
    if how not in ("outside", "point_to_point"):
        return come
    workers, talkers = split_ranks(found)
    if talkers:
        do = "they do" if len(workers) > 1 else "it does"
        its = "their" if len(talkers) > 1 else "its"
        work = f"{format_ranks(workers)} for what {do} before"
        return f"{come}, {work} and {format_ranks(talkers)} for {its} messages"
    verb = f"take{s} {late} longer than the others"
    if how == "point_to_point":
        verb = f"spend{s} {late} more than the others in point-to-point messages"
    verb += f" {_before_clause(trace, place, known)}"
    delays = "" if place == found.callsites[0] else f", and that delays {here}"
    return f"{who} {verb}{delays}{when}"


def _before_clause(trace: Trace, place: int, known: Mapping[str, Any]) -> str:
    """Return where ranks become late: before a call, or gradually over many instances of it."""
    site, collected = format_callsite(trace, place), known.get("collected")
    if collected is None:
        return f"before {site}"
    return f"over {format_count(collected['usual_instances'])} instances of {site}"


def _early_clause(trace: Trace, found: Finding) -> str:
    who, s = _ranks_and_ending(found)
    have, late = "has" if s else "have", format_time(found.evidence["late_ns"])
    here = f"{format_callsite(trace, found.callsites[0])}{instances_clause(found)}"
    come = f"{who} come{s} {late} before the others to {here}, and wait{s}"
    if "let_go_early" in found.evidence:
        return f"{come}, as the call before kept the others longer"
    if is_by_messages(found):
        return f"{come}: most of that the others spend in point-to-point messages"
    return f"{who} {have} {late} less to do than the others before {here}, and wait{s}"


def _periodic_clause(trace: Trace, found: Finding) -> str:
    who, s = _ranks_and_ending(found)
    late, here = format_time(found.evidence["late_ns"]), format_callsite(trace, found.callsites[0])
    if "grows" in found.evidence:
        late = f"up to {format_time(max(found.evidence['grows']))}"
    claim = f"{format_ranks(found.ranks)} come{s} {late} later than the others"
    place = find_other_callsite(found)
    if place is not None:
        before = f"before {format_callsite(trace, place)}, and others wait for that"
        verb = f"take{s} {late} longer than the others"
        if is_by_messages(found):
            verb = f"spend{s} {late} more than the others in point-to-point messages"
        claim = f"{format_ranks(found.ranks)} {verb} {before}"
    elif not who:
        claim = f"the ranks usually come {late} apart"
    elif is_by_messages(found):
        claim += ", most of that in point-to-point messages"
    return f"{_recurrence_clause(found)} of {here}, {claim}"


def _recurrence_clause(found: Finding) -> str:
    """Return which instances recur in the pattern: "In every 3rd instance (1, ...)"."""
    every, offsets = int(found.period or 1), found.evidence["offsets"]
    first = found.first_instance or 0
    if len(offsets) == 1:
        numbers = ", ".join(str(first + i * every) for i in range(3))
        return f"In every {format_ordinal(every)} instance ({numbers}, ...)"
    return f"In {len(offsets)} of every {every} instances"


def _moving_clause(trace: Trace, found: Finding) -> str:
    late, here = format_time(found.evidence["late_ns"]), format_callsite(trace, found.callsites[0])
    which = format_ranks(found.ranks)
    if found.period and len(found.ranks) <= MAX_SPANS:
        return f"{capitalise(which)} come {late} late to {here} in turn"
    again = f", and again after {found.period} instances" if found.period else ""
    if found.evidence["step"]:
        again = f", {found.evidence['step']} further each time"
    return f"Lateness of {late} goes from rank to rank at {here} ({which}{again})"


def _gradient_clause(trace: Trace, found: Finding) -> str:
    late, here = format_time(found.evidence["late_ns"]), format_callsite(trace, found.callsites[0])
    most = ", most of that in point-to-point messages" if is_by_messages(found) else ""
    grows = f"Lateness grows along the ranks at {here}{instances_clause(found)}"
    return f"{grows}, up to {late} at rank {found.ranks[0]}{most}"


def _outlier_clause(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, format_callsite(trace, found.callsites[0])
    late = format_time(known["late_ns"])
    if known["late_instances"] > 1:
        late = f"up to {late}"
    who = f"ranks came {late} apart"
    if found.ranks:
        who = f"{format_ranks(found.ranks)} came {late} late"
    if known["instances"] == 1:
        return f"In {_has_one_instance(trace)} of {here}, {who}"
    if known["late_instances"] == 1:
        return f"In one instance of {here}, number {found.first_instance}, {who}"
    few, all_ = format_count(known["late_instances"]), format_count(known["instances"])
    return f"In {few} of the {all_} instances of {here}, {who}"


def _has_one_instance(trace: Trace) -> str:
    return "the only instance" if trace.sampling_interval == 1 else "the only recorded instance"


def _inside_clause(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, format_callsite(trace, found.callsites[0])
    late = format_time(known.get("late_ns") or known["worst_imbalance_ns"])
    source, kept = format_callsite(trace, known["origin_callsite"]), known["origin_rank"]
    then = f"rank {kept} then comes" if kept in found.ranks else "others then come"
    if known["origin_callsite"] == found.callsites[0]:
        here = "its next call"
    if "collected" in known:
        instances = format_count(known["collected"]["usual_instances"])
        source += f", in {instances} instances together,"
    inside_longer = f"{capitalise(source)} keeps rank {kept} {late} longer than the others"
    return f"{inside_longer}, and {then} late to {here}{instances_clause(found)}"


def _node_clause(trace: Trace, found: Finding) -> str:
    known = found.evidence
    host = known.get("host")
    on = f"The ranks on {host}" if host else capitalise(format_ranks(found.ranks))
    late, here = format_time(known["late_ns"]), format_callsite(trace, found.callsites[0])
    return f"{on} come {late} later than those on other nodes to {here}{instances_clause(found)}"


def _noise_clause(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, format_callsite(trace, found.callsites[0])
    spread = known["worst_imbalance_ns"]
    if known["instances"] == 1:
        one = f"{_has_one_instance(trace)} of {here}"
        if known.get("ahead"):
            who, s = capitalise(format_ranks(known["ahead"])), "s" * (len(known["ahead"]) < 2)
            return f"{who} come{s} up to {format_time(spread)} before the others to {one}"
        return f"The ranks come {format_time(spread)} apart to {one}"
    if known["besides"]:
        whole: Any = trace.callsites.loc[found.callsites[0], "total_wait_ns"]
        share = "Most" if found.cost_ns > whole / 2 else "Some"
        return f"{share} of the waiting at {here} has no pattern, {_no_rank_clause(known)}"
    return f"Arrivals at {here} scatter by {format_time(spread)}, {_no_rank_clause(known)}"


def _no_rank_clause(known: Mapping[str, Any]) -> str:
    """Return why no rank is blamed for waiting without a pattern."""
    if known["mostly_last"] is None:
        return "with other ranks late each time" if known["besides"] else "and no rank stands out"
    rank, share = known["mostly_last"]
    link = "though" if known["besides"] else "and"
    return f"{link} rank {rank} comes last in {format_share(share)} of its instances"


def _algorithm_clause(trace: Trace, found: Finding) -> str:
    here = format_callsite(trace, found.callsites[0])
    return f"{found.algorithm} would be faster than {found.evidence['ran']} for {here}"


def _barrier_clause(trace: Trace, found: Finding) -> str:
    here, *after = [format_callsite(trace, callsite) for callsite in found.callsites]
    return f"Ranks wait at {here} longer than {' or '.join(after)} right after it would make them"


def _clock_clause(trace: Trace, found: Finding) -> str:
    here = format_callsite(trace, found.callsites[0])
    return f"Who is late at {here} can't be told from the clocks of the nodes"


_CLAUSES: dict[str, Callable[[Trace, Finding], str]] = {
    "rank": _rank_clause,
    "early": _early_clause,
    "periodic": _periodic_clause,
    "moving": _moving_clause,
    "gradient": _gradient_clause,
    "outlier": _outlier_clause,
    "inside": _inside_clause,
    "node": _node_clause,
    "noise": _noise_clause,
    "algorithm": _algorithm_clause,
    "barrier": _barrier_clause,
    "clock": _clock_clause,
}
