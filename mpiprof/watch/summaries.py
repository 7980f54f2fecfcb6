"""Rewriting a file with a job's summary while the job runs, and once more when it has ended."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import mpiprof
from mpiprof.errors import MpiprofError
from mpiprof.output import replace_file
from mpiprof.reports import brief
from mpiprof.trace.processes import now_ns

FIRST_S, EVERY_S = 1.0, 10.0  # after the start, and between two
COSTS = 20  # of the time between two at most a twentieth goes into one
METRICS = ".prom"


class Summaries:
    """Writes `path`, by the ending of its name, so that who reads it never finds a part of it."""

    def __init__(self, path: Path, folder: Path, job: str) -> None:
        self.path, self.folder, self.job = path, folder, job
        self.next_s = time.monotonic() + FIRST_S
        self.seen_ns = 0  # when the job was last seen to run, on the trace's clock

    def look(self, hung: bool) -> None:
        """Write it where it is time to."""
        if time.monotonic() >= self.next_s:
            began = time.monotonic()
            self.write("hung" if hung else "running")
            now = time.monotonic()
            self.next_s = now + max(EVERY_S, COSTS * (now - began))

    def end(self) -> None:
        """Write it for the last time: the job's processes here have ended."""
        self.write("")

    def write(self, state: str) -> None:
        """Write it now; state "": how the job has ended is to be found out."""
        with contextlib.suppress(MpiprofError, OSError):
            trace = mpiprof.open(self.folder)
            reasons = [end["reason"] for end in trace.tables.ends.values()]
            if not state and "abort" in reasons:
                state = "aborted"
            elif not state:
                lost = "unknown" if trace.unwritten else "killed"
                state = "ended" if len(reasons) == trace.ranks else lost
            if state not in ("ended", "aborted"):  # these tell when; of the others it is about now
                self.seen_ns = now_ns(trace) or self.seen_ns
            callsites = brief.callsites(trace)
            found = brief.brief(trace, callsites, state, 0 if state == "ended" else self.seen_ns)
            if self.path.suffix == METRICS:
                text = brief.metrics(found, callsites, self.job)
            else:
                text = brief.line(found)
            replace_file(self.path, text)
