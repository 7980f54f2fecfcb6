"""Calls of two runs in a window that begins at the same instance of a call site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.variance_components import lateness_after_others
from mpiprof.interface import svg
from mpiprof.interface.format_units import format_time, unit_of
from mpiprof.interface.svg import DataPicture, TableRow, choose_ticks
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.trace.types import Array, Int

from . import trace_figures
from .timeline.window import Timeline
from .trace_data import TraceData
from .url_state import PageState

INSTANCES = 5  # shown after the instance of the alignment
MAX_INSTANCES = 100  # in a window of the timeline; a longer window is cut
MAX_ROWS, MAX_BARS = 32, 6000
MAX_CALLS = 20_000_000  # of a trace whose timeline may be prepared while the page waits
LATE_SHARE = 0.5  # minimum lateness after the median of the others, as a share of the spread
WIDTH, LEFT, RIGHT = 1200.0, 84.0, 1192.0
HEAD, AXIS, BETWEEN = 22.0, 20.0, 26.0
HEIGHT = 156.0  # of the rows of a run
MIN_WIDTH = 0.8  # px of a call, so that short calls remain visible
MAX_LABELS = 8
MIN_MARK_DISTANCE = 6.0  # px between the marks of two instances
MIN_DIFFERENCE = 0.01  # of the time since the alignment; a smaller one is not written


@dataclass(frozen=True)
class Bar:
    """A call of a rank: times in ns after the alignment; waiting at first, until `waited_ns`."""

    row: int
    begin_ns: float
    waited_ns: float
    end_ns: float
    colour: str


@dataclass(frozen=True)
class AlignedRun:
    """A run: names of its rows, calls, ends of instances (number, ns), and late spans.

    late: row, begin and end of the time in which all other ranks waited for the rank.
    """

    name: str
    note: str
    rows: Sequence[str]
    bars: Sequence[Bar]
    marks: Sequence[tuple[int, float]]
    late: Sequence[tuple[int, float, float]]

    @property
    def late_rows(self) -> set[int]:
        """Return the rows of the ranks that are late."""
        return {row for row, _, _ in self.late}


def list_values(runs: Sequence[AlignedRun]) -> list[TableRow]:
    """Return the data of the picture: the times of each call in ns after the alignment."""
    calls = [
        (run.name, run.rows[bar.row], bar.begin_ns, bar.waited_ns, bar.end_ns)
        for run in runs
        for bar in run.bars
    ]
    return [("run", "rank", "enter_ns", "waits_until_ns", "exit_ns"), *calls]


def draw_aligned_runs(runs: Sequence[AlignedRun], length_ns: float, label: str) -> str:
    """Return the picture of two runs, with the difference at the last instance that both show."""
    block = HEAD + HEIGHT
    bottom = 2 * block + BETWEEN

    def place(at_ns: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(max(at_ns / length_ns, 0.0), 1.0)

    parts = []
    for i, run in enumerate(runs):
        parts += _draw_run(run, i * (block + BETWEEN), place)
    parts += _draw_difference(runs, block + 14, place)
    unit, scale = unit_of(length_ns)
    for tick in choose_ticks(0.0, length_ns / scale, 9):
        x = place(tick * scale)
        text = f"{tick:g}{f' {unit}' * (tick == 0)}"
        parts.append(svg.make_line(x, bottom, x, bottom + 4, svg.stroke("line2")))
        anchor = "start" if not tick else "end" if x > RIGHT - 12 else "middle"
        parts.append(svg.make_text(x, bottom + 16, text, anchor=anchor))
    return svg.make_picture(WIDTH, bottom + AXIS, label, parts)


def _draw_run(run: AlignedRun, top: float, place: Callable[[float], float]) -> list[str]:
    """Return the rows of a run below its title and the numbers of its instances."""
    y = top + HEAD
    pitch = HEIGHT / max(len(run.rows), 1)
    height = pitch - (1.0 if pitch > 5 else 0.25)
    parts = [
        svg.make_text(0, top + 14, run.name, "ink", size=13, bold=True),
        svg.make_text(RIGHT, top + 10, run.note, "ink3", anchor="end"),
        svg.make_rectangle(LEFT, y, RIGHT - LEFT, HEIGHT, svg.fill("q1", 0.55)),
    ]
    step = max(-(-len(run.rows) // MAX_LABELS), 1)
    late_rows = run.late_rows
    for i, name in enumerate(run.rows):
        if i in late_rows or (i % step == 0 and not any(abs(i - r) < step for r in late_rows)):
            shade = "late-text" if i in late_rows else "ink3"
            at = y + (i + 0.5) * pitch + 4
            parts.append(
                svg.make_text(LEFT - 8, at, name, shade, anchor="end", bold=i in late_rows)
            )
    for bar in run.bars:
        parts += _draw_bar(bar, y + bar.row * pitch, height, place)
    for row, begin, end in run.late:
        x, to_x = place(begin), place(end)
        # The culprit keeps a visible row at any number of rows.
        tall = max(height, 8.0)
        at = y + (row + 0.5) * pitch - tall / 2
        parts.append(svg.make_rectangle(x, at, max(to_x - x, 1.5), tall, svg.fill("late")))
    free_x = last_x = -MIN_MARK_DISTANCE
    for number, at_ns in run.marks:
        x = place(at_ns)
        if x - last_x < MIN_MARK_DISTANCE:
            continue
        last_x = x
        parts.append(svg.make_line(x, y - 8, x, y + HEIGHT, svg.stroke("ink")))
        if x > free_x and x < RIGHT - 200:
            parts.append(svg.make_text(x + 4, y - 4, f"{number}", "ink", bold=True))
            free_x = x + 40
    return parts


def _draw_bar(bar: Bar, y: float, height: float, place: Callable[[float], float]) -> list[str]:
    x, middle, to_x = place(bar.begin_ns), place(bar.waited_ns), place(bar.end_ns)
    parts = []
    if middle - x >= MIN_WIDTH:
        parts.append(svg.make_rectangle(x, y, middle - x, height, svg.hatch(bar.colour, height)))
    else:
        middle = x
    if to_x > middle or middle == x:
        width = max(to_x - middle, MIN_WIDTH)
        parts.append(svg.make_rectangle(middle, y, width, height, svg.fill(bar.colour)))
    return parts


def _draw_difference(
    runs: Sequence[AlignedRun], y: float, place: Callable[[float], float]
) -> list[str]:
    """Return a dimension line between the ends of the last instance that both runs show."""
    first, other = (dict(run.marks) for run in runs)
    common = sorted(set(first) & set(other))
    if len(common) < 2:
        return []
    number = common[-1]
    difference = other[number] - first[number]
    if abs(difference) < MIN_DIFFERENCE * max(first[number], other[number]):
        return []
    word, colour = ("earlier", "good") if difference < 0 else ("later", "late")
    text = f"{number} ends {format_time(abs(difference))} {word} in B"
    left, right = sorted((place(first[number]), place(other[number])))
    if right - left >= svg.measure_text(text, 13) + 28:
        return [svg.make_dimension(left, right, y, text, colour)]
    shade = "late-text" if colour == "late" else colour
    anchor, x = ("end", left - 8) if left > WIDTH / 2 else ("start", right + 8)
    return [
        svg.make_line(left, y, right, y, svg.stroke(colour, 1.5)),
        svg.make_text(x, y + 4, text, shade, anchor=anchor, size=13, bold=True),
    ]


@dataclass(frozen=True)
class AlignedWindow:
    """Window of two runs: an instance, and the ns from the window's begin to the instance's end.

    length_ns: None for INSTANCES instances after the begin.
    """

    number: int
    before_ns: int = 0
    length_ns: int | None = None


def count_instances(data: TraceData) -> dict[int, int]:
    """Return the number of complete instances of each call site."""

    def count() -> dict[int, int]:
        table = data.instances
        counts = table.loc[table["last_exit_ns"].notna(), "callsite"].value_counts()
        return dict(zip(counts.index.tolist(), counts.tolist(), strict=True))

    return data.compute_once("complete instances", count)


def is_small(data: TraceData) -> bool:
    """Return whether the timeline of a trace may be prepared while the page waits."""
    table = data.callsites
    calls = (table["instances"] * table["size"]).sum() if len(table) else 0
    return data.trace.record != "summary" and float(calls) <= MAX_CALLS


def find_window(data: TraceData, callsite: int, state: PageState) -> AlignedWindow | None:
    """Return the timeline's window in a URL, aligned at the chosen or at the first instance.

    Returns None if the URL has no window, or a window without the end of the instance.
    """
    begin, end = state.get_number("from", -1), state.get_number("to", -1)
    if not 0 <= begin < end:
        return None
    table = _ended_instances(data, callsite)
    after = table["last_exit_ns"].to_numpy(np.int64) - int(data.trace.calls_start_ns) - begin
    inside = np.flatnonzero((after >= 0) & (after <= end - begin))
    if "instance" in state.page_keys:
        inside = inside[table["number"].to_numpy()[inside] == state.get_number("instance", -1)]
    if not len(inside):
        return None
    first, length = int(inside[0]), end - begin
    if first + MAX_INSTANCES < len(after):
        length = min(length, int(after[first + MAX_INSTANCES]))
    return AlignedWindow(int(table["number"].iloc[first]), int(after[first]), length)


def draw_runs(
    runs: Sequence[TraceData],
    callsites: Sequence[int],
    window: AlignedWindow,
    names: Sequence[str],
    state: PageState,
) -> tuple[DataPicture, float]:
    """Return the picture of two runs in a window, and its length in ns."""
    number = window.number
    length = float(window.length_ns or 0)
    if window.length_ns is None:
        ends = [_ended_instances(*near) for near in zip(runs, callsites, strict=True)]
        lengths = []
        for table in ends:
            near = table[(table["number"] >= number) & (table["number"] <= number + INSTANCES)]
            exits = near["last_exit_ns"].to_numpy(np.int64)
            lengths.append(float(exits[-1] - exits[0]) if len(exits) > 1 else 0.0)
        length = max(*lengths, 1.0) * 1.02
    pictures = [
        _align(data, callsite, window, length, name, state)
        for data, callsite, name in zip(runs, callsites, names, strict=True)
    ]
    label = f"Timelines of {names[0]} and {names[1]}, {format_time(length)}, instance {number}"
    svg = draw_aligned_runs(pictures, length, label)
    return DataPicture(svg, list_values(pictures)), length


def find_end(data: TraceData, callsite: int, number: int) -> int:
    """Return the time at which an instance of a call site ended."""
    table = _ended_instances(data, callsite)
    return int(table.loc[table["number"] == number, "last_exit_ns"].iloc[0])


def _ended_instances(data: TraceData, callsite: int) -> pd.DataFrame:
    """Return the complete instances of a call site with their numbers from 0."""

    def make() -> pd.DataFrame:
        # The timeline numbers instances like the rows of this table.
        table = data.instances[data.instances["callsite"] == callsite].reset_index(names="row")
        table["number"] = np.arange(len(table))
        return table[table["last_exit_ns"].notna()]

    return data.compute_once(("ended instances", callsite), make)


def _align(
    data: TraceData,
    callsite: int,
    window: AlignedWindow,
    length: float,
    name: str,
    state: PageState,
) -> AlignedRun:
    timeline = data.compute_once(
        "timeline", lambda: trace_figures.open_timeline(data, lambda _: None)
    )
    begin = find_end(data, callsite, window.number) - window.before_ns
    instances = _ended_instances(data, callsite)
    exits = instances["last_exit_ns"].to_numpy(np.int64)
    visible = instances[(exits >= begin) & (exits <= begin + length)][: MAX_INSTANCES + 1]
    last = visible["last_rank"].dropna().to_numpy(np.int64)
    passing = data.filtered_ranks(state)
    rows = choose_rows(passing if len(passing) else np.arange(data.trace.ranks), last)
    segments, ranks = _read_segments(timeline, begin, int(length), rows)
    row_of = {int(rank): row for row, rank in enumerate(rows)}
    shapes = data.trace.tables.shapes
    bars = [
        Bar(
            row_of[rank],
            float(segment["enter"] - begin),
            float(segment["enter"] - begin) + float(np.nan_to_num(segment["wait"])),
            float(segment["exit"] - begin),
            name_operation_colour(shapes[int(segment["shape"])].operation),
        )
        for segment, rank in zip(segments, ranks.tolist(), strict=True)
    ]
    numbers, ends = visible["number"].tolist(), visible["last_exit_ns"].tolist()
    marks = [(int(n), float(at - begin)) for n, at in zip(numbers, ends, strict=True)]
    late = _late_spans(timeline, visible[visible["last_exit_ns"] > begin], row_of, begin)
    few = len(rows) < data.trace.ranks
    note = f"{len(rows)} of {data.trace.ranks} ranks" if few else ""
    return AlignedRun(name, note, [f"rank {rank}" for rank in rows], bars, marks, late)


def choose_rows(ranks: Int, last: Int) -> list[int]:
    """Return up to MAX_ROWS of the ranks: evenly spaced, and those that are last most often."""
    if len(ranks) <= MAX_ROWS:
        return [int(rank) for rank in ranks]
    values, counts = np.unique(last[np.isin(last, ranks)], return_counts=True)
    largest = values[np.argsort(-counts, kind="stable")][:3].tolist()
    spaced = ranks[np.linspace(0, len(ranks) - 1, MAX_ROWS - len(largest)).astype(int)].tolist()
    return sorted({*largest, *spaced})


def _read_segments(
    timeline: Timeline, begin: int, length: int, rows: Sequence[int]
) -> tuple[Array, Int]:
    """Return the calls of some ranks in a window, at most MAX_BARS: the longest ones."""
    mask = np.zeros(timeline.trace.ranks, np.bool_)
    mask[list(rows)] = True
    segments, ranks = timeline.events.read_window(begin, begin + length, mask)
    if len(segments) > MAX_BARS:
        longest = np.argsort(segments["enter"] - segments["exit"], kind="stable")[:MAX_BARS]
        longest.sort()
        segments, ranks = segments[longest], ranks[longest]
    return segments, ranks


def _late_spans(
    timeline: Timeline, visible: pd.DataFrame, row_of: dict[int, int], begin: int
) -> list[tuple[int, float, float]]:
    """Return the time of the last rank after the median of the others, if the rank stands out."""
    spans = []
    for index in visible["row"].tolist():
        segments, ranks = timeline.events.read_members(int(index))
        if len(ranks) < 2:
            continue
        last = int(segments["enter"].argmax())
        arrivals = segments["enter"].astype(np.float64) - begin
        latest = float(arrivals[last])
        median = latest - lateness_after_others(arrivals, last)
        row = row_of.get(int(ranks[last]), -1)
        if row >= 0 and latest - median >= LATE_SHARE * (latest - float(arrivals.min())) > 0:
            spans.append((row, median, latest))
    return spans
