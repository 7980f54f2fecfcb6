"""Summary of a job, rewritten while it runs: JSON for a scheduler, or metrics for monitoring.

The summary uses the recorder's running totals, so its cost does not depend on the job's run time.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import mpiprof
from mpiprof import __version__
from mpiprof.account.callsites import of_summary
from mpiprof.errors import MpiprofError
from mpiprof.hang.processes import trace_now_ns
from mpiprof.interface.output_files import replace_file
from mpiprof.reports.site_labels import format_site
from mpiprof.trace import Trace

MAX_BYTES = 1024  # maximum length of the line, newline included
MAX_SITES = 16  # maximum in the metrics: 4 series each, plus about 10 of the job
MAX_TEXT_LENGTHS = (80, 40, 20, 10, 8)  # of names, which lose their beginning
RUNNING = ("running", "hung")


def table_from_totals(trace: Trace) -> pd.DataFrame | None:
    """Return the table of call sites from the totals of all calls, or None without totals."""
    return of_summary(trace) if len(trace.summary) else None


def summarise_job(
    trace: Trace, table: pd.DataFrame | None, state: str, until_ns: int = 0
) -> dict[str, Any]:
    """Return the summary of a job: its sums, and the call site that costs most.

    state: running, hung, ended, aborted, killed or unknown. until_ns: when the job was last seen
    running, on the trace's clock. Times are in s, and unknown values are None. `run_s` grows while
    the job runs. `collectives_waiting_s` covers all calls of collectives, and is estimated from
    the calls with observed arrivals; waiting for messages is not known while a job runs.
    """
    # A running job counts up to now, even without MPI calls.
    now = trace_now_ns(trace) if state in RUNNING else None
    until = max(now or 0, until_ns)
    run_ns = float(max(trace.run_ns, until - int(trace.run_start_ns) if until else 0))
    whole = run_ns * trace.thread_count
    summary: dict[str, Any] = {
        "program": trace.program,
        "started": trace.meta.get("started"),
        "commit": trace.meta.get("commit"),
        "state": state,
        "ranks": trace.ranks,
        "nodes": trace.node_count,
        "run_s": _as_seconds(run_ns),
        "calls": int(trace.summary["calls"].sum()),
        "bytes": int(trace.summary["sent"].sum()),
        "collectives_s": 0.0,
        "collectives_share": None,
        "collectives_waiting_s": None,
        "collectives_waiting_share": None,
        "worst": None,
        "dropped": trace.dropped_records,
        "mpiprof": __version__,
        "trace": str(trace.path),
    }
    if table is None or not len(table):
        return summary
    has_waits = bool(table["wait_ns"].notna().any())
    sums = {"collectives": "total_elapsed_ns"}
    if has_waits:
        sums["collectives_waiting"] = "total_wait_ns"
    for name, column in sums.items():
        total = float(table[column].sum())
        summary[f"{name}_s"] = _as_seconds(total)
        summary[f"{name}_share"] = round(total / whole, 4) if whole > 0 else None
    by = "total_wait_ns" if has_waits else "total_elapsed_ns"
    row: Any = table.sort_values(by, kind="stable").iloc[-1].to_dict()
    summary["worst"] = {
        "operation": row["operation"],
        "site": _first_site(row),
        "instances": int(row["instances"]),
        "total_s": _as_seconds(float(row["total_elapsed_ns"])),
    }
    return summary


def _as_seconds(ns: float) -> float:
    return round(ns / 1e9, 6)


def _first_site(row: Mapping[str, Any]) -> str:
    return format_site(row["sites"][0]) if len(row["sites"]) else ""


def format_line(summary: Mapping[str, Any]) -> str:
    """Return the summary as one line of JSON, of at most MAX_BYTES if shorter names permit that."""
    text = ""
    for most in MAX_TEXT_LENGTHS:
        text = json.dumps(_shorten(summary, most), separators=(",", ":")) + "\n"
        if len(text) <= MAX_BYTES:
            break
    return text


def _shorten(value: Any, most: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _shorten(item, most) for name, item in value.items()}
    if isinstance(value, str) and len(value) > most:
        return "..." + value[3 - most :]
    return value


# ---- Prometheus' text format

GAUGES = {
    "ranks": ("ranks", "Ranks of the job."),
    "run_s": ("run_seconds", "Time since MPI_Init."),
    "calls": ("calls_total", "Calls of collectives, of all ranks."),
    "bytes": ("sent_bytes_total", "Bytes that ranks have sent in collectives."),
    "collectives_s": ("collective_seconds_total", "Time of all ranks in collectives."),
    "collectives_waiting_s": (
        "collective_waiting_seconds",
        "Estimated time of all ranks in collectives in which they wait for late ranks.",
    ),
    "dropped": ("dropped_records_total", "Records that could not be written."),
}
SITE_METRICS = {
    "instances": ("callsite_instances_total", "Instances of a call site."),
    "total_elapsed_ns": (
        "callsite_seconds_total",
        "Time of all ranks in the calls of a call site.",
    ),
    "total_wait_ns": ("callsite_waiting_seconds", "Estimated waiting of all ranks at a call site."),
    "worst_imbalance_ns": (
        "callsite_imbalance_seconds",
        "Mean time from first to last arrival at a call site.",
    ),
}
STATE_METRIC = ("state", "1 for the state that the job is in, 0 for the other states.")
STATES = ("running", "hung", "ended", "aborted", "killed", "unknown")


def format_metrics(summary: Mapping[str, Any], table: pd.DataFrame | None, job: str) -> str:
    """Return the summary and the costliest call sites in Prometheus' format, below 100 series."""
    labels = {"job_id": job, "program": summary["program"]}
    lines: list[str] = []
    for name, (metric, described) in GAUGES.items():
        if summary[name] is not None:
            lines += _format_metric(metric, described, [(labels, float(summary[name]))])
    states = [(labels | {"state": name}, float(summary["state"] == name)) for name in STATES]
    lines += _format_metric(*STATE_METRIC, states)
    rows = []
    if table is not None:
        ordered = table.sort_values("total_elapsed_ns", ascending=False, kind="stable")
        rows = ordered.head(MAX_SITES).to_dict("records")
    for name, (metric, described) in SITE_METRICS.items():
        lines += _format_metric(metric, described, list(_site_samples(rows, name, labels)))
    return "\n".join(lines) + "\n"


def _site_samples(
    rows: list[dict[Any, Any]], name: str, labels: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], float]]:
    for row in rows:
        value = float(row[name]) / (1e9 if name.endswith("_ns") else 1.0)
        if name == "total_wait_ns" and math.isnan(float(row["wait_ns"])):
            continue
        if not math.isnan(value):
            number = str(row["callsite"])
            of = {"operation": row["operation"], "site": _first_site(row), "number": number}
            yield {**labels, **of}, value


def _format_metric(
    metric: str, description: str, samples: Sequence[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    """Yield the head and the samples of a metric; nothing without samples."""
    if samples:
        yield f"# HELP mpiprof_{metric} {description}"
        yield f"# TYPE mpiprof_{metric} {metric_type(metric)}"
    for labels, value in samples:
        text = ",".join(f'{name}="{_escape_label(label)}"' for name, label in labels.items())
        number = f"{value:.0f}" if value.is_integer() else f"{value!r}"
        yield f"mpiprof_{metric}{{{text}}} {number}"


def metric_type(metric: str) -> str:
    """Return the type of a metric in Prometheus' terms, which its name shows."""
    return "counter" if metric.endswith("_total") else "gauge"


def _escape_label(text: str) -> str:
    for plain, written in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n")):
        text = text.replace(plain, written)
    return text.encode("utf-8", "replace").decode()


FIRST_INTERVAL_S, MAX_INTERVAL_S = 1.0, 10.0  # after the start, and between two summaries
COST_FACTOR = 20  # the interval is at least so many times the time that one summary takes
METRICS_SUFFIX = ".prom"


class SummaryWriter:
    """Writes `path` in the format of its suffix, atomically."""

    def __init__(self, path: Path, folder: Path, job: str) -> None:
        self.path, self.folder, self.job = path, folder, job
        self.next_s = time.monotonic() + FIRST_INTERVAL_S
        self.seen_ns = 0  # when the job was last seen running, on the trace's clock

    def write_if_due(self, hung: bool) -> None:
        """Write the summary if it is due."""
        if time.monotonic() >= self.next_s:
            began = time.monotonic()
            self.write("hung" if hung else "running")
            now = time.monotonic()
            self.next_s = now + max(MAX_INTERVAL_S, COST_FACTOR * (now - began))

    def write(self, state: str = "") -> None:
        """Write the summary now; without a state, the job has ended and its end is determined."""
        with contextlib.suppress(MpiprofError, OSError):
            trace = mpiprof.open(self.folder)
            reasons = [end["reason"] for end in trace.tables.ends.values()]
            if not state and "abort" in reasons:
                state = "aborted"
            elif not state:
                lost = "unknown" if trace.unwritten_ranks else "killed"
                state = "ended" if len(reasons) == trace.ranks else lost
            # These states have a recorded time; for the other states it is about now.
            if state not in ("ended", "aborted"):
                self.seen_ns = trace_now_ns(trace) or self.seen_ns
            callsites = table_from_totals(trace)
            until_ns = 0 if state == "ended" else self.seen_ns
            summary = summarise_job(trace, callsites, state, until_ns)
            if self.path.suffix == METRICS_SUFFIX:
                text = format_metrics(summary, callsites, self.job)
            else:
                text = format_line(summary)
            replace_file(self.path, text)
