"""Functions that ranks execute between all collectives; reached from the page of a call site."""

from __future__ import annotations

import dash
from dash import html
from dash.development.base_component import Component

from .. import sampled_functions
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Functions", "/functions"
PAGE_KEYS = sampled_functions.KEYS
SKELETON = (320,)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return an outline of the flame graph, which needs the findings."""
    context.latest_data(state)
    return html.Div(sampled_functions.make_outline("functions-run"))


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the flame graph."""
    sampled_functions.register_section(app, context, "functions-run", lambda _: None)
    sampled_functions.register_choice(app)
