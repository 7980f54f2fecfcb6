"""Facts about a process's job from the environment of its launcher, before the program runs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
LOCAL_RANK_VARIABLES = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
RANK_0_WAIT_S = 2
HYDRA_PROXY = "hydra_pmi_proxy"
CONFIGURATION_FILES = ("-configfile", "--configfile")  # of mpiexec; one part per line


@dataclass(frozen=True)
class Process:
    """A process of this machine: its command's name, and its start time in ticks."""

    pid: int
    name: str
    parent: int
    start_ticks: str

    @property
    def key(self) -> str:
        """Key that is unique on this machine since it was booted."""
        return f"{self.pid}.{self.start_ticks}"


def _find_number(names: tuple[str, ...], environment: Mapping[str, str]) -> int | None:
    values = (environment[name] for name in names if environment.get(name, "").isdigit())
    return next((int(text) for text in values), None)


def find_rank(environment: Mapping[str, str]) -> int | None:
    """Return this process's rank from its launcher, or None without a launcher."""
    return _find_number(RANK_VARIABLES, environment)


def find_rank_count(environment: Mapping[str, str]) -> int | None:
    """Return the number of ranks that the launcher has started, or None if unknown."""
    return None if find_rank(environment) is None else _find_number(SIZE_VARIABLES, environment)


def find_local_rank_count(environment: Mapping[str, str]) -> int | None:
    """Return the number of this job's ranks on this node, or None if unknown."""
    return _find_number(LOCAL_SIZE_VARIABLES, environment)


def is_node_leader(environment: Mapping[str, str]) -> bool:
    """Return whether the launcher numbered this process first of its job on this node."""
    return not (_find_number(LOCAL_RANK_VARIABLES, environment) or 0)


def find_job_name(environment: Mapping[str, str]) -> str | None:
    """Return a name that all processes of this job, and no others, have in their environment."""
    if "PMIX_NAMESPACE" in environment:
        return environment["PMIX_NAMESPACE"]
    if "SLURM_JOB_ID" in environment:
        return f"{environment['SLURM_JOB_ID']}.{environment.get('SLURM_STEP_ID', '0')}"
    return None


def read_process(pid: int) -> Process | None:
    """Return a process from /proc, or None if it does not exist."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        fields = after.split()
        return Process(pid, before.partition("(")[2], int(fields[1]), fields[19])
    except (OSError, ValueError, IndexError):
        return None


def walk_ancestors() -> Iterator[Process]:
    """Yield the parent of this process, the parent's parent, and so on."""
    process = read_process(os.getppid())
    while process is not None and process.pid > 1:
        yield process
        process = read_process(process.parent)


def _is_on_one_node(environment: Mapping[str, str]) -> bool:
    """Return whether all ranks of the job certainly are on this node."""
    size = find_rank_count(environment)
    return size is not None and size == find_local_rank_count(environment)


def _find_hydra() -> tuple[Process, Process | None] | None:
    """Return Hydra's proxy above this process, with its mpiexec if on this node; None without."""
    chain = walk_ancestors()
    proxy = next((process for process in chain if process.name == HYDRA_PROXY), None)
    return None if proxy is None else (proxy, next(chain, None))


def _mpiexec_command(launchers: tuple[Process, Process | None] | None) -> list[str]:
    """Return the command line of an mpiexec, or [] if it is not visible."""
    if launchers is None or launchers[1] is None:
        return []
    return _read_command_line(launchers[1].pid)


def _read_command_line(pid: int) -> list[str]:
    """Return the command line of a process, or [] if it is not visible."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return os.fsdecode(line).removesuffix("\0").split("\0")


def count_mpmd_parts(environment: Mapping[str, str]) -> int | None:
    """Return the number of parts of the launch, equal in all its processes; None if unknown."""
    # Open MPI's launchers report it. Hydra does not, so the command line of mpiexec is read. That
    # requires a job on one node, where its mpiexec runs too.
    count = environment.get("OMPI_NUM_APP_CTX", "")
    if count.isdigit():
        return int(count)
    if not _is_on_one_node(environment):
        return None
    words = _mpiexec_command(_find_hydra())
    if not words or "mpi" not in Path(words[0]).name:
        return None
    return 1 + words.count(":") + any(word in CONFIGURATION_FILES for word in words)


def has_uniform_launch(environment: Mapping[str, str]) -> bool:
    """Return whether all ranks of the job certainly start as this one does."""
    # This is visible only in a job on one node, if the command line of its mpiexec ends with that
    # of this process. A preceding script may choose by rank, and so may any executable.
    if not _is_on_one_node(environment) or count_mpmd_parts(environment) != 1:
        return False
    hydra = _find_hydra()
    words = _mpiexec_command(hydra) if hydra is not None else _read_command_line(os.getppid())
    this_command = _read_command_line(os.getpid())
    launcher_words, rank_command = words[: -len(this_command)], words[-len(this_command) :]
    if not launcher_words or not re.search("mpi|prte", Path(launcher_words[0]).name):
        return False
    return (
        Path(rank_command[0]).name == Path(this_command[0]).name
        and rank_command[1:] == this_command[1:]
        and not any(shutil.which(word) for word in launcher_words[1:])
    )


def make_job_id(environment: Mapping[str, str]) -> str:
    """Return a name that is equal in all processes of this job, at least on this node."""
    name = find_job_name(environment)
    if name is None and find_rank(environment) is None:
        name = f"{os.uname().nodename}-{os.getpid()}"
    elif name is None:
        hydra = _find_hydra()
        starter = hydra[0] if hydra is not None else read_process(os.getppid())
        name = f"{os.uname().nodename}-{starter.key if starter is not None else os.getppid()}"
    return re.sub(r"[^A-Za-z0-9._+-]", "-", name)


def print_once(text: str, environment: Mapping[str, str]) -> None:
    """Print a line on standard error in the first rank of a job."""
    if not find_rank(environment):
        print(f"mpiprof: {text}", file=sys.stderr)


def wait_for_rank_0(environment: Mapping[str, str]) -> None:
    """In a rank that found an error, wait for rank 0, which usually reports it and ends the job."""
    if (find_rank(environment) or 0) > 0:
        time.sleep(RANK_0_WAIT_S)


def abort_job(exit_code: int, environment: Mapping[str, str]) -> None:
    """End this rank's job, if its launcher would otherwise leave the other ranks waiting."""
    # Hydra does if a rank leaves without PMI finalisation: the other ranks then hang in MPI_Init.
    descriptor = environment.get("PMI_FD", "")
    if not descriptor.isdigit():
        return
    with contextlib.suppress(OSError):
        proxy = next((p for p in _launcher_processes() if p.name == HYDRA_PROXY), None)
        if proxy is not None and _peer_pid(int(descriptor)) == proxy.pid:
            os.write(int(descriptor), f"cmd=abort exitcode={exit_code}\n".encode())


def _launcher_processes() -> Iterator[Process]:
    """Yield the processes above this one, but none above an MPI program; raises OSError."""
    for process in walk_ancestors():
        # A process that an MPI program starts is not a rank: its errors must not end the job.
        if "libmpi" in Path(f"/proc/{process.pid}/maps").read_text(errors="replace"):
            return
        yield process


def _peer_pid(descriptor: int) -> int:
    """Return the process at the other end of a socket; raises OSError if there is none."""
    import socket
    import struct

    with socket.socket(fileno=os.dup(descriptor)) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, _, _ = struct.unpack("3i", credentials)
    return int(process)
