"""Decides whether `tune` accepts a trace, for the verb and for reports that recommend it.

The ranks of a replay import this module, so it imports no pandas.
"""

from __future__ import annotations

from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.trace.trace import Trace


def find_refusal(trace: Trace) -> str:
    """Return why `tune` cannot model a trace, and the remedy; "" if it can."""
    if trace.record == "summary":
        return "recorded as summary, without arrivals: record it with --record events"
    if trace.machine is None:
        why = f"not usable ({trace.machine_fault})" if trace.machine_fault else "not known"
        remedy = "measure the machine with `calibrate -o FILE` and pass --machine FILE"
        return f"message times are {why}: {remedy}"
    return ""


def is_tunable(trace: Trace, operation: str) -> bool:
    """Return whether `tune` has algorithms for an operation of a trace."""
    return not find_refusal(trace) and any(a.operation == operation for a in load_catalogue())
