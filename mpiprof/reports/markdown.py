"""The report as Markdown for mails, issues and notebooks: the first sections of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import make_verdict
from mpiprof.reports import callsite_table, efficiency_table, message_table, text
from mpiprof.reports.table import escape_markdown, render_markdown
from mpiprof.reports.words import captions, conclusion, finding_sentences
from mpiprof.reports.words.division import division_sentences
from mpiprof.trace import Trace


def make_page(
    trace: Trace,
    lines_above: Sequence[str],
    callsites: Any,
    findings: Sequence[Finding],
    most_sites: int,
    most_findings: int,
) -> str:
    """Return the terminal report with tables of all columns; call sites keep their order.

    lines_above: lines above the verdict, of which "" is left out: about a job that hangs or has
    died, and about predicted run times.
    """
    title, facts = text.fact_rows(trace)
    parts = [f"# {escape_markdown(title)}"]
    if division := division_sentences(trace):
        parts.append(escape_markdown(division))
    parts += [f"**{escape_markdown(line)}**" for line in lines_above if line]
    if len(trace.callsites) or findings:
        lines = conclusion.verdict_lines(trace, make_verdict(trace, list(findings)))
        parts.append("  \n".join(f"**{escape_markdown(line)}**" for line in lines))
    parts.append("\n".join(f"- {name}: {escape_markdown(value)}" for name, value in facts))
    if findings:
        texts = [
            finding_sentences.finding_text(trace, finding) for finding in findings[:most_findings]
        ]
        lines = [f"{i}. {escape_markdown(line)}" for i, line in enumerate(texts, 1)]
        parts.append("## What costs most\n\n" + "\n".join(lines))
    if len(callsites):
        listed_callsites = callsites.head(most_sites)
        limit_note = f", the first {most_sites} of {len(callsites)}" * (len(callsites) > most_sites)
        table = render_markdown(callsite_table.callsite_columns(listed_callsites, findings))
        legend = escape_markdown(callsite_table.legend(table))
        parts.append(f"## Call sites{limit_note}\n\n{table}\n\n{legend}")
    title, table, legend = message_table.markdown_section(trace, findings, most_sites)
    if table:
        parts.append(f"## {title}\n\n{table}\n\n{escape_markdown(legend)}")
    if phases := efficiency_table.phase_columns(trace):
        legend = escape_markdown(captions.EFFICIENCY_LEGEND)
        title = escape_markdown(efficiency_table.phase_title(trace))
        parts.append(f"## {title}\n\n{render_markdown(phases)}\n\n{legend}")
    return "\n\n".join(parts) + "\n"
