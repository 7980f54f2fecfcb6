"""Menus of the filters: links that add or remove a communicator, an operation or a node."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import dash
from dash import Input, Output, html
from dash.development.base_component import Component

from mpiprof.account.tables import communicator_names
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_count, format_ranks, shorten_text
from mpiprof.trace import Trace

from . import components, filtered_tables
from . import url_state as states
from .header import FILTERS
from .trace_data import TraceContext

MAX_CHOICES = 300  # of a menu; more links make the browser slow
FEW_CHOICES = 12  # up to which a menu has no field for a search


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill the menus, and search in their choices."""
    for name in FILTERS:
        _register_menu(app, context, name)


def _register_menu(app: dash.Dash, context: TraceContext, name: str) -> None:
    @components.state_callback(
        app,
        Output(f"filter-{name}", "children"),
        Output(f"filter-{name}-search", "hidden"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input(f"filter-{name}-text", "value"),
    )
    def show(path: str, _: str, text: str | None, state: states.PageState) -> Any:
        choices = list_choices(context, state, name)
        items = make_items(path, state, name, choices, text or "")
        return items, len(choices) <= FEW_CHOICES


def make_items(
    path: str, state: states.PageState, name: str, choices: dict[str, str], text: str
) -> list[Component]:
    """Return the links of a menu, of which only those that contain a text.

    known: list_choices. The choices of the address come first.
    """
    chosen: tuple[str, ...] = getattr(state, name)
    labels = {value: choices.get(value, value) for value in chosen} | choices
    matching = {
        value: label for value, label in labels.items() if text.casefold() in label.casefold()
    }
    links: list[components.MenuLink] = []
    for value, label in list(matching.items())[:MAX_CHOICES]:
        remaining = tuple(choice for choice in chosen if choice != value)
        changed = {name: remaining if value in chosen else (*chosen, value)}
        address = path + states.change_filters(state, changed).format_query()
        links.append((shorten_text(label), address, value in chosen))
    items = components.link_items(links)
    hidden_count = len(matching) - len(links)
    if hidden_count > 0:
        note = f"and {format_count(hidden_count)} more: type a part of the name above"
        items.append(html.Li(note, className="note"))
    return items or [html.Li(f"Nothing contains {text[:40]!r}.", className="note")] * bool(text)


def name_choices(context: TraceContext, state: states.PageState) -> list[str]:
    """Return the text of each menu's button: what it has chosen, or that it passes everything."""
    texts = []
    for name, every in FILTERS.items():
        chosen: tuple[str, ...] = getattr(state, name)
        choices = list_choices(context, state, name) if chosen else {}
        texts.append(", ".join(choices.get(value, value)[:40] for value in chosen) or every)
    return texts


def list_choices(context: TraceContext, state: states.PageState, name: str) -> dict[str, str]:
    """Return the name of each choice of a filter by its value in the address."""
    with contextlib.suppress(MpiprofError):  # the page reports the error
        data = context.latest_data(state)
        if name == "communicators":
            return data.compute_once("communicators", lambda: name_communicators(data.trace))
        if name == "operations":
            return {operation: operation for operation in filtered_tables.list_operations(data)}
        return {host: host for host in data.hosts}
    return {}


def name_communicators(trace: Trace) -> dict[str, str]:
    """Return the name of each communicator by identity; equal names have the size and the ranks."""
    communicators = trace.tables.communicators
    names = {c.identity: n for c, n in zip(communicators, communicator_names(trace), strict=True)}
    counts = Counter(names.values())
    for communicator in communicators:
        name = names[communicator.identity]
        if counts[name] > 1:
            ranks = format_ranks(communicator.ranks.tolist())
            names[communicator.identity] = (
                f"{name}: {format_count(communicator.size)} ranks, {ranks}"
            )
    return names
