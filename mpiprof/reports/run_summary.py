"""Summaries of runs: identity, loss and slowest call sites, from traces or from one-line summaries.

`list_runs` reads only the metadata of traces, so it lists hundreds of them at once.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mpiprof.causes.finding import NEGLIGIBLE_SHARE
from mpiprof.causes.findings import make_verdict
from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.untrusted_files import read_file
from mpiprof.interface.untrusted_text import clean_text, parse_json
from mpiprof.reports.efficiency_table import run_efficiencies
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.words import trace_sentences
from mpiprof.reports.words.conclusion import NO_FINDING
from mpiprof.reports.words.finding_sentences import finding_title
from mpiprof.trace import Trace
from mpiprof.trace.run_metadata import read_metadata

MAX_BYTES = 1 << 24  # of a file that is read as a whole
MAX_DEPTH = 2  # levels of folders in which traces are searched
MAX_RUNS = 5000
MAX_SITES = 3
TRACE_FILES = ("meta.json", "*.pack", "rank-*.log", "node-*.log")
SUMMARY_ENDINGS = (".json", ".jsonl")
EFFICIENCIES = ("parallel", "load_balance", "serialisation", "transfer")
NAN = math.nan


@dataclass(frozen=True)
class SlowSite:
    """A call site, and its waiting (of summaries: its time) as a share of all ranks' time."""

    name: str
    share: float


@dataclass(frozen=True)
class RunSummary:
    """One run. Times are in s. Unknown numbers are NaN, unknown texts are "".

    started: UTC, as in "2026-01-31T12:00:00Z". lost: waiting as a share of all ranks' time.
    is_complete: whether the values are known; before that, only the identity is.
    """

    path: Path
    program: str
    started: str
    commit: str = ""
    ranks: int = 0
    nodes: int = 0
    run_s: float = NAN
    lost: float = NAN
    parallel: float = NAN
    load_balance: float = NAN
    serialisation: float = NAN
    transfer: float = NAN
    slowest: tuple[SlowSite, ...] = ()
    verdict: str = ""
    is_complete: bool = False
    is_trace: bool = True

    @property
    def date(self) -> str:
        """Date and time of the start for people, in UTC."""
        return self.started.replace("T", " ")[:16]

    def as_data(self) -> dict[str, Any]:
        """Return the run as JSON data; unknown values are None."""
        data = asdict(self) | {"path": str(self.path)}
        data["slowest"] = [asdict(site) for site in self.slowest]
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in data.items()
        }


def list_runs(paths: Iterable[Path]) -> list[RunSummary]:
    """Return the runs of trace folders, of folders that contain them, and of files of summaries.

    Runs are in order of their start. A summary of a listed trace is left out. Raises UsageError
    for a path without a run.
    """
    runs: list[RunSummary] = []
    for path in paths:
        found = list(_runs_at(path, MAX_DEPTH))
        if not found:
            remedy = "name a folder that contains traces, or files of `run --summary-to`"
            raise UsageError(f"{path}: no trace in it: {remedy}")
        runs += found
    traces = {run.path.resolve(): run for run in runs if run.is_trace}
    names = {path.name for path in traces}
    summaries = [run for run in runs if not run.is_trace and run.path.name not in names]
    return sorted([*traces.values(), *summaries], key=lambda run: run.started)[-MAX_RUNS:]


def is_trace(path: Path) -> bool:
    """Return whether a folder has files of a trace."""
    return any(next(path.glob(name), None) is not None for name in TRACE_FILES)


def _runs_at(path: Path, depth: int) -> Iterator[RunSummary]:
    """Yield the runs at a path; unreadable files of a folder are skipped."""
    if path.is_file():
        yield from read_summaries(path)
    elif not path.is_dir():
        raise UsageError(f"{path}: no such file or folder; name traces, or a folder of traces")
    elif is_trace(path):
        yield identify_run(path)
    elif depth > 0:
        try:
            entries = sorted(path.iterdir())
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                try:
                    yield from _runs_at(entry, depth - 1)
                except (TraceError, OSError):
                    continue
            elif entry.suffix in SUMMARY_ENDINGS:
                yield from read_summaries(entry)


def identify_run(path: Path) -> RunSummary:
    """Return the identity of a trace from its metadata alone."""
    meta: dict[str, Any] = {}
    with contextlib.suppress(TraceError):
        meta = read_metadata(path).fields
    return RunSummary(
        path,
        _text(meta, "program") or clean_text(path.name),
        _text(meta, "started") or _modification_time(path),
        _text(meta, "commit"),
        int(_number(meta, "ranks", 0)),
    )


def summarise_run(trace: Trace, fault: str = "") -> RunSummary:
    """Return the summary of a trace; `fault` replaces the verdict if the job hung or died."""
    identity = identify_run(trace.path)
    times, whole = trace.run_times, float(trace.process_time_ns)
    efficiencies: dict[str, Any] = run_efficiencies(trace) or {}
    factors: dict[str, Any] = {name: float(efficiencies.get(name, NAN)) for name in EFFICIENCIES}
    table = trace.callsites
    rows: list[dict[Any, Any]] = table[table["total_wait_ns"] > 0].to_dict("records")
    rows.sort(key=lambda row: -row["total_wait_ns"])
    return replace(
        identity,
        program=trace.program or identity.program,
        ranks=trace.ranks,
        nodes=trace.node_count,
        run_s=float(trace.run_ns) / 1e9,
        lost=float(times.total_wait.value) / (times.whole_ns or NAN),
        **factors,
        slowest=tuple(
            SlowSite(routine_at(row), float(row["total_wait_ns"]) / (whole or NAN))
            for row in rows[:MAX_SITES]
        ),
        verdict=fault or describe_verdict(trace),
        is_complete=True,
    )


def describe_verdict(trace: Trace) -> str:
    """Return the verdict on a trace as one short line."""
    if not len(trace.callsites):
        return "No collective operation was recorded"
    verdict = make_verdict(trace, trace.findings())
    if verdict.worst is not None:
        return finding_title(trace, verdict.worst)
    if trace_sentences.loss_sentence(trace):
        return "Trace is incomplete: waiting in the lost calls is unknown"
    if math.isnan(verdict.waiting):
        return "Waiting is not known"
    return NO_FINDING if verdict.waiting >= NEGLIGIBLE_SHARE else "No time is lost"


def read_summaries(path: Path) -> list[RunSummary]:
    """Return the runs of a file of one-line summaries; other lines and files have none."""
    try:
        content = read_file(path, MAX_BYTES)
    except OSError:
        return []
    runs = []
    for line in content.split(b"\n"):
        try:
            data = parse_json(line)
        except ValueError:
            continue
        if isinstance(data, dict) and "collectives_waiting_share" in data and "program" in data:
            runs.append(_from_summary(data, path))
    return runs


def _from_summary(data: Mapping[str, Any], path: Path) -> RunSummary:
    """Return the run of a line of `run --summary-to`."""
    run_s, ranks = _number(data, "run_s"), int(_number(data, "ranks", 0))
    worst = data.get("worst")
    slowest: Sequence[SlowSite] = ()
    if isinstance(worst, dict):
        share = _number(worst, "total_s") / (run_s * ranks or NAN)
        slowest = (SlowSite(f"{_text(worst, 'operation')} at {_text(worst, 'site')}", share),)
    state = _text(data, "state")
    return RunSummary(
        Path(_text(data, "trace") or path),
        _text(data, "program"),
        _text(data, "started") or _modification_time(path),
        _text(data, "commit"),
        ranks,
        int(_number(data, "nodes", 0)),
        run_s,
        _number(data, "collectives_waiting_share"),
        slowest=tuple(slowest),
        verdict="" if state == "ended" else f"The job is {state}",
        is_complete=True,
        is_trace=False,
    )


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value[:1000] if isinstance(value, str) else ""


def _number(data: Mapping[str, Any], name: str, otherwise: float = NAN) -> float:
    value = data.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else otherwise  # type: ignore[arg-type]


def _modification_time(path: Path) -> str:
    try:
        seconds = path.stat().st_mtime
    except OSError:
        return ""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
