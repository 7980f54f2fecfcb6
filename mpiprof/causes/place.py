"""Places of work in a program: between two calls of MPI, or inside a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mpiprof.account.work_intervals import INSIDE, NOWHERE, UNRECORDED
from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES, base_operation
from mpiprof.trace.sites import describe_sites, format_site, locate_label
from mpiprof.trace.trace import Trace

Call = Mapping[str, Any]
Pair: TypeAlias = tuple[int, int]  # of sites (account/work_intervals.py)

SEVERAL = -4  # in place of the site before work that follows different calls


@dataclass(frozen=True)
class Place:
    """A place of work.

    before, after: operation, file, line and function of the calls around the work, {} at the start
    of the run, {"recorded": False} for a call that the records lack, {"several": True} for
    different calls. inside: whether the time is inside the call before.
    """

    before: Call
    after: Call
    inside: bool

    def __str__(self) -> str:
        """Return the place as "between bcast at a.py:3 main and barrier at a.py:9 main"."""
        before, after = format_call(self.before), format_call(self.after)
        if self.inside:
            return f"inside {before}"
        if before == after:
            return f"between two calls of {after}"
        return f"between {before} and {after}"


def add_up(windows: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return the sums of values by place over the windows of a run, in order of the first ones."""
    sums: dict[Any, Any] = {}
    for window in windows:
        for place, values in window.items():
            sums[place] = sums[place] + values if place in sums else values
    return sums


def find_place(trace: Trace, pair: Pair) -> Place:
    """Return the place of a pair of sites."""
    is_inside = pair[1] == INSIDE
    before = describe_call(trace, pair[0])
    return Place(before, before if is_inside else describe_call(trace, pair[1]), is_inside)


def describe_call(trace: Trace, site: int) -> dict[str, Any]:
    """Return the operation and the location of the calls at a site of the tables."""
    if site == NOWHERE:
        return {}
    if site == UNRECORDED:
        return {"recorded": False}
    if site == SEVERAL:
        return {"several": True}
    operations = [shape.operation for shape in trace.tables.shapes if shape.site == site]
    # A method of mpi4py creates a communicator at its first call.
    operations.sort(key=lambda operation: base_operation(operation) in MANAGEMENT_COLLECTIVES)
    location = describe_sites(trace.tables.sites, [[site]])[0][0]
    source = {name: value for name, value in location.items() if name != "stack"}
    return {"operation": next(iter(operations), None)} | source


def format_call(call: Call) -> str:
    """Return a call as "waitall at app.c:12 step", or "the start of the run" for {}."""
    if "recorded" in call:
        return "a call that is not recorded"
    if "several" in call:
        return "several calls"
    if not call:
        return "the start of the run"
    return f"{call['operation']} {locate_label(format_site(call))}"
