"""Phrases of a verdict: ranks, call sites, and their last calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpiprof.hang.rank_state import Pending, Position
from mpiprof.interface.format_units import format_ranks, format_runs
from mpiprof.reports.site_labels import format_site, site_as_data
from mpiprof.trace.metadata import Call

if TYPE_CHECKING:
    from mpiprof.trace import Trace


MAX_LOCATIONS = 4


def name_ranks(chosen: Sequence[int]) -> str:
    """Return ranks as the subject of a sentence."""
    return f"Rank{'s' * (len(chosen) > 1)} {format_runs(list(chosen))}"


def describe_site(trace: Trace, site: int) -> str:
    """Return file, line and function of a call site."""
    return format_site(site_as_data(trace, site))


def last_seen(
    trace: Trace, found: Sequence[Position], chosen: Sequence[int], lacks: Pending | None = None
) -> str:
    """Return where ranks were last seen (" after barrier at app.py:3 main"), or "" if never.

    An open call gives " in barrier at ...". If locations differ, each location has its ranks in
    brackets. If a rank has several threads, the thread that called on the communicator of `lacks`
    counts.
    """
    seen: dict[str, list[int]] = {}
    for rank in chosen:
        on = lacks.communicator if lacks is not None and rank in lacks.missing else None
        call = None if found[rank].state == "unknown" else found[rank].last_seen(on)
        how = "after" if call is None or call.exit_ns else "in"
        after = (
            "" if call is None else f"{how} {call.operation} at {describe_site(trace, call.site)}"
        )
        seen.setdefault(after, []).append(rank)
    if len(seen) < 2:
        return "".join(f" {after}" for after in seen if after)
    told = [
        f"{after or 'before any collective'} ({format_ranks(who)})" for after, who in seen.items()
    ]
    more = len(told) - MAX_LOCATIONS
    return f" {', '.join(told[:MAX_LOCATIONS])}{f' and at {more} more places' if more > 0 else ''}"


def open_calls(position: Position, one: Pending) -> list[Call]:
    """Return the calls in which a rank waits in an instance, MPI_Finalize excluded."""
    return [c for c in position.open if c.key == one.key and c.operation != "finalize"]
