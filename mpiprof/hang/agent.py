"""The agent that runs beside a job on each of its nodes, until its last process there has ended."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from mpiprof.hang.activity import Activity
from mpiprof.hang.detector import Hangs, Wanted
from mpiprof.hang.node_processes import Node
from mpiprof.hang.spawn import Started
from mpiprof.hang.summary_writer import Summaries

# Bounds of the interval between checks, and the number of checks in the time limit.
SHORTEST_S, LONGEST_S, LOOKS = 0.1, 0.5, 40
# A longer gap between two checks means that the agent, and with it the job, was stopped.
ASLEEP_S = 5.0
FOLDER_S = 0.2  # between checks for a folder that rank 0 makes


def look_after(job: Started, wanted: Wanted | None, summary_to: Path | None) -> None:
    """Observe a job's processes on this node, and write its summary, until the last has ended."""
    node = Node(job.leader)
    with _Ending(job.leader.pid) as ending:
        folder = _folder(job, node, ending)
        if folder is None:
            return
        watch = _Watch(job, wanted, folder, node) if wanted else None
        summaries = Summaries(summary_to, folder, job.job) if summary_to else None
        while node.is_left(folder):
            if watch:
                watch.look()
            if summaries:
                summaries.look(hung=bool(watch and watch.hangs.told))
            ending.wait(watch.pause_s if watch else LONGEST_S)
        if summaries:
            summaries.end()


class _Watch:
    """Time since the last call on this node, and the report and action after the limit."""

    def __init__(self, job: Started, wanted: Wanted, folder: Path, node: Node) -> None:
        self.job, self.folder, self.node = job, folder, node
        self.hangs = Hangs(wanted, folder, node, job.speaks)
        self.activity = Activity()
        self.pause_s = min(max(wanted.limit_s / LOOKS, SHORTEST_S), LONGEST_S)
        self.since = self.last = time.monotonic()
        self.used = node.used()

    def look(self) -> None:
        """Check for calls since the last check, and report a hang when it is due."""
        now = time.monotonic()
        asleep = now - self.last > ASLEEP_S or self.node.is_stopped()
        logs = (self.folder / f"{name}.log" for name in self.node.logs)
        # After a hang was reported, a stopped job is being inspected, for example by the gdb of
        # --on-hang.
        if self.activity.has_changed(logs) or (asleep and not self.hangs.told):
            self.since, self.used = now, self.node.used()
            self.hangs.moved()
        elif lines := self.hangs.quiet(self.since, self.used):
            _say(lines, self.node, self.job.errors)
            if self.hangs.ends_job:
                self.node.end()
        self.last = time.monotonic()


def _folder(job: Started, node: Node, ending: _Ending) -> Path | None:
    """Wait for the trace folder; returns None if the job has ended without one."""
    while True:
        # Read before the folder, because the process may make the folder and die at once.
        alive = node.is_alive()
        found = [job.folder] if job.folder else job.base.parent.glob(f"{job.base.name}-*")
        for folder in found:
            if folder.is_dir() and _is_of(folder, job):
                return folder
        if not alive:
            return None
        ending.wait(FOLDER_S)


def _is_of(folder: Path, job: Started) -> bool:
    try:
        return (folder / ".job").read_text() == job.job
    except (OSError, ValueError):
        return job.folder is not None and any(folder.glob("*.tables"))


def _say(lines: Sequence[str], node: Node, errors: tuple[int, int]) -> None:
    """Write messages to the job's standard error, one paragraph each."""
    text = "".join(f"mpiprof: {line}\n" for line in lines)
    descriptor = node.errors(errors)
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, text.encode())
        os.close(descriptor)


class _Ending:
    """Waits until a time or the end of a process; in short steps without pidfd_open."""

    def __init__(self, pid: int) -> None:
        self.poll = select.poll()
        try:
            self.descriptor = os.pidfd_open(pid)
            self.poll.register(self.descriptor, select.POLLIN)
        except (OSError, AttributeError):
            self.descriptor = -1
        self.over = self.descriptor < 0

    def __enter__(self) -> _Ending:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def wait(self, seconds: float) -> None:
        if self.over:
            time.sleep(min(seconds, SHORTEST_S))
        else:
            self.over = bool(self.poll.poll(1000 * seconds))
