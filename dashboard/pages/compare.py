"""Compare page: two traces, or two groups of runs, on the same scale, call site by call site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dash
import numpy as np
import pandas as pd
from dash import Input, Output, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.causes.cause_changes import NO_CHANGES, compare_ledgers
from mpiprof.causes.compare_verdict import judge_difference
from mpiprof.interface.format_units import UNKNOWN, format_change, format_time, shorten_text
from mpiprof.reports.words import callsite_sentences
from mpiprof.reports.words.compare_sentences import incomparable_sentence, verdict_paragraphs

from .. import compare_sections, components, filtered_tables, trace_figures
from .. import url_state as states
from ..trace_data import TraceContext, TraceData

TITLE, PATH = "Compare", "/compare"
MAX_ROWS = 200
SKELETON = (180, 240, 380)
PAGE_KEYS = frozenset({"instance", "from", "to"})


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page: the selected trace and its further runs (A) against other runs (B)."""
    first, to = (
        [context.latest_data(name) for name in side] for side in side_names(context, state)
    )
    if len(context.names) == 1 and not to:
        why = "Start the view with two traces or more: python -m mpiprof view BEFORE AFTER"
        return components.empty_state("There is only one trace", why)
    form = html.Div(
        [*_make_form(context, state, first, to), *_swap_link(state, first, to)], id="sides"
    )
    if not to:
        return html.Div([form, html.P("Choose the traces to compare with A.")])
    several = len(first) + len(to) > 2
    table = trace_figures.compare_callsites(first, to, state)
    before, after = ([run.trace for run in side] for side in (first, to))
    verdict = judge_difference(table)
    if reason := incomparable_sentence(verdict, before, after):
        return html.Div([form, html.P(components.mark_code(reason))], id="compare")
    # Places of work and causes have no filters.
    is_filtered = bool(state.communicators or state.operations or state.nodes or state.ranks)
    ledgers = NO_CHANGES if is_filtered else compare_ledgers(before, after)
    lines = verdict_paragraphs(verdict, after, len(first), before=before, ledgers=ledgers)
    sections = [
        form,
        compare_sections.make_head(lines, first, to),
        compare_sections.make_chart(table, first, to, state),
        compare_sections.make_timelines(table, first[0], to[0], state),
        _all_numbers(table, several, state),
    ]
    return html.Div(sections, id="compare")


def _all_numbers(table: pd.DataFrame, several: bool, state: states.PageState) -> Component:
    means = "Means over the runs, by" if several else "By"
    chance = "than these runs differ from each other" if several else "than by chance"
    note = (
        f"{means} the change of total time, largest first. Time: mean of a call; wait: of all "
        "ranks in an instance; ω: last minus first arrival. "
        f"Bold: differs by more {chance}."
    )
    content = [html.P(note, className="note"), comparison_table(table.head(MAX_ROWS), state)]
    return html.Details([html.Summary("All numbers of each call site"), *content])


def _swap_link(
    state: states.PageState, first: Sequence[TraceData], to: Sequence[TraceData]
) -> Iterator[Component]:
    """Yield the link that exchanges A and B."""
    if to:
        names = [run.name for run in to]
        also, first_names = tuple(names[1:]), tuple(run.name for run in first)
        swapped = replace(state, trace=names[0], also=also, to=first_names)
        yield dcc.Link("Swap A and B", href=PATH + swapped.format_query())


def side_names(context: TraceContext, state: states.PageState) -> tuple[list[str], list[str]]:
    """Return the names of the runs of side A and of side B.

    If the URL names no run for B, B is the first remaining trace, or empty if none remains.
    """
    names = context.names
    first = list(dict.fromkeys([state.trace or names[0], *state.also]))
    return first, list(state.to) or [name for name in names if name not in first][:1]


def _make_form(
    context: TraceContext,
    state: states.PageState,
    first: Sequence[TraceData],
    to: Sequence[TraceData],
) -> Iterator[Component]:
    """Yield the menus of both sides; a run of one side is not an option of the other."""
    first_names, second_names = [run.name for run in first], [run.name for run in to]
    name, *also = first_names
    further = [n for n in context.names if n != name and n not in second_names]
    if further or also:
        label = f"A is {name[:60]}, and as further runs of it:"
        yield _make_choice(state, "also", label, further, also)
    lone = "" if further or also else f"A is {name[:60]}, and "
    choices = [n for n in context.names if n not in first_names]
    yield _make_choice(state, "to", f"{lone}B:", choices, second_names)


def _make_choice(
    state: states.PageState, side: str, label: str, names: Sequence[str], chosen: Sequence[str]
) -> Component:
    """Return the menu of the runs of a side; each link adds or removes a run."""
    links: list[components.MenuLink] = []
    for name in dict.fromkeys([*names, *chosen]):
        remaining = tuple(candidate for candidate in chosen if candidate != name)
        changed: dict[str, Any] = {side: remaining if name in chosen else (*chosen, name)}
        address = PATH + replace(state, **changed).format_query()
        links.append((name, address, name in chosen))
    text = ", ".join(name[:60] for name in chosen) or "Choose"
    menu = components.link_menu(label, text, links, f"compare-{side}")
    return html.Div([html.Span(label), menu], className="field")


def comparison_table(table: pd.DataFrame, state: states.PageState) -> Component:
    """Return the table of call sites in both traces."""
    heads = ("call site", "operation", "instances", "mean time", "mean wait", "mean ω", "algorithm")
    rows = []
    for row in filtered_tables.table_records(table):
        name: Any = row["place"]
        if row["callsite"] >= 0:
            name = dcc.Link(name, href=state.link_to("/callsites", callsite=row["callsite"]))
        cells = [
            [name, html.Span(_only_in(row), className="faint")],
            row["operation"],
            " → ".join(callsite_sentences.instance_counts(row).values()),
            *[_change_cell(row, c) for c in ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")],
            _algorithms_cell(row),
        ]
        rows.append(html.Tr([_make_cell(*pair) for pair in zip(heads, cells, strict=True)]))
    head = html.Thead(html.Tr([html.Th(text, scope="col") for text in heads]))
    return html.Table([head, html.Tbody(rows)], className="table unfolding")


def _make_cell(head: str, content: Any) -> Component:
    """Return a cell with its heading as attribute, which narrow pages show instead of the head."""
    attributes: dict[str, Any] = {"data-head": head}
    return html.Td(content, **attributes)


def _only_in(row: dict[str, Any]) -> str:
    if row["callsite"] < 0:
        return " only in B"
    return " only in A" if row["other_callsite"] < 0 else ""


def _change_cell(row: dict[str, Any], column: str) -> Any:
    values = [float(row[column]), float(row[f"other_{column}"])]
    change_text = " → ".join(format_time(value) for value in values)
    value = float(row[f"{column}_change"])
    if np.isnan(value):
        return change_text
    text = f"{change_text} ({format_change(value)})"
    return html.B(text) if row["significant"] and row[f"{column}_p"] < 0.05 else text


def _algorithms_cell(row: dict[str, Any]) -> str:
    first, second = (shorten_text(row[c] or UNKNOWN) for c in ("algorithm", "other_algorithm"))
    return first if first == second else f"{first} → {second}"


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callback that writes the shown instances into the URL."""

    @components.state_callback(
        app,
        Output("aligned-picture", "children"),
        Output("url", "search", allow_duplicate=True),
        *[Input(f"aligned-{step}", "n_clicks") for step in compare_sections.STEPS],
        prevent_initial_call=True,
    )
    def step_instances(*values: Any) -> tuple[Any, str]:
        """Show earlier or later instances in both timelines."""
        *clicks, state = values
        step = str(dash.ctx.triggered_id).removeprefix("aligned-")
        if not any(clicks):
            raise PreventUpdate
        first, to = (
            [context.latest_data(name) for name in side] for side in side_names(context, state)
        )
        table = trace_figures.compare_callsites(first, to, state)
        alignments = compare_sections.list_alignments(table, first[0], to[0])
        alignment = compare_sections.choose_alignment(alignments, state)
        if alignment is None:
            raise PreventUpdate
        moved = alignment.move(first[0], state, step)
        picture = compare_sections.make_picture(alignment, first[0], to[0], moved)
        return picture, moved.format_query()
