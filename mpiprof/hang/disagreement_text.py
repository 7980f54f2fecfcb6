"""Sentences about ranks whose calls of one collective disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mpiprof.hang.first_divergence import Divergence
from mpiprof.interface.format_units import capitalise, format_ranks, format_size
from mpiprof.metrics.disagreement import Disagreement, Side
from mpiprof.reports.site_labels import communicator_name, describe_site, format_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

DIFFERENT_ORDER = "call different operations in the same place of their order"
DISAGREEMENT_WORDS = {  # the fault, and the rule that it breaks
    "operation": (DIFFERENT_ORDER, "call the same operation"),
    "root": ("name different roots in the same {operation}", "name the same root"),
    "count": ("give different sizes in the same {operation}", "give the same size"),
    "type": ("give different datatypes in the same {operation}", "give the same datatype"),
    "reduction": ("give different reductions in the same {operation}", "give the same reduction"),
}


def disagreement_sentences(trace: Trace, wrong: Disagreement) -> str:
    """Return sentences about which ranks call what where, and the rule that they break."""
    fault, rule = DISAGREEMENT_WORDS[wrong.kind]
    sides = "; ".join(_side_clause(trace, wrong.kind, side) for side in wrong.sides[:4])
    omitted = len(wrong.sides) - 4
    if omitted > 0:
        sides += f"; and {omitted} more"
    instance = f"sequence {wrong.key[1]} on {communicator_name(trace, wrong.key[0])}"
    fault = fault.format(operation=wrong.operation)
    return f"Ranks {fault} ({instance}): {sides}. All must {rule}."


def divergence_sentences(trace: Trace, divergence: Divergence) -> str:
    """Return sentences about the calls that ranks lack or have made in excess."""
    calls = _count_calls(trace, divergence.calls)
    first, count = next(iter(calls.items()))
    further = calls.total() - count
    more = f" and {further} further call{'s' * (further > 1)}" if further else ""
    communicator = communicator_name(trace, divergence.communicator)
    return (
        f"{capitalise(format_ranks(divergence.ranks))} made {count} "
        f"{'fewer' if divergence.fewer else 'more'} call{'s' * (count > 1)} of {first}{more} than "
        f"the other ranks (sequence {divergence.sequence} on {communicator}). All later calls "
        "match if they are shifted by this number. All ranks must make the same calls: decide by "
        "a value that is equal on all ranks."
    )


def _count_calls(trace: Trace, calls: Sequence[Call]) -> Counter[str]:
    """Count calls by operation and location, a method for Python objects as one call."""
    counts: Counter[str] = Counter()
    for call in calls:
        site = site_as_data(trace, call.site)
        part, _, method = str(site.get("method") or "").rpartition(" of ")
        if part != "data":
            counts[f"{method or call.operation} at {format_site({**site, 'method': None})}"] += 1
    return counts or Counter(call.operation for call in calls)


def _side_clause(trace: Trace, kind: str, side: Side) -> str:
    where = describe_site(trace, side.sites[0]) if side.sites else "unknown place"
    value = str(side.value)
    if kind == "root":
        value = f"root {side.value}"
    elif kind == "count":
        value = format_size(float(side.value))
    verb = ("call" if kind == "operation" else "say") + "s" * (len(side.ranks) == 1)
    return f"{format_ranks(side.ranks)} {verb} {value} at {where}"
