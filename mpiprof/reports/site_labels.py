"""Short labels of call sites."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpiprof.trace import Trace
from mpiprof.trace.sites import (
    START,
    Site,
    describe_sites,
    format_site,
    locate_label,
    matches_pattern,
    places,
)

__all__ = ["format_site", "matches_pattern", "places"]

NO_LINE_NUMBERS = (
    "the program has no line numbers, so call sites are addresses: compile it with -g, and record "
    "it again"
)
NO_TOOL = "addr2line is missing, so call sites are addresses: install binutils"


def routine_at(row: Mapping[str, Any]) -> str:
    """Return a row's operation and sites: "allreduce at app.py:12 step", "finalize at exit"."""
    return f"{row['operation']} {locate_label(places(row['sites']))}"


def lacks_line(site: Site) -> bool:
    """Return whether a site of a compiled program has an address instead of a line number."""
    address = re.search(r"(^|\+)0x[0-9a-f]+$", str(site.get("function") or ""))
    return not site.get("line") and address is not None


def explain_address(site: Site) -> str:
    """Return why a compiled call site has an address instead of a line number, and the remedy."""
    module = Path(str(site.get("file") or ""))
    if not module.is_file():
        fact = f"the program or library {module} is missing, so its call sites are addresses"
        return f"{fact}: copy the recorded file there again"
    return NO_LINE_NUMBERS if shutil.which("addr2line") else NO_TOOL


def site_pattern(sites: Sequence[Site]) -> str:
    """Return the pattern that selects these sites with --site."""
    if not sites:
        return ""
    location = {**sites[0], "method": None, "caller": None}
    return format_site({**location, "function": None} if location.get("line") else location)


def exact_pattern(row: Mapping[Any, Any], rows: Sequence[Mapping[Any, Any]]) -> str:
    """Return the shortest pattern that selects a row alone, or the longest if none does.

    rows: all call sites, with `operation` and `sites`. Returns "" for a row without a site.
    """
    short = site_pattern(row["sites"])
    if not short:
        return ""
    named = f"{row['operation']} {short}"
    full = f"{row['operation']} {format_site(row['sites'][0])}"
    for pattern in (short, named, full):
        if sum(matches_pattern(r["operation"], r["sites"], pattern) for r in rows) == 1:
            return pattern
    return full


def format_callsite(trace: Trace, callsite: int) -> str:
    """Return a call site as "allreduce at app.py:12 step", or "the start of the run" for START."""
    if callsite not in trace.callsites.index:
        return "the start of the run" if callsite == START else "an unknown place"
    row: Any = trace.callsites.loc[callsite]
    return routine_at(row)


def make_callsite_key(callsite: int | tuple[str, int]) -> int | str:
    """Return the key of a call site in addresses: its number, or "waitall:2" of messages."""
    return callsite if isinstance(callsite, int) else f"{callsite[0]}:{callsite[1]}"


def format_wait_site(trace: Trace, callsite: int | tuple[str, int]) -> str:
    """Return a call site of collectives, or of messages as (operation, site_id), as text."""
    if isinstance(callsite, int):
        return format_callsite(trace, callsite)
    operation, site_id = callsite
    return f"{operation} {locate_label(describe_site(trace, site_id))}"


def site_as_data(trace: Trace, site: int) -> dict[str, Any]:
    """Return the known ones of file, line and function of a site."""
    return describe_sites(trace.tables.sites, [[site]])[0][0]


def describe_site(trace: Trace, site: int) -> str:
    """Return the file, line and function of a site of the tables as text."""
    return format_site(site_as_data(trace, site))


def communicator_name(trace: Trace, index: int) -> str:
    """Return the program's name of a communicator, or a description if it has no name."""
    communicator = trace.tables.communicators[index]
    description = f"{communicator.origin} {communicator.identity[:8]}"
    if index in trace.tables.duplicates:
        of = communicator_name(trace, trace.tables.duplicates[index])
        return of if communicator.origin == "maker" else f"{description} of {of}"
    if index in trace.tables.names:
        return trace.tables.names[index]
    if communicator.origin in ("world", "self"):
        return f"MPI_COMM_{communicator.origin.upper()}"
    return description


def list_callsites(trace: Trace) -> list[dict[Any, Any]]:
    """Return the rows of all call sites that --site can select: of collectives, and of messages."""
    tables: tuple[Any, ...] = (trace.callsites, trace.message_callsites)
    return [row for table in tables for row in table.to_dict("records")]


def site_arguments(pattern: str) -> list[str]:
    """Return the command-line words that select a call site, whatever its first character."""
    return [f"--site={pattern}"] if pattern.startswith("-") else ["--site", pattern]
