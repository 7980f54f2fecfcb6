"""The report as Markdown for mails, issues and notebooks: verdict, findings, call sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import callsite_table, conclusion, sentences, text
from mpiprof.reports.table import escaped, markdown

if TYPE_CHECKING:
    from mpiprof.diagnosis.findings import Finding
    from mpiprof.trace import Trace


def page(
    trace: Trace,
    wrong: str,
    callsites: Any,
    found: Sequence[Finding],
    most_sites: int,
    most_findings: int,
) -> str:
    """Return the terminal report with tables of all columns; call sites keep their order.

    wrong: line about a job that hangs or has died, "" for any other job.
    """
    title, facts = text.fact_rows(trace)
    parts = [f"# {escaped(title)}"]
    if wrong:
        parts.append(f"**{escaped(wrong)}**")
    if len(callsites):
        lines = conclusion.verdict(trace, make_verdict(trace, list(found)))
        parts.append("  \n".join(f"**{escaped(line)}**" for line in lines))
    parts.append("\n".join(f"- {name}: {escaped(told)}" for name, told in facts))
    if found:
        told = [sentences.finding(trace, one) for one in found[:most_findings]]
        lines = [f"{i}. {escaped(line)}" for i, line in enumerate(told, 1)]
        parts.append("## What costs most\n\n" + "\n".join(lines))
    if len(callsites):
        shown = callsites.head(most_sites)
        left = f", the first {most_sites} of {len(callsites)}" * (len(callsites) > most_sites)
        table = markdown(callsite_table.callsite_columns(shown))
        legend = escaped(callsite_table.legend(table))
        parts.append(f"## Call sites{left}\n\n{table}\n\n{legend}")
    return "\n\n".join(parts) + "\n"
