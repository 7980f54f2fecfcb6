"""The chart of a comparison: times of each call site before and after, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from mpiprof.causes.compare_verdict import TIME, WAITING, SiteChange, measure_site_changes
from mpiprof.interface import svg
from mpiprof.interface.format_units import UNKNOWN, format_time, unit_of
from mpiprof.interface.svg import DataPicture, TableRow, choose_ticks
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.reports.site_labels import places
from mpiprof.reports.words import captions
from mpiprof.trace import Trace

MAX_SITES, MAX_PLACE = 12, 300
MEASURES = {"waiting": (WAITING, "Waiting"), "time": (TIME, "Time in the call")}
NOTES = {
    "chance": "within chance",
    "untested": "too few to test",
    "before": "only in A",
    "after": "only in B",
}
WIDTH, LEFT, RIGHT = 1200.0, 350.0, 800.0
CHANGE_X, NOTE_X = 830.0, 1000.0
TOP, PITCH = 26.0, 40.0
RADIUS = 5.0


@dataclass(frozen=True)
class Dumbbell:
    """Times of an item before and after in ns, each with half the width of its interval (or NaN).

    change: text of the change. note: what is certain of it. outcome: better, worse or "" (by no
    more than chance, or unknown).
    """

    name: str
    detail: str
    colour: str
    before_ns: float
    before_half_ns: float
    after_ns: float
    after_half_ns: float
    change: str
    note: str
    outcome: str = ""


def list_values(rows: Sequence[Dumbbell]) -> list[TableRow]:
    """Return the data of the picture: times and half intervals before and after, and the change."""
    times = ("before_ns", "before_half_ns", "after_ns", "after_half_ns")
    values = [
        (
            row.name,
            row.detail,
            *(_known(getattr(row, name)) for name in times),
            row.change,
            row.note,
        )
        for row in rows
    ]
    return [("call_site", "operation", *times, "change", "note"), *values]


def _known(value: float) -> float | str:
    return "" if math.isnan(value) else value


def draw_dumbbells(rows: Sequence[Dumbbell], label: str) -> str:
    """Return the chart; the axis begins at 0."""
    ends = [
        value + (0 if math.isnan(half) else half)
        for row in rows
        for value, half in ((row.before_ns, row.before_half_ns), (row.after_ns, row.after_half_ns))
        if not math.isnan(value)
    ]
    largest = max(ends, default=1.0) or 1.0
    bottom = TOP + len(rows) * PITCH

    def place(value_ns: float) -> float:
        return LEFT + (RIGHT - LEFT) * max(value_ns, 0.0) / largest

    unit, scale = unit_of(largest)
    parts = [svg.make_text(0, 14, "call site"), svg.make_text(CHANGE_X, 14, "change, 95 %")]
    for tick in choose_ticks(0.0, largest / scale, 6):
        x = place(tick * scale)
        parts.append(svg.make_line(x, TOP - 4, x, bottom, svg.stroke("line")))
        parts.append(svg.make_text(x, 14, f"{tick:g}{f' {unit}' * (tick == 0)}", anchor="middle"))
    for i, row in enumerate(rows):
        y = TOP + i * PITCH
        parts.append(svg.make_line(0, y + PITCH, WIDTH, y + PITCH, svg.stroke("line")))
        parts += _draw_row(row, y + PITCH / 2, place)
    return svg.make_picture(WIDTH, bottom + 4, label, parts)


def _draw_row(row: Dumbbell, y: float, place: Callable[[float], float]) -> list[str]:
    shade = {"better": "good", "worse": "late"}.get(row.outcome, "ink2")
    text_shade = {"better": "good", "worse": "late-text"}.get(row.outcome, "ink2")
    name = svg.make_text(18, y - 1, row.name[:44], "ink", size=13, bold=True)
    parts = [
        svg.make_rectangle(0, y - 11, 10, 10, svg.fill(row.colour)),
        name,
        svg.make_text(18, y + 14, row.detail[:56], "ink3", size=11),
        svg.make_text(CHANGE_X, y + 4, row.change, text_shade, size=13, bold=bool(row.outcome)),
        svg.make_text(NOTE_X, y + 4, row.note, "ink3", size=12),
    ]
    before, after = place(row.before_ns), place(row.after_ns)
    # Two lines, so that neither value covers the other; a change has an arrow on one line instead.
    apart = bool(row.outcome) and abs(after - before) > 40
    y_before, y_after = (y, y) if apart else (y - 6, y + 6)
    if apart:
        parts += _draw_arrow(before, after, y, shade)
    parts += _draw_value(row.before_ns, row.before_half_ns, y_before, place, "surface", "ink2")
    solid = shade if row.outcome else "ink2"
    parts += _draw_value(row.after_ns, row.after_half_ns, y_after, place, solid, solid)
    if apart:
        left, right = (before, after) if before < after else (after, before)
        texts = {before: (row.before_ns, "ink2", False), after: (row.after_ns, text_shade, True)}
        for x, anchor, dx in ((left, "start", -4.0), (right, "end", 4.0)):
            value, colour, bold = texts[x]
            written = format_time(value)
            parts.append(
                svg.make_text(x + dx, y - 10, written, colour, anchor=anchor, size=11, bold=bold)
            )
    return parts


def _draw_arrow(before: float, after: float, y: float, shade: str) -> list[str]:
    ahead = 1 if after > before else -1
    tip = after - ahead * RADIUS
    return [
        svg.make_line(before, y, tip - ahead * 8, y, svg.stroke(shade, 3)),
        svg.make_path(f"M{tip:.1f} {y:.1f}l{-ahead * 9} -6v12z", svg.fill(shade)),
    ]


def _draw_value(
    value_ns: float,
    half_ns: float,
    y: float,
    place: Callable[[float], float],
    ground: str,
    outline: str,
) -> list[str]:
    """Return a dot with its interval, or nothing for an unknown value."""
    if math.isnan(value_ns):
        return []
    parts = []
    if not math.isnan(half_ns):
        ends = place(value_ns - half_ns), place(value_ns + half_ns)
        parts.append(svg.make_line(ends[0], y, ends[1], y, svg.stroke(outline, 1.5)))
    edge = svg.stroke(outline, 1.5).removeprefix('fill="none" ')
    x = place(value_ns)
    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}" {svg.fill(ground)} {edge}/>')
    return parts


@dataclass(frozen=True)
class ChangesChart:
    """The chart of a measure (of MEASURES), None if no time is known on both sides.

    omitted: number of call sites that it leaves out.
    """

    measure: str
    title: str
    picture: DataPicture | None
    omitted: int = 0


def name_places(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `compare.compare` with the places of each call site as text, `place`."""
    named = [text if isinstance(text, str) else places(text) for text in table["sites"]]
    return table.assign(place=[text[:MAX_PLACE] for text in named])


def draw_changes(
    table: pd.DataFrame, before: Sequence[Trace], after: Sequence[Trace], measure: str = "waiting"
) -> ChangesChart:
    """Return the chart of a table of `name_places`, the largest change first.

    It has the time in the call if the waiting is unknown.
    """
    measure = measure if measure in MEASURES else "waiting"
    changes = measure_site_changes(table, before, after, MEASURES[measure][0])
    if not any(map(_is_known, changes)):
        measure = "time"
        changes = measure_site_changes(table, before, after, TIME)
    title = f"{MEASURES[measure][1]} at each call site"
    shown = [change for change in changes if _is_known(change)][:MAX_SITES]
    if not shown:
        return ChangesChart(measure, title, None)
    rows = [_make_row(change) for change in shown]
    changed = sum(change.outcome == "changed" for change in changes)
    label = f"{MEASURES[measure][1]} before and after at {len(rows)} call sites; {changed} changed"
    drawn = DataPicture(
        draw_dumbbells(rows, label), list_values(rows), title, captions.CHANGES_CHART
    )
    return ChangesChart(measure, title, drawn, len(changes) - len(shown))


def _is_known(change: SiteChange) -> bool:
    values = change.before_ns, change.after_ns
    return not any(math.isnan(value) for value in values) and any(values)


def _make_row(change: SiteChange) -> Dumbbell:
    row = change.row
    outcome = ""
    if change.outcome == "changed":
        outcome = "better" if change.change_ns < 0 else "worse"
    sign = "+" if change.change_ns >= 0 else "-"
    text = f"{sign}{format_time(abs(change.change_ns))}"
    if not math.isnan(change.interval_ns):
        text += f" ± {format_time(change.interval_ns)}"
    note = NOTES.get(change.outcome, "")
    if change.outcome == "changed":
        times = (format_time(float(row[name])) for name in ("mean_elapsed_ns",
                                                            "other_mean_elapsed_ns"))  # fmt: skip
        note = f"a call: {' → '.join(times)}"
    place, _, function = str(row["place"]).partition(" ")
    return Dumbbell(
        place or UNKNOWN,
        f"{row['operation']}{f' in {function}' if function else ''}",
        name_operation_colour(str(row["operation"])),
        change.before_ns,
        change.before_half_ns,
        change.after_ns,
        change.after_half_ns,
        text,
        note,
        outcome,
    )
