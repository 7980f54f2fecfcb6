"""Facts about a process's job from the environment of its launcher, before the program runs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
LOCAL_RANK_VARIABLES = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
SECONDS_OF_RANK_0 = 2
HYDRA_PROXY = "hydra_pmi_proxy"
CONFIGURATION_FILES = ("-configfile", "--configfile")  # of mpiexec; one part per line


@dataclass(frozen=True)
class Process:
    """A process of this machine: its command's name, and its start time in ticks."""

    pid: int
    name: str
    parent: int
    started: str

    @property
    def key(self) -> str:
        """Key that is unique on this machine since it was booted."""
        return f"{self.pid}.{self.started}"


def _number(names: tuple[str, ...], environment: Mapping[str, str]) -> int | None:
    found = (environment[name] for name in names if environment.get(name, "").isdigit())
    return next((int(text) for text in found), None)


def rank_in(environment: Mapping[str, str]) -> int | None:
    """Return this process's rank from its launcher, or None without a launcher."""
    return _number(RANK_VARIABLES, environment)


def ranks_in(environment: Mapping[str, str]) -> int | None:
    """Return the number of ranks that the launcher has started, or None if unknown."""
    if rank_in(environment) is None:
        return None
    return _number(SIZE_VARIABLES, environment)


def local_ranks_in(environment: Mapping[str, str]) -> int | None:
    """Return the number of this job's ranks on this node, or None if unknown."""
    return _number(LOCAL_SIZE_VARIABLES, environment)


def leads_node(environment: Mapping[str, str]) -> bool:
    """Return whether the launcher numbered this process first of its job on this node."""
    return not (_number(LOCAL_RANK_VARIABLES, environment) or 0)


def job_in(environment: Mapping[str, str]) -> str | None:
    """Return a name that all processes of this job, and no others, have in their environment."""
    if "PMIX_NAMESPACE" in environment:
        return environment["PMIX_NAMESPACE"]
    if "SLURM_JOB_ID" in environment:
        return f"{environment['SLURM_JOB_ID']}.{environment.get('SLURM_STEP_ID', '0')}"
    return None


def process(pid: int) -> Process | None:
    """Return a process from /proc, or None if it does not exist."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        fields = after.split()
        return Process(pid, before.partition("(")[2], int(fields[1]), fields[19])
    except (OSError, ValueError, IndexError):
        return None


def ancestors() -> Iterator[Process]:
    """Yield the parent of this process, the parent's parent, and so on."""
    found = process(os.getppid())
    while found is not None and found.pid > 1:
        yield found
        found = process(found.parent)


def _hydra() -> tuple[Process, Process | None] | None:
    """Return Hydra's proxy above this process, with its mpiexec if on this node; None without."""
    line = iter(ancestors())
    proxy = next((one for one in line if one.name == HYDRA_PROXY), None)
    return None if proxy is None else (proxy, next(line, None))


def _words(launchers: tuple[Process, Process | None] | None) -> list[str]:
    """Return the command line of an mpiexec, or [] if it is not visible."""
    if launchers is None or launchers[1] is None:
        return []
    return _line(launchers[1].pid)


def _line(pid: int) -> list[str]:
    """Return the command line of a process, or [] if it is not visible."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return os.fsdecode(line).removesuffix("\0").split("\0")


def parts_in(environment: Mapping[str, str]) -> int | None:
    """Return the number of parts of the launch, equal in all its processes; None if unknown.

    Open MPI's launchers report it. Hydra does not, so the command line of mpiexec is read. That
    requires a job on one node, where its mpiexec runs too.
    """
    said = environment.get("OMPI_NUM_APP_CTX", "")
    if said.isdigit():
        return int(said)
    size = ranks_in(environment)
    if size is None or size != local_ranks_in(environment):
        return None
    words = _words(_hydra())
    if not words or "mpi" not in Path(words[0]).name:
        return None
    return 1 + words.count(":") + any(word in CONFIGURATION_FILES for word in words)


def is_whole(environment: Mapping[str, str]) -> bool:
    """Return whether all ranks of the job certainly start as this one does.

    This is visible only in a job on one node, if the command line of its mpiexec ends with that of
    this process. A preceding script may choose by rank, and so may any executable.
    """
    size = ranks_in(environment)
    if size is None or size != local_ranks_in(environment) or parts_in(environment) != 1:
        return False
    hydra = _hydra()
    parent = process(os.getppid())
    words = _words(hydra) if hydra is not None else _line(parent.pid if parent else 0)
    own = _line(os.getpid())
    before, ours = words[: -len(own)], words[-len(own) :]
    if not before or ("mpi" not in Path(before[0]).name and "prte" not in Path(before[0]).name):
        return False
    alike = Path(ours[0]).name == Path(own[0]).name and ours[1:] == own[1:]
    return alike and not any(shutil.which(word) for word in before[1:])


def identity(environment: Mapping[str, str]) -> str:
    """Return a name that is equal in all processes of this job, at least on this node."""
    return re.sub(r"[^A-Za-z0-9._+-]", "-", _identity(environment))


def _identity(environment: Mapping[str, str]) -> str:
    job = job_in(environment)
    if job is not None:
        return job
    if rank_in(environment) is None:
        return f"{os.uname().nodename}-{os.getpid()}"
    hydra = _hydra()
    starter = hydra[0] if hydra is not None else process(os.getppid())
    return f"{os.uname().nodename}-{starter.key if starter is not None else os.getppid()}"


def others_may_speak(environment: Mapping[str, str]) -> None:
    """In a rank that found an error, wait for rank 0, which normally finds the same error.

    Rank 0 reports it and ends the job. An error that only this rank found is reported after the
    wait.
    """
    if (rank_in(environment) or 0) > 0:
        time.sleep(SECONDS_OF_RANK_0)


def end(code: int, environment: Mapping[str, str]) -> None:
    """End this rank's job, if its launcher would otherwise leave the other ranks waiting.

    Hydra does if a rank leaves without PMI finalisation: the other ranks then hang in MPI_Init.
    """
    descriptor = environment.get("PMI_FD", "")
    if not descriptor.isdigit():
        return
    with contextlib.suppress(OSError):
        proxy = next((one for one in _starters() if one.name == HYDRA_PROXY), None)
        if proxy is not None and _peer(int(descriptor)) == proxy.pid:
            os.write(int(descriptor), f"cmd=abort exitcode={code}\n".encode())


def _starters() -> Iterator[Process]:
    """Yield the processes above this one, but none above an MPI program; raises OSError.

    A process that an MPI program starts is not a rank, so its errors must not end the job.
    """
    for one in ancestors():
        if "libmpi" in Path(f"/proc/{one.pid}/maps").read_text(errors="replace"):
            return
        yield one


def _peer(descriptor: int) -> int:
    """Return the process at the other end of a socket; raises OSError if there is none."""
    import socket
    import struct

    with socket.socket(fileno=os.dup(descriptor)) as end_of_ours:
        format_ = "3i"  # process, user and group
        size = struct.calcsize(format_)
        found = end_of_ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack(format_, found)[0])
