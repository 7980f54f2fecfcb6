"""Timelines of two runs on one time axis, aligned at an instance of a call site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpiprof.interface import svg
from mpiprof.interface.format_units import format_time, unit_of
from mpiprof.interface.svg import TableRow, choose_ticks

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
