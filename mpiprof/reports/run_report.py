"""The report on a run for a terminal: verdict, findings, call sites and facts, then further tables.

The first sections fit on a screen of 40 lines; `--all` prints all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.interface.format_units import capitalise, format_share, format_time
from mpiprof.interface.terminal_colour import paint, paint_culprit
from mpiprof.reports import (
    callsite_table,
    conclusion,
    efficiency_table,
    message_table,
    selector_report,
    sentences,
    text,
)
from mpiprof.reports.local_table import local_section
from mpiprof.reports.savings import describe_saving
from mpiprof.reports.table import Column, render, wrap_paragraph
from mpiprof.reports.terminal_sections import Section, join_sections
from mpiprof.trace import Trace

MAX_FINDINGS, SHORT_FINDINGS = 8, 4
SHORT_ROWS = 8
MAX_KEYS = 8
SORT_NAMES = {"total_wait_ns": "total waiting time", "total_elapsed_ns": "time"}


def report_run(
    trace: Trace,
    callsites: Any,
    findings: Sequence[Finding],
    sort: str,
    top: int | None,
    named: Sequence[Path],
    above: Sequence[str] = (),
) -> str:
    """Return the report with the given call sites, in their order.

    sort: the column of that order. top: maximum number of rows of each table in a report of all
    sections, or None for a report that fits on a screen. named: the trace as the user named it.
    above: paragraphs before the report.
    """
    rows = SHORT_ROWS if top is None else top
    title, facts = text.fact_lines(trace, dropped=False).split("\n", 1)
    sections = [
        *(Section("", paragraph, essential=True) for paragraph in above),
        Section("", verdict_text(trace, findings, title), essential=True),
        findings_section(trace, findings, whole=top is not None),
        callsite_section(callsites, findings, sort, rows),
    ]
    if messages := message_table.message_section(trace, findings, rows):
        heading, messages = messages.split("\n", 1)
        sections.append(Section(heading, messages))
    sections.append(Section(*local_section(trace, rows)))
    reasons = [f"{capitalise(reason)}." for reason in text.explain_addresses(trace)]
    sections += [Section("", wrap_paragraph(reason, 0)) for reason in reasons]
    sections.append(Section("About this trace", facts))
    sections += further_sections(trace, callsites, rows, named)
    reported = message_table.reported_callsites(trace)
    last = text.next_command(named, trace, reported)
    return join_sections(sections, last, whole=top is not None)


def verdict_text(trace: Trace, findings: Sequence[Finding], title: str) -> str:
    """Return the program and the verdict."""
    if not len(trace.callsites) and not findings:
        return paint(title, "strong")
    verdict = make_verdict(trace, findings)
    lines = conclusion.verdict_lines(trace, verdict)
    first, *others = map(wrap_paragraph, lines)
    painted = [paint(first, "strong"), *map(paint_culprit, others[:1]), *others[1:]]
    return "\n".join([paint(title, "strong"), "", *painted])


def findings_section(trace: Trace, findings: Sequence[Finding], *, whole: bool) -> Section:
    """Return the findings by their cost: sentences, or one line each."""
    title = "What costs most"
    if whole:
        problems = [sentences.finding_text(trace, f) for f in findings[:MAX_FINDINGS]]
        lines = [wrap_paragraph(f"{i}. {line}", 2, 5) for i, line in enumerate(problems, 1)]
        return Section(title, "\n".join(lines))
    shown = findings[:SHORT_FINDINGS]
    if len(shown) < 2:  # the verdict describes a single finding
        return Section(title, "")
    if len(findings) > len(shown):
        title += f", the first {len(shown)} of {len(findings)}"
    table = render(
        Column("cost", [format_time(float(f.cost_ns)) for f in shown]),
        Column("of time", [format_share(f.share) for f in shown], drop=2),
        Column("would save", [describe_saving(trace, f).text for f in shown], drop=1),
        Column("finding", [_one_line(trace, f) for f in shown], left=True, shrink=True),
    )
    return Section(title, table)


def _one_line(trace: Trace, finding: Finding) -> str:
    """Return the problem of a finding in one line."""
    return sentences.problem_clause(trace, finding)


def callsite_section(callsites: Any, findings: Sequence[Finding], sort: str, rows: int) -> Section:
    """Return the table of call sites with their causes and its legend."""
    if not len(callsites):
        return Section("", "No collective operation was recorded.", essential=True)
    limit_note = f", the first {rows} of {len(callsites)}" if len(callsites) > rows else ""
    table = callsite_table.text(callsites.head(rows), findings)
    legend = paint(wrap_paragraph(callsite_table.legend(table)), "quiet")
    title = f"Call sites by {SORT_NAMES.get(sort, sort)}{limit_note}"
    return Section(title, f"{table}\n{legend}")


def further_sections(
    trace: Trace, callsites: Any, rows: int, named: Sequence[Path]
) -> Iterator[Section]:
    """Yield the tables that follow the call sites, without text if they have no content."""
    if len(callsites):
        if chosen := selector_report.section(trace, min(rows, MAX_KEYS), tuple(named)):
            yield Section("Algorithms chosen", chosen)
        if beyond := text.totals_table(trace):
            title = "Totals of all calls" if trace.has_totals else text.SUMMED_TITLE
            yield Section(f"{title}; time of all ranks", beyond)
    if phases := efficiency_table.phase_columns(trace):
        legend = paint(wrap_paragraph(efficiency_table.LEGEND), "quiet")
        yield Section(efficiency_table.phase_title(trace), f"{render(*phases)}\n{legend}")
    if not len(callsites):
        return
    if trace.record != "summary" or callsites["average_factor"].notna().any():
        yield Section(text.factor_heading(callsites), text.factor_table(callsites))
    if trace.record != "summary":
        figure = text.distribution_table(trace)
        yield Section("Worst-case factors ω/T: share of instances", figure)
