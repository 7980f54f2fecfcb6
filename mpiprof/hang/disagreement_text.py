"""Sentences about ranks whose calls of one collective disagree."""

from __future__ import annotations

from mpiprof.interface.format_units import format_ranks, format_size
from mpiprof.metrics.disagreement import Disagreement, Side
from mpiprof.reports.site_labels import communicator_name, describe_site
from mpiprof.trace import Trace

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


def _side_clause(trace: Trace, kind: str, side: Side) -> str:
    where = describe_site(trace, side.sites[0]) if side.sites else "unknown place"
    value = str(side.value)
    if kind == "root":
        value = f"root {side.value}"
    elif kind == "count":
        value = format_size(float(side.value))
    verb = ("call" if kind == "operation" else "say") + "s" * (len(side.ranks) == 1)
    return f"{format_ranks(side.ranks)} {verb} {value} at {where}"
