"""Findings as text: the problem, the evidence, the saved run time and the advice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mpiprof.causes.finding import MIN_CERTAINTY, Finding, HabitEvidence
from mpiprof.interface.format_units import (
    UNKNOWN,
    capitalise,
    format_share,
    format_time,
    format_uncertain_time,
)
from mpiprof.interface.shell_hints import quote_word, switch_value
from mpiprof.reports.site_labels import format_callsite, site_pattern
from mpiprof.reports.words.delay_sentences import (
    basis_sentences,
    delay_advice,
    delay_clause,
    delay_title,
    reason_sentence,
)
from mpiprof.reports.words.ranks_and_steps import join_texts
from mpiprof.reports.words.trace_sentences import state_sentence
from mpiprof.trace import Trace

MIN_PART_SHARE = 0.05  # of a cost, for a part that its sentence states
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
MIN_SAVED_SHARE = 0.005  # of the run time


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
    evidence = finding.evidence
    parts = {
        "waiting": finding.waiting_ns,
        "longer calls": evidence.calls_ns,
        "waiting for a processor": evidence.queue_ns,
    }
    notable = {name: ns for name, ns in parts.items() if ns >= MIN_PART_SHARE * finding.cost_ns}
    cost = join_texts([f"{format_time(ns)} of {name}" for name, ns in notable.items()], "and")
    return cost + (f", {share} of all ranks' time" if finding.share > 0 else "")


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


def delay_evidence(trace: Trace, finding: Finding) -> str:
    """Return the reason of a delay, what its removal would save, and the evidence."""
    basis = basis_sentences(trace, finding)
    parts = reason_sentence(trace, finding), saving_sentence(trace, finding), basis
    return " ".join(part for part in parts if part)


def saving_sentence(trace: Trace, finding: Finding) -> str:
    """Return the run time after a repair, or "" if it is nearly the same or uncertain.

    Delays are replayed; other figures are means over the ranks, or scaled from a sample.
    """
    # Nothing is known of the calls that a ring has lost, or that follow a limit.
    is_part = trace.derive("coverage") is not None
    run_ns, saved = float(trace.duration_ns if is_part else trace.run_ns), finding.saved_ns
    if saved < MIN_SAVED_SHARE * run_ns or finding.certainty < MIN_CERTAINTY:
        return ""
    with_it = _name_repair(finding)
    is_replayed = finding.is_delay and finding.cause != "early" and trace.sampling_interval == 1
    about = "" if is_replayed else "about "
    if finding.fact is not None and finding.fact.saves_more:
        about = "at most "
    without, today = format_time(run_ns - saved), format_time(run_ns)
    run = "the run" if trace.is_finalised else "the run up to the last record"
    run = "the recorded part" if is_part else run
    parts = [f"{format_time(ns)} of {name}" for name, ns in divide_saving(finding)]
    divided = f", saving {join_texts(parts, 'and')}" if parts and not about else ""
    return f"{with_it}, {run} would take {about}{without} instead of {today}{divided}."


def _name_repair(finding: Finding) -> str:
    """Return the repair whose run time the replay states, as the begin of a sentence."""
    if finding.fact is not None:
        return finding.fact.repair
    if isinstance(finding.evidence, HabitEvidence) and finding.cause != "early":
        is_shared_by_all = finding.cause == "gradient" or finding.habit.each
        return "With at most the median work on each rank" if is_shared_by_all else "Without that"
    return {"algorithm": "With it", "early": "With equal work"}.get(finding.cause, "Without that")


@dataclass(frozen=True)
class SavingText:
    """text: the saved run time. share: of the run. parts: less waiting and less work, or "".

    The share is UNKNOWN if the time is.
    """

    text: str
    share: str
    parts: str = ""


def describe_saving(trace: Trace, finding: Finding) -> SavingText:
    """Return the run time that a repair would save.

    A late rank does not wait but works, so a repair may save more than the mean waiting of all
    ranks: also the work of the late rank.
    """
    share = format_share(finding.saved_ns / max(float(trace.run_ns), 1.0))
    if finding.saved_ns < 1:
        # Lost calls hide dependences, so a replay without them is no evidence.
        if state_sentence(trace):
            return SavingText("unknown", UNKNOWN, "calls are lost")
        return SavingText("nothing alone", UNKNOWN, "other ranks are as late")
    if finding.cause == "algorithm":
        error = (finding.at_callsite.error_ns or 0.0) / finding.at_callsite.size
        return SavingText(format_uncertain_time(finding.saved_ns, error), share)
    if finding.certainty < MIN_CERTAINTY:
        return SavingText(f"up to {format_time(finding.saved_ns)}", share)
    error = math.nan if trace.sampling_interval > 1 or state_sentence(trace) else 0.0
    parts = [f"{format_time(ns)} of {name}" for name, ns in divide_saving(finding)]
    return SavingText(format_uncertain_time(finding.saved_ns, error), share, ", ".join(parts))


def divide_saving(finding: Finding) -> list[tuple[str, float]]:
    """Return the saved waiting and the saved work in ns, [] if only waiting is saved."""
    work_ns = finding.evidence.saved_work_ns
    if not work_ns > 0:
        return []
    return [("waiting", max(finding.saved_ns - work_ns, 0.0)), ("work", work_ns)]
