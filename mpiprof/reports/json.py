"""The report as data, for --json, --fail-on and --sort."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from mpiprof.diagnosis.verdict import make_verdict as conclude
from mpiprof.metrics import columns
from mpiprof.metrics.variance_components import Estimate
from mpiprof.reports import advice, conclusion, phrases, sentences, spawned_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from mpiprof.diagnosis.causes import Causes
    from mpiprof.diagnosis.findings import Finding
    from mpiprof.diagnosis.verdict import Verdict
    from mpiprof.metrics.coverage import Coverage
    from mpiprof.trace import Trace

NAN = float("nan")
VERSION = 2

# Totals of the run. In --fail-on, the names of the JSON report have the prefix "run.".
TOTALS = ("duration_ns", "collective_ns", "collective_share", "total_wait_ns", "wait_share")
RUN = tuple(f"run.{name}" for name in TOTALS)


def report(trace: Trace, callsites: Any, found: Sequence[Finding]) -> dict[str, Any]:
    """Return a trace, its call sites (or some of them) and its findings, in schema VERSION.

    Times are means over instances, in ns. Unknown values are None.
    """
    return {
        "version": VERSION,
        **run_of(trace),
        **between(trace),
        "clock_error_ns": plain(trace.clock_error_ns),
        "dropped": plain(trace.dropped),
        "complete": bool(trace.complete),
        "callsites": [row_of(row) for row in callsites.to_dict("records")],
        "summed_up": summed_up(trace),
        "held": held_part(trace),
        "verdict": verdict(trace, conclude(trace, found)),
        "findings": [finding(trace, one) for one in found],
        "notes": list(trace.notes),
        "spawned": spawned_jobs.lines(trace),
    }


def run_of(trace: Trace) -> dict[str, Any]:
    """Return the identity of a trace's run, and its sums over all calls in ns."""
    return {
        "trace": str(trace.path),
        "program": trace.program,
        "mpi": trace.mpi,
        "ranks": trace.ranks,
        "nodes": trace.nodes,
        **totals(trace),
    }


def totals(trace: Trace) -> dict[str, Any]:
    """Return TOTALS of a trace: sums over all ranks and call sites, shares of all ranks' time."""
    inside, waiting, whole = phrases.run_times(trace)
    values = (trace.run_ns, inside, inside / (whole or NAN), waiting, waiting / (whole or NAN))
    return dict(zip(TOTALS, map(plain, values), strict=True))


def between(trace: Trace) -> dict[str, Any]:
    """Return the bounds (ns) of the sums over all calls; both equal the sum if it is exact."""
    found: dict[str, Any] = {}
    for name, of in (("collective", "elapsed"), ("total_wait", "wait")):
        estimate = trace.totals[of]
        if of == "wait" and phrases.lacks_ranks(trace):
            estimate = Estimate(NAN, NAN, NAN)
        found |= {f"{name}_low_ns": plain(estimate.low), f"{name}_high_ns": plain(estimate.high)}
    return found


def summed_up(trace: Trace) -> list[dict[str, Any]]:
    """Return sums per call site of the calls that were only summed up.

    These are the calls beyond a log's limit, or all calls if ring logs have overwritten records.
    """
    return [
        {"operation": row["operation"], "sites": places_of(row["sites"])}
        | {name: plain(row[name]) for name in ("calls", "bytes", "total_ns", "longest_ns")}
        for row in trace.summed_up.to_dict("records")
    ]


def held_part(trace: Trace) -> dict[str, Any] | None:
    """Return the part of a run that its ring logs contain, or None if they contain all of it."""
    held: Coverage | None = trace.derive("held")
    if held is None:
        return None
    return {
        "since_ns": plain(held.since_ns),
        "held_ns": plain(held.recorded_ns),
        "instances": held.instances,
        "total_instances": held.total,
    }


def verdict(trace: Trace, found: Verdict) -> dict[str, Any]:
    """Return the verdict on a run, in the sentences of the report."""
    worst = found.worst
    return {
        "text": conclusion.verdict(trace, found),
        "cause": found.cause,
        "ranks": sorted(worst.ranks) if worst else [],
        "sites": _sites_of(trace, worst.callsites) if worst else [],
    }


def finding(trace: Trace, found: Finding) -> dict[str, Any]:
    """Return a finding with the locations of its call sites and its text."""
    return {
        "cause": found.cause,
        "ranks": sorted(found.ranks),
        "sites": _sites_of(trace, found.callsites),
        "operation": _row(trace, found.callsites[0])["operation"],
        "period": found.period,
        "first_instance": found.first_instance,
        "last_instance": found.last_instance,
        "cost_ns": found.cost_ns,
        "share": plain(found.share),
        "certainty": plain(found.certainty),
        "title": sentences.title(trace, found),
        "text": sentences.text(trace, found),
        "action": advice.action(trace, found),
        "node": found.node,
        "algorithm": found.algorithm,
        "evidence": {name: _value(value) for name, value in found.evidence.items()},
    }


def _sites_of(trace: Trace, callsites: Sequence[int]) -> list[dict[str, Any]]:
    """Return the locations of some call sites, each once, in their order."""
    rows = [places_of(_row(trace, callsite)["sites"]) for callsite in callsites]
    found: dict[Any, dict[str, Any]] = {}
    for site in (site for of in rows for site in of):
        found.setdefault(tuple(site.values()), site)
    return list(found.values())


def _row(trace: Trace, callsite: int) -> Any:
    return trace.callsites.loc[callsite]


def places_of(sites: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the file, line and function of call sites."""
    return [{name: site.get(name) for name in ("file", "line", "function")} for site in sites]


def _value(value: Any) -> Any:
    """Return a value for JSON: texts unchanged, containers by element, numbers by `plain`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    return plain(value)


def causes(found: Causes) -> dict[str, Any]:
    """Return the causes of a call site: estimates as value, low and high, tables as rows."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            result[field.name] = {k: plain(v) for k, v in dataclasses.asdict(value).items()}
        elif hasattr(value, "to_dict"):
            result[field.name] = rows_of(value)
        else:
            result[field.name] = _value(value)
    return result


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, such as the phases of a call site."""
    return [
        {str(name): _value(value) for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def row_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return one call site's values, in the order of the table of columns."""
    return {c.name: DATA.get(c.quantity, plain)(row[c.name]) for c in columns.recorded()}


def _instances_of(algorithms: str) -> dict[str, int]:
    """Return the numbers of instances per algorithm, from "native 37, kang 3"."""
    parts = (part.rpartition(" ") for part in algorithms.split(", ") if part)
    return {name: int(number) for name, _, number in parts}


def plain(value: Any) -> Any:
    """Return a number for JSON: integers unchanged, None for NaN and missing values."""
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
    """Return data as ASCII JSON text, which is valid in every locale."""
    return json.dumps(data, indent=1, allow_nan=False)


# Conversion of each quantity; all others are numbers.
DATA: dict[str, Callable[[Any], Any]] = {
    "text": str,
    "sites": places_of,
    "algorithms": _instances_of,
}
