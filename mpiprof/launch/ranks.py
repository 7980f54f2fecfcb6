"""Starts ranks that run a mpiprof verb with the recorder preloaded.

`bench` and `tune --replay` start ranks with an mpiexec, here or on an emulated cluster. Under a
bare mpiexec, each rank restarts itself with the recorder in its environment. STUDY_FOLDER_VARIABLE
records which of the two applies.
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
from mpiprof.interface.installation import pip_command
from mpiprof.interface.progress import PROGRESS_VARIABLE
from mpiprof.launch import library, mpiexec
from mpiprof.launch.job import find_job_name
from mpiprof.launch.library import Mpi
from mpiprof.launch.options import Recording, recorder_environment
from mpiprof.launch.program import Program, replace_process

# The recorder's folder, or RESTARTED if the rank restarted itself.
STUDY_FOLDER_VARIABLE = "MPIPROF_STUDY_FOLDER"
RESTARTED = "remove"
FOLDER_PREFIX = "mpiprof-bench-"  # of folders for the recorder's output, which is not read
THREAD_LEVEL_VARIABLE = "MPI4PY_RC_THREAD_LEVEL"


def mpi_of_this_python(environment: Mapping[str, str]) -> Mpi:
    """Return the MPI of this Python's mpi4py; raises UsageError if it has none."""
    mpi = library.mpi_of_python(library.this_interpreter(), environment)
    if mpi is None:
        remedy = f"`{pip_command('mpi4py', 'mpich')}`"
        raise UsageError(f"the studies require mpi4py, which {sys.executable} lacks: {remedy}")
    return mpi


def rank_environment(
    words: Sequence[str], mpi: Mpi, folder: Path, record: str = "summary"
) -> dict[str, str]:
    """Return the variables that a rank needs besides this process's, for the preloaded recorder."""
    program = Program("bench", tuple(words), tuple(words), None, Path(sys.executable))
    recording = Recording(folder=folder, record=record, python_sites="never", quiet=True)
    environment = recorder_environment(program, mpi, recording, os.environ)
    changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    progress = {PROGRESS_VARIABLE: "1"} if sys.stderr.isatty() else {}
    return changed | progress | {STUDY_FOLDER_VARIABLE: str(folder)}


def serialize_threads() -> dict[str, str]:
    """Return the variables for a thread level with one thread in MPI at a time."""
    # By default mpi4py requests a higher level. Then MPICH, and Open MPI on several nodes, cannot
    # be set to one of their algorithms. A level in the environment takes precedence.
    return {} if THREAD_LEVEL_VARIABLE in os.environ else {THREAD_LEVEL_VARIABLE: "serialized"}


def start(mpi: Mpi, ranks: int, words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Start ranks on this machine with the matching mpiexec, and return its exit code."""
    launcher = mpiexec.find(mpi, os.environ).make_command(ranks, os.environ)
    pairs = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.run([*launcher, "env", *pairs, *words], check=False).returncode


def is_preloaded() -> bool:
    """Return True if the recorder is preloaded in this rank."""
    return STUDY_FOLDER_VARIABLE in os.environ


def was_restarted() -> bool:
    """Return True if this rank restarted itself, under a bare mpiexec."""
    return os.environ.get(STUDY_FOLDER_VARIABLE) == RESTARTED


def restart_preloaded(
    words: Sequence[str], mpi: Mpi, record: str = "summary", variables: dict[str, str] | None = None
) -> NoReturn:
    """Restart this rank with the recorder preloaded."""
    job = find_job_name(os.environ) or f"{os.getuid()}-{os.getppid()}"
    folder = Path(tempfile.gettempdir(), FOLDER_PREFIX + re.sub("[^A-Za-z0-9.]", "-", job))
    environment = (
        dict(os.environ)
        | rank_environment(words, mpi, folder, record)
        | {STUDY_FOLDER_VARIABLE: RESTARTED}
        | (variables or {})
    )
    if find_job_name(os.environ) is None:  # ranks of other nodes have other parents
        environment["MPIPROF_BASE"] = environment.pop("MPIPROF_TRACE")
    replace_process(words, environment)


def finalize_mpi() -> int:
    """Finalize MPI; rank 0 removes the trace if no launcher does."""
    from mpi4py import MPI

    remove = was_restarted() and MPI.COMM_WORLD.rank == 0
    maps = Path("/proc/self/maps").read_text().splitlines() if remove else []
    MPI.Finalize()
    for line in maps:
        path = Path(line.partition("/")[1] + line.partition("/")[2])
        if path.parent.name.startswith(FOLDER_PREFIX) and path.parent.is_dir():
            shutil.rmtree(path.parent, ignore_errors=True)
    return 0
