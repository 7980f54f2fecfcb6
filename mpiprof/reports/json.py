"""The report as data, for --json, --fail-on and --sort."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from mpiprof.account import columns
from mpiprof.account.coverage import Coverage
from mpiprof.causes.arrival_statistics import ArrivalStatistics
from mpiprof.causes.finding import Finding, WaitSite
from mpiprof.causes.findings import Verdict, make_verdict
from mpiprof.reports import spawned_jobs
from mpiprof.reports.site_labels import site_as_data
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.reports.words.division import division_as_data
from mpiprof.reports.words.processor_sentences import processors_as_data, stalled_as_data
from mpiprof.trace import Trace

NAN = float("nan")
VERSION = 3

# Totals of the run. In --fail-on, the names of the JSON report have the prefix "run.".
TOTAL_NAMES = (
    *("duration_ns", "collective_ns", "collective_share", "total_wait_ns", "wait_share"),
    *("collective_wait_ns", "message_wait_ns"),
)
RUN_NAMES = tuple(f"run.{name}" for name in TOTAL_NAMES)
# Columns of places and findings in --fail-on, with the names of the JSON report.
PLACE_NAMES = ("place.time_ns", "place.share")
FINDING_NAMES = tuple(f"finding.{name}" for name in ("cost_ns", "share", "saved_ns", "certainty"))
ROW_TEXTS = ("place.kind", "finding.cause")


def make_report(
    trace: Trace, callsites: Any, messages: Any, findings: Sequence[Finding]
) -> dict[str, Any]:
    """Return a trace, its call sites (or some of them) and its findings, in schema VERSION.

    callsites: rows of `Trace.callsites`. messages: rows of `Trace.message_callsites`.
    Times are means over instances, in ns. Unknown values are None.
    """
    return {
        "version": VERSION,
        **run_as_data(trace),
        **bounds_as_data(trace),
        "division": division_as_data(trace),
        "efficiencies": table_as_data(trace.efficiencies),
        "clock_error_ns": plain_number(trace.clock_error_ns),
        "dropped": plain_number(trace.dropped_records),
        "complete": bool(trace.is_complete),
        "messages_complete": complete_windows_as_data(trace),
        "callsites": callsites_as_data(callsites),
        "message_callsites": message_callsites_as_data(messages),
        "summed_up": totals_by_callsite(trace),
        "coverage": coverage_as_data(trace),
        "verdict": verdict_as_data(trace, make_verdict(trace, findings)),
        "findings": [finding_as_data(trace, finding) for finding in findings],
        "exceptions": [
            raised.as_data() for of_rank in trace.tables.exceptions.values() for raised in of_rank
        ],
        "processors": processors_as_data(trace),
        "stalled_calls": stalled_as_data(trace),
        "notes": list(trace.notes),
        "spawned": spawned_jobs.describe_spawned(trace),
    }


def complete_windows_as_data(trace: Trace) -> dict[str, Any] | None:
    """Return the part of the run in which every message call is recorded, or None if unknown."""
    windows = trace.complete_windows
    if windows is None:
        return None
    return {"share": plain_number(trace.complete_share), "windows": len(windows)}


def run_as_data(trace: Trace) -> dict[str, Any]:
    """Return the identity of a trace's run, and its sums over all calls in ns."""
    return {
        "trace": str(trace.path),
        "program": trace.program,
        "mpi": trace.mpi,
        "ranks": trace.ranks,
        "nodes": trace.node_count,
        **totals_as_data(trace),
    }


def totals_as_data(trace: Trace) -> dict[str, Any]:
    """Return TOTAL_NAMES of a trace: sums over ranks and call sites, shares of all time."""
    times = trace.run_times
    inside, waiting, whole = times.collective.value, times.total_wait.value, times.whole_ns or NAN
    values = (
        *(trace.run_ns, inside, inside / whole, waiting, waiting / whole),
        *(times.collective_wait.value, times.message_wait_ns),
    )
    return dict(zip(TOTAL_NAMES, map(plain_number, values), strict=True))


def bounds_as_data(trace: Trace) -> dict[str, Any]:
    """Return the bounds (ns) of the sums over all calls; both equal the sum if it is exact."""
    times, bounds = trace.run_times, dict[str, Any]()
    for name, time in (("collective", times.collective), ("total_wait", times.total_wait)):
        bounds[f"{name}_low_ns"] = plain_number(time.low)
        bounds[f"{name}_high_ns"] = plain_number(time.high)
    return bounds


def totals_by_callsite(trace: Trace) -> list[dict[str, Any]]:
    """Return sums per call site of the calls that were only summed up.

    These are the calls beyond a log's limit, or all calls if ring logs have overwritten records.
    """
    return [
        {"operation": row["operation"], "sites": locations_of(row["sites"])}
        | {name: plain_number(row[name]) for name in ("calls", "bytes", "total_ns", "longest_ns")}
        for row in trace.summed_up.to_dict("records")
    ]


def coverage_as_data(trace: Trace) -> dict[str, Any] | None:
    """Return the part of a run that its ring logs contain, or None if they contain all of it."""
    coverage: Coverage | None = trace.derive("coverage")
    if coverage is None:
        return None
    return {
        "since_ns": plain_number(coverage.since_ns),
        "recorded_ns": plain_number(coverage.recorded_ns),
        "instances": coverage.instances,
        "total_instances": coverage.total,
    }


def verdict_as_data(trace: Trace, verdict: Verdict) -> dict[str, Any]:
    """Return the verdict on a run, in the sentences of the report."""
    worst = verdict.worst
    return {
        "text": conclusion.verdict_lines(trace, verdict),
        "cause": verdict.cause,
        "ranks": sorted(worst.ranks) if worst else [],
        "sites": _locations_of_finding(trace, worst) if worst else [],
    }


def finding_as_data(trace: Trace, finding: Finding) -> dict[str, Any]:
    """Return a finding with the locations of its call sites and its text."""
    return {
        "cause": finding.cause,
        "ranks": sorted(finding.ranks),
        "sites": _locations_of_finding(trace, finding),
        "operation": _operation_of_finding(trace, finding),
        "period": finding.period,
        "first_instance": finding.first_instance,
        "last_instance": finding.last_instance,
        "cost_ns": finding.cost_ns,
        "share": plain_number(finding.share),
        "saved_ns": round(finding.saved_ns),
        "certainty": plain_number(finding.certainty),
        "title": finding_sentences.finding_title(trace, finding),
        "text": finding_sentences.problem_and_evidence(trace, finding),
        "action": finding_sentences.advise(trace, finding),
        "node": finding.node,
        "algorithm": finding.algorithm,
        "waits_at": [_wait_site_as_data(trace, at) for at in finding.waits_at],
        "evidence": _evidence_as_data(finding),
    }


def _evidence_as_data(finding: Finding) -> dict[str, Any]:
    """Return the figures of a finding, and the fields of its fact."""
    fields = dataclasses.asdict(finding.evidence)
    if finding.fact is not None:
        fields |= dataclasses.asdict(finding.fact)
    names = [name for name in fields if name not in ("ranks", "places")]
    return {name: _value_as_data(fields[name]) for name in names}


def _wait_site_as_data(trace: Trace, at: WaitSite) -> dict[str, Any]:
    """Return a call site of collectives or of messages at which a finding causes waiting."""
    if isinstance(at.callsite, int):
        row: Any = trace.callsites.loc[at.callsite]
        operation, sites = str(row["operation"]), row["sites"]
    else:
        operation, sites = at.callsite[0], [site_as_data(trace, at.callsite[1])]
    return {
        "operation": operation,
        "sites": locations_of(sites),
        "wait_ns": round(at.wait_ns),
        "share": plain_number(at.share),
    }


def _operation_of_finding(trace: Trace, finding: Finding) -> str | None:
    """Return the operation of the first call site; None if a finding has no call site."""
    if not finding.callsites:
        return None
    return str(trace.callsites["operation"][finding.callsites[0]])


def _locations_of_finding(trace: Trace, finding: Finding) -> list[dict[str, Any]]:
    """Return the locations of a finding's call sites, each once, in their order.

    For a delay, these are the calls between which a rank works longer.
    """
    work = finding.evidence.work
    if work:
        calls = [dict(call) for call in (work[0].before, work[0].after) if call]
        locations = locations_of(calls)
    else:
        sites: Any = trace.callsites["sites"]
        of = [site for callsite in finding.callsites for site in sites[callsite]]
        locations = locations_of(of)
    return list({tuple(site.values()): site for site in locations}.values())


def locations_of(sites: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return file, line and function of call sites, and method and caller if there are any."""
    return [
        {name: site.get(name) for name in ("file", "line", "function")}
        | {name: site[name] for name in ("method", "caller") if site.get(name)}
        for site in sites
    ]


def _value_as_data(value: Any) -> Any:
    """Return a value for JSON; numbers, also in containers, are converted by `plain_number`."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: _value_as_data(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [_value_as_data(element) for element in value]
    return plain_number(value)


def arrival_statistics_as_data(statistics: ArrivalStatistics) -> dict[str, Any]:
    """Return the statistics of a call site: estimates as value, low and high, tables as rows."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(statistics):
        value = getattr(statistics, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            result[field.name] = {k: plain_number(v) for k, v in dataclasses.asdict(value).items()}
        elif hasattr(value, "to_dict"):
            result[field.name] = table_as_data(value)
        else:
            result[field.name] = _value_as_data(value)
    return result


def table_as_data(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, such as the phases of a call site."""
    rows = table.to_dict("records")
    return [{str(name): _value_as_data(value) for name, value in row.items()} for row in rows]


def callsites_as_data(callsites: Any) -> list[dict[str, Any]]:
    """Return the values of call sites of collectives, in the order of the table of columns."""
    return _rows_as_data(columns.recorded(), callsites)


def message_callsites_as_data(messages: Any) -> list[dict[str, Any]]:
    """Return the values of call sites of messages, in the order of the table of columns."""
    return _rows_as_data(columns.of_messages(), messages)


def _rows_as_data(chosen: Sequence[columns.Column], table: Any) -> list[dict[str, Any]]:
    return [
        {c.name: DATA.get(c.quantity, plain_number)(row[c.name]) for c in chosen}
        for row in table.to_dict("records")
    ]


def _instances_of(algorithms: str) -> dict[str, int]:
    """Return the numbers of instances per algorithm, from "native 37, kang 3"."""
    parts = (part.rpartition(" ") for part in algorithms.split(", ") if part)
    return {name: int(number) for name, _, number in parts}


def plain_number(value: Any) -> Any:
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


def as_json_text(data: Any) -> str:
    """Return data as ASCII JSON text, which is valid in every locale."""
    return json.dumps(data, indent=1, allow_nan=False)


# Conversion of each quantity; all others are numbers.
DATA: dict[str, Callable[[Any], Any]] = {
    "text": str,
    "sites": locations_of,
    "algorithms": _instances_of,
}
