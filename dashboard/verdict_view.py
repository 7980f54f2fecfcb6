"""The answer of the overview and its picture, as components (see mpiprof.reports.overview)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.finding import Finding, is_blamed
from mpiprof.diagnosis.verdict import Verdict, make_verdict
from mpiprof.interface.format_units import format_ranks, format_share
from mpiprof.reports.overview import answer as answers
from mpiprof.reports.overview import proof as proofs
from mpiprof.reports.overview.answer import Answer, Fact, TextPart
from mpiprof.reports.pictures import icons

from . import components, finding_links
from .picture import Picture
from .trace_data import TraceData
from .url_state import PageState


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
    amount = html.Span(answers.describe_amount(data.trace, verdict))
    wait = html.P("The cause is being computed …", className="note", role="status")
    return html.Div([html.Div([share, amount], className="share"), wait], className="early")


def _show_line(line: str) -> Component:
    return html.P(components.mark_code(line))


def _show_share(answer: Answer) -> Component:
    share = html.B(answer.share, className="late" if answer.is_late else "")
    return html.Div([share, html.Span(answer.amount)], className="share")


def _show_text(parts: Sequence[TextPart]) -> list[Any]:
    classes = {"late": "late", "good": "good", "strong": ""}
    shown: list[Any] = []
    for part in parts:
        marked = html.B(part.text, className=classes.get(part.mark, ""))
        shown += [marked] if part.mark else components.mark_code(part.text)
    return shown


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
