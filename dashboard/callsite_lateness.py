"""Section of the page of a call site: where the lateness begins, and its reason.

It needs passes over the trace, so the page loads it last.
"""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from mpiprof.causes.arrival_statistics import ArrivalStatistics, LateRank
from mpiprof.interface.format_units import format_count, format_ranks
from mpiprof.reports import callsite_stages
from mpiprof.reports.words import callsite_sentences, conclusion
from mpiprof.reports.words.ranks_and_steps import describe_location

from . import callsite_arrivals, components, finding_links
from .picture import Picture
from .trace_data import TraceData

MAX_RANKS = 8


def make_section(data: TraceData, callsite: int) -> Component:
    """Return the stages of the lateness and the statistics of the arrivals at a call site."""
    statistics: ArrivalStatistics = data.derive("arrival_statistics", callsite)
    if not statistics.instances:
        return _section(html.P("No instance is complete, so no lateness is known."))
    late = callsite_arrivals.get_late_rank(data, callsite)
    row = dict(data.trace.callsites.loc[callsite])
    problems = [
        html.P(components.mark_code(line)) for line in conclusion.callsite_problems(data.trace, row)
    ]
    parts: list[Any] = []
    if late is not None and late.knows_stages:
        parts += _stage_parts(data, statistics, late, callsite)
    elif late is not None:
        parts.append(
            html.P("The stages are unknown: the previous collective of the calls is not recorded.")
        )
    else:
        absent = _absent_stages(data, callsite)
        if problems:
            absent += " The waiting here has other causes:"
        parts.append(html.P(absent))
    details = [html.Li(line) for line in callsite_sentences.arrival_sentences(statistics)]
    components_below: list[Component] = [html.Ul(details, className="told")]
    late_ranks = statistics.ranks[statistics.ranks["late_ns"] > 0]
    ranks = late_ranks.head(MAX_RANKS)
    if len(ranks):
        ranks = ranks.assign(
            where=[describe_location(data.trace, int(rank)) for rank in ranks["rank"]]
        )
        columns = [
            ("rank", "rank"),
            ("where", "on"),
            ("late_ns", "mean"),
            ("late_share", "late in"),
        ]
        components_below += [
            html.H3("Ranks that arrive after the median of the others"),
            components.make_table(ranks, columns),
            *_count_rest(len(late_ranks) - len(ranks)),
        ]
    components_below.append(
        html.P(
            f"From {format_count(statistics.instances)} of "
            f"{format_count(statistics.complete_instances)} complete instances.",
            className="note",
        )
    )
    evidence = html.Details([html.Summary("Evidence"), *components_below], className="evidence")
    return _section(*parts, html.Div(problems, className="reasons"), evidence)


def _count_rest(count: int) -> list[Component]:
    """Return the note that counts the ranks that the table leaves out."""
    return [html.P(f"and {format_count(count)} more ranks", className="note")] * (count > 0)


def _section(*children: Any) -> Component:
    return html.Section([html.H2(callsite_stages.TITLE), *children], className="callsite-stages")


def _absent_stages(data: TraceData, callsite: int) -> str:
    """Return the reason why no stage of the lateness is named."""
    causes = finding_links.find_causes(data, callsite)
    if not causes:
        return "No rank arrives late consistently, so no stage of lateness is named."
    ranks_text = format_ranks(causes[0].ranks)
    return (
        f"The delay of {ranks_text} reaches other ranks before they arrive here, so the stages of "
        "one rank do not show it."
    )


def _stage_parts(
    data: TraceData, statistics: ArrivalStatistics, late: LateRank, callsite: int
) -> list[Component]:
    wide, tall = (
        callsite_stages.draw_late_rank(data.trace, callsite, late, statistics, tall=tall)
        for tall in (False, True)
    )
    return [
        html.P(callsite_stages.describe_stages(late), className="note"),
        html.Div(
            [
                Picture(wide.svg, className="wide-flow"),
                Picture(tall.svg, className="tall-flow"),
                components.picture_menu(wide.values),
            ],
            className="picture",
        ),
        components.how_to_read(wide.how_to_read),
    ]
