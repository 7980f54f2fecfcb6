"""Source lines and all metrics of a call site, below the pictures of its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from mpiprof.account import columns
from mpiprof.interface.format_units import UNKNOWN, capitalise, shorten_text
from mpiprof.reports.site_labels import explain_address, format_site, lacks_line

from . import components, source_excerpt
from .trace_data import TraceContext

MAX_SOURCE_SITES = 4
SOURCE_REMEDY = "name the folder of the sources with `view --source DIR`."
TITLE = ("operation", "sites", "algorithm")  # columns that the head or a longer column replaces


def make_details(context: TraceContext, row: dict[str, Any]) -> Component:
    """Return the source lines and the metrics of a call site, side by side."""
    metrics = html.Section(
        [html.H2("All numbers"), components.fact_list(callsite_facts(row))],
        className="callsite-facts",
    )
    return html.Div([_source_section(context, row), metrics], className="callsite-details")


def callsite_facts(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the metrics of a call site as pairs of name and text: the columns with headings."""
    listed = columns.recorded() if "instances" in row else columns.of_messages()
    return [
        (column.meaning, shorten_text(column.text(row)))
        for column in listed
        if column.heading and column.name not in TITLE and column.informs([row])
    ]


def show_numbers(numbers: Sequence[tuple[str, str, str]], note: str) -> Component:
    """Return the known key numbers of a call site: text, name and style of each."""
    facts = [
        html.Div([html.B(value, className=style), html.Span(name)])
        for value, name, style in numbers
        if value not in (UNKNOWN, "nan")
    ]
    return html.Div(facts, className="callsite-numbers", title=note)


def _source_section(context: TraceContext, row: dict[str, Any]) -> Component:
    parts: list[Component] = []
    for site in row["sites"][:MAX_SOURCE_SITES]:
        for frame in [site, *site.get("stack", [])[:MAX_SOURCE_SITES]]:
            parts.append(html.H3(shorten_text(format_site(frame))))
            file, line = frame.get("file"), frame.get("line")
            if not line:
                if frame is site and lacks_line(site):
                    parts.append(html.P(capitalise(explain_address(site))))
                continue
            excerpt = source_excerpt.read_excerpt(str(file), int(line), context.sources)
            if excerpt is not None:
                parts.append(components.source_lines(excerpt))
            else:
                path = html.Code(shorten_text(file))
                parts.append(html.P([path, f" was not found: {SOURCE_REMEDY}"]))
    if len(row["sites"]) > MAX_SOURCE_SITES:
        parts.append(html.P(f"and {len(row['sites']) - MAX_SOURCE_SITES} more places"))
    content = parts or [html.P("The location is unknown.")]
    return html.Section([html.H2("Source"), *content])
