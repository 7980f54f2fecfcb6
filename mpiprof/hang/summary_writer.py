"""Rewrites a file with a job's summary while the job runs, and once more when it has ended."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import mpiprof
from mpiprof.errors import MpiprofError
from mpiprof.hang import one_line
from mpiprof.hang.processes import trace_now_ns
from mpiprof.interface.output_files import replace_file

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
            callsites = one_line.table_from_totals(trace)
            found = one_line.summarise_job(
                trace, callsites, state, 0 if state == "ended" else self.seen_ns
            )
            if self.path.suffix == METRICS_SUFFIX:
                text = one_line.format_metrics(found, callsites, self.job)
            else:
                text = one_line.format_line(found)
            replace_file(self.path, text)
