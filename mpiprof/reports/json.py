"""The report as data: what --json prints and --fail-on and --sort refer to."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.trace import Trace

VERSION = 1
NUMBERS = (
    "instances",
    "size",
    "bytes",
    "bytes_min",
    "bytes_max",
    "mean_elapsed_ns",
    "average_imbalance_ns",
    "worst_imbalance_ns",
    "message_time_ns",
    "average_factor",
    "worst_factor",
    "balanced_share",
    "wait_ns",
    "latest_rank",
    "latest_share",
)
TEXTS = ("operation", "algorithm")

# Sums over instances: columns of the text report, to sort by.
TOTALS = ("total_wait_ns", "total_elapsed_ns")


def report(trace: Trace, callsites: Any) -> dict[str, Any]:
    """Return a trace and (a selection of) its call sites in the schema of version 1.

    Times are means over instances, in ns; what is not known is None.
    """
    return {
        "version": VERSION,
        "trace": str(trace.path),
        "program": trace.program,
        "mpi": trace.mpi,
        "ranks": trace.ranks,
        "nodes": trace.nodes,
        "duration_ns": plain(trace.duration_ns),
        "collective_ns": plain(trace.callsites["total_elapsed_ns"].sum()),
        "wait_ns": plain(trace.callsites["total_wait_ns"].sum()),
        "clock_error_ns": plain(trace.clock_error_ns),
        "dropped": plain(trace.dropped),
        "complete": bool(trace.complete),
        "callsites": [row_of(row) for row in callsites.to_dict("records")],
    }


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return one call site in the schema's order."""
    result: dict[str, Any] = {"operation": row["operation"]}
    result["sites"] = [
        {name: site.get(name) for name in ("file", "line", "function")} for site in row["sites"]
    ]
    result |= {name: plain(row[name]) for name in NUMBERS}
    result["algorithm"] = row["algorithm"]
    return result


def plain(value: Any) -> Any:
    """Return a number that JSON can hold: whole numbers as such, NaN and missing as None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not math.isfinite(number):
        return None
    if isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f":
        return int(number) if number.is_integer() else number
    return int(value)


def text(data: Any) -> str:
    """Return data as JSON text for a pipe, in ASCII: right in every locale."""
    return json.dumps(data, indent=1, allow_nan=False)
