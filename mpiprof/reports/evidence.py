"""The evidence for a finding, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mpiprof.diagnosis.findings import Finding
from mpiprof.interface.format_units import capitalise, format_count, format_share, format_time
from mpiprof.operations import WAIT_STATES
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace

# Text for a rooted operation that ran on one of mpiprof's algorithms.
SCHEDULE_RULE = "in the algorithm that ran, a rank waits for all through whom its data comes"
MAX_SPANS = 3
MAX_NAMED = 3  # call sites
MIN_SHARE = 0.1  # minimum share of exceptional instances that are reported


def evidence_text(trace: Trace, found: Finding) -> str:
    """Return the evidence for a finding."""
    known = found.evidence
    if found.cause == "algorithm":
        error = format_time(known["error_ns"])
        return f"That is {known['how']} under the recorded arrivals, ± {error}."
    if found.cause == "barrier":
        earlier = format_time(found.cost_ns / known["size"])
        return f"Replayed without the barrier on the recorded times, the run ends {earlier} sooner."
    if found.cause == "clock":
        bound = format_time(known["clock_error_ns"])
        return f"Arrivals differ by less than the clocks may be off, ± {bound}."
    who = SCHEDULE_RULE if known.get("followed") else WAIT_STATES[known["state"]].sentence
    parts = [_instances_basis(found), f"{capitalise(who)}.", _other_callsites(trace, found)]
    return " ".join(part for part in parts if part)


def _instances_basis(found: Finding) -> str:
    known = found.evidence
    instances = known["instances"]
    if found.cause == "rank" and "collected" in known and known["late_instances"] == 1:
        collected = known["collected"]  # lateness that accumulated once, over many instances
        mean = format_time(collected["late_ns"] / collected["instances"])
        more = " How it was before these is not known." if collected["cut"] else ""
        return f"Each of these adds {mean} on average.{more}"
    if instances == 1:
        return "One instance does not tell a habit from an accident."
    if found.cause == "noise":
        return _spread_clause(found)
    if found.cause == "outlier":
        more = known["also_costly"]
        if more > MIN_SHARE * instances:
            return ""  # other findings explain the waiting of these ranks
        others = f"All but {format_count(more)} of the" if more else "The"
        return f"{others} other instances wait less than a tenth of that."
    if known.get("grows") or known.get("levels"):
        return _change_clause(known)
    late = known.get("late_instances")
    if not late or len(known["spans"]) > MAX_SPANS:
        return ""
    if found.cause in ("node", "gradient"):
        return f"That is the mean over {format_count(instances)} instances."
    taken = f"{format_count(known['taken_instances'])} instances"
    if known["taken_instances"] < instances:
        taken += f" that it takes part in, of {format_count(instances)}"
    return f"It is so in {format_count(late)} of {taken}."


def _change_clause(known: Mapping[str, Any]) -> str:
    """Return how lateness changes over the run."""
    if "grows" in known:
        first, last = known["grows"]
        how = "grows" if last > first else "shrinks"
        ends = (format_time(late) if late >= 1 else "nothing" for late in (first, last))
        return f"That {how} steadily, from {' at first to '.join(ends)} at last."
    levels, (begin, end) = known["levels"], known["recorded"]
    if len(levels) > MAX_SPANS:
        least, most = (format_time(f(late for *_, late in levels)) for f in (min, max))
        return f"That changes {len(levels) - 1} times, between {least} and {most}."
    parts = [
        f"{format_time(late)}{instance_range(first, last, begin, end)}"
        for first, last, late in levels
    ]
    return f"It is {', then '.join(parts)}."


def instance_range(first: int, last: int, begin: int, end: int) -> str:
    """Return the range of instances from `begin` to `end` as the end of a clause."""
    if first == last:
        return f" in instance {first}"
    if last >= end:
        return f" from instance {first} on"
    return f" up to instance {last}" if first <= begin else f" in instances {first} to {last}"


def _spread_clause(found: Finding) -> str:
    """Return the evidence for waiting without a pattern."""
    known = found.evidence
    if known["besides"]:
        return "That is what the other findings leave unexplained."
    if known["random"] is None or math.isnan(known["random"]):
        return f"That is from {format_count(known['instances'])} instances."
    share, instances = format_share(1 - known["random"]), format_count(known["instances"])
    return f"The same ranks or nodes make {share} of the spread over its {instances} instances."


def _other_callsites(trace: Trace, found: Finding) -> str:
    """Return the other call sites that the finding affects."""
    others = [format_callsite(trace, one) for one in found.callsites[1:]]
    if found.cause == "inside" or not others:
        return ""
    more = len(others) - MAX_NAMED
    tail = f" and {more} more" if more > 0 else ""
    return f"It also costs time at {', '.join(others[:MAX_NAMED])}{tail}."
