"""Starts the agent of a job on a node, detached from the job.

The agent is no child of a process that the job or its launcher waits for, and has none of their
files open. A launcher that waits for the end of its pipes must not wait for the agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpiprof.launch import job

# Not nicer: a job that hangs polls on all processors, and the verdict needs some tenths of a
# second.
NICENESS = 5


@dataclass(frozen=True)
class JobStart:
    """Facts about a job, collected by its process on this node before it becomes the program."""

    leader: job.Process
    folder: Path | None  # the named trace folder, or None if rank 0 makes one
    base: Path  # prefix of the folder that rank 0 makes
    job: str
    errors: tuple[int, int]  # device and inode of standard error
    reports: bool  # whether the job's rank 0 is on this node


def find_job_start(environment: Mapping[str, str]) -> JobStart | None:
    """Return the facts about this process's job, None if another process starts the agent."""
    mine = job.read_process(os.getpid())
    if mine is None or not job.is_node_leader(environment):
        return None
    folder = environment.get("MPIPROF_TRACE")
    try:
        status = os.fstat(2)
        errors = (status.st_dev, status.st_ino)
    except OSError:  # closed
        errors = (0, 0)
    return JobStart(
        mine,
        Path(folder) if folder else None,
        Path(environment["MPIPROF_BASE"]),
        environment["MPIPROF_JOB"],
        errors,
        not job.find_rank(environment),
    )


def run_detached(task: Callable[[], None]) -> None:
    """Run a task in a detached process that no process waits for; returns at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _leave_job()
            task()
    except BaseException:  # no one can receive the error
        os._exit(1)
    os._exit(0)


def _leave_job() -> None:
    for name in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(path.name))
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError):  # a rank may be bound to one processor
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
