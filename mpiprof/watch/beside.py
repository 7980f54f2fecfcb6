"""What runs beside a job on each of its nodes, until its last process there has ended."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from mpiprof.watch.activity import Activity, logs_of
from mpiprof.watch.hangs import Hangs, Wanted
from mpiprof.watch.node import Node
from mpiprof.watch.start import Started

SHORTEST_S, LONGEST_S, LOOKS = 0.1, 0.5, 40  # between looks; how many of them in the time limit
ASLEEP_S = 5.0  # between two looks: then we, and with us the job, have been stopped
FOLDER_S = 0.2  # between looks for a folder that rank 0 makes


def look_after(job: Started, wanted: Wanted) -> None:
    """Watch a job's processes on this node until the last has ended."""
    node = Node(job.leader)
    with _Ending(job.leader.pid) as ending:
        folder = _folder(job, node, ending)
        if folder is None:
            return
        hangs = Hangs(wanted, folder, node, job.speaks)
        activity = Activity()
        pause = min(max(wanted.limit_s / LOOKS, SHORTEST_S), LONGEST_S)
        since, used = time.monotonic(), node.used()
        last = since
        while node.is_alive():
            node.refresh(folder)
            now = time.monotonic()
            asleep = now - last > ASLEEP_S or node.is_stopped()
            last = now
            if activity.has_changed(logs_of(folder, node.ranks)) or asleep:
                since, used = now, node.used()
                hangs.moved()
            elif lines := hangs.quiet(since, used):
                _say(lines, node, job.errors)
                if hangs.ends_job:
                    node.end()
                last = time.monotonic()
            ending.wait(pause)


def _folder(job: Started, node: Node, ending: _Ending) -> Path | None:
    """Wait for the trace folder; None: the job has ended without."""
    while True:
        found = [job.folder] if job.folder else job.base.parent.glob(f"{job.base.name}-*")
        for folder in found:
            if folder.is_dir() and _is_of(folder, job):
                return folder
        if not node.is_alive():
            return None
        ending.wait(FOLDER_S)


def _is_of(folder: Path, job: Started) -> bool:
    try:
        return str((folder / ".job").readlink()) == job.job
    except OSError:
        return job.folder is not None and any(folder.glob("*.tables"))


def _say(lines: Sequence[str], node: Node, errors: tuple[int, int]) -> None:
    """Say something on the job's standard error, a paragraph each."""
    text = "".join(f"mpiprof: {line}\n" for line in lines)
    descriptor = node.errors(errors)
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, text.encode())
        os.close(descriptor)


class _Ending:
    """Waits, but not longer than a process lives; where the system can't tell, in short steps."""

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
