"""Bar of the run's time, mean of the ranks: computing, messages, collectives and waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.interface import svg
from mpiprof.interface.format_units import format_share, format_time
from mpiprof.interface.svg import TableRow

BAR_TOP, BAR_PX, GAP_PX = 20.0, 26.0, 2.0
LABEL_GAP = 14.0

Label = tuple[float, str, str]  # its place, and two texts


@dataclass(frozen=True)
class TimePart:
    """A part of the time: its name, time in ns, colour, and whether ranks wait in it."""

    name: str
    time_ns: float
    colour: str
    waiting: bool = False


@dataclass(frozen=True)
class BlamedTime:
    """Waiting with a known culprit: text such as "for rank 21 at solver.c:120", and its time."""

    text: str
    time_ns: float


def draw_split(
    parts: Sequence[TimePart], blamed: BlamedTime | None = None, width: float = 1232
) -> str:
    """Return the bar with a label below each part; parts that ranks wait in come last."""
    shown = [part for part in parts if part.time_ns > 0]
    shown.sort(key=lambda part: part.waiting)
    whole = sum(part.time_ns for part in shown) or 1.0
    room = width - GAP_PX * max(len(shown) - 1, 0)
    elements, labels, times, x = [], [], [], 0.0
    waits_from: float | None = None
    for part in shown:
        wide = room * part.time_ns / whole
        if part.waiting and waits_from is None:
            waits_from = x
        ink = svg.fill(part.colour)
        if part.waiting:
            ink = svg.hatch("late" if blamed else "hatch")
        share = format_share(part.time_ns / whole)
        note = f"{part.name}: {format_time(part.time_ns)}, {share}"
        elements.append(svg.make_rectangle(x, BAR_TOP, max(wide, 1.0), BAR_PX, ink, note))
        labels.append((x, part.name, f"{format_time(part.time_ns)}  {share}"))
        times.append(part.time_ns)
        x += wide + GAP_PX
    if waits_from is not None:
        waiting_ns = sum(part.time_ns for part in shown if part.waiting)
        elements += _draw_waiting(waits_from, width, waiting_ns, whole, blamed, room)
    elements += _place_labels(_choose_labels(labels, times, width), width)
    sentence = "; ".join(f"{name} {text}" for _, name, text in labels)
    return svg.make_picture(width, BAR_TOP + BAR_PX + 32, f"Time of the run: {sentence}", elements)


def list_values(parts: Sequence[TimePart], blamed: BlamedTime | None = None) -> list[TableRow]:
    """Return the data of the picture: the name and the time of each part."""
    rows: list[TableRow] = [("part", "time_ns"), *((part.name, part.time_ns) for part in parts)]
    return [*rows, (blamed.text, blamed.time_ns)] if blamed else rows


def _draw_waiting(
    begin: float,
    end: float,
    waiting_ns: float,
    whole: float,
    blamed: BlamedTime | None,
    room: float,
) -> list[str]:
    colour = "late" if blamed else "ink3"
    text = f"waiting: {format_time(waiting_ns)}, {format_share(waiting_ns / whole)}"
    half = svg.measure_text(text, 12) / 2 + 8
    middle = min(max((begin + end) / 2, half), end - half)
    elements = [
        svg.make_text(
            middle, 12, text, "late-text" if blamed else "ink2", anchor="middle", size=12, bold=True
        )
    ]
    if end - begin < 2 * half:  # the label is wider than the waiting, so the line is below it
        course = f"M{begin:.1f} 18v-2H{end:.1f}v2"
        elements.append(svg.make_path(course, svg.stroke(colour)))
    else:
        for start, stop in ((begin, middle - half), (end, middle + half)):
            if abs(stop - start) > 8:
                course = f"M{start:.1f} 18v-6H{stop:.1f}"
                elements.append(svg.make_path(course, svg.stroke(colour)))
    if blamed is not None:
        wide = room * min(blamed.time_ns, waiting_ns) / whole
        left = end - wide
        elements.append(svg.make_rectangle(left, BAR_TOP, wide, BAR_PX, svg.fill("late")))
        label = f"{blamed.text}   {format_time(blamed.time_ns)}"
        if svg.measure_text(label, 12) + 16 < wide:
            elements.append(
                svg.make_text(left + 8, BAR_TOP + 17, label, "surface", size=12, bold=True)
            )
    return elements


def _choose_labels(
    labels: Sequence[Label], times: Sequence[float], width: float
) -> Sequence[Label]:
    """Return the labels of the longest parts that have room beside each other."""
    chosen = sorted(range(len(labels)), key=lambda i: -times[i])
    while sum(map(_measure_label, (labels[i] for i in chosen))) > width + LABEL_GAP:
        chosen.pop()
    return [labels[i] for i in sorted(chosen)]


def _measure_label(label: Label) -> float:
    """Return the width of a label with the gap behind it."""
    return max(map(svg.measure_text, label[1:])) + LABEL_GAP


def _place_labels(labels: Sequence[Label], width: float) -> list[str]:
    """Return the labels below their parts, moved so that none covers another."""
    wide = [_measure_label(label) - LABEL_GAP for label in labels]
    starts: list[float] = []
    for i, (x, _, _) in enumerate(labels):
        starts.append(max(x, starts[-1] + wide[i - 1] + LABEL_GAP if starts else 0.0))
    limit = width
    for i in reversed(range(len(labels))):
        starts[i] = max(min(starts[i], limit - wide[i]), 0.0)
        limit = starts[i] - LABEL_GAP
    y = BAR_TOP + BAR_PX + 14
    return [
        svg.make_text(x, y + row * 14, text, colour)
        for x, (_, name, value) in zip(starts, labels, strict=True)
        for row, (text, colour) in enumerate(((name, "ink2"), (value, "ink3")))
    ]
