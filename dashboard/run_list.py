"""Runs of the traces of this server: identities at once, and values computed one after another.

A background thread opens each trace for its values, the newest first. The derived tables are cached
in files, so a second view of the same traces is fast.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mpiprof.errors import MpiprofError
from mpiprof.hang import verdict_text
from mpiprof.interface.format_units import lower_first
from mpiprof.reports.run_summary import RunSummary, identify_run, summarise_run
from mpiprof.store import cached_trace

log = logging.getLogger(__name__)


class RunList:
    """Runs by the name of their trace, the newest first. `start` begins to compute their values."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        named = [(identify_run(path), name) for name, path in paths.items()]
        named.sort(key=lambda pair: pair[0].started, reverse=True)
        self._runs = {name: run for run, name in named}
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
