"""The parts that pages are made of, so that they look alike."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from . import theme
from .state import State

CONFIG: Any = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d"],
}


def aria(**names: str) -> dict[str, Any]:
    """Return aria attributes, such as label, as arguments of a component."""
    return {f"aria-{name}": value for name, value in names.items()}


def graph(figure: go.Figure, state: State, **more: Any) -> Component:
    """Show a figure in the reader's theme; `more` goes to dcc.Graph, such as an id."""
    figure.update_layout(template=theme.template(dark=state.dark))
    return dcc.Graph(figure=figure, config=CONFIG, className="graph", **more)


def card(title: str, *children: Any, note: str = "", **more: Any) -> Component:
    """Return a titled card; `note` is one line below the title."""
    head = [html.H2(title)] + ([html.P(note, className="note")] if note else [])
    return dmc.Paper([*head, *children], className="card", withBorder=True, **more)


def empty(title: str, why: str) -> Component:
    """Return what stands where there is nothing to show: why, and what to do."""
    return html.Div([html.H2(title), html.P(why)], className="empty")


def columns(*children: Any, least: str = "420px") -> Component:
    """Put children side by side where each has at least so much room."""
    return html.Div(list(children), className="columns", style={"--least": least})


def facts(pairs: list[tuple[str, Any]]) -> Component:
    """Return a list of names and values."""
    rows = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in pairs]
    return html.Dl(rows, className="facts")
