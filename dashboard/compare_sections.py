"""Sections of the comparison: verdict and runs, call sites before and after, both timelines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.causes.time_changes import measure_run_times
from mpiprof.interface import svg
from mpiprof.interface.format_units import format_count, format_time, shorten_text, unit_of
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.svg import DataPicture, TableRow, choose_ticks
from mpiprof.reports import changes_chart
from mpiprof.reports.words import captions

from . import aligned_runs, components
from .aligned_runs import AlignedWindow
from .trace_data import TraceData
from .url_state import PageState

INSTANCES = aligned_runs.INSTANCES
MAX_NAME, MAX_DOT_NAME = 40, 20  # characters of a run's name above a timeline, beside a dot
MAX_ALIGNMENTS = 50  # call sites in the menu
STEPS = {"earlier": "‹ Earlier", "later": "Later ›", "start": "From the start"}
DOTS_WIDTH, DOTS_HEIGHT = 430.0, 76.0
DOTS_LEFT, DOTS_RIGHT = 20.0, 400.0
# Name of a group, run times in ns, and the colour of the dots.
RunGroup = tuple[str, Sequence[float], str]


def list_run_times(groups: Sequence[RunGroup]) -> list[TableRow]:
    """Return the data of the picture: the time of each run."""
    rows = [(name, value) for name, values, _ in groups for value in values]
    return [("runs", "run_time_ns"), *rows]


def draw_run_dots(groups: Sequence[RunGroup]) -> str:
    """Return the picture of the run times of some groups."""
    every = [value for _, values, _ in groups for value in values]
    low, high = min(every), max(every)
    margin = max(0.15 * (high - low), 0.02 * high, 1.0)
    low, high = max(low - margin, 0.0), high + margin

    def place(value: float) -> float:
        return DOTS_LEFT + (DOTS_RIGHT - DOTS_LEFT) * (value - low) / (high - low)

    unit, scale = unit_of(high)
    parts = []
    ticks = choose_ticks(low / scale, high / scale, 5)
    for i, tick in enumerate(ticks):
        x = place(tick * scale)
        text = f"{tick:g}{f' {unit}' * (i == len(ticks) - 1)}"
        parts.append(svg.make_line(x, 4, x, 56, svg.stroke("line")))
        parts.append(svg.make_text(x, 70, text, anchor="middle"))
    for i, (name, values, colour) in enumerate(groups):
        y = 18 + 24 * i
        parts += [
            f'<circle cx="{place(value):.1f}" cy="{y}" r="4" {svg.fill(colour, 0.75)}/>'
            for value in values
        ]
        is_left = place(max(values)) < (DOTS_LEFT + DOTS_RIGHT) / 2
        x = place(max(values)) + 10 if is_left else place(min(values)) - 10
        anchor = "start" if is_left else "end"
        parts.append(svg.make_text(x, y + 4, name, colour, anchor=anchor, size=12))
    return svg.make_picture(DOTS_WIDTH, DOTS_HEIGHT, "Run time of each run", parts, scales=False)


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
    head, colon, sentence = lines[0].partition(":")
    title: list[Any] = [html.B(head, className=classes), colon, sentence] if colon else [lines[0]]
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
    drawn = DataPicture(draw_run_dots(groups), list_run_times(groups))
    how = components.how_to_read(captions.RUN_TIMES)
    dots = html.Div([components.show_picture(drawn), how], className="run-dots")
    return html.Section([html.Div([verdict, command, facts]), dots], className="compare-head")


def _side_name(side: str, runs: Sequence[TraceData]) -> str:
    name = f"{side} {_shorten_name(runs[0].name, MAX_DOT_NAME)}"
    return f"{name}, {len(runs)} runs" if len(runs) > 1 else name


def _shorten_name(name: str, length: int) -> str:
    """Return a name of at most `length` characters: its middle is left out, as dates are last."""
    if len(name) <= length:
        return name
    end = length // 2
    return f"{name[: length - end - 1]}…{name[-end:]}"


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
    facts_text = "; ".join(texts)
    runs = ", ".join(
        f"{side}{i if len(side_run) > 1 else ''} is {run.name[:60]}"
        for side, side_run in (("A", first), ("B", to))
        for i, run in enumerate(side_run, 1)
    )
    return f"{facts_text[:300]}. {runs[:600]}."


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
    omitted = f"{chart.omitted} more call site{'s' * (chart.omitted != 1)} below"
    notes = [html.P(omitted, className="note")] if chart.omitted else []
    picture = components.wide_picture(chart.picture)
    how = components.how_to_read(chart.picture.how_to_read)
    return html.Section([*head, picture, *notes, how], id="sites-chart")


# ---- timelines


@dataclass(frozen=True)
class Alignment:
    """The call site at whose instances two timelines are aligned: its numbers, place and count."""

    callsites: tuple[int, int]
    where: str
    count: int

    def read_window(self, data: TraceData, state: PageState) -> AlignedWindow:
        """Return the window of the URL, by default after an instance in the middle of the run."""
        window = aligned_runs.find_window(data, self.callsites[0], state)
        if window is not None and window.number < self.count:
            return window
        return AlignedWindow(self._clip(state.get_number("instance", self.count // 2)))

    def move(self, data: TraceData, state: PageState, step: str) -> PageState:
        """Return the state after a click on a button of STEPS."""
        number = self.read_window(data, state).number
        number += {"earlier": -1, "later": 1}.get(step, 0) * INSTANCES
        clipped = self._clip(0 if step == "start" else number)
        return state.set_keys(instance=clipped, **{"from": None, "to": None})

    def _clip(self, number: int) -> int:
        return min(max(number, 0), max(self.count - 2, 0))


def list_alignments(table: pd.DataFrame, first: TraceData, second: TraceData) -> list[Alignment]:
    """Return the call sites of a comparison that have two complete instances in both runs."""
    counts = aligned_runs.count_instances(first), aligned_runs.count_instances(second)
    alignments = []
    for row in table.to_dict("records"):
        pair = int(row["callsite"]), int(row["other_callsite"])
        count = min(
            counts_of_run.get(callsite, 0)
            for counts_of_run, callsite in zip(counts, pair, strict=True)
        )
        if min(pair) >= 0 and count >= 2:
            alignments.append(Alignment(pair, f"{row['operation']} at {row['place']}", count))
    return alignments


def choose_alignment(alignments: Sequence[Alignment], state: PageState) -> Alignment | None:
    """Return the alignment at the call site of the URL, else the first, or None."""
    callsite = state.get_number("callsite", -1)
    of_site = [alignment for alignment in alignments if alignment.callsites[0] == callsite]
    return next(iter([*of_site, *alignments]), None)


def make_timelines(
    table: pd.DataFrame, first: TraceData, second: TraceData, state: PageState
) -> Component:
    """Return the timelines of the first run of each side, from the same instance on."""
    head = html.H2("Both runs on one time axis")
    why = ""
    alignments: list[Alignment] = []
    if not all(aligned_runs.is_small(data) for data in (first, second)):
        why = "This picture needs runs with single calls, and at most 20 million of them."
    else:
        alignments = list_alignments(table, first, second)
        why = "No call site has two complete instances in both runs."
    alignment = choose_alignment(alignments, state)
    if alignment is None:
        links = [_timeline_link("A", first, state, {}), _timeline_link("B", second, state, {})]
        parts = [
            head,
            html.P(why, className="note"),
            html.P(["Timelines: ", links[0], " · ", links[1]]),
        ]
        return html.Section(parts, id="aligned")
    how = (
        "Each row is a rank. Hatched: it waits in a call; filled: the rest of the call; pale: "
        "outside of calls. Accent: a rank that arrives late, from the median of the others on."
    )
    buttons = [
        html.Button(name, id=f"aligned-{step}", n_clicks=0, type="button")
        for step, name in STEPS.items()
    ]
    menu = html.Div(
        [html.Span("aligned at"), _alignment_menu(alignments, alignment, state)], className="field"
    )
    picture = html.Div(make_picture(alignment, first, second, state), id="aligned-picture")
    parts = [head, html.Div([menu, *buttons], className="steps"), picture]
    return html.Section([*parts, components.how_to_read(how)], id="aligned")


def _alignment_menu(
    alignments: Sequence[Alignment], current: Alignment, state: PageState
) -> Component:
    """Return the menu of the call sites at which the timelines can be aligned."""
    links: list[components.MenuLink] = [
        (
            shorten_text(alignment.where),
            "/compare"
            + state.set_keys(callsite=alignment.callsites[0], instance=None).format_query(),
            alignment is current,
        )
        for alignment in alignments[:MAX_ALIGNMENTS]
    ]
    return components.link_menu("Aligned at", shorten_text(current.where), links, "aligned-at")


def make_picture(
    alignment: Alignment, first: TraceData, second: TraceData, state: PageState
) -> list[Component]:
    """Return the picture from the instance of the URL on, with a sentence about its window."""
    window = alignment.read_window(first, state)
    sides = zip("AB", (first, second), strict=True)
    names = [f"{side} {_shorten_name(run.name, MAX_NAME)}" for side, run in sides]
    drawn, length = aligned_runs.draw_runs(
        (first, second), alignment.callsites, window, names, state
    )
    origin = f"the end of instance {window.number} of {alignment.where}"
    place = ", aligned at" if window.before_ns else " from"
    note = f"{format_time(length)}{place} {origin}. The numbers are the instances that end there."
    links: list[Component] = []
    for side, data, callsite in zip("AB", (first, second), alignment.callsites, strict=True):
        end = aligned_runs.find_end(data, callsite, window.number)
        begin = end - int(data.trace.calls_start_ns) - window.before_ns
        span = {"from": max(begin, 0), "to": begin + int(length)}
        links.append(_timeline_link(side, data, state, span))
    return [
        html.P(note, className="note"),
        components.wide_picture(drawn),
        html.P(["Back to one run in this window: ", links[0], " · ", links[1]]),
    ]


def _timeline_link(
    side: str, data: TraceData, state: PageState, window: dict[str, int]
) -> Component:
    href = PageState(trace=data.name, ranks=state.ranks).link_to("/timeline", **window)
    return dcc.Link(f"{side}, {data.name[:60]}", href=href)
