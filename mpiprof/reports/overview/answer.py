"""The answer to the first question on a run: its sentences, facts, advice and command."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpiprof.causes.finding import Finding, is_blamed
from mpiprof.causes.findings import Verdict
from mpiprof.interface.format_units import format_share
from mpiprof.interface.shell_hints import format_command, quote_word, switch_value
from mpiprof.reports.site_labels import format_wait_site, site_pattern
from mpiprof.reports.words import conclusion, finding_sentences, trace_sentences
from mpiprof.reports.words.answer_facts import (
    NO_GAIN,
    Fact,
    describe_advice,
    describe_amount,
    list_facts,
)
from mpiprof.trace import Trace

RANKS_FIRST = re.compile(r"[Rr]anks? \d[\d,\- ]*(?:and \d+ more)?")


@dataclass(frozen=True)
class TextPart:
    """A part of a sentence. mark: "late", "strong", "good" or ""."""

    text: str
    mark: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer in the order of the page. share is "" if the waiting is unknown.

    finding: the worst finding, or None. Then there are no facts, advice and command.
    """

    sentences: Sequence[Sequence[TextPart]]
    finding: Finding | None = None
    share: str = ""
    amount: str = ""
    is_late: bool = False
    facts: Sequence[Fact] = ()
    advice: str = ""
    command: str = ""
    notes: Sequence[str] = ()


def make_answer(trace: Trace, verdict: Verdict, path: Path) -> Answer | None:
    """Return the answer, or None if nothing was recorded. path: the trace as the user named it."""
    lines = conclusion.verdict_lines(trace, verdict)
    finding = verdict.worst
    if finding is None:
        return _make_plain_answer(trace, verdict, lines)
    advice = describe_advice(trace, finding)
    notes = [line for line in lines[2:] if not (advice and line.startswith(advice))]
    return Answer(
        sentences=[_mark_names(trace, finding)],
        finding=finding,
        share=format_share(verdict.waiting),
        amount=describe_amount(trace, verdict),
        is_late=is_blamed(finding),
        facts=list_facts(trace, finding),
        advice=advice,
        command=_make_command(trace, finding, path),
        notes=notes,
    )


def _make_plain_answer(trace: Trace, verdict: Verdict, lines: Sequence[str]) -> Answer | None:
    """Return the answer without a finding: nothing to gain, or a trace that cannot show causes."""
    if not len(trace.callsites) and not len(trace.message_waits):
        return None
    # A trace that lacks calls does not show that nothing is to be gained.
    if math.isnan(verdict.waiting):
        return Answer(sentences=[[TextPart(line)] for line in lines])
    if trace_sentences.state_sentence(trace):
        share, amount = format_share(verdict.waiting), describe_amount(trace, verdict)
        texts = [[TextPart(line)] for line in lines[1:]]
        return Answer(sentences=texts, share=share, amount=amount)
    good = [TextPart(f"{NO_GAIN} ", "good"), TextPart(lines[0])]
    return Answer(sentences=[good], notes=lines[1:])


def _mark_names(trace: Trace, finding: Finding) -> list[TextPart]:
    """Return the problem with the ranks and the call sites marked."""
    text = f"{finding_sentences.problem_clause(trace, finding)}."
    callsites = [at.callsite for at in finding.waits_at] or finding.callsites[:3]
    names = [re.escape(format_wait_site(trace, one)) for one in callsites]
    sites = re.compile("|".join(sorted(names, key=len, reverse=True)) or "$^")
    parts: list[TextPart] = []
    found = RANKS_FIRST.match(text)
    if found:
        parts.append(TextPart(found[0].rstrip(), "late" if is_blamed(finding) else "strong"))
        text = " " + text[found.end() :].lstrip()
    at = 0
    for match in sites.finditer(text):
        parts += [TextPart(text[at : match.start()]), TextPart(match[0], "strong")]
        at = match.end()
    return [*parts, TextPart(text[at:])]


def _make_command(trace: Trace, finding: Finding, path: Path) -> str:
    """Return the command to type next: try the algorithm, or compare with the next run."""
    if finding.cause == "algorithm":
        row: Any = trace.callsites.loc[finding.callsites[0]]
        rule = switch_value(site_pattern(row["sites"]), finding.algorithm)
        return format_command("run", "--switch", rule, "PROGRAM")
    return f"{format_command('compare', path)} --to {quote_word('AFTER')}"
