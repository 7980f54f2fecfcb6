"""Live page: the state of every rank of a running job, and the missing ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
from dash import Input, Output, State, html
from dash.development.base_component import Component

from .. import components, live
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Live", "/live"
FOLLOWS = True
SKELETON = (160, 320)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page; the timer of the frame refreshes it."""
    data = context.latest_data(state)
    return html.Div(
        components.make_or_message(TITLE, partial(live.make_view, data, state)), id="live"
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callback that refreshes the page."""

    @app.callback(
        Output("live", "children"),
        Input("tick", "n_intervals"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def refresh(_: int, search: str) -> Any:
        state = states.parse(search)
        return components.make_or_message(
            TITLE, lambda: live.make_view(context.latest_data(state), state)
        )
