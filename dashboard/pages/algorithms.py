"""Catalogue of algorithms: reached by URL, from a call site and from search."""

from __future__ import annotations

import dash
from dash.development.base_component import Component

from .. import algorithm_view
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Algorithms", "/algorithms"
PAGE_KEYS = frozenset(algorithm_view.STATE_KEYS)
SKELETON = (420,)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the catalogue, which needs no trace."""
    del context
    return algorithm_view.make_layout(state)


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the catalogue."""
    del context
    algorithm_view.register_callbacks(app)
