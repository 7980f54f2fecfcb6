"""Building blocks of the pages, which give all pages the same appearance."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dash
import pandas as pd
import plotly.graph_objects as go
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.account.column import QUANTITIES
from mpiprof.account.columns import quantity_of
from mpiprof.errors import MpiprofError
from mpiprof.interface import tokens
from mpiprof.interface.svg import DataPicture, TableRow

from . import theme
from .picture import Picture
from .source_excerpt import Excerpt
from .url_state import PageState, change_filters, parse

# A choice of a menu: its content, its address, and whether it is chosen.
MenuLink = tuple[Any, str, bool]
log = logging.getLogger(__name__)
CONFIG: Any = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "toImage"],
}


def aria_attributes(**names: str) -> dict[str, Any]:
    """Return aria attributes, such as label, as keyword arguments of a component."""
    return {f"aria-{name}": value for name, value in names.items()}


def make_graph(draw: Callable[[PageState], go.Figure], state: PageState, name: str) -> Component:
    """Return a graph in the user's theme. name: its id.

    draw: is called for both themes. The page gets the figure of one theme, and the values that
    differ in the other theme, so that assets/shell.js can change the theme by itself.
    """
    figures = []
    for dark in (not state.dark, state.dark):
        figure = draw(replace(state, dark=dark))
        figure.update_layout(template=theme.make_template(dark=dark))
        figures.append(figure.to_plotly_json())
    light, dark_one = figures if state.dark else reversed(figures)
    colours: dict[str, Any] = {"data-themes": json.dumps(theme.find_differences(light, dark_one))}
    height = f"{figure.layout.height or 300}px"
    graph = dcc.Graph(
        id=name, figure=figure, config=CONFIG, className="graph", style={"height": height}
    )
    # The script of graphs arrives after the page, which must not move then.
    content = [html.Div(graph, style={"minHeight": height}), picture_menu()]
    return html.Div(content, className="picture", **colours)


def show_picture(drawn: DataPicture, **attributes: Any) -> Component:
    """Return a server-made picture with the menu of its data; `more` goes to Picture."""
    return html.Div(
        [Picture(drawn.svg, **attributes), picture_menu(drawn.values)], className="picture"
    )


def picture_menu(values: Sequence[TableRow] = ()) -> Component:
    """Return the menu of the picture beside it; assets/picture-menu.js does the work.

    It downloads the picture or its data, and copies the address that shows it again. Without
    `values`, the data are the points of a graph.
    """
    formats = {"svg": "SVG", "png": "PNG", "csv": "Data (CSV)", "link": "Copy link"}
    buttons = [html.Button(text, value=name, type="button") for name, text in formats.items()]
    data: dict[str, Any] = {"data-values": json.dumps(list(values))} if len(values) else {}
    content = [html.Summary("Export"), html.Div(buttons)]
    return html.Details(content, className="picture-menu", **data)


def make_card(title: str, *children: Any, note: str = "") -> Component:
    """Return a titled card; `note` is one line below the title."""
    head = [html.H2(title)] + ([html.P(mark_code(note), className="note")] if note else [])
    return html.Div([*head, *children], className="card")


def empty_state(title: str, why: str) -> Component:
    """Return the replacement for missing content: the reason and the remedy."""
    return html.Div([html.H2(title), html.P(mark_code(why))], className="empty")


def mark_code(text: str) -> list[Any]:
    """Return a sentence in which text between backticks is shown as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick belongs to the text
        return [text]
    return [html.Code(part) if i % 2 else part for i, part in enumerate(parts) if part]


def make_or_message(name: str, make: Callable[[], Any]) -> Any:
    """Return `make()`, or a message if `make` fails, so that the rest of the page still works."""
    try:
        return make()
    except MpiprofError as error:
        return empty_state("This cannot be shown", str(error)[:1000])
    except Exception:
        log.exception("%s failed", name)
        return empty_state(
            "This failed", "The terminal of `view` shows the error; please report it."
        )


def state_callback(
    app: dash.Dash, *dependencies: Any, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like app.callback that also passes the page state, as last argument."""

    def register(function: Callable[..., Any]) -> Any:
        @app.callback(*dependencies, State("url", "search"), State("scheme", "data"), **options)
        def call(*values: Any) -> Any:
            *inputs, search, scheme = values
            return function(*inputs, parse(search, dark=scheme == "dark"))

        return call

    return register


def query_callback(app: dash.Dash, *inputs: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of state_callback for a function that returns the new URL query."""
    query = Output("url", "search", allow_duplicate=True)
    return state_callback(app, query, *inputs, prevent_initial_call=True)


def link_matrix_to_timeline(app: dash.Dash, graph: str) -> None:
    """Let a click in a matrix of ranks open the timeline of the ranks of both axes."""

    @state_callback(
        app,
        Output("url", "pathname", allow_duplicate=True),
        Output("url", "search", allow_duplicate=True),
        Input(graph, "clickData"),
        prevent_initial_call=True,
    )
    def show_both(clicked: Any, state: PageState) -> tuple[str, str]:
        """Open the timeline of the ranks of a cell."""
        try:
            point = clicked["points"][0]
            pair = [str(point["y"]), str(point["x"])]
        except (TypeError, KeyError, IndexError):
            raise PreventUpdate from None
        ranks = {"ranks": ", ".join(dict.fromkeys(pair))}
        return "/timeline", change_filters(state.without_page_keys(), ranks).format_query()


def deferred_container(name: str, **attributes: Any) -> Component:
    """Return a container that a callback fills; before that it shows an outline or old content."""
    target: Any = {name: "children"}  # only the container: nested components load separately
    classes = f"later {attributes.pop('className', '')}".strip()
    return dcc.Loading(
        html.Div(id=name, className=classes, **attributes),
        target_components=target,
        delay_show=400,
        type="dot",
        color=tokens.BLUE,
        overlay_style={"visibility": "visible", "opacity": 0.5},
    )


def warning_line(line: str) -> Component:
    """Return a warning line."""
    return html.P(mark_code(line[:1000]), className="warning", role="note")


def link_menu(
    label: str, current: str, links: Sequence[MenuLink], name: str = "", *, stays: bool = False
) -> Component:
    """Return a button that names the current choice and unfolds links to all choices.

    The list gets the id `name`, and the text of the button `name`-chosen. With `stays`, the list
    remains unfolded after a choice.
    """
    ids: list[dict[str, Any]] = [{"id": name}, {"id": f"{name}-chosen"}] if name else [{}, {}]
    button = html.Summary(html.Span(current, **ids[1]), className="control", title=label)
    items = html.Ul(link_items(links), className="panel", **ids[0])
    return html.Details([button, items], className="unfolds link-menu" + " stays" * stays)


def search_menu(label: str, name: str) -> Component:
    """Return a menu of links, which stays unfolded, with a field that searches in its choices.

    Callbacks fill the list, whose id is `name`, and the text of the button, `name`-chosen. They
    hide the field, `name`-text in `name`-search, if there are few choices.
    """
    field = dcc.Input(id=f"{name}-text", placeholder="Find", debounce=0.15, autoComplete="off")
    hidden = html.Label(
        f"Find in {label.lower()}", htmlFor=f"{name}-text", className="hidden-label"
    )
    search = html.Div([hidden, field], id=f"{name}-search", hidden=True)
    button = html.Summary(html.Span(label, id=f"{name}-chosen"), className="control", title=label)
    panel = html.Div([search, html.Ul(id=name)], className="panel")
    return html.Details([button, panel], className="unfolds link-menu stays")


def link_items(links: Sequence[MenuLink]) -> list[Component]:
    """Return the items of a menu of links (see link_menu)."""
    return [
        html.Li(dcc.Link(content, href=address), **(aria_attributes(current="true") if on else {}))
        for content, address, on in links
    ]


def choice_links(
    choices: Mapping[str, str], chosen: str, make_address: Callable[[str], str]
) -> Component:
    """Return a row of links to choices (name by key); the chosen one is text."""
    links: list[Any] = [
        html.Span(name, className="off")
        if key == chosen
        else dcc.Link(name, href=make_address(key))
        for key, name in choices.items()
    ]
    return html.Div(links, className="steps", role="group")


def labelled_field(text: str, field: Component, name: str = "") -> Component:
    """Return an input (with an id) below its label; `name` is a class."""
    content = [html.Label(text, htmlFor=field.id), field]  # type: ignore[attr-defined]
    return html.Div(content, className=f"field {name}".strip())


def wide_picture(drawn: DataPicture) -> Component:
    """Return a picture that keeps a readable width, and scrolls on narrow pages."""
    scrolls = html.Div(Picture(drawn.svg), className="scrolls", tabIndex=0)
    return html.Div([scrolls, picture_menu(drawn.values)], className="picture")


def how_to_read(text: str) -> Component:
    """Return the explanation of a picture in about two lines, folded until a click opens it."""
    return html.Details([html.Summary("How to read this"), html.P(text)], className="how-to-read")


def stack(*children: Any) -> Component:
    """Return children below each other."""
    return html.Div(list(children), className="stack")


def fact_list(pairs: list[tuple[str, Any]]) -> Component:
    """Return a list of names and values."""
    rows = [html.Div([html.Dt(name), html.Dd(value)]) for name, value in pairs]
    return html.Dl(rows, className="facts")


def make_table(rows: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> Component:
    """Return a table of columns (name, heading); the suffix of the name selects the format."""
    names = [name for name, _ in columns]
    body = [
        html.Tr([html.Td(format_value(*cell)) for cell in zip(names, row, strict=True)])
        for row in rows[names].itertuples(index=False)
    ]
    head = html.Thead(html.Tr([html.Th(heading, scope="col") for _, heading in columns]))
    return html.Table([head, html.Tbody(body)], className="table")


def format_value(name: str, value: Any) -> str:
    """Return a column's value as formatted text: times if named _ns, percent if named _share."""
    quantity = quantity_of(name)
    if quantity in ("duration", "share"):
        return QUANTITIES[quantity].format(float(value))
    return str(value)[:300]


def source_lines(excerpt: Excerpt) -> Component:
    """Return source lines with their numbers, and mark the line of the call."""
    lines = [
        html.Div(
            [html.Span(str(number), className="number"), html.Code(line or " ")],
            className="line meant" if number == excerpt.line else "line",
        )
        for number, line in enumerate(excerpt.lines, excerpt.first)
    ]
    return html.Pre(lines, className="source", tabIndex=0)


def show_command(command: str, note: str = "") -> Component:
    """Return a command with a button that copies it, and a note."""
    copy = html.Button("Copy", className="copy", title="Copy (c)", type="button")
    notes = [html.Span(note, className="note")] if note else []
    return html.Div([html.Code(command, tabIndex=0), copy, *notes], className="command")
