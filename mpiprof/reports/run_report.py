"""The report on a run for a terminal: division of its time, verdict, findings, call sites, facts.

The first sections fit on a screen of 40 lines; `--all` prints all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import make_verdict
from mpiprof.interface.format_units import capitalise, format_share, format_time
from mpiprof.interface.terminal_colour import paint, paint_culprit
from mpiprof.reports import callsite_table, efficiency_table, message_table, selector_report, text
from mpiprof.reports.message_table import local_section
from mpiprof.reports.table import Section, TableColumn, join_sections, render, wrap_paragraph
from mpiprof.reports.words import captions, conclusion, finding_sentences
from mpiprof.reports.words.division import division_sentences
from mpiprof.reports.words.explanation import explanation_text
from mpiprof.reports.words.finding_sentences import describe_saving
from mpiprof.trace import Trace

MAX_FINDINGS, SHORT_FINDINGS = 8, 4
SHORT_ROWS = 8
MAX_KEYS = 8
INDENT = 5  # of the origin of a finding
SORT_NAMES = {"total_wait_ns": "total waiting time", "total_elapsed_ns": "time"}


def report_run(
    trace: Trace,
    callsites: Any,
    findings: Sequence[Finding],
    sort: str,
    top: int | None,
    named: Sequence[Path],
    above: Sequence[str] = (),
    *,
    explains: bool = False,
) -> str:
    """Return the report with the given call sites, in their order.

    sort: the column of that order. top: maximum number of rows of each table in a report of all
    sections, or None for a report that fits on a screen. named: the trace as the user named it.
    above: paragraphs before the report. explains: state the origin of each finding.
    """
    rows = SHORT_ROWS if top is None else top
    title = text.run_title(trace)
    sections = [
        *(Section("", paragraph, essential=True) for paragraph in above),
        Section("", verdict_text(trace, findings, title, explains=explains), essential=True),
        findings_section(trace, findings, whole=top is not None, explains=explains),
        callsite_section(callsites, findings, sort, rows),
    ]
    if messages := message_table.message_section(trace, findings, rows):
        heading, messages = messages.split("\n", 1)
        sections.append(Section(heading, messages))
    sections.append(Section(*local_section(trace, rows)))
    reasons = [f"{capitalise(reason)}." for reason in text.explain_addresses(trace)]
    sections += [Section("", wrap_paragraph(reason, 0)) for reason in reasons]
    sections.append(Section("Notes of the recorder", text.format_facts(text.note_rows(trace))))
    sections.append(
        Section(
            "About this trace",
            make_text=lambda: text.format_facts(text.run_rows(trace, dropped=False)),
            min_lines=text.MIN_ROWS,
        )
    )
    sections += further_sections(trace, callsites, rows, named)
    reported = message_table.reported_callsites(trace)
    last = text.next_command(named, trace, reported)
    return join_sections(sections, last, whole=top is not None)


def verdict_text(
    trace: Trace, findings: Sequence[Finding], title: str, *, explains: bool = False
) -> str:
    """Return the program, the division of its time, and the verdict.

    explains: state the origin of each single finding.
    """
    division = division_sentences(trace)
    above = [paint(title, "strong"), "", *([wrap_paragraph(division)] if division else [])]
    if not len(trace.callsites) and not findings:
        return "\n".join(above).rstrip("\n")
    verdict = make_verdict(trace, findings)
    lines = conclusion.state_findings(trace, verdict)
    first, *others = [wrap_paragraph(line.text) for line in lines]
    painted = [paint(first, "strong"), *map(paint_culprit, others[:1]), *others[1:]]
    if explains:
        origins = [
            explanation_text(trace, of, INDENT) if (of := line.finding) else "" for line in lines
        ]
        painted = [_join_lines(*texts) for texts in zip(painted, origins, strict=True)]
    return "\n".join([*above, *painted])


def findings_section(
    trace: Trace, findings: Sequence[Finding], *, whole: bool, explains: bool = False
) -> Section:
    """Return the findings by their cost: sentences, or one line each.

    explains: write sentences, and state the origin of each finding whose origin the verdict lacks.
    """
    title = "What costs most"
    if len(findings) < 2 and not whole:  # the verdict describes a single finding
        return Section(title, "")
    if whole or explains:
        problems = [finding_sentences.finding_text(trace, f) for f in findings[:MAX_FINDINGS]]
        lines = [wrap_paragraph(f"{i}. {line}", 2, 5) for i, line in enumerate(problems, 1)]
        if explains:
            origins = _explain_further(trace, findings)
            lines = [_join_lines(*texts) for texts in zip(lines, origins, strict=False)]
        return Section(title, "\n".join(lines), essential=explains)
    shown = findings[:SHORT_FINDINGS]
    problems = [finding_sentences.problem_clause(trace, finding) for finding in shown]
    if len(findings) > len(shown):
        title += f", the first {len(shown)} of {len(findings)}"
    table = render(
        TableColumn("cost", [format_time(float(f.cost_ns)) for f in shown]),
        TableColumn("of time", [format_share(f.share) for f in shown], drop=2),
        TableColumn("would save", [describe_saving(trace, f).text for f in shown], drop=1),
        TableColumn("finding", problems, left=True, shrink=True),
    )
    return Section(title, table)


def _explain_further(trace: Trace, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the origin of each finding, "" if it is below a sentence of the verdict."""
    lines = conclusion.state_findings(trace, make_verdict(trace, findings))
    explained = [line.finding for line in lines]
    for finding in findings:
        yield "" if finding in explained else explanation_text(trace, finding, INDENT)


def _join_lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


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
        legend = paint(wrap_paragraph(captions.EFFICIENCY_LEGEND), "quiet")
        yield Section(efficiency_table.phase_title(trace), f"{render(*phases)}\n{legend}")
    if not len(callsites):
        return
    if trace.record != "summary" or callsites["average_factor"].notna().any():
        heading = text.factor_heading(callsites)
        yield Section(heading, make_text=lambda: text.factor_table(callsites), min_lines=2)
    if trace.record != "summary":
        figure = text.distribution_table(trace)
        yield Section("Worst-case factors ω/T: share of instances", figure)
