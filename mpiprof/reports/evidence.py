"""The evidence for a finding, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import capitalise, format_count, format_share, format_time
from mpiprof.operations import WAIT_STATES
from mpiprof.reports.delay_sentences import delay_evidence, is_delay, saving_sentence
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace

# Text for a rooted operation that ran on one of mpiprof's algorithms.
SCHEDULE_RULE = "in the algorithm that ran, a rank waits for all through whom its data comes"
MAX_SPANS = 3
MAX_NAMED = 3  # call sites
MIN_SHARE = 0.1  # minimum share of exceptional instances that are reported


def evidence_text(trace: Trace, finding: Finding) -> str:
    """Return the evidence for a finding."""
    evidence = finding.evidence
    if is_delay(finding):
        return delay_evidence(trace, finding)
    if finding.cause == "algorithm":
        error = format_time(evidence["error_ns"])
        how = f"That is {evidence['how']} under the recorded arrivals, ± {error}."
        return f"{how} {saving_sentence(trace, finding)}".rstrip()
    if finding.cause == "barrier":
        earlier = format_time(finding.saved_ns)
        return f"Replayed without the barrier on the recorded times, the run ends {earlier} sooner."
    if finding.cause == "clock":
        bound = format_time(evidence["clock_error_ns"])
        return f"Arrivals differ by less than the clocks may be off, ± {bound}."
    rule = SCHEDULE_RULE if evidence.get("followed") else WAIT_STATES[evidence["state"]].sentence
    parts = [saving_sentence(trace, finding), _instances_basis(finding), f"{capitalise(rule)}."]
    parts.append(_other_callsites(trace, finding))
    return " ".join(part for part in parts if part)


def _instances_basis(finding: Finding) -> str:
    evidence = finding.evidence
    instances = evidence["instances"]
    if finding.cause == "rank" and "collected" in evidence and evidence["late_instances"] == 1:
        collected = evidence["collected"]  # lateness that accumulated once, over many instances
        mean = format_time(collected["late_ns"] / collected["instances"])
        remark = " How it was before these is not known." if collected["cut"] else ""
        return f"Each of these adds {mean} on average.{remark}"
    if instances == 1:
        return "One instance does not tell a habit from an accident."
    if finding.cause == "noise":
        return _spread_clause(finding)
    if finding.cause == "outlier":
        costly = evidence["also_costly"]
        if costly > MIN_SHARE * instances:
            return ""  # other findings explain the waiting of these ranks
        subject = f"All but {format_count(costly)} of the" if costly else "The"
        return f"{subject} other instances wait less than a tenth of that."
    if evidence.get("grows") or evidence.get("levels"):
        return _change_clause(evidence)
    late = evidence.get("late_instances")
    if not late or len(evidence["spans"]) > MAX_SPANS:
        return ""
    if finding.cause in ("node", "gradient"):
        return f"That is the mean over {format_count(instances)} instances."
    instances_text = f"{format_count(evidence['taken_instances'])} instances"
    if evidence["taken_instances"] < instances:
        instances_text += f" that it takes part in, of {format_count(instances)}"
    return f"It is so in {format_count(late)} of {instances_text}."


def _change_clause(evidence: Mapping[str, Any]) -> str:
    """Return how lateness changes over the run."""
    if "grows" in evidence:
        first, last = evidence["grows"]
        how = "grows" if last > first else "shrinks"
        ends = (format_time(late) if late >= 1 else "nothing" for late in (first, last))
        return f"That {how} steadily, from {' at first to '.join(ends)} at last."
    levels, (begin, end) = evidence["levels"], evidence["recorded"]
    if len(levels) > MAX_SPANS:
        least, most = (format_time(f(late for *_, late in levels)) for f in (min, max))
        return f"That changes {len(levels) - 1} times, between {least} and {most}."
    spans = [(format_time(late), first, last) for first, last, late in levels]
    parts = [f"{late}{instance_range(first, last, begin, end)}" for late, first, last in spans]
    return f"It is {', then '.join(parts)}."


def instance_range(first: int, last: int, begin: int, end: int) -> str:
    """Return the range of instances from `begin` to `end` as the end of a clause."""
    if first == last:
        return f" in instance {first}"
    if last >= end:
        return f" from instance {first} on"
    return f" up to instance {last}" if first <= begin else f" in instances {first} to {last}"


def _spread_clause(finding: Finding) -> str:
    """Return the evidence for waiting without a pattern."""
    evidence = finding.evidence
    if evidence["besides"]:
        return "That is what the other findings leave unexplained."
    if evidence["random"] is None or math.isnan(evidence["random"]):
        return f"That is from {format_count(evidence['instances'])} instances."
    share, instances = format_share(1 - evidence["random"]), format_count(evidence["instances"])
    return f"The same ranks or nodes make {share} of the spread over its {instances} instances."


def _other_callsites(trace: Trace, finding: Finding) -> str:
    """Return the other call sites that the finding affects."""
    sites = [format_callsite(trace, callsite) for callsite in finding.callsites[1:]]
    if finding.cause == "inside" or not sites:
        return ""
    omitted = len(sites) - MAX_NAMED
    tail = f" and {omitted} more" if omitted > 0 else ""
    return f"It also costs time at {', '.join(sites[:MAX_NAMED])}{tail}."
