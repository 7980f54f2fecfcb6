"""Overview page: the answer with its picture, the time of the run, findings and call sites."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.causes.finding import Finding, is_blamed
from mpiprof.causes.findings import Verdict, make_verdict
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.reports.overview import answer as answers
from mpiprof.reports.overview import callsite_rows, finding_rows
from mpiprof.reports.overview import proof as proofs
from mpiprof.reports.overview.answer import Answer, TextPart
from mpiprof.reports.overview.callsite_rows import CallsiteRow
from mpiprof.reports.overview.finding_rows import FindingRow
from mpiprof.reports.overview.time_sums import (
    WIDTHS,
    find_blamed_time,
    how_to_read,
    list_time_parts,
)
from mpiprof.reports.pictures import icons, time_split
from mpiprof.reports.words import answer_facts, callsite_sentences, captions
from mpiprof.reports.words.answer_facts import Fact

from .. import components, filtered_tables, finding_links, predictions
from .. import url_state as states
from ..picture import Picture
from ..trace_data import TraceContext, TraceData
from ..url_state import PageState


def find_verdict(data: TraceData) -> Verdict:
    """Return the verdict on the run; the simulation of algorithms is not a part of it."""
    return data.compute_once("verdict", lambda: make_verdict(data.trace, data.derive("findings")))


def make_answer(data: TraceData, state: PageState) -> Component | None:
    """Return the share lost, the sentence, the facts and the command; None if nothing was recorded.

    The frame reports a trace without calls.
    """
    answer = answers.make_answer(data.trace, find_verdict(data), data.path)
    if answer is None:
        return None
    parts = [_show_share(answer)] * bool(answer.share)
    parts += [html.P(_show_text(line), className="sentence") for line in answer.sentences]
    if answer.finding is None:
        return html.Div([*parts, *map(_show_line, answer.notes)], className="answer")
    advice = html.P(components.mark_code(answer.advice), className="note")
    parts += [
        _show_facts(answer.facts),
        html.Div([_make_button(data, answer.finding, state), advice], className="act"),
        components.show_command(answer.command),
        *[html.P(components.mark_code(line), className="note") for line in answer.notes],
    ]
    return html.Div(parts, className="answer")


def make_early_answer(data: TraceData, _: PageState) -> Component | None:
    """Return the share lost, which is known before its cause; the answer replaces it."""
    verdict = make_verdict(data.trace, [])
    if math.isnan(verdict.waiting) or not len(data.callsites):
        return None
    share = html.B(format_share(verdict.waiting))
    amount = html.Span(answer_facts.describe_amount(data.trace, verdict))
    wait = html.P("The cause is being computed …", className="note", role="status")
    return html.Div([html.Div([share, amount], className="share"), wait], className="early")


def _show_line(line: str) -> Component:
    return html.P(components.mark_code(line))


def _show_share(answer: Answer) -> Component:
    share = html.B(answer.share, className="late" if answer.is_late else "")
    return html.Div([share, html.Span(answer.amount)], className="share")


def _show_text(parts: Sequence[TextPart]) -> list[Any]:
    classes = {"late": "late", "good": "good", "strong": ""}
    components_shown: list[Any] = []
    for part in parts:
        marked = html.B(part.text, className=classes.get(part.mark, ""))
        components_shown += [marked] if part.mark else components.mark_code(part.text)
    return components_shown


def _show_facts(facts: Sequence[Fact]) -> Component:
    rows = [
        html.Div(
            [
                html.Dt(fact.name),
                html.Dd(
                    [
                        *([Picture(icons.draw_icon(fact.icon))] if fact.icon else ()),
                        html.B(fact.text, className="late" * fact.is_late),
                    ]
                ),
                html.Dd(fact.more, className="more"),
            ]
        )
        for fact in facts
    ]
    return html.Dl(rows, className="who")


def _make_button(data: TraceData, finding: Finding, state: PageState) -> Component:
    """Return the page's primary button: the late ranks in the timeline, or the call site."""
    if is_blamed(finding):
        name = format_ranks(finding.ranks) if len(finding.ranks) < 4 else "these ranks"
        href = finding_links.link_to_timeline(data, state, finding)
        return dcc.Link(f"Show {name} in the timeline", href=href, className="primary")
    if finding.main_callsite is not None:
        href = finding_links.link_to_callsite(state, finding)
        return dcc.Link("Show the call site", href=href, className="primary")
    return dcc.Link("Show the timeline", href=state.link_to("/timeline"), className="primary")


def make_picture(data: TraceData, state: PageState) -> Component | None:
    """Return the picture that proves the answer: one instance of the worst call site."""
    finding = find_verdict(data).worst
    if finding is None or data.trace.record == "summary":
        return None
    proof = proofs.find_proof(data.trace, finding, data.instances)
    if proof is None:
        return None
    href = state.link_to("/callsites", callsite=proof.callsite, instance=proof.number)
    pictures = [
        Picture(proof.draw(size), className=f"picture {name}")
        for name, size in proofs.WIDTHS.items()
    ]
    head = html.Figcaption(dcc.Link(proof.title, href=href))
    menu = components.picture_menu(proof.content.list_values())
    content = [head, *pictures, menu, components.how_to_read(proof.how_to_read)]
    return html.Figure(content, className="proof")


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
    listed = pass_filters(data, state, findings)[: finding_rows.MAX_FINDINGS]
    if not listed:
        return None
    totals = None if data.trace.record == "summary" else data.derive("rank_totals")
    rows = [_show_finding(row, state) for row in finding_rows.make_rows(data.trace, listed, totals)]
    note = finding_rows.describe_savings(data.trace, listed)
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
    listed = every[: callsite_rows.MAX_SITES]
    ranks, run_ns = len(data.filtered_ranks(state)), float(data.trace.run_ns)
    lines = {} if data.trace.record == "summary" else filtered_tables.get_sparklines(data)
    causes = callsite_sentences.name_causes(data.derive("findings"))
    rows = callsite_rows.make_rows(listed, run_ns, ranks, lines, causes)
    link = None
    if len(every) > len(rows):
        text = f"and {format_count(len(every) - len(rows))} more call sites"
        link = dcc.Link(text, href=state.link_to("/callsites"))
    heading = html.Div([html.H2("Call sites"), html.Span("mean of the ranks")], className="heading")
    body = [_show_callsite(row, state) for row in rows]
    table = _make_table(callsite_rows.HEADS, body, "sites-table")
    return html.Section([heading, table, link, components.how_to_read(captions.CALLSITES_TABLE)])


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


TITLE, PATH = "Overview", "/"
SKELETON = (330, 90, 200, 260)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page; callbacks fill in what needs a pass over the trace."""
    context.latest_data(state)  # an unreadable trace is reported once, in place of the page
    names = ("overview-share", "findings", "overview-proof")
    share, answer, proof = map(components.deferred_container, names)
    return html.Div(
        [
            html.Section([html.Div([share, answer]), proof], className="hero", **_label("Answer")),
            components.deferred_container("overview-time"),
            components.deferred_container("overview-findings"),
            components.deferred_container("gains"),
            components.deferred_container("overview-sites"),
        ],
        className="overview",
    )


def _label(text: str) -> dict[str, Any]:
    return components.aria_attributes(label=text)


def time_section(data: TraceData, state: states.PageState) -> Component:
    """Return the composition of the run's time, or a note if no operation was recorded."""
    if not filtered_tables.all_callsites(data, state):
        how = "passes the filters" if len(data.callsites) else "was recorded"
        return components.empty_state(f"No collective operation {how}", "")
    ranks = len(data.filtered_ranks(state))
    parts = list_time_parts(data.trace, filtered_tables.divide_filtered_time(data, state), ranks)
    blamed = None
    if states.clear_filters(state) == state:
        blamed = find_blamed_time(data.trace, find_verdict(data).worst)
    pictures = [
        Picture(time_split.draw_split(parts, blamed, width), className=f"picture {name}")
        for name, width in WIDTHS.items()
    ]
    ranks_text = "all ranks" if ranks == data.trace.ranks else f"{ranks} ranks"
    total = format_time(sum(part.time_ns for part in parts))
    title = html.H2(f"Where the {total} went")
    heading = html.Div([title, html.Span(f"mean of {ranks_text}")], className="heading")
    menu = components.picture_menu(time_split.list_values(parts, blamed))
    note = components.how_to_read(how_to_read(parts, blamed))
    return html.Section([heading, *pictures, menu, note])


def findings_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return the findings as rows, without those that need a simulation."""
    return make_findings(data, state, data.derive("findings"))


def gains_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return rows of call sites where the simulator predicts a gain. Takes seconds."""
    data.derive("findings")  # the answer comes first: the simulation occupies the processor
    findings = data.derive("findings", tuple(predictions.find_gains(data)))
    gains = [finding for finding in findings if finding.cause == "algorithm"]
    return make_findings(data, state, gains, title="Other algorithms")


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill in parts which need at least one pass over the trace."""
    for name, make in (
        ("overview-share", make_early_answer),
        ("findings", make_answer),
        ("overview-proof", make_picture),
        ("overview-time", time_section),
        ("overview-findings", findings_section),
        ("gains", gains_section),
        ("overview-sites", make_callsites),
    ):
        _register_part(app, context, name, make)


def _register_part(app: dash.Dash, context: TraceContext, name: str, make: Any) -> None:
    @components.state_callback(app, Output(name, "children"), Input(name, "id"))
    def show(_: str, state: states.PageState) -> Any:
        return components.make_or_message(name, lambda: make(context.latest_data(state), state))
