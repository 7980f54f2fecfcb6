"""Starting the process that looks after a job on a node, without a trace of it in the job.

It is nobody's child that the job's processes or their launcher wait for, and has none of their
files: a launcher that waits for the end of its pipes must not wait for us.
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

# Not less: a job that hangs polls on all processors, and the verdict needs some tenths of a second.
NICENESS = 5


@dataclass(frozen=True)
class Started:
    """What is known of a job where its process on this node is about to become the program.

    folder: of the trace, where it is named; else rank 0 makes one whose name begins with `base`.
    errors: what file standard error is, by device and number. speaks: the job's rank 0 is here.
    """

    leader: job.Process
    folder: Path | None
    base: Path
    job: str
    errors: tuple[int, int]
    speaks: bool


def started(environment: Mapping[str, str]) -> Started | None:
    """Return what this process knows of its job; None where another of its node looks after it.

    environment: the program's, with what the recorder is told.
    """
    mine = job.process(os.getpid())
    if mine is None or not job.leads_node(environment):
        return None
    folder = environment.get("MPIPROF_TRACE")
    try:
        status = os.fstat(2)
        errors = (status.st_dev, status.st_ino)
    except OSError:  # closed
        errors = (0, 0)
    return Started(
        mine,
        Path(folder) if folder else None,
        Path(environment["MPIPROF_BASE"]),
        environment["MPIPROF_JOB"],
        errors,
        not job.rank_in(environment),
    )


def beside(task: Callable[[], None]) -> None:
    """Run a task in a process of its own that nobody waits for; returns at once."""
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
    except BaseException:  # nobody is there to be told
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
    with contextlib.suppress(OSError):  # a rank is bound to its own processor
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
