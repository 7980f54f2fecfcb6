"""Calls that differ between ranks but must be the same, as text."""

from __future__ import annotations

from mpiprof.interface.format_units import format_runs, format_size
from mpiprof.metrics.disagreement import Disagreement, Side
from mpiprof.reports.site_labels import communicator_name, format_site, site_as_data
from mpiprof.trace import Trace

DISAGREEMENT_WORDS = {  # the fault, and the rule that it breaks
    "operation": (
        "call different operations in the same place of their order",
        "call the same operation",
    ),
    "root": ("name different roots in the same {operation}", "name the same root"),
    "count": ("give different sizes in the same {operation}", "give the same size"),
    "type": ("give different datatypes in the same {operation}", "give the same datatype"),
    "reduction": ("give different reductions in the same {operation}", "give the same reduction"),
}


def disagreement_sentences(trace: Trace, wrong: Disagreement) -> str:
    """Return sentences about which ranks call what where, and the rule that they break."""
    what, must = DISAGREEMENT_WORDS[wrong.kind]
    sides = "; ".join(_side_clause(trace, wrong.kind, side) for side in wrong.sides[:4])
    more = len(wrong.sides) - 4
    separator = f"sequence {wrong.key[1]} on {communicator_name(trace, wrong.key[0])}"
    return (
        f"Ranks {what.format(operation=wrong.operation)} ({separator}): "
        f"{sides}{f'; and {more} more' if more > 0 else ''}. All must {must}."
    )


def _side_clause(trace: Trace, kind: str, side: Side) -> str:
    where = format_site(site_as_data(trace, side.sites[0])) if side.sites else "unknown place"
    value_text = {
        "operation": f"{side.value}",
        "root": f"root {side.value}",
        "count": format_size(float(side.value)) if kind == "count" else "",
    }.get(kind, f"{side.value}")
    verb = "says" if len(side.ranks) == 1 else "say"
    verb = {"operation": "calls" if len(side.ranks) == 1 else "call"}.get(kind, verb)
    return (
        f"rank{'s' * (len(side.ranks) > 1)} {format_runs(list(side.ranks))} {verb} {value_text} "
        f"at {where}"
    )
