"""Ranks that run a verb of ours: how they are started, and how each gets our library before MPI.

`bench` and `tune --replay` start them with an mpiexec, here or on an emulated cluster; under a bare
mpiexec each rank starts itself again with our library in its environment. A rank knows by READY
which of both it is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from mpiprof.errors import UsageError
from mpiprof.installation import pip_install
from mpiprof.launch import library, mpiexec
from mpiprof.launch.job import job_in
from mpiprof.launch.library import Mpi
from mpiprof.launch.options import Recording, recorder_environment
from mpiprof.launch.program import Program, become
from mpiprof.progress import WATCHED

READY = "MPIPROF_STUDY_FOLDER"  # the recorder's folder, or ITSELF where a rank started itself
ITSELF = "remove"
PREFIX = "mpiprof-bench-"  # of folders for what the recorder writes meanwhile; nobody reads it
LEVEL = "MPI4PY_RC_THREAD_LEVEL"


def this_mpi(environment: Mapping[str, str]) -> Mpi:
    """Return the MPI of this Python's mpi4py; raises UsageError where it has none."""
    found = library.mpi_of_python(library.this_interpreter(), environment)
    if found is None:
        raise UsageError(
            f"the studies call MPI through mpi4py, which {sys.executable} lacks: "
            f"`{pip_install('mpi4py', 'mpich')}`"
        )
    return found


def inside(words: Sequence[str], mpi: Mpi, folder: Path, record: str = "summary") -> dict[str, str]:
    """Return what a rank's environment must have beyond ours: the library put before its MPI."""
    program = Program("bench", tuple(words), tuple(words), None, Path(sys.executable))
    told = Recording(folder=folder, record=record, python_sites="never", quiet=True)
    full = recorder_environment(program, mpi, told, os.environ)
    changed = {name: value for name, value in full.items() if os.environ.get(name) != value}
    watched = {WATCHED: "1"} if sys.stderr.isatty() else {}
    return changed | watched | {READY: str(folder)}


def one_thread() -> dict[str, str]:
    """Return what gives the ranks the thread level of a program with one thread in MPI at a time.

    mpi4py asks for more by itself, and then MPICH, and Open MPI on several nodes, can't be told
    their own algorithms. A level in the environment stands.
    """
    return {} if LEVEL in os.environ else {LEVEL: "serialized"}


def start(mpi: Mpi, ranks: int, words: Sequence[str], more: Mapping[str, str]) -> int:
    """Start ranks on this machine with the mpiexec that fits, and return its exit code."""
    launcher = mpiexec.find(mpi, os.environ).words(ranks, os.environ)
    pairs = [f"{name}={value}" for name, value in more.items()]
    return subprocess.run([*launcher, "env", *pairs, *words], check=False).returncode


def is_ready() -> bool:
    """Whether this rank has our library before its MPI."""
    return READY in os.environ


def started_itself() -> bool:
    """Whether this rank became ready by itself, under a bare mpiexec."""
    return os.environ.get(READY) == ITSELF


def become_ready(
    words: Sequence[str], mpi: Mpi, record: str = "summary", more: dict[str, str] | None = None
) -> NoReturn:
    """Start this rank again with our library put before its MPI."""
    job = job_in(os.environ) or f"{os.getuid()}-{os.getppid()}"
    folder = Path(tempfile.gettempdir(), PREFIX + re.sub("[^A-Za-z0-9.]", "-", job))
    full = dict(os.environ) | inside(words, mpi, folder, record) | {READY: ITSELF} | (more or {})
    if job_in(os.environ) is None:  # ranks of other nodes have other parents
        full["MPIPROF_BASE"] = full.pop("MPIPROF_TRACE")
    become(words, full)


def leave() -> int:
    """End MPI; rank 0 removes the trace where nobody else does."""
    from mpi4py import MPI

    remove = started_itself() and MPI.COMM_WORLD.rank == 0
    maps = Path("/proc/self/maps").read_text().splitlines() if remove else []
    MPI.Finalize()
    for line in maps:
        path = Path(line.partition("/")[1] + line.partition("/")[2])
        if path.parent.name.startswith(PREFIX) and path.parent.is_dir():
            shutil.rmtree(path.parent, ignore_errors=True)
    return 0
