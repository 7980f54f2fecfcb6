"""The verdict on a run, and on a call site, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.run_times import lacks_complete_instances
from mpiprof.causes.delay_reasons import PROCESSOR_REASONS
from mpiprof.causes.finding import MIN_CERTAINTY, NEGLIGIBLE_SHARE, Finding, RestEvidence
from mpiprof.causes.findings import Verdict, find_call_free_stretch
from mpiprof.causes.oversubscription import Oversubscription
from mpiprof.causes.processor_quota import ProcessorQuota
from mpiprof.causes.single_event import SingleEvent
from mpiprof.causes.tuning_refusal import is_tunable
from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES, base_operation
from mpiprof.interface.format_units import format_share, format_time, lower_first
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.words.delay_sentences import main_reason, reason_sentence
from mpiprof.reports.words.finding_sentences import (
    advise,
    finding_text,
    problem_clause,
    problem_sentence,
    saving_sentence,
)
from mpiprof.reports.words.message_sentences import name_waits
from mpiprof.reports.words.processor_sentences import (
    explain_calls,
    overload_sentence,
    stalled_sentences,
)
from mpiprof.reports.words.trace_sentences import (
    describe_lost_ranks,
    share_bounds,
    share_in_words,
    unknown_waiting_sentence,
    waiting_verb,
)
from mpiprof.trace import Trace

NO_FINDING = "Nothing stands out"
TUNE_ADVICE = ": `tune` looks for a faster algorithm"
MAIN_SHARE = 0.5  # minimum share of the instances in which a rank is last
# No algorithm removes these.
LOAD_CAUSES = ("rank", "early", "gradient", "periodic", "moving", "node")
NOTABLE_SHARE = 0.1  # of all ranks' time; calls that take more without waiting are reported


@dataclass(frozen=True)
class Line:
    """A line of the verdict, and the finding that it states, None if it states no single one."""

    text: str
    finding: Finding | None = None


def verdict_lines(trace: Trace, verdict: Verdict) -> list[str]:
    """Return the verdict in lines: the loss, its cause, the advice, other causes and facts."""
    return [line.text for line in state_findings(trace, verdict)]


def state_findings(trace: Trace, verdict: Verdict) -> list[Line]:
    """Return the lines of the verdict with the finding that each states.

    If the calls themselves take longer than the waiting, the last line also reports them.
    """
    call_sentence = _call_time_sentence(trace, verdict)
    lines = _waiting_lines(trace, verdict, is_tunable=TUNE_ADVICE in call_sentence)
    if call_sentence:
        last = lines[-1]
        idle = last.text.startswith(NO_FINDING)
        text = f"{'No waiting stands out.' if idle else last.text} {call_sentence}"
        lines[-1] = replace(last, text=text)
    return [*lines, *map(Line, _fact_lines(trace, verdict))]


def _fact_lines(trace: Trace, verdict: Verdict) -> Iterator[str]:
    """Yield facts on the whole run that no sentence on a finding contains."""
    facts = [finding.fact for finding in _list_findings(verdict)]
    yield from stalled_sentences(trace, [of for of in facts if isinstance(of, SingleEvent)])
    unknown = unknown_waiting_sentence(trace) if verdict.worst is not None else ""
    if unknown:
        yield unknown
    is_shared = any(isinstance(of, Oversubscription) and of.processors for of in facts)
    if not is_shared and (overload := overload_sentence(trace)):
        yield overload
    stretch = find_call_free_stretch(trace)
    if stretch is not None:
        begin, end = (format_time(float(of)) for of in (stretch.begin_ns, stretch.end_ns))
        share = format_share(stretch.share)
        yield f"No rank calls MPI from {begin} to {end} ({share} of the run)."


def _waiting_lines(trace: Trace, verdict: Verdict, *, is_tunable: bool) -> list[Line]:
    """Return the lines on the waiting; is_tunable: another sentence recommends `tune`."""
    if lacks_complete_instances(trace) and not len(find_located_waits(trace)):
        return [Line(_unknown_waiting_sentence(trace, verdict))]
    ends = share_bounds(trace, trace.run_times.total_wait)
    amount = format_share(verdict.waiting) + (f" ({ends})" if ends else "")
    is_waiting = waiting_verb(trace)
    first = f"{amount} of all ranks' time {is_waiting} in collectives."
    if verdict.waiting_for_messages >= NEGLIGIBLE_SHARE:
        part = lower_first(share_in_words(verdict.waiting_for_messages / verdict.waiting))
        first = f"{amount} of all ranks' time {is_waiting}, {part} of it {name_waits(trace)}."
    if trace.record == "summary" and verdict.waiting >= NEGLIGIBLE_SHARE:
        return [Line(text) for text in (first, *_summary_lines(trace, verdict))]
    if verdict.worst is None:
        call_share = format_share(verdict.collective_without_waiting)
        nothing = f"{NO_FINDING}; the collectives themselves take {call_share} of the time."
        return [Line(first), Line(unknown_waiting_sentence(trace) or nothing)]
    problem, do = _problem_sentence(trace, verdict, verdict.worst), advise(trace, verdict.worst)
    do += "" if is_tunable else _algorithm_sentence(trace, verdict)
    others = _list_other_lines(trace, verdict)
    if verdict.beside is None:
        main, advice = Line(problem, verdict.worst), Line(do)
        fact = verdict.worst.fact
        # Too few processors are a condition of the whole run: its next cause precedes the advice.
        is_condition = isinstance(fact, Oversubscription | ProcessorQuota)
        return [Line(first), main, *([*others, advice] if is_condition else [advice, *others])]
    beside = _problem_sentence(trace, verdict, verdict.beside)
    rest = Line(f"{beside} {advise(trace, verdict.beside)}", verdict.beside)
    return [Line(first), Line(f"{problem} {do}", verdict.worst), *others, rest]


def _call_time_sentence(trace: Trace, verdict: Verdict) -> str:
    """Return the time of the calls without waiting if it exceeds the waiting, otherwise ""."""
    waits_known = trace.callsites["complete_instances"].any()
    if verdict.gain is not None or not waits_known or trace.ranks < 2:
        return ""
    # Calls that create communicators and similar objects cannot be tuned.
    operations = trace.callsites["operation"].map(base_operation)
    is_communication = ~operations.isin(MANAGEMENT_COLLECTIVES)
    # Any part of the time may be waiting if no instance is complete.
    table = trace.callsites[is_communication & (trace.callsites["complete_instances"] > 0)]
    busy = (table["total_elapsed_ns"] - table["total_wait_ns"]).clip(lower=0)
    of_events = sum(one.evidence.calls_ns for one in _list_findings(verdict))
    call_share = (float(busy.sum()) - of_events) / max(float(trace.process_time_ns), 1.0)
    if call_share < max(verdict.waiting, NOTABLE_SHARE):
        return ""
    worst: Any = busy.idxmax()
    callsite = int(worst)
    part = lower_first(share_in_words(float(busy[callsite]) / float(busy.sum())))
    operation = table["operation"][callsite]
    is_stalled = explain_calls(trace, float(busy.sum()))
    is_blocking = operation == base_operation(operation)
    do = TUNE_ADVICE if is_blocking and is_tunable(trace, operation) and not is_stalled else ""
    if trace.ranks_without_records:
        do = f", or it is waiting for {describe_lost_ranks(trace)}"
    amount = f"more than the waiting, {format_share(call_share)} of all ranks' time"
    site = f"{part} of it {format_callsite(trace, callsite)}"
    return f"The collectives themselves take {amount}, {site}{do}."


def _list_findings(verdict: Verdict) -> list[Finding]:
    named = verdict.worst, verdict.beside, *verdict.others
    return [finding for finding in named if finding is not None]


def _unknown_waiting_sentence(trace: Trace, verdict: Verdict) -> str:
    """Return a sentence that waiting is unknown because calls lack ranks; unknown is not zero."""
    why = "" if trace.record == "summary" else ": no call was recorded of all its ranks"
    share = f"{format_share(verdict.collective)} of all ranks' time is in collectives"
    return f"{share}. How much of it is waiting is not known{why}."


def _problem_sentence(trace: Trace, verdict: Verdict, finding: Finding) -> str:
    """Return the problem, its share of the waiting, and its certainty."""
    if finding.cause in ("algorithm", "barrier"):
        return problem_sentence(trace, finding)
    if not finding.is_waiting:
        return f"{problem_clause(trace, finding)}. {saving_sentence(trace, finding)}"
    share = share_in_words(_divide_by_waiting(verdict, finding.waiting_share))
    sure = ""
    if verdict.beside is not None and finding is verdict.worst:
        sure = " has a sure cause"
    elif finding.certainty < MIN_CERTAINTY:
        is_once = isinstance(finding.evidence, RestEvidence) and finding.evidence.instances == 1
        sure = " came about once" if is_once else " has no sure cause"
    problem = f"{share} of it{sure}: {lower_first(problem_clause(trace, finding))}."
    parts = problem, reason_sentence(trace, finding), saving_sentence(trace, finding)
    return " ".join(part for part in parts if part)


def _list_other_lines(trace: Trace, verdict: Verdict) -> list[Line]:
    """Return the line on the further findings, [] without any: the largest sure one, if any is."""
    sure = [finding for finding in verdict.others if finding.certainty >= MIN_CERTAINTY]
    findings = sure or verdict.others
    if not findings:
        return []
    clause = lower_first(problem_clause(trace, findings[0]))
    text = f"{_describe_others(verdict, findings, is_sure=bool(sure))}: {clause}."
    return [Line(f"{text} {saving_sentence(trace, findings[0])}".rstrip(), findings[0])]


def _describe_others(verdict: Verdict, findings: Sequence[Finding], *, is_sure: bool) -> str:
    """Return the share of the waiting that further findings explain, and their number."""
    waiting_share = min(sum(finding.waiting_share for finding in findings), verdict.waiting)
    share = share_in_words(_divide_by_waiting(verdict, waiting_share))
    if len(findings) > 1:
        has = f"has {len(findings)} further causes, listed as findings. The largest"
        return f"{share} of the waiting {has}"
    if not findings[0].is_waiting:
        return "Besides"
    if not is_sure:
        return f"{share} of the waiting has no sure cause"
    is_first = verdict.worst is not None and verdict.worst.certainty < MIN_CERTAINTY
    return f"{share} of the waiting has {'a' if is_first else 'another'} sure cause"


def _divide_by_waiting(verdict: Verdict, share: float) -> float:
    """Return a share of all ranks' time as a share of the waiting."""
    return share / verdict.waiting if verdict.waiting > 0 else 0.0


def _summary_lines(trace: Trace, verdict: Verdict) -> Iterator[str]:
    """Yield the call site with most of the waiting; sums do not show its cause."""
    table = trace.callsites
    worst: Any = table.sort_values("total_wait_ns").iloc[-1]
    waiting_ns = verdict.waiting * trace.process_time_ns
    share = share_in_words(float(worst["total_wait_ns"]) / waiting_ns)
    problem = f"{share} of it is at {format_callsite(trace, int(worst['callsite']))}"
    if pd.notna(worst["latest_rank"]) and worst["latest_share"] >= MAIN_SHARE:
        share = format_share(worst["latest_share"])
        problem += f", where rank {worst['latest_rank']} comes last in {share} of the instances"
    yield f"{problem}."
    yield "A summary doesn't hold why ranks are late: record events to see it."


def _algorithm_sentence(trace: Trace, verdict: Verdict) -> str:
    """Return whether another algorithm would help; none makes a late rank arrive earlier."""
    if verdict.gain is not None:
        gained = format_time(float(verdict.gain.cost_ns))
        site = format_callsite(trace, verdict.gain.callsites[0])
        return f" Besides, {verdict.gain.algorithm} would save {gained} at {site}."
    assert verdict.worst is not None
    return load_sentence(verdict.worst)


def load_sentence(finding: Finding) -> str:
    """Return that no algorithm removes a finding, if it is the load of its ranks, otherwise ""."""
    is_load = finding.cause in LOAD_CAUSES and main_reason(finding) not in PROCESSOR_REASONS
    return " No algorithm would help: it is the load." if is_load else ""


def callsite_problems(trace: Trace, row: Mapping[str, Any]) -> list[str]:
    """Return the problems of a call site, one paragraph each, in the order of findings.

    Costs and shares are those of the waiting at this call site, not in the whole run.
    """
    if trace.record == "summary" or not row["total_wait_ns"] > 0:
        return []
    found = trace.conclusions(int(row["callsite"]))
    return [f"At this call site: {lower_first(finding_text(trace, one))}" for one in found]
