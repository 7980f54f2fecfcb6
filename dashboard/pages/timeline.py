"""Timeline page: ranks over time. assets/timeline draws the responses of timeline.data."""

from __future__ import annotations

import json
from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, dcc, html
from dash.development.base_component import Component

from .. import components
from ..timeline import data as timeline_data
from ..trace_data import TraceContext
from ..url_state import PageState

TITLE, PATH = "Timeline", "/timeline"
SHOWN = ("from", "to", "colour", "off", "sort", "find", "callsite", "instance")
PAGE_KEYS = frozenset((*SHOWN, "select", "ruler", "notes"))
FOLLOWS = True
SKELETON = (60, 46, 480)
MAX_RUNS = 200  # in the menu of runs to align with


def make_layout(context: TraceContext, state: PageState) -> Component:
    """Return the page: an element for the script, and the stores that trigger the script."""
    data = context.latest_data(state)
    if data.trace.record == "summary":
        return components.empty_state(
            TITLE, "This trace has only totals: record without --record summary."
        )
    other_names = [name for name in context.names if name != data.name][:MAX_RUNS]
    data_runs: dict[str, Any] = {"data-runs": json.dumps(other_names)}
    return html.Div(
        [
            html.Noscript("The timeline is drawn by a script of this page."),
            # The script replaces this state when it begins.
            html.Div(id="timeline", **data_runs, **components.aria_attributes(busy="true")),
            dcc.Store(id="timeline-mounted"),
        ]
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the route of the data, and the callback that starts the script on this page.

    The route requires the token as all routes do.
    """
    store = timeline_data.TimelineStore(context)
    app.server.add_url_rule(
        timeline_data.ROUTE, "timeline-data", lambda: timeline_data.answer_request(store)
    )
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("mpiprofTimeline", "mount"),
        Output("timeline-mounted", "data"),
        Input("timeline", "id"),
        Input("version", "data"),
        Input("url", "search"),
    )
