"""DataFrames of a trace for the figures, each derived once per version of the trace.

A trace folder can grow while the dashboard shows it. A TraceData is a snapshot of the trace, and
TraceContext.latest_data returns the latest snapshot.

A background thread opens each trace of a folder for its values in the list of runs, the newest
first. The derived tables are cached in files, so a second view of the same traces is fast.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from mpiprof.account.tables import communicator_names
from mpiprof.errors import MpiprofError, TraceError
from mpiprof.formats import cache, cached_trace
from mpiprof.hang.words import verdict_text
from mpiprof.interface.format_units import lower_first
from mpiprof.reports.run_summary import RunSummary, identify_run, summarise_run
from mpiprof.reports.words.ranks_and_steps import host_of
from mpiprof.trace import Trace
from mpiprof.trace.trace import WorkerPool
from mpiprof.trace.types import Bool, Int

from .url_state import PageState, parse_ranks

log = logging.getLogger(__name__)


class RunList:
    """Runs by the name of their trace, the newest first. `start` begins to compute their values."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        identified = [(identify_run(path), name) for name, path in paths.items()]
        identified.sort(key=lambda pair: pair[0].started, reverse=True)
        self._runs = {name: run for run, name in identified}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to compute the values of all runs, unless that was started before."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self.complete, daemon=True)
                self._thread.start()

    def complete(self) -> None:
        """Compute the values of all runs."""
        for name, run in list(self.runs.items()):
            complete = summarise(run)
            with self._lock:
                self._runs[name] = complete

    @property
    def runs(self) -> dict[str, RunSummary]:
        """The runs as far as they are known now."""
        with self._lock:
            return dict(self._runs)

    @property
    def done(self) -> int:
        """Number of runs with values."""
        return sum(run.is_complete for run in self.runs.values())


def summarise(run: RunSummary) -> RunSummary:
    """Return a run with its values, or with the reason why its trace is unreadable."""
    try:
        trace = cached_trace.open_trace(run.path)
        return summarise_run(trace, shorten_fault(verdict_text.fault_line(trace)))
    except MpiprofError as error:
        return replace(run, verdict=str(error), is_complete=True)
    except Exception:
        log.exception("%s failed", run.path)
        return replace(run, verdict="The trace could not be read", is_complete=True)


def shorten_fault(line: str) -> str:
    """Return the heading of a `fault_line` and the begin of its text, for a list of runs."""
    heading, _, text = line.partition(": ")
    first = re.split(r"[:;,.] ", f"{text} ", maxsplit=1)[0].rstrip(" .")
    return f"{heading.capitalize()}: {lower_first(first)}" if first else heading


MAX_RANKS = 1 << 16  # limit of ranks that are shown individually
# Derived tables besides the tables of the whole trace; the oldest are dropped first.
CACHED_RESULTS = 32
RELOAD_FACTOR = 5  # lower limit of the time between two readings, as a multiple of the reading time
Result = TypeVar("Result")


class TraceData:
    """Snapshot of one trace."""

    def __init__(
        self,
        name: str,
        path: Path,
        trace: Trace | None = None,
        workers: WorkerPool | None = None,
        machine: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.files = folder_version(path)
        self.trace: Trace = trace or cached_trace.open_trace(path, workers, machine)
        self.growth = cache.count_growth(self.trace)
        self.version = f"{self.files}-{self.growth:x}"
        self._lock = threading.Lock()
        self._busy: dict[Any, threading.RLock] = {}
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    @property
    def ended(self) -> bool:
        """True if every rank has recorded its end; the trace then cannot grow."""
        return len(self.trace.tables.ends) >= self.trace.ranks

    @property
    def is_removed(self) -> bool:
        """True if the trace does not exist any more; its calls that were read remain known."""
        return not self.path.exists()

    def has_grown(self) -> bool:
        """Return whether the trace has grown since then, even if file metadata do not show it."""
        return (
            folder_version(self.path) != self.files or cache.count_growth(self.trace) != self.growth
        )

    def compute_once(self, key: Any, make: Callable[[], Result]) -> Result:
        """Return `make()`, computed once per key while the key is among the last CACHED_RESULTS."""
        with self._lock_of(key):
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            result = make()
            with self._lock:
                self._kept[key] = result
                while len(self._kept) > CACHED_RESULTS:
                    self._kept.popitem(last=False)
            return result

    def _lock_of(self, key: Any) -> threading.RLock:
        """Return the lock of a key, so that a slow computation blocks only requests for its key."""
        with self._lock:
            return self._busy.setdefault(key, threading.RLock())

    def derive(self, name: str, *arguments: Any) -> Any:
        """Return a derived table of the trace (see mpiprof.causes.lazy_tables.DERIVED)."""
        return self.trace.derive(name, *arguments)

    def start_preparation(self) -> None:
        """Start to derive the tables of the first page before a request for the page."""
        threading.Thread(target=self._prepare_tables, daemon=True).start()

    def _prepare_tables(self) -> None:
        """Derive the tables in the order in which the page needs them."""
        with contextlib.suppress(MpiprofError):  # the page that needs the table reports the error
            for name in ("callsites", "findings"):
                self.derive(name)
            if self.trace.record != "summary":
                self.derive("rank_totals")

    @property
    def callsites(self) -> pd.DataFrame:
        """The trace's `callsites` (see mpiprof.account.callsites)."""
        return self.derive("callsites")

    @property
    def instances(self) -> pd.DataFrame:
        """The trace's `instances` (see mpiprof.account.tables)."""
        return self.derive("instances")

    # Filters

    @property
    def communicators(self) -> list[tuple[str, str]]:
        """Identity and name of each communicator."""
        names = communicator_names(self.trace)
        communicators = self.trace.tables.communicators
        return list({c.identity: n for c, n in zip(communicators, names, strict=True)}.items())

    @property
    def hosts(self) -> list[str]:
        """The hosts in order of their first rank: the options of the filter "node"."""
        return self.compute_once(
            "hosts",
            lambda: list(dict.fromkeys(host_of(self.trace, rank) for rank in self._all_ranks)),
        )

    @property
    def _all_ranks(self) -> Sequence[int]:
        """All ranks; above MAX_RANKS (probably damage), only ranks that wrote data."""
        if self.trace.ranks <= MAX_RANKS:
            return range(self.trace.ranks)
        return sorted(
            {rank for rank, _ in self.trace.logs.threads} | {*self.trace.tables.processes}
        )

    def filtered_ranks(self, state: PageState) -> Int:
        """Return the world ranks that pass the filters by node and rank, ascending."""
        chosen = parse_ranks(state.ranks, min(self.trace.ranks, MAX_RANKS))
        passing: Sequence[int] = self._all_ranks if chosen is None else chosen
        if state.nodes:
            passing = [rank for rank in passing if host_of(self.trace, rank) in state.nodes]
        return np.array(passing, np.int64)

    def filter_rows(self, table: pd.DataFrame, state: PageState) -> Bool:
        """Return a mask of the rows that pass the filters by communicator and operation."""
        good = np.ones(len(table), np.bool_)
        for name, values in (
            ("communicator", state.communicators),
            ("operation", state.operations),
        ):
            if values:
                good &= table[name].isin(values).to_numpy()
        return good


class TraceContext:
    """The traces of the server by name, and the folders from which it may show source lines.

    workers: Dask workers that process data sets, or None if this process does.
    machine: a machine table that replaces the recorded tables (see store.cached_trace.open_trace).
    lists_runs: the first page lists the traces.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        sources: Sequence[Path],
        workers: WorkerPool | None = None,
        machine: dict[str, Any] | None = None,
        *,
        lists_runs: bool = False,
    ) -> None:
        self.workers, self.machine = workers, machine
        self.lists_runs = lists_runs
        self.sources = [path.resolve() for path in sources]
        self._paths: dict[str, Path] = {}
        for path in paths:
            name, number = path.resolve().name, 2
            while name in self._paths:
                name, number = f"{path.resolve().name} ({number})", number + 1
            self._paths[name] = path
        self._open: dict[str, tuple[TraceData, float, float]] = {}
        self._lock = threading.Lock()

    @cached_property
    def run_list(self) -> RunList:
        """The runs of the traces."""
        return RunList(self._paths)

    @property
    def names(self) -> list[str]:
        """The names of the traces, in the order of the command line."""
        return list(self._paths)

    def latest_data(self, state: PageState | str) -> TraceData:
        """Return the latest TraceData of the trace given by a state or a name.

        Raises TraceError if the name is not a trace of this server or the trace is unreadable.
        """
        name = (state.trace if isinstance(state, PageState) else state) or self.names[0]
        path = self._paths.get(name)
        if path is None:
            raise TraceError(f"{name[:300]}: not one of the traces of this view")
        with self._lock:
            opened = self._open.get(name)
            now = time.monotonic()
            if opened is not None and (
                now < opened[1] + RELOAD_FACTOR * opened[2] or not opened[0].has_grown()
            ):
                return opened[0]
            try:
                data = TraceData(name, path, workers=self.workers, machine=self.machine)
            except MpiprofError:
                # The trace was readable before, so show the old snapshot.
                if opened is None:
                    raise
                data = opened[0]
            took = time.monotonic() - now
            self._open[name] = (data, time.monotonic(), max(took, 0.2))
            return data


def folder_version(path: Path) -> str:
    """Return a text that changes when a file of the folder is written, added or removed."""
    suffixes = (".log", ".tables", ".json", ".jsonl")
    files: list[os.stat_result] = []
    with contextlib.suppress(OSError):  # a file removed meanwhile ends the list early
        files.extend(e.stat() for e in path.iterdir() if e.suffix in suffixes and e.is_file())
    newest = max((file.st_mtime_ns for file in files), default=0)
    return f"{newest:x}-{sum(file.st_size for file in files):x}-{len(files):x}"
