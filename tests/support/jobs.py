"""Commands and MPI jobs: each in a session of its own, with a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.mpis import Mpi

NO_LISTENER = "The PMIx server's listener thread failed to start"
LAUNCHER_PREFIXES = ("MPIPROF_", "PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "HYDRA_", "SLURM_")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without any launcher's or mpiprof's variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHER_PREFIXES) and name != "LD_PRELOAD"
    }
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return kept | dict(extra or {})


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 60,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a session of its own and return it with its output as text.

    `env` is added to a clean environment. After `timeout` seconds the whole session is killed
    and the test fails with what was printed until then.
    """
    process = subprocess.Popen(
        [os.fspath(word) for word in argv],
        env=clean_environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        pytest.fail(f"{argv} did not end within {timeout} s\n{out[-3000:]}\n{err[-3000:]}")
    ended = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check:
        checked(ended)
    return ended


def checked(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail with what a command printed, unless it ended with 0."""
    if ended.returncode:
        said = f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
        pytest.fail(f"{ended.args} ended with {ended.returncode}\n{said}")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end(process: subprocess.Popen[Any]) -> None:
    """End a job with all its ranks, which under some launchers have sessions of their own."""
    below = descendants(process.pid)
    process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run_mpi(
    mpi: Mpi,
    n: int,
    argv: Sequence[str | os.PathLike[str]],
    *,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program on n ranks; the options are those of `run`.

    Open MPI's launcher once couldn't open its own socket, in some ten thousand starts. No rank
    runs before it has, so that it may start again; the warning keeps what it said.
    """
    ended = run([*mpi.mpiexec(n), *argv], **options)
    if ended.returncode and NO_LISTENER in ended.stderr:
        warnings.warn(f"{argv} again: {ended.stdout[-2000:]}{ended.stderr[-2000:]}", stacklevel=2)
        ended = run([*mpi.mpiexec(n), *argv], **options)
    if check:
        checked(ended)
    return ended
