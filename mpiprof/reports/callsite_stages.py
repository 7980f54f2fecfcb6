"""The stages at which the lateness of a call site's late rank begins, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.causes.arrival_statistics import ArrivalStatistics, LateRank
from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.interface.svg import (
    DataPicture,
    TableRow,
    fill,
    make_box,
    make_line,
    make_path,
    make_picture,
    make_text,
    stroke,
)
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.words import captions
from mpiprof.reports.words.callsite_sentences import STAGES, signed_time
from mpiprof.trace import Trace

TITLE = "Where the lateness begins"
MAX_PLACE = 300  # characters of a call site
BOX, GAP, HEIGHT = 178, 42, 64  # px
TALL_BOX, TALL_GAP = 320, 20
MAX_CHARACTERS = 27
MAIN_SHARE = 0.5  # of the lateness, from which a stage and a flow have the accent
MIN_ARROW, MAX_ARROW = 1.0, 10.0  # width of the flow


@dataclass(frozen=True)
class Stage:
    """One stage: its title, its place in the program, and the lateness that it adds, in ns."""

    title: str
    place: str
    added_ns: float


def list_values(stages: Sequence[Stage], arrival: Stage) -> list[TableRow]:
    """Return the data of the picture: the lateness that each stage adds, and the sum."""
    rows = [(one.title, one.place, one.added_ns) for one in (*stages, arrival)]
    return [("stage", "place", "added_ns"), *rows]


def draw_stages(stages: Sequence[Stage], arrival: Stage, label: str, *, tall: bool = False) -> str:
    """Return the flow of lateness through the stages to the arrival, as SVG.

    The width of each arrow is the lateness after the stage. label: the picture as a sentence.
    tall: the stages are below each other, for narrow pages.
    """
    whole = max(arrival.added_ns, 1.0)
    parts: list[str] = []
    width = TALL_BOX if tall else BOX
    x = y = 1.0
    sum_ns = 0.0
    for stage in stages:
        share = min(max(stage.added_ns / whole, 0.0), 1.0)
        parts += _draw_box(x, y, width, stage, format_share(share), share >= MAIN_SHARE)
        sum_ns += stage.added_ns
        share = min(max(sum_ns / whole, 0.0), 1.0)
        parts.append(_draw_arrow(x, y, share, tall=tall))
        x, y = (x, y + HEIGHT + TALL_GAP) if tall else (x + BOX + GAP, y)
    parts += _draw_box(x, y, width, arrival, "", False)
    return make_picture(x + width + 1, y + HEIGHT + 1, label, parts, scales=False)


def shorten_place(place: str) -> str:
    """Return a place of at most MAX_CHARACTERS: without its operation, or else with its end."""
    if len(place) > MAX_CHARACTERS:
        place = place.partition(" at ")[2] or place
    return place if len(place) <= MAX_CHARACTERS else f"…{place[1 - MAX_CHARACTERS :]}"


def _draw_box(
    x: float, y: float, width: float, stage: Stage, share: str, is_main: bool
) -> list[str]:
    outline = stroke("late") if is_main else stroke("line2")
    ground = fill("late-wash" if is_main else "surface")
    accent = is_main or not share
    right = make_text(x + width - 12, y + 54, share, "ink2", anchor="end") if share else ""
    place = shorten_place(stage.place)
    return [
        make_box(x, y, width, HEIGHT, more=f'{ground} rx="6"', note=stage.place),
        make_box(x, y, width, HEIGHT, more=f'{outline} rx="6" pointer-events="none"'),
        make_text(x + 12, y + 20, stage.title, "ink", size=12, bold=True),
        make_text(x + 12, y + 36, place, "ink2"),
        make_text(
            x + 12,
            y + 54,
            signed_time(stage.added_ns),
            "late-text" if accent else "ink2",
            size=13,
            bold=accent,
        ),
        right,
    ]


def _draw_arrow(x: float, y: float, share: float, *, tall: bool) -> str:
    colour = "late" if share >= MAIN_SHARE else "q3"
    size = MIN_ARROW + share * (MAX_ARROW - MIN_ARROW)
    half = size / 2 + 4
    if tall:
        middle, top = x + 30, y + HEIGHT + 2
        line = make_line(middle, top, middle, top + TALL_GAP - 10, stroke(colour, size))
        head = f"M{middle - half:.1f} {top + TALL_GAP - 11:.1f}h{2 * half:.1f}l{-half:.1f} 7z"
        return line + make_path(head, fill(colour))
    left, middle = x + BOX + 4, y + HEIGHT / 2
    line = make_line(left, middle, left + GAP - 16, middle, stroke(colour, size))
    head = f"M{left + GAP - 17:.1f} {middle - half:.1f}v{2 * half:.1f}l9 {-half:.1f}z"
    return line + make_path(head, fill(colour))


def draw_late_rank(
    trace: Trace,
    callsite: int,
    late: LateRank,
    statistics: ArrivalStatistics,
    *,
    tall: bool = False,
) -> DataPicture:
    """Return the stages of the late rank of a call site, whose `knows_stages` is true."""
    previous = statistics.previous_callsite
    before = "unknown" if previous is None else format_callsite(trace, previous)
    places = {"inherited": before, "outside": "outside MPI", "point_to_point": "point-to-point"}
    stages = [
        Stage(title, places[name][:MAX_PLACE], late.stages_ns[name])
        for name, title in STAGES.items()
    ]
    arrival = Stage("Arrival", format_callsite(trace, callsite)[:MAX_PLACE], late.late_ns)
    times = ", ".join(f"{s.title.lower()} {signed_time(s.added_ns)}" for s in stages)
    label = f"Lateness of rank {late.rank} by stage: {times}, in all {format_time(late.late_ns)}."
    svg = draw_stages(stages, arrival, label, tall=tall)
    return DataPicture(svg, list_values(stages, arrival), TITLE, captions.LATENESS_STAGES)


def describe_stages(late: LateRank) -> str:
    """Return what the stages compare, and the number of instances."""
    number = format_count(late.instances)
    mean = f"mean of {number} instances" if late.instances > 1 else "one instance"
    return (
        f"How late rank {late.rank} is after each stage, against the median of the others; {mean}"
    )
