"""Timeline page: ranks over time, drawn by assets/timeline.mjs from timeline_data's responses."""

from __future__ import annotations

import dash
from dash import ClientsideFunction, Input, Output, dcc, html
from dash.development.base_component import Component

from .. import components, timeline_data
from ..trace_data import Context
from ..url_state import State

TITLE, PATH = "Timeline", "/timeline"
SHOWN = ("from", "to", "colour", "off", "sort", "find", "callsite", "instance")
OWN = frozenset((*SHOWN, "select", "ruler", "notes"))
FOLLOWS = True
SKELETON = (60, 46, 480)


def layout(context: Context, state: State) -> Component:
    """Return the page: an element for the script, and the stores that trigger the script."""
    data = context.data(state)
    if data.trace.record == "summary":
        return components.empty(
            TITLE, "This trace has only totals: record without --record summary."
        )
    return html.Div(
        [
            html.Noscript("The timeline is drawn by a script of this page."),
            html.Div(id="timeline"),
            dcc.Store(id="timeline-mounted"),
        ]
    )


def register(app: dash.Dash, context: Context) -> None:
    """Add the route of the data, and the callback that starts the script on this page."""
    timeline_data.register(app, context)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("mpiprofTimeline", "mount"),
        Output("timeline-mounted", "data"),
        Input("timeline", "id"),
        Input("version", "data"),
        Input("url", "search"),
    )
