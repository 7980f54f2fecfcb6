"""Live page: the state of every rank of a running job, and the missing ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
from dash import Input, Output, State, html
from dash.development.base_component import Component

from .. import components, live
from .. import url_state as states
from ..trace_data import Context

TITLE, PATH = "Live", "/live"
FOLLOWS = True
SKELETON = (160, 320)


def layout(context: Context, state: states.State) -> Component:
    """Return the page; the timer of the frame refreshes it."""
    data = context.data(state)
    return html.Div(components.guarded(TITLE, partial(live.now, data, state)), id="live")


def register(app: dash.Dash, context: Context) -> None:
    """Add the callback that refreshes the page."""

    @app.callback(
        Output("live", "children"),
        Input("tick", "n_intervals"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def refresh(_: int, search: str) -> Any:
        state = states.parse(search)
        return components.guarded(TITLE, lambda: live.now(context.data(state), state))
