"""The stages at which the lateness of a call site's late rank begins, as a picture."""

from __future__ import annotations

from mpiprof.causes.arrival_statistics import ArrivalStatistics, LateRank
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.interface.svg import DataPicture
from mpiprof.reports.pictures.lateness_stages import Stage, draw_stages, list_values
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.words import captions
from mpiprof.reports.words.callsite_sentences import STAGES, signed_time
from mpiprof.trace import Trace

TITLE = "Where the lateness begins"
MAX_PLACE = 300  # characters of a call site


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
