"""Composition of the run's time: computing, messages, collectives and waiting."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.account.division import Division
from mpiprof.account.run_times import lacks_complete_instances
from mpiprof.causes.finding import Finding, is_blamed
from mpiprof.reports.pictures.time_split import BlamedTime, TimePart
from mpiprof.reports.site_labels import format_wait_site
from mpiprof.reports.words.answer_facts import name_blamed
from mpiprof.trace import Trace

WIDTHS = {"wide": 1232.0, "narrow": 366.0}  # by class: of the bar of time in px
TIME_PARTS = {  # name, colour and whether ranks wait, by part of Division
    "unrecorded": ("no records", "line2", False),
    "work": ("computing", "q1", False),
    "other_calls": ("other MPI functions", "q3", False),
    "messages": ("messages", "q2", False),
    "message_wait": ("for messages", "late", True),
    "window_wait": ("on windows", "late", True),
    "collectives": ("collectives", "q3", False),
    "unknown": ("collectives, waiting unknown", "q3", False),
    "collective_wait": ("in collectives", "late", True),
    "unexplained": ("unexplained in MPI", "q3", False),
    "filtered": ("filtered out", "line2", False),
}


def list_time_parts(trace: Trace, division: Division, ranks: int) -> list[TimePart]:
    """Return the parts of the time as means of the ranks."""
    parts = division.parts
    if lacks_complete_instances(trace):
        parts = {"unknown" if name == "collectives" else name: ns for name, ns in parts.items()}
    named = [(*TIME_PARTS[name], ns / max(ranks, 1)) for name, ns in parts.items()]
    return [TimePart(name, ns, colour, waits) for name, colour, waits, ns in named]


def how_to_read(parts: Sequence[TimePart], blamed: BlamedTime | None) -> str:
    """Return the explanation of the bar."""
    text = "The bar is the run, mean of the ranks."
    if any(part.waiting and part.time_ns > 0 for part in parts):
        text += " On the right, hatched: the parts in which ranks wait."
    if blamed is not None:
        text += " Accent: the waiting for the named ranks; other ranks cause the rest."
    return text


def find_blamed_time(trace: Trace, finding: Finding | None) -> BlamedTime | None:
    """Return the waiting that the worst finding causes, mean of the ranks, or None."""
    if finding is None or not is_blamed(finding):
        return None
    main = finding.main_callsite
    site = "" if main is None else format_wait_site(trace, main).partition(" at ")[2]
    where = f" at {site.partition(' ')[0]}" if site else ""
    text = f"for {name_blamed(finding)}{where}"
    return BlamedTime(text, finding.cost_ns / max(trace.ranks, 1))
