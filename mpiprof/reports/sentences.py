"""Findings as text: the problem, the evidence and the advice."""

from __future__ import annotations

from typing import Any

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import capitalise, format_share, format_time
from mpiprof.interface.shell_hints import quote_word, switch_value
from mpiprof.reports.delay_advice import delay_advice
from mpiprof.reports.delay_sentences import (
    delay_clause,
    delay_evidence,
    delay_title,
    saving_sentence,
)
from mpiprof.reports.site_labels import format_callsite, site_pattern
from mpiprof.trace import Trace

# Heading of each cause that is no delay.
TITLES = {
    "algorithm": "Try {algorithm} for {site}",
    "barrier": "Remove the {site}",
    "clock": "The clocks can't tell who is late at {site}",
}
ADVICE = {
    "barrier": "Remove the barrier if nothing depends on it, such as files or one-sided access.",
    "clock": "Record longer, to MPI_Finalize, with synchronising collectives over all nodes.",
}


def finding_title(trace: Trace, finding: Finding) -> str:
    """Return the heading of a finding, one short line."""
    if finding.fact is not None:
        return finding.fact.title
    if finding.is_delay:
        return delay_title(finding)
    site = format_callsite(trace, finding.callsites[0])
    return TITLES[finding.cause].format(algorithm=finding.algorithm, site=site)


def finding_text(trace: Trace, finding: Finding) -> str:
    """Return the problem, the evidence and the advice."""
    return f"{problem_and_evidence(trace, finding)} {advise(trace, finding)}"


def problem_and_evidence(trace: Trace, finding: Finding) -> str:
    """Return the problem with its cost, and the evidence."""
    return f"{problem_sentence(trace, finding)} {evidence_text(trace, finding)}".rstrip()


def problem_sentence(trace: Trace, finding: Finding) -> str:
    """Return the problem and its cost in one sentence."""
    return f"{problem_clause(trace, finding)}: {cost_clause(finding)}."


def problem_clause(trace: Trace, finding: Finding) -> str:
    """Return the problem without its cost, as a clause."""
    if finding.fact is not None:
        return capitalise(finding.fact.clause)
    if finding.is_delay:
        return capitalise(delay_clause(trace, finding))
    site = format_callsite(trace, finding.callsites[0])
    if finding.cause == "algorithm":
        return f"{finding.algorithm} would be faster than {finding.at_callsite.ran} for {site}"
    if finding.cause == "clock":
        return f"Who is late at {site} can't be told from the clocks of the nodes"
    return f"Ranks wait at {site} for ranks that no later call needs as early"


def cost_clause(finding: Finding) -> str:
    """Return the cost of a finding."""
    cost, share = format_time(float(finding.cost_ns)), format_share(finding.share)
    if finding.cause in ("algorithm", "barrier"):
        return f"{cost} of all ranks' time, {share}"
    return f"{cost} of waiting" + (f", {share} of all ranks' time" if finding.share > 0 else "")


def evidence_text(trace: Trace, finding: Finding) -> str:
    """Return the evidence for a finding."""
    if finding.fact is not None:
        return saving_sentence(trace, finding)
    if finding.is_delay:
        return delay_evidence(trace, finding)
    evidence = finding.at_callsite
    if finding.cause == "algorithm":
        error = format_time(evidence.error_ns or 0.0)
        how = f"That is {evidence.how} under the recorded arrivals, ± {error}."
        return f"{how} {saving_sentence(trace, finding)}".rstrip()
    if finding.cause == "barrier":
        earlier = format_time(finding.saved_ns)
        return f"Replayed without the barrier on the recorded times, the run ends {earlier} sooner."
    bound = format_time(evidence.clock_error_ns or 0)
    return f"Arrivals differ by less than the clocks may be off, ± {bound}."


def advise(trace: Trace, finding: Finding) -> str:
    """Return the advice for a finding."""
    if finding.fact is not None:
        return finding.fact.advice
    if finding.is_delay:
        return delay_advice(finding)
    if finding.cause == "algorithm":
        row: Any = trace.callsites.loc[finding.callsites[0]]
        rule = switch_value(site_pattern(row["sites"]), finding.algorithm)
        return f"Try: run --switch {quote_word(rule)}"
    return ADVICE[finding.cause]
