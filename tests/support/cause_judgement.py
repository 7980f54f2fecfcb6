"""Judgement of a report on a planted cause: its ranks, kind, place, words and saved time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.what_if import Change, predict_run
from mpiprof.interface.format_units import format_time
from mpiprof.interface.parse_units import TIMES
from mpiprof.reports.words import conclusion
from mpiprof.reports.words.finding_sentences import finding_text
from mpiprof.trace import Trace

RIGHT, INEXACT, UNSURE, WRONG = "right", "inexact", "unsure", "wrong"
MAX_SAVING_ERROR = 0.1
RUN_TIME = re.compile(r"the run would take (?:about |at most )?([\d.]+) (\w+) instead of")
NO_CAUSE = re.compile(r"no sure cause|may be chance|no rank")


@dataclass(frozen=True)
class Report:
    """Sentences on a run, and the finding that the first sentence about a cause describes.

    problem: this sentence, "" if the report has none. details: further sentences on the finding.
    predicted_ns: run time without the finding by --what-if, NaN if it states none.
    """

    sentences: Sequence[str]
    problem: str
    finding: Finding | None
    details: str = ""
    predicted_ns: float = math.nan


@dataclass(frozen=True)
class Expected:
    """Contents of a right report.

    kinds: names of findings that describe the cause; any if empty. ranks: all of them must be
    named. among: at least one of them must be named; no other rank may be named. A report with
    neither must accuse nobody. place: call sites that the sentence must contain. says: a regular
    expression that a sentence of the verdict or on the finding must match. omits: one that no
    sentence on the finding may match. saving: False if the truth is no time that the report must
    state. calls: operations of the calls before and after the work. first: first step with the
    cause, within `tolerance` steps. period: in steps; compared if `first` is given.
    """

    kinds: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    among: tuple[int, ...] = ()
    place: tuple[str, ...] = ()
    says: str = ""
    omits: str = ""
    saving: bool = True
    calls: tuple[str, ...] = ()
    first: int | None = None
    tolerance: int = 1
    period: int | None = None


def make_expected(fields: Mapping[str, Any]) -> Expected:
    """Return the contents of the `expected` part of a specification."""
    values = dict(fields)
    for name in ("ranks", "among"):
        values[name] = tuple(list_ranks(values.get(name, ())))
    for name in ("kinds", "place", "calls"):
        values[name] = tuple(values.get(name, ()))
    return Expected(**values)


def list_ranks(ranks: Sequence[int] | str) -> list[int]:
    """Return ranks that are given as a list or as "48 to 63"."""
    if not isinstance(ranks, str):
        return list(ranks)
    first, last = ranks.split(" to ")
    return list(range(int(first), int(last) + 1))


def read_report(trace: Trace) -> Report:
    """Return the report on a trace."""
    verdict = make_verdict(trace, trace.findings())
    lines = conclusion.verdict_lines(trace, verdict)
    details = finding_text(trace, verdict.worst) if verdict.worst else ""
    predicted_ns = predict_without(trace, verdict.worst)
    return Report(lines, " ".join(lines[1:2]), verdict.worst, details, predicted_ns)


def judge(expected: Expected, report: Report, saved_ns: float | None) -> str:
    """Return RIGHT, or INEXACT, UNSURE or WRONG and the fault: "wrong: ranks [3] for [5]".

    saved_ns: time by which the run would be shorter without the cause, None for no cause.
    """
    finding = report.finding
    if not expected.ranks and not expected.among:
        fault = find_accusation(report)
        if fault:
            return f"{WRONG}: {fault}"
        if not expected.kinds:
            return RIGHT
    elif finding is None or not list_blamed(finding) or NO_CAUSE.search(report.problem):
        return f"{UNSURE}: no sure cause"
    if finding is None or (expected.kinds and finding.cause not in expected.kinds):
        kind = finding.cause if finding else "no finding"
        return f"{WRONG if find_accusation(report) else UNSURE}: {kind} for {expected.kinds[0]}"
    fault = (
        find_wrong_ranks(expected, finding, report.problem)
        or find_wrong_steps(expected, finding)
        or find_wrong_words(expected, report)
    )
    if fault:
        return f"{WRONG}: {fault}"
    if not expected.saving or saved_ns is None:
        return RIGHT
    if abs(finding.saved_ns - saved_ns) > MAX_SAVING_ERROR * saved_ns:
        return f"{INEXACT}: saves {format_time(finding.saved_ns)} for {format_time(saved_ns)}"
    return RIGHT


def list_blamed(finding: Finding) -> set[int]:
    """Return the ranks of a finding, or those of its events if each is on another rank."""
    return set(finding.ranks or getattr(finding.fact, "of_ranks", ()))


def find_accusation(report: Report) -> str:
    """Return the ranks that any sentence names, or ""."""
    named = sorted(set().union(*map(named_ranks, report.sentences)))
    return f"names ranks {named}" if named else ""


def find_wrong_ranks(expected: Expected, finding: Finding, problem: str) -> str:
    """Return the ranks of a finding if it or its sentence names wrong ones, or ""."""
    ranks, allowed = list_blamed(finding), {*expected.ranks, *expected.among}
    is_named = set(expected.ranks) <= ranks and (not allowed or ranks & allowed)
    if is_named and ranks <= allowed and named_ranks(problem) <= allowed:
        return ""
    return f"ranks {sorted(ranks | named_ranks(problem))} for {sorted(allowed)}"


def find_wrong_steps(expected: Expected, finding: Finding) -> str:
    """Return the calls around the work, the period or the first step if it is wrong, or ""."""
    work = finding.evidence.work
    calls = [call.get("operation", "") for call in (work[0].before, work[0].after)] if work else []
    if expected.calls and calls != list(expected.calls):
        return f"between {calls} for {list(expected.calls)}"
    if expected.first is None or finding.fact is not None:  # facts have a time, but no steps
        return ""
    if finding.cause != "moving" and finding.period != expected.period:
        return f"period {finding.period} for {expected.period}"
    first = finding.first_instance
    if first is None or abs(first - expected.first) > expected.tolerance:
        return f"from step {first} on, for {expected.first}"
    return ""


def find_wrong_words(expected: Expected, report: Report) -> str:
    """Return the first call site or other words that a report lacks or must not contain, or ""."""
    for site in expected.place:
        if not re.search(rf"{re.escape(site)}\b", report.problem):
            return f"{site} is not named"
    text = f"{report.problem} {report.details}"
    if not re.search(expected.says, " ".join([text, *report.sentences[2:]])):
        return f"does not say {expected.says}"
    if expected.omits and (match := re.search(expected.omits, text)):
        return f"says {match[0]}"
    return ""


def stated_run_ns(sentence: str) -> float:
    """Return the run time after a repair that a sentence states, NaN if it states none."""
    match = RUN_TIME.search(sentence)
    return float(match[1]) * TIMES[match[2]] if match else math.nan


def predict_without(trace: Trace, finding: Finding | None) -> float:
    """Return the run time that --what-if states without a finding, NaN if it states none."""
    findings = trace.findings()
    if finding is None or finding.removal is None:
        return math.nan
    change = Change("finding", str(findings.index(finding) + 1))
    return predict_run(trace, [change]).predicted_ns


def named_ranks(sentence: str) -> set[int]:
    """Return the ranks that a sentence names."""
    ranks: set[int] = set()
    # A long list ends with the number of omitted ranks.
    shown = re.sub(r" and \d+ more", "", sentence)
    for run in re.findall(r"\b[Rr]anks? (\d+(?:(?:-| to |, | and )\d+)*)", shown):
        for first, last in re.findall(r"(\d+)(?:(?:-| to )(\d+))?", run):
            ranks |= set(range(int(first), int(last or first) + 1))
    return ranks
