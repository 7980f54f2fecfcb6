"""Tables of the overview: findings by saving, and the costliest call sites, with small pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_factor,
    format_share,
    format_size,
    format_time,
)
from mpiprof.reports import sentences
from mpiprof.reports.pictures import icons, row_pictures
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.tokens import name_operation_colour
from mpiprof.trace.types import Float

from . import filtered_tables, verdict_view
from .picture import Picture
from .trace_data import TraceData
from .url_state import PageState

MAX_FINDINGS, MAX_SITES = 9, 12
FINDING_HEADS = ("", "would save", "what", "who is late", "where", "why", "instances", "")
SITE_HEADS = (
    *("", "operation", "bytes", "instances", "waiting", "of the run"),
    *("spread ω over the run", "mean ω", "ω / T", "latest"),
)


def pass_filters(data: TraceData, state: PageState, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that concern ranks and call sites which pass the filters."""
    ranks = {int(rank) for rank in data.filtered_ranks(state)}
    sites = set(filtered_tables.filtered_callsites(data, state)["callsite"])
    return [
        finding
        for finding in findings
        if (not finding.ranks or ranks & set(finding.ranks))
        and (not finding.callsites or sites & set(finding.callsites))
    ]


def make_findings(
    data: TraceData, state: PageState, findings: Sequence[Finding], title: str = "Findings"
) -> Component | None:
    """Return the findings as ranked rows, or None without any."""
    shown = pass_filters(data, state, findings)[:MAX_FINDINGS]
    if not shown:
        return None
    largest = max(max(finding.saved_ns for finding in shown), 1.0)
    rows = [
        _finding_row(data, state, finding, number, largest)
        for number, finding in enumerate(shown, 1)
    ]
    saved = sum(finding.saved_ns for finding in shown)
    note = f"largest saving first; of {format_time(float(data.trace.run_ns))}"
    if len(shown) > 1 and saved <= data.trace.run_ns:
        note = f"largest saving first; together {format_time(saved)} of the "
        note += format_time(float(data.trace.run_ns))
    heading = html.Div([html.H2(title), html.Span(note)], className="heading")
    return html.Section([heading, _make_table(FINDING_HEADS, rows, "findings-table")])


def _make_table(heads: Sequence[str], rows: list[Component], name: str) -> Component:
    head = [
        html.Th(text, scope="col") if text else html.Td(className=f"empty-{i}")
        for i, text in enumerate(heads)
    ]
    return html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className=f"rows {name}")


def _finding_row(
    data: TraceData, state: PageState, finding: Finding, number: int, largest: float
) -> Component:
    blamed = verdict_view.is_blamed(finding)
    first = number == 1 and blamed
    share = format_share(finding.saved_ns / max(float(data.trace.run_ns), 1.0))
    bar = Picture(row_pictures.draw_saving(finding.saved_ns / largest, first=first))
    icon, why, _ = verdict_view.describe_reason(finding)
    site = format_callsite(data.trace, finding.callsites[0]) if finding.callsites else UNKNOWN
    operation, _, place = site.partition(" at ")
    href = state.link_to("/callsites", callsite=finding.callsites[0] if finding.callsites else None)
    title = sentences.finding_title(data.trace, finding)
    late, of = (finding.evidence.get(name) for name in ("late_instances", "instances"))
    counted = UNKNOWN if late is None or of is None else f"{format_count(late)} of "
    counted += "" if late is None or of is None else format_count(of)
    link = dcc.Link("Show", href=href, title=f"Show {site}"[:300])
    return html.Tr(
        [
            html.Td(str(number), className="number"),
            html.Td(
                html.Div([bar, html.B(format_time(finding.saved_ns)), html.Span(share)]),
                className="saving",
            ),
            html.Td([html.B(title), html.Span(_describe_lateness(finding))], className="what"),
            html.Td(_draw_finding(data, finding), className="who-is-late"),
            html.Td([_name_operation(operation), " ", html.Code(place)], className="place"),
            html.Td([Picture(icons.draw_icon(icon)), why], className="why"),
            html.Td(counted, className="numeric"),
            html.Td(link, className="numeric"),
        ],
        className="first" if first else "",
        title=sentences.finding_text(data.trace, finding)[:1000],
    )


def _describe_lateness(finding: Finding) -> str:
    late_ns = finding.evidence.get("late_ns")
    return f" by {format_time(late_ns)}" if late_ns else ""


def _draw_finding(data: TraceData, finding: Finding) -> Component | None:
    """Return the mean lateness of the ranks at the call site, or the algorithms' times."""
    if not finding.callsites or data.trace.record == "summary":
        return None
    callsite = finding.callsites[0]
    if finding.cause == "algorithm":
        row: Any = data.trace.callsites.loc[callsite]
        total = float(row["total_elapsed_ns"])
        left = max(1.0 - finding.cost_ns / max(total, 1.0), 0.0)
        return Picture(row_pictures.draw_two_bars(left, str(finding.algorithm)))
    ranks, late_ns = mean_lateness(data, callsite)
    blamed = finding.ranks if verdict_view.is_blamed(finding) else ()
    return Picture(row_pictures.draw_lateness_bars(late_ns, np.isin(ranks, blamed)))


def mean_lateness(data: TraceData, callsite: int) -> tuple[Any, Float]:
    """Return the members of a call site, and their mean lateness beyond the earliest mean."""
    table = data.derive("rank_totals")
    rows = table[(table["callsite"] == callsite).to_numpy()]
    sums = rows.groupby("rank")[["lateness_ns", "instances"]].sum()
    mean = (sums["lateness_ns"] / sums["instances"].clip(lower=1)).to_numpy(np.float64)
    return sums.index.to_numpy(np.int64), mean - mean.min(initial=math.inf) if len(mean) else mean


def _name_operation(operation: str) -> Component:
    colour = f"var(--{name_operation_colour(operation)})"
    return html.Span([html.I(style={"background": colour}), operation], className="operation")


def make_callsites(data: TraceData, state: PageState) -> Component | None:
    """Return the costliest call sites of collectives and messages as rows, or None without any."""
    rows = filtered_tables.all_callsites(data, state)
    if not rows:
        return None
    run_ns = max(float(data.trace.run_ns), 1.0)
    summary = data.trace.record == "summary"
    lines: dict[Any, Any] = {} if summary else dict(filtered_tables.make_sparklines(data))
    ranks = max(len(data.filtered_ranks(state)), 1)
    blamed = _blamed_callsites(data)
    body = [
        _callsite_row(row, state, run_ns, ranks, lines, late=row["callsite"] in blamed)
        for row in rows[:MAX_SITES]
    ]
    more = None
    if len(rows) > MAX_SITES:
        text = f"and {format_count(len(rows) - MAX_SITES)} more call sites"
        more = dcc.Link(text, href=state.link_to("/callsites"))
    heading = html.Div([html.H2("Call sites"), html.Span("mean of the ranks")], className="heading")
    return html.Section([heading, _make_table(SITE_HEADS, body, "sites-table"), more])


def _blamed_callsites(data: TraceData) -> set[int]:
    """Return the call sites at which certain findings blame ranks."""
    findings = [one for one in data.derive("findings") if verdict_view.is_blamed(one)]
    return {callsite for finding in findings for callsite in finding.callsites[:1]}


def _callsite_row(
    row: dict[str, Any],
    state: PageState,
    run_ns: float,
    ranks: int,
    lines: dict[Any, list[float | None]],
    *,
    late: bool,
) -> Component:
    wait_ns = _number(row, "total_wait_ns")
    known = bool(row.get("complete_instances", not math.isnan(wait_ns)))
    waiting = wait_ns / ranks if known else math.nan
    share, always = _number(row, "latest_share"), _number(row, "latest_rank")
    latest = "" if math.isnan(share) or math.isnan(always) else f"rank {always:.0f}"
    spread = lines.get(row["callsite"], [])
    label = f"Spread ω over the run at {row['place']}"[:200]
    href = state.link_to("/callsites", callsite=row["callsite"])
    place, _, function = str(row["place"]).partition(" ")
    return html.Tr(
        [
            html.Td([dcc.Link(html.Code(place), href=href), " ", html.Code(function)]),
            html.Td(_name_operation(row["operation"])),
            html.Td(_known(row, "bytes", format_size), className="numeric"),
            html.Td(_known(row, "instances", format_count), className="numeric"),
            html.Td(html.B(format_time(waiting)), className="numeric"),
            html.Td(
                UNKNOWN if math.isnan(waiting) else format_share(waiting / run_ns),
                className="numeric",
            ),
            html.Td(Picture(row_pictures.draw_line(spread, label, late=late)) if spread else ""),
            html.Td(_known(row, "worst_imbalance_ns", format_time), className="numeric"),
            html.Td(_known(row, "worst_factor", format_factor), className="numeric"),
            html.Td([latest, html.Span(f" {format_share(share)}")] if latest else UNKNOWN),
        ]
    )


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return math.nan if value is None else float(value)


def _known(row: dict[str, Any], name: str, form: Any) -> str:
    value = _number(row, name)
    return UNKNOWN if math.isnan(value) or value < 0 else str(form(value))
