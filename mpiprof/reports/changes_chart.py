"""The chart of a comparison: times of each call site before and after, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from mpiprof.causes.compare_verdict import TIME, WAITING, SiteChange, measure_site_changes
from mpiprof.interface.format_units import UNKNOWN, format_time
from mpiprof.interface.svg import DataPicture
from mpiprof.interface.tokens import name_operation_colour
from mpiprof.reports.pictures.dumbbells import Dumbbell, draw_dumbbells, list_values
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
