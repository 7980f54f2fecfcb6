"""Rows of ranks over the last time before a job stopped: calls that ended, and calls still open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpiprof.interface import svg
from mpiprof.interface.format_units import unit_of
from mpiprof.interface.svg import TableRow, choose_ticks

WIDTH, LEFT, RIGHT = 1200.0, 92.0, 1190.0
OPEN_X = 860.0  # open calls are drawn from here to the right edge: this part has no scale
ROW_HEIGHT, ROW_PITCH, TOP = 17.0, 24.0, 22.0


@dataclass(frozen=True)
class Span:
    """A call of a rank: enter and exit in ns, exit None while it is open; colour of the tokens."""

    enter_ns: float
    exit_ns: float | None
    colour: str
    label: str


@dataclass(frozen=True)
class RankRow:
    """A rank and its last calls, oldest first. is_late: other ranks wait for it."""

    name: str
    spans: Sequence[Span]
    is_late: bool = False
    note: str = ""  # what the rank does after its last call, if no call is open


def list_values(rows: Sequence[RankRow]) -> list[TableRow]:
    """Return the data of the picture: the times of each call; a call without exit is still open."""
    calls = [
        (row.name, span.label, span.enter_ns, "" if span.exit_ns is None else span.exit_ns)
        for row in rows
        for span in row.spans
    ]
    return [("rank", "call", "enter_ns", "exit_ns"), *calls]


def draw_last_moments(rows: Sequence[RankRow], begin_ns: float, end_ns: float, label: str) -> str:
    """Return the picture of the calls between two times, followed by the calls still open."""
    span = max(end_ns - begin_ns, 1.0)

    def place(at_ns: float) -> float:
        return LEFT + (OPEN_X - LEFT) * min(max((at_ns - begin_ns) / span, 0.0), 1.0)

    unit, scale = unit_of(span)
    bottom = TOP + len(rows) * ROW_PITCH
    parts = []
    for tick in choose_ticks(-span / scale, 0.0, 5):
        x = place(end_ns + tick * scale)
        parts.append(svg.make_line(x, TOP - 6, x, bottom, svg.stroke("line")))
        text = f"{tick:g} {unit}" if tick else "last change"
        anchor = "middle" if x > LEFT + 20 else "start"
        parts.append(svg.make_text(x, 12, text, anchor=anchor))
    parts.append(svg.make_text(RIGHT, 12, "since then", anchor="end"))
    for i, row in enumerate(rows):
        parts += _draw_row(row, TOP + i * ROW_PITCH, place)
    middle = (OPEN_X + RIGHT) / 2 - 100
    for dx in (0.0, 6.0):
        course = f"M{middle + dx:.1f} {TOP - 4:.1f}l-5 {(bottom - TOP) / 2:.1f} 10 4 "
        parts.append(svg.make_path(f"{course}-5 {(bottom - TOP) / 2:.1f}", svg.stroke("ink3")))
    return svg.make_picture(WIDTH, bottom + 6, label, parts)


def _draw_row(row: RankRow, y: float, place: Callable[[float], float]) -> list[str]:
    name = svg.make_text(
        LEFT - 12, y + 13, row.name, "late-text" if row.is_late else "ink2",
        anchor="end", size=12, bold=row.is_late,
    )  # fmt: skip
    parts = [name, svg.make_rectangle(LEFT, y, RIGHT - LEFT, ROW_HEIGHT, svg.fill("q1", 0.55))]
    last = LEFT
    for span in row.spans:
        x = place(span.enter_ns)
        is_open = span.exit_ns is None
        to_x = RIGHT if span.exit_ns is None else place(span.exit_ns)
        if to_x <= LEFT:
            continue
        ground = svg.fill(span.colour)
        if is_open:
            ground = svg.fill("late") if row.is_late else svg.hatch(span.colour, ROW_HEIGHT)
        width = max(to_x - x, 1.5)
        parts.append(svg.make_rectangle(x, y, width, ROW_HEIGHT, ground, note=span.label))
        last = max(last, to_x)
        if is_open:
            parts.append(_write_label(span.label, x, to_x, y, row.is_late))
    if row.note and last < RIGHT:
        parts.append(_write_label(row.note, last, RIGHT, y, False))
    return parts


def _write_label(text: str, x: float, to_x: float, y: float, on_accent: bool) -> str:
    """Return the text of an open call, at its begin or, if it is narrow there, at the break."""
    x = min(x + 8, OPEN_X + 8)
    shown = text[: max(int((to_x - x) / 6.8), 8)]
    words = svg.make_text(x + 4, y + 13, shown, "surface" if on_accent else "ink", size=12)
    if on_accent:
        return words
    width = svg.measure_text(shown, 12) + 8
    return svg.make_rectangle(x, y + 1, width, ROW_HEIGHT - 2, svg.fill("surface")) + words
