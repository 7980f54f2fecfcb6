"""Sections of the comparison: verdict and runs, call sites before and after, both timelines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.diagnosis.run_time_change import measure_run_times
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports import changes_chart
from mpiprof.reports.pictures import run_dots
from mpiprof.reports.pictures.svg import DataPicture

from . import aligned_runs, components
from .trace_data import TraceData
from .url_state import PageState

INSTANCES = aligned_runs.INSTANCES
STEPS = {"earlier": "‹ Earlier", "later": "Later ›", "start": "From the start"}


# ---- verdict


def make_head(
    lines: Sequence[str], first: Sequence[TraceData], to: Sequence[TraceData]
) -> Component:
    """Return the verdict, beside the run times as dots, and the command with the same words."""
    change = measure_run_times([run.trace for run in first], [run.trace for run in to])
    certain = change is not None and change.is_certain
    sign = 0.0 if change is None or not certain else change.change_ns
    colour = {-1: "good", 1: "late"}.get(int(math.copysign(1, sign)) if sign else 0, "ink2")
    classes = {"good": "better", "late": "worse"}.get(colour, "")
    head, colon, rest = lines[0].partition(":")
    title: list[Any] = [html.B(head, className=classes), colon, rest] if colon else [lines[0]]
    sentences = [
        html.P(title, className="headline"),
        *[html.P(components.mark_code(line)) for line in lines[1:]],
    ]
    groups = [
        (_side_name("A", first), [float(run.trace.run_ns) for run in first], "ink2"),
        (_side_name("B", to), [float(run.trace.run_ns) for run in to],
         "late-text" if colour == "late" else colour),
    ]  # fmt: skip
    words = [run.path for run in first]
    further = ["--to", *(run.path for run in to)] if len(first) + len(to) > 2 else [to[0].path]
    command = components.show_command(format_command("compare", *words, *further))
    verdict = html.Div(sentences, className="verdict")
    facts = html.P(_common_facts(first, to), className="note")
    drawn = DataPicture(run_dots.draw_run_dots(groups), run_dots.list_values(groups))
    dots = html.Div([components.show_picture(drawn)], className="run-dots")
    return html.Section([html.Div([verdict, command, facts]), dots], className="compare-head")


def _side_name(side: str, runs: Sequence[TraceData]) -> str:
    return f"{side}, {len(runs)} runs" if len(runs) > 1 else side


def _common_facts(first: Sequence[TraceData], to: Sequence[TraceData]) -> str:
    """Return the program and the ranks of the runs, and where the sides differ in them."""
    equal, different = [], []
    for values in (
        [[run.trace.program for run in side] for side in (first, to)],
        [[f"{format_count(run.trace.ranks)} ranks" for run in side] for side in (first, to)],
    ):
        before, after = (", ".join(dict.fromkeys(side)) for side in values)
        if before == after:
            equal.append(before)
        else:
            different.append(f"{before} in A, {after} in B")
    texts = [f"Both sides: {', '.join(equal)}", *different] if equal else different
    named = "; ".join(texts)
    runs = ", ".join(
        f"{side}{i if len(of) > 1 else ''} is {run.name[:60]}"
        for side, of in (("A", first), ("B", to))
        for i, run in enumerate(of, 1)
    )
    return f"{named[:300]}. {runs[:600]}."


# ---- call sites


def make_chart(
    table: pd.DataFrame, first: Sequence[TraceData], to: Sequence[TraceData], state: PageState
) -> Component:
    """Return the chart of the call sites, with the choice between waiting and time in the call."""
    before, after = ([run.trace for run in side] for side in (first, to))
    chart = changes_chart.draw_changes(table, before, after, state.get("measure", "waiting"))
    links = [
        html.B(name)
        if key == chart.measure
        else dcc.Link(name, href="/compare" + state.set_keys(measure=key).format_query())
        for key, (_, name) in changes_chart.MEASURES.items()
    ]
    several = len(first) + len(to) > 2
    whiskers = "; whiskers: 95 % of chance between runs" if several else ""
    head = [
        html.H2(chart.title),
        html.P(
            [f"time of a run, mean of all ranks{whiskers} · ", links[0], " · ", links[1]],
            className="note",
        ),
    ]
    if chart.picture is None:
        empty = html.P("No call site has known times on both sides.", className="note")
        return html.Section([*head, empty])
    rest = f"{chart.omitted} more call site{'s' * (chart.omitted != 1)} below"
    more = [html.P(rest, className="note")] if chart.omitted else []
    picture = components.wide_picture(chart.picture)
    how = components.how_to_read(chart.picture.how_to_read)
    return html.Section([*head, picture, *more, how], id="sites-chart")


# ---- timelines


@dataclass(frozen=True)
class Alignment:
    """The call site at whose instances two timelines are aligned: its numbers, place and count."""

    callsites: tuple[int, int]
    where: str
    count: int

    def read_number(self, state: PageState) -> int:
        """Return the instance of the URL, by default one in the middle of the run."""
        return self._clip(state.get_number("instance", self.count // 2))

    def move(self, state: PageState, step: str) -> PageState:
        """Return the state after a click on a button of STEPS."""
        number = self.read_number(state) + {"earlier": -1, "later": 1}.get(step, 0) * INSTANCES
        return state.set_keys(instance=self._clip(0 if step == "start" else number))

    def _clip(self, number: int) -> int:
        return min(max(number, 0), max(self.count - 2, 0))


def find_alignment(table: pd.DataFrame, first: TraceData, other: TraceData) -> Alignment | None:
    """Return the first call site of a comparison that has two complete instances in both runs."""
    for row in table.to_dict("records"):
        pair = int(row["callsite"]), int(row["other_callsite"])
        if min(pair) < 0:
            continue
        runs = zip((first, other), pair, strict=True)
        count = min(aligned_runs.count_instances(data, callsite) for data, callsite in runs)
        if count >= 2:
            return Alignment(pair, f"{row['operation']} at {row['place']}", count)
    return None


def make_timelines(
    table: pd.DataFrame, first: TraceData, other: TraceData, state: PageState
) -> Component:
    """Return the timelines of the first run of each side, from the same instance on."""
    head = html.H2("Both runs on one time axis")
    why = ""
    alignment = None
    if not all(aligned_runs.is_small(data) for data in (first, other)):
        why = "This picture needs runs with single calls, and at most 20 million of them."
    else:
        alignment = find_alignment(table, first, other)
        why = "No call site has two complete instances in both runs."
    if alignment is None:
        links = [_timeline_link("A", first, {}), _timeline_link("B", other, {})]
        parts = [
            head,
            html.P(why, className="note"),
            html.P(["Timelines: ", links[0], " · ", links[1]]),
        ]
        return html.Section(parts, id="aligned")
    how = (
        "Each row is a rank. Hatched: it waits in a call; filled: the rest of the call; pale: "
        "outside of calls. Accent: a rank that arrives late, from the median arrival on."
    )
    buttons = [
        html.Button(name, id=f"aligned-{step}", n_clicks=0, type="button")
        for step, name in STEPS.items()
    ]
    picture = html.Div(make_picture(alignment, first, other, state), id="aligned-picture")
    parts = [head, html.Div(buttons, className="steps"), picture]
    return html.Section([*parts, components.how_to_read(how)], id="aligned")


def make_picture(
    alignment: Alignment, first: TraceData, other: TraceData, state: PageState
) -> list[Component]:
    """Return the picture from the instance of the URL on, with a sentence about its window."""
    number = alignment.read_number(state)
    drawn, length = aligned_runs.draw_runs((first, other), alignment.callsites, number, ("A", "B"))
    note = (
        f"{format_time(length)} from the end of instance {number} of {alignment.where}. "
        "The numbers are the instances that end there."
    )
    links: list[Component] = []
    for side, data, callsite in zip("AB", (first, other), alignment.callsites, strict=True):
        begin = aligned_runs.find_end(data, callsite, number) - int(data.trace.calls_start_ns)
        window = {"from": max(begin, 0), "to": begin + int(length)}
        links.append(_timeline_link(side, data, window))
    return [
        html.P(note, className="note"),
        components.wide_picture(drawn),
        html.P(["This window in the timeline: ", links[0], " · ", links[1]]),
    ]


def _timeline_link(side: str, data: TraceData, window: dict[str, int]) -> Component:
    href = PageState(trace=data.name).link_to("/timeline", **window)
    return dcc.Link(f"{side}, {data.name[:60]}", href=href)
