"""The agent that runs beside a job on each of its nodes, until its last process there has ended.

It detects calls by the open windows of the logs. A window changes whenever its thread enters or
leaves a call, including an unrecorded call. Only new chunks and windows are read, so that a check
is cheap however long the logs are.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.hang.detector import HangDetector, HangRequest
from mpiprof.hang.node_processes import Node
from mpiprof.hang.spawn import JobStart
from mpiprof.interface.untrusted_files import MAX_LOG_BYTES, open_file, read_file
from mpiprof.trace.layout import MAGIC, MAX_HEAD_BYTES, parse_layout

# Bounds of the interval between checks, and the number of checks in the time limit.
MIN_INTERVAL_S, MAX_INTERVAL_S, CHECKS_PER_LIMIT = 0.1, 0.5, 40
# A longer gap between two checks means that the agent, and with it the job, was stopped.
ASLEEP_S = 5.0
FOLDER_INTERVAL_S = 0.2  # between checks for a folder that rank 0 makes
# Number of checks after which chunks that have long been unused are inspected again.
UNUSED_CHECK_INTERVAL = 20
FEW_CHUNKS = 64


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


class Activity:
    """The logs of a node's ranks, inspected repeatedly."""

    def __init__(self) -> None:
        self.logs: dict[Path, _LogActivity] = {}
        self.seen = 0

    def has_changed(self, paths: Iterable[Path]) -> bool:
        """Return whether any call was made since the last check."""
        checksum = 0
        for path in paths:
            with contextlib.suppress(OSError, TraceError):  # a log being created
                if path not in self.logs:
                    self.logs[path] = _LogActivity(path)
                of_log = self.logs[path].compute_checksum().to_bytes(4, "little")
                checksum = zlib.crc32(of_log, checksum)
        changed, self.seen = checksum != self.seen, checksum
        return changed


class _LogActivity:
    def __init__(self, path: Path) -> None:
        self.path = path
        with os.fdopen(open_file(path, MAX_LOG_BYTES), "rb", buffering=0) as file:
            self.layout = parse_layout(file.read(MAX_HEAD_BYTES), path.name)
        self.known = 1  # chunks, the first of which is the file's description
        self.windows: list[int] = []
        self.unused: list[int] = []
        self.looks = 0

    def compute_checksum(self) -> int:
        """Return a checksum that changes with any write to the log."""
        size = self.layout.chunk_bytes
        with os.fdopen(open_file(self.path, MAX_LOG_BYTES), "rb", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            self._find(file.fileno(), length // size)
            checksum = zlib.crc32(length.to_bytes(8, "little"))
            for chunk in self.windows:
                checksum = zlib.crc32(os.pread(file.fileno(), size, chunk * size), checksum)
        return checksum

    def _find(self, descriptor: int, chunks: int) -> None:
        """Find windows among chunks that are new, or that were unused."""
        self.looks += 1
        offsets = list(range(self.known, chunks))
        if len(self.unused) < FEW_CHUNKS or self.looks % UNUSED_CHECK_INTERVAL == 0:
            offsets += self.unused
            self.unused = []
        for chunk in offsets:
            offset = chunk * self.layout.chunk_bytes
            content = os.pread(descriptor, self.layout.header_bytes, offset)
            head = np.frombuffer(content, self.layout.header)[0]
            if int(head["magic"]) != MAGIC:
                self.unused.append(chunk)
            elif int(head["window"]):
                self.windows.append(chunk)
        self.known = max(self.known, chunks)
