"""Tables of the overview: findings by saving, and the costliest call sites, with small pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import UNKNOWN, format_count
from mpiprof.reports import late_rank_sentences
from mpiprof.reports.overview import callsite_rows, finding_rows
from mpiprof.reports.overview.callsite_rows import CallsiteRow
from mpiprof.reports.overview.finding_rows import FindingRow
from mpiprof.reports.pictures import icons
from mpiprof.reports.tokens import name_operation_colour

from . import components, filtered_tables
from .picture import Picture
from .trace_data import TraceData
from .url_state import PageState


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
    shown = pass_filters(data, state, findings)[: finding_rows.MAX_FINDINGS]
    if not shown:
        return None
    totals = None if data.trace.record == "summary" else data.derive("rank_totals")
    rows = [_show_finding(row, state) for row in finding_rows.make_rows(data.trace, shown, totals)]
    note = finding_rows.describe_savings(data.trace, shown)
    heading = html.Div([html.H2(title), html.Span(note)], className="heading")
    return html.Section([heading, _make_table(finding_rows.HEADS, rows, "findings-table")])


def _make_table(heads: Sequence[str], rows: list[Component], name: str) -> Component:
    head = [
        html.Th(text, scope="col") if text else html.Td(className=f"empty-{i}")
        for i, text in enumerate(heads)
    ]
    return html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className=f"rows {name}")


def _show_finding(row: FindingRow, state: PageState) -> Component:
    href = state.link_to("/callsites", callsite=row.callsite)
    site = " at ".join(part for part in (row.operation, row.place) if part)
    link = dcc.Link("Show", href=href, title=f"Show {site}"[:300])
    late = f" {row.lateness}" if row.lateness else ""
    place: list[Any] = [UNKNOWN]
    if row.callsite is not None:
        place = [_name_operation(row.operation), " ", html.Code(row.place)]
    return html.Tr(
        [
            html.Td(str(row.number), className="number"),
            html.Td(
                html.Div([Picture(row.bar), html.B(row.saved), html.Span(row.share)]),
                className="saving",
            ),
            html.Td([html.B(row.title), html.Span(late)], className="what"),
            html.Td(Picture(row.picture) if row.picture else None, className="who-is-late"),
            html.Td(place, className="place"),
            html.Td([Picture(icons.draw_icon(row.icon)), row.reason], className="why"),
            html.Td(row.instances, className="numeric"),
            html.Td(link, className="numeric"),
        ],
        className="first" if row.is_first else "",
        title=row.text[:1000],
    )


def _name_operation(operation: str) -> Component:
    colour = f"var(--{name_operation_colour(operation)})"
    return html.Span([html.I(style={"background": colour}), operation], className="operation")


def make_callsites(data: TraceData, state: PageState) -> Component | None:
    """Return the costliest call sites of collectives and messages as rows, or None without any."""
    every = filtered_tables.all_callsites(data, state)
    if not every:
        return None
    shown = every[: callsite_rows.MAX_SITES]
    ranks, run_ns = len(data.filtered_ranks(state)), float(data.trace.run_ns)
    lines = {} if data.trace.record == "summary" else filtered_tables.get_sparklines(data)
    causes = late_rank_sentences.name_causes(data.derive("findings"))
    rows = callsite_rows.make_rows(shown, run_ns, ranks, lines, causes)
    more = None
    if len(every) > len(rows):
        text = f"and {format_count(len(every) - len(rows))} more call sites"
        more = dcc.Link(text, href=state.link_to("/callsites"))
    heading = html.Div([html.H2("Call sites"), html.Span("mean of the ranks")], className="heading")
    body = [_show_callsite(row, state) for row in rows]
    table = _make_table(callsite_rows.HEADS, body, "sites-table")
    return html.Section([heading, table, more, components.how_to_read(callsite_rows.HOW_TO_READ)])


def _show_callsite(row: CallsiteRow, state: PageState) -> Component:
    href = state.link_to("/callsites", callsite=row.callsite)
    latest: list[Any] = [UNKNOWN]
    if row.latest:
        latest = [row.latest, html.Span(f" {row.latest_share}")]
    return html.Tr(
        [
            html.Td([dcc.Link(html.Code(row.place), href=href), " ", html.Code(row.function)]),
            html.Td(_name_operation(row.operation)),
            html.Td(row.size, className="numeric"),
            html.Td(row.instances, className="numeric"),
            html.Td(html.B(row.waiting), className="numeric"),
            html.Td(row.share, className="numeric"),
            html.Td(Picture(row.picture) if row.picture else ""),
            html.Td(row.spread, className="numeric"),
            html.Td(row.factor, className="numeric"),
            html.Td(latest),
            html.Td(row.cause or UNKNOWN, className="late" if row.cause else ""),
        ]
    )
