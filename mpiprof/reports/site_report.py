"""The report on one call site for a terminal: its cost, its problems, and its instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.terminal_colour import paint, paint_culprit
from mpiprof.metrics.coverage import first_recorded
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.reports import callsite_report, callsite_table, conclusion, phrases
from mpiprof.reports.table import wrap_paragraph
from mpiprof.reports.terminal_sections import Section, join_sections
from mpiprof.trace import Trace

SHORT_ROWS = 6
ONE_RANK_ONLY = (
    "All its calls are on communicators of one rank, so no rank waits and there are no instances."
)
MESSAGES_DIFFER_MORE = (
    "Ranks with longer messages work less, so messages differ more than the whole time between."
)


def report_callsite(
    trace: Trace,
    row: dict[Any, Any],
    note: str,
    top: int | None,
    named: Sequence[Path],
    above: Sequence[str] = (),
) -> str:
    """Return a call site of collectives over its instances.

    row: of trace.callsites. note: on further call sites that match, or "". top: maximum number of
    rows of each table in a report of all sections, or None for a report that fits on a screen.
    named: the trace as the user named it. above: paragraphs before the report.
    """
    title = paint(callsite_report.callsite_title(row), "strong")
    lines = [title, *([wrap_paragraph(note)] if note else [])]
    if row["total_wait_ns"] > 0:
        lines.append(wrap_paragraph(phrases.cost_sentence(row, trace.process_time_ns), 0))
    problems = [wrap_paragraph(line, 0) for line in conclusion.callsite_problems(trace, row)]
    lines += [paint_culprit(problem) for problem in problems]
    sections = [Section("", line, essential=True) for line in [*above, *lines]]
    if trace.record == "summary":
        table = callsite_table.text(trace.callsites.loc[[row["callsite"]]])
        sections.append(Section("", f"{table}\n  recorded as summary: no instances"))
    else:
        sections += instance_sections(trace, row, SHORT_ROWS if top is None else top)
    last = f"next: {format_command('report', *named)}   (all call sites)"
    return join_sections(sections, last, whole=top is not None)


def instance_sections(trace: Trace, row: dict[Any, Any], top: int) -> Iterator[Section]:
    """Yield the causes of a call site's imbalance, its instances and its ranks."""
    if not row["instances"]:
        yield Section("", wrap_paragraph(ONE_RANK_ONLY, 0), essential=True)
        return
    callsite = int(row["callsite"])
    series = trace.series(callsite)[callsite]
    totals = trace.rank_totals[trace.rank_totals["callsite"] == callsite]
    worst = callsite_report.worst_instance_sentence(trace, series)
    yield Section("", wrap_paragraph(worst, 0) if worst else "", essential=True)
    yield from cause_sections(trace, callsite)
    yield Section("How long its instances take", callsite_report.quantile_table(row))
    first = first_recorded(trace, callsite)
    over = callsite_report.instance_table(series, int(row["instances"]), top, first)
    yield Section("Over its instances", over)
    ranks = callsite_report.rank_table(totals, top, float(callsite_scales(trace)[callsite]))
    yield Section("Its ranks", ranks)


def cause_sections(trace: Trace, callsite: int) -> Iterator[Section]:
    """Yield why the ranks arrive at a call site at different times, and its phases."""
    statistics, phases = trace.arrival_statistics(callsite), trace.phases(callsite)
    lines = [*phrases.arrival_sentences(statistics), phrases.period_sentence(phases)]
    yield Section("Why", "\n".join(wrap_paragraph(line) for line in lines if line))
    if statistics.instances:
        table = callsite_report.imbalance_table(statistics)
        if statistics.point_to_point_ns.value > statistics.between_ns.value:
            table += f"\n{wrap_paragraph(MESSAGES_DIFFER_MORE)}"
        yield Section("Imbalance before and at it", table)
    if len(phases) > 1:
        yield Section("Phases", callsite_report.phase_table(phases))
