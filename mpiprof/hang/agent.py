"""The agent that runs beside a job on each of its nodes, until its last process there has ended."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from mpiprof.hang.activity import Activity
from mpiprof.hang.detector import HangDetector, HangRequest
from mpiprof.hang.node_processes import Node
from mpiprof.hang.spawn import JobStart
from mpiprof.interface.untrusted_files import read_file

# Bounds of the interval between checks, and the number of checks in the time limit.
MIN_INTERVAL_S, MAX_INTERVAL_S, CHECKS_PER_LIMIT = 0.1, 0.5, 40
# A longer gap between two checks means that the agent, and with it the job, was stopped.
ASLEEP_S = 5.0
FOLDER_INTERVAL_S = 0.2  # between checks for a folder that rank 0 makes


def run_agent(job: JobStart, request: HangRequest | None, summary_to: Path | None) -> None:
    """Observe a job's processes on this node, and write its summary, until the last has ended."""
    node = Node(job.leader)
    with contextlib.closing(_ProcessEnd(job.leader.pid)) as ending:
        folder = _wait_for_folder(job, node, ending)
        if folder is None:
            return
        hang_watch = _HangWatch(job, request, folder, node) if request else None
        summaries = None
        if summary_to:
            from mpiprof.hang.summary_writer import SummaryWriter  # imports pandas, which is slow

            summaries = SummaryWriter(summary_to, folder, job.job)
        while node.has_processes(folder):
            if hang_watch:
                hang_watch.check_calls()
            if summaries:
                summaries.write_if_due(hung=bool(hang_watch and hang_watch.hangs.told))
            ending.wait(hang_watch.pause_s if hang_watch else MAX_INTERVAL_S)
        if summaries:
            summaries.write()


class _HangWatch:
    """Time since the last call on this node, and the report and action after the limit."""

    def __init__(self, job: JobStart, request: HangRequest, folder: Path, node: Node) -> None:
        self.job, self.folder, self.node = job, folder, node
        self.hangs = HangDetector(request, folder, node, job.reports)
        self.activity = Activity()
        self.pause_s = min(max(request.limit_s / CHECKS_PER_LIMIT, MIN_INTERVAL_S), MAX_INTERVAL_S)
        self.since = self.last = time.monotonic()
        self.used = node.read_use()

    def check_calls(self) -> None:
        """Check for calls since the last check, and report a hang when it is due."""
        now = time.monotonic()
        asleep = now - self.last > ASLEEP_S or self.node.is_stopped()
        logs = (self.folder / f"{name}.log" for name in self.node.logs)
        # After a hang was reported, a stopped job is being inspected, for example by the gdb of
        # --on-hang.
        if self.activity.has_changed(logs) or (asleep and not self.hangs.told):
            self.since, self.used = now, self.node.read_use()
            self.hangs.record_call()
        elif lines := self.hangs.check_silence(self.since, self.used):
            _write_messages(lines, self.node, self.job.errors)
            if self.hangs.ends_job:
                self.node.kill_processes()
        self.last = time.monotonic()


def _wait_for_folder(job: JobStart, node: Node, ending: _ProcessEnd) -> Path | None:
    """Wait for the trace folder; returns None if the job has ended without one."""
    while True:
        # Read before the folder, because the process may make the folder and die at once.
        alive = node.is_alive()
        folders = [job.folder] if job.folder else job.base.parent.glob(f"{job.base.name}-*")
        for folder in folders:
            if folder.is_dir() and _belongs_to(folder, job):
                return folder
        if not alive:
            return None
        ending.wait(FOLDER_INTERVAL_S)


def _belongs_to(folder: Path, job: JobStart) -> bool:
    try:
        return read_file(folder / ".job") == os.fsencode(job.job)
    except (OSError, ValueError):
        return job.folder is not None and any(folder.glob("*.tables"))


def _write_messages(lines: Sequence[str], node: Node, errors: tuple[int, int]) -> None:
    """Write messages to the job's standard error, one paragraph each."""
    text = "".join(f"mpiprof: {line}\n" for line in lines)
    descriptor = node.open_standard_error(errors)
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, text.encode("utf-8", "replace"))
        os.close(descriptor)


class _ProcessEnd:
    """Waits until a time or the end of a process; in short steps without pidfd_open."""

    def __init__(self, pid: int) -> None:
        self.poll = select.poll()
        try:
            self.descriptor = os.pidfd_open(pid)
            self.poll.register(self.descriptor, select.POLLIN)
        except (OSError, AttributeError):
            self.descriptor = -1
        self.over = self.descriptor < 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def wait(self, seconds: float) -> None:
        if self.over:
            time.sleep(min(seconds, MIN_INTERVAL_S))
        else:
            self.over = bool(self.poll.poll(1000 * seconds))
