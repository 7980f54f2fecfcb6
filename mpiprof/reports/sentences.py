"""Findings as text: the problem, the evidence and the advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpiprof.diagnosis.delay_chain import START
from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ordinal,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.advice import advise, find_other_callsite, is_by_messages, split_ranks
from mpiprof.reports.delay_sentences import delay_clause, delay_title, is_delay
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


def finding_title(trace: Trace, finding: Finding) -> str:
    """Return the heading of a finding, one short line."""
    if is_delay(finding):
        return delay_title(finding)
    ranks, _ = split_ranks(finding)
    who = finding.algorithm or finding.evidence.get("host") or format_ranks(ranks) or "Ranks"
    if finding.cause == "periodic":
        who = capitalise(who)
    if finding.evidence.get("each"):
        who = "the ranks"
    site = format_callsite(trace, finding.callsites[0])
    if "let_go_early" in finding.evidence:
        return f"Look at whom the others wait for before {site}"
    if is_by_messages(finding) and finding.cause != "moving":
        return f"Look at the messages before {site}"
    origin = format_callsite(trace, finding.callsites[-1])
    return TITLES[finding.cause].format(who=who, where=site, origin=origin)


def finding_text(trace: Trace, finding: Finding) -> str:
    """Return the problem, the evidence and the advice."""
    return f"{problem_and_evidence(trace, finding)} {advise(trace, finding)}"


def problem_and_evidence(trace: Trace, finding: Finding) -> str:
    """Return the problem with its cost, and the evidence."""
    return f"{problem_sentence(trace, finding)} {evidence_text(trace, finding)}".rstrip()


def problem_sentence(trace: Trace, finding: Finding) -> str:
    """Return the problem and its cost in one sentence."""
    cost = cost_clause(finding)
    return f"{problem_clause(trace, finding)}: {cost}{_prerequisite_clause(finding)}."


def _prerequisite_clause(finding: Finding) -> str:
    """Return what must be repaired before a finding's waiting vanishes, or "" if nothing."""
    once = finding.evidence.get("once")
    if once is None:
        return ""
    if not once["ranks"]:
        return ", once no other finding hides it"
    s = "" if len(once["ranks"]) > 1 else "s"
    return f", once {format_ranks(once['ranks'])} come{s} with the others"


def problem_clause(trace: Trace, finding: Finding) -> str:
    """Return the problem without its cost, as a clause."""
    if is_delay(finding):
        return capitalise(delay_clause(trace, finding))
    return _CLAUSES[finding.cause](trace, finding)


def cost_clause(finding: Finding) -> str:
    """Return the cost of a finding."""
    cost, share = format_time(float(finding.cost_ns)), format_share(finding.share)
    if finding.cause in ("algorithm", "barrier"):
        return f"{cost} of all ranks' time, {share}"
    return f"{cost} of waiting" + (f", {share} of all ranks' time" if finding.share > 0 else "")


def _ranks_and_ending(finding: Finding) -> tuple[str, str]:
    """Return the ranks of a finding as a subject, and the ending of its verb."""
    return capitalise(format_ranks(finding.ranks)), "" if len(finding.ranks) > 1 else "s"


def instances_clause(finding: Finding) -> str:
    """Return the instances that a finding covers, as the end of a clause; "" if it covers all."""
    spans = finding.evidence.get("spans") or []
    if not spans:
        return ""
    begin, end = finding.evidence["recorded"]  # a ring log has lost earlier instances
    if len(spans) > MAX_SPANS:
        late, total = finding.evidence["late_instances"], finding.evidence["taken_instances"]
        return f" in {format_count(late)} of its {format_count(total)} instances"
    if len(spans) == 1:
        first, final = spans[0]
        return instance_range(first, final, begin, end)
    return " in instances " + " and ".join(f"{first} to {final}" for first, final in spans)


def _site_and_lateness(trace: Trace, finding: Finding) -> tuple[str, str]:
    """Return the first call site of a finding and its lateness, as text."""
    return format_callsite(trace, finding.callsites[0]), format_time(finding.evidence["late_ns"])


# The problem


def _rank_clause(trace: Trace, finding: Finding) -> str:
    evidence = finding.evidence
    site, late = _site_and_lateness(trace, finding)
    when = instances_clause(finding)
    subject, s = _ranks_and_ending(finding)
    changing = (*evidence.get("grows", ()), *(by for *_, by in evidence.get("levels", ())))
    if (len(finding.ranks) > 1 or changing) and finding.cause == "rank":
        late = f"up to {format_time(max(changing, default=evidence['late_ns']))}"
    how, place = evidence.get("origin_how", "unknown"), evidence.get("origin_callsite", START)
    if evidence.get("each"):
        late = f"{format_ranks(finding.ranks)} {late} after the median of the others"
        return f"Each rank comes at its own time to {site}{when}, {late}"
    come = f"{subject} come{s} {late} later than the others to {site}{when}"
    if how not in ("outside", "point_to_point"):
        return come
    workers, talkers = split_ranks(finding)
    if talkers:
        do = "they do" if len(workers) > 1 else "it does"
        its = "their" if len(talkers) > 1 else "its"
        work = f"{format_ranks(workers)} for what {do} before"
        return f"{come}, {work} and {format_ranks(talkers)} for {its} messages"
    verb = f"take{s} {late} longer than the others"
    if how == "point_to_point":
        verb = f"spend{s} {late} more than the others in point-to-point messages"
    verb += f" {_before_clause(trace, place, evidence)}"
    delays = "" if place == finding.callsites[0] else f", and that delays {site}"
    return f"{subject} {verb}{delays}{when}"


def _before_clause(trace: Trace, place: int, evidence: Mapping[str, Any]) -> str:
    """Return where ranks become late: before a call, or gradually over many instances of it."""
    site, collected = format_callsite(trace, place), evidence.get("collected")
    if collected is None:
        return f"before {site}"
    return f"over {format_count(collected['usual_instances'])} instances of {site}"


def _early_clause(trace: Trace, finding: Finding) -> str:
    subject, s = _ranks_and_ending(finding)
    have, late = "has" if s else "have", format_time(finding.evidence["late_ns"])
    site = f"{format_callsite(trace, finding.callsites[0])}{instances_clause(finding)}"
    come = f"{subject} come{s} {late} before the others to {site}, and wait{s}"
    if "let_go_early" in finding.evidence:
        return f"{come}, as the call before kept the others longer"
    if is_by_messages(finding):
        return f"{come}: most of that the others spend in point-to-point messages"
    return f"{subject} {have} {late} less to do than the others before {site}, and wait{s}"


def _periodic_clause(trace: Trace, finding: Finding) -> str:
    subject, s = _ranks_and_ending(finding)
    site, late = _site_and_lateness(trace, finding)
    if "grows" in finding.evidence:
        late = f"up to {format_time(max(finding.evidence['grows']))}"
    claim = f"{format_ranks(finding.ranks)} come{s} {late} later than the others"
    place = find_other_callsite(finding)
    if place is not None:
        before = f"before {format_callsite(trace, place)}, and others wait for that"
        verb = f"take{s} {late} longer than the others"
        if is_by_messages(finding):
            verb = f"spend{s} {late} more than the others in point-to-point messages"
        claim = f"{format_ranks(finding.ranks)} {verb} {before}"
    elif not subject:
        claim = f"the ranks usually come {late} apart"
    elif is_by_messages(finding):
        claim += ", most of that in point-to-point messages"
    return f"{_recurrence_clause(finding)} of {site}, {claim}"


def _recurrence_clause(finding: Finding) -> str:
    """Return which instances recur in the pattern: "In every 3rd instance (1, ...)"."""
    period, offsets = int(finding.period or 1), finding.evidence["offsets"]
    first = finding.first_instance or 0
    if len(offsets) == 1:
        numbers = ", ".join(str(first + i * period) for i in range(3))
        return f"In every {format_ordinal(period)} instance ({numbers}, ...)"
    return f"In {len(offsets)} of every {period} instances"


def _moving_clause(trace: Trace, finding: Finding) -> str:
    site, late = _site_and_lateness(trace, finding)
    ranks = format_ranks(finding.ranks)
    if finding.period and len(finding.ranks) <= MAX_SPANS:
        return f"{capitalise(ranks)} come {late} late to {site} in turn"
    again = f", and again after {finding.period} instances" if finding.period else ""
    if finding.evidence["step"]:
        again = f", {finding.evidence['step']} further each time"
    return f"Lateness of {late} goes from rank to rank at {site} ({ranks}{again})"


def _gradient_clause(trace: Trace, finding: Finding) -> str:
    site, late = _site_and_lateness(trace, finding)
    detail = ", most of that in point-to-point messages" if is_by_messages(finding) else ""
    grows = f"Lateness grows along the ranks at {site}{instances_clause(finding)}"
    return f"{grows}, up to {late} at rank {finding.ranks[0]}{detail}"


def _outlier_clause(trace: Trace, finding: Finding) -> str:
    evidence = finding.evidence
    site, late = _site_and_lateness(trace, finding)
    if evidence["late_instances"] > 1:
        late = f"up to {late}"
    claim = f"ranks came {late} apart"
    if finding.ranks:
        claim = f"{format_ranks(finding.ranks)} came {late} late"
    if evidence["instances"] == 1:
        return f"In {_has_one_instance(trace)} of {site}, {claim}"
    if evidence["late_instances"] == 1:
        return f"In one instance of {site}, number {finding.first_instance}, {claim}"
    few, all_ = format_count(evidence["late_instances"]), format_count(evidence["instances"])
    return f"In {few} of the {all_} instances of {site}, {claim}"


def _has_one_instance(trace: Trace) -> str:
    return "the only instance" if trace.sampling_interval == 1 else "the only recorded instance"


def _inside_clause(trace: Trace, finding: Finding) -> str:
    evidence, site = finding.evidence, format_callsite(trace, finding.callsites[0])
    late = format_time(evidence.get("late_ns") or evidence["worst_imbalance_ns"])
    source, rank = format_callsite(trace, evidence["origin_callsite"]), evidence["origin_rank"]
    then = f"rank {rank} then comes" if rank in finding.ranks else "others then come"
    if evidence["origin_callsite"] == finding.callsites[0]:
        site = "its next call"
    if "collected" in evidence:
        instances = format_count(evidence["collected"]["usual_instances"])
        source += f", in {instances} instances together,"
    inside_longer = f"{capitalise(source)} keeps rank {rank} {late} longer than the others"
    return f"{inside_longer}, and {then} late to {site}{instances_clause(finding)}"


def _node_clause(trace: Trace, finding: Finding) -> str:
    evidence = finding.evidence
    host = evidence.get("host")
    on = f"The ranks on {host}" if host else capitalise(format_ranks(finding.ranks))
    late, site = format_time(evidence["late_ns"]), format_callsite(trace, finding.callsites[0])
    return f"{on} come {late} later than those on other nodes to {site}{instances_clause(finding)}"


def _noise_clause(trace: Trace, finding: Finding) -> str:
    evidence, site = finding.evidence, format_callsite(trace, finding.callsites[0])
    spread = evidence["worst_imbalance_ns"]
    if evidence["instances"] == 1:
        instance = f"{_has_one_instance(trace)} of {site}"
        if evidence.get("ahead"):
            subject = capitalise(format_ranks(evidence["ahead"]))
            s = "s" * (len(evidence["ahead"]) < 2)
            return f"{subject} come{s} up to {format_time(spread)} before the others to {instance}"
        return f"The ranks come {format_time(spread)} apart to {instance}"
    if evidence["besides"]:
        whole: Any = trace.callsites.loc[finding.callsites[0], "total_wait_ns"]
        share = "Most" if finding.cost_ns > whole / 2 else "Some"
        return f"{share} of the waiting at {site} has no pattern, {_no_rank_clause(evidence)}"
    return f"Arrivals at {site} scatter by {format_time(spread)}, {_no_rank_clause(evidence)}"


def _no_rank_clause(evidence: Mapping[str, Any]) -> str:
    """Return why no rank is blamed for waiting without a pattern."""
    if evidence["mostly_last"] is None:
        besides = evidence["besides"]
        return "with other ranks late each time" if besides else "and no rank stands out"
    rank, share = evidence["mostly_last"]
    link = "though" if evidence["besides"] else "and"
    return f"{link} rank {rank} comes last in {format_share(share)} of its instances"


def _algorithm_clause(trace: Trace, finding: Finding) -> str:
    site = format_callsite(trace, finding.callsites[0])
    return f"{finding.algorithm} would be faster than {finding.evidence['ran']} for {site}"


def _barrier_clause(trace: Trace, finding: Finding) -> str:
    site, *later = [format_callsite(trace, callsite) for callsite in finding.callsites]
    return f"Ranks wait at {site} longer than {' or '.join(later)} right after it would make them"


def _clock_clause(trace: Trace, finding: Finding) -> str:
    site = format_callsite(trace, finding.callsites[0])
    return f"Who is late at {site} can't be told from the clocks of the nodes"


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
