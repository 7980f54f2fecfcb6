"""Timeline."""

from __future__ import annotations

import dash
from dash.development.base_component import Component

from .. import components
from ..data import Context
from ..state import State

TITLE, PATH = "Timeline", "/timeline"


def layout(context: Context, state: State) -> Component:
    """Return the page."""
    trace = context.data(state).trace
    return components.empty(TITLE, f"{trace.program} on {trace.ranks} ranks: to be built.")


def register(app: dash.Dash, context: Context) -> None:
    """Add the callbacks of this page."""
