"""Runs commands and MPI jobs, each in a separate session with a time limit."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.jobs import descendants

from mpiprof.__main__ import main
from support import ROOT
from support.mpis import Mpi
from support.wait_until import HANG_S

LAUNCHER_PREFIXES = ("MPIPROF_", "PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "HYDRA_", "SLURM_")

# Open MPI's own choice on one machine. To find it, Open MPI opens libfabric and UCX, which takes
# 0.15 s of processor time and a second or more of waiting per job.
TRANSPORT = {"OMPI_MCA_pml": "ob1,monitoring", "OMPI_MCA_btl": "^ofi,uct"}
EVERY_TRANSPORT = {"OMPI_MCA_pml": "^none", "OMPI_MCA_btl": "^none"}

# MPICH without UCX, for ranks that call MPI_Abort. In rare runs a thread of UCX ends such a rank
# with SIGABRT while the rank exits ("failed to modify event handler"), also without mpiprof.
WITHOUT_UCX = {"MPIR_CVAR_CH4_NETMOD": "ofi"}

STARTED: list[str] = []  # by the current test, as lines to type

# Open MPI's launcher stores its files in a folder named by its pid, and a killed launcher leaves
# them. A later launcher with the same pid then refuses to start ("The PMIx server's listener thread
# failed to start"). So each launcher has a separate folder.
SESSIONS = tempfile.TemporaryDirectory(prefix="mpiprof-")


# Lets a command find the benchmarks: `python -m benchmarks.NAME`.
BENCHMARKS = {"PYTHONPATH": str(ROOT / "tests")}


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without launchers' and mpiprof's variables."""
    retained = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHER_PREFIXES) and name != "LD_PRELOAD"
    }
    retained |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return retained | TRANSPORT | dict(extra or {})


def shell_line(
    argv: Sequence[str | os.PathLike[str]], env: Mapping[str, str] | None, cwd: Path | None
) -> str:
    """Return a command as a line to type."""
    words = ["env", *(f"{name}={value}" for name, value in env.items())] if env else []
    line = shlex.join([*words, *(os.fspath(word) for word in argv)])
    return f"cd {shlex.quote(str(cwd))} && {line}" if cwd else line


def start(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    **options: Any,
) -> subprocess.Popen[str]:
    """Start a command in a new session, with `env` added to a clean environment."""
    STARTED.append(shell_line(argv, env, cwd))
    session = {"PRTE_MCA_prte_tmpdir_base": tempfile.mkdtemp(dir=SESSIONS.name)}
    return subprocess.Popen(
        [os.fspath(word) for word in argv],
        env=clean_environment(session | dict(env or {})),
        cwd=cwd,
        text=True,
        start_new_session=True,
        **{"stdin": subprocess.DEVNULL} | options,
    )


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float = HANG_S,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return it with its output as text; the options are those of `start`.

    After `timeout` seconds the whole session is killed, and the test fails with the output so far.
    """
    __tracebackhide__ = True
    process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        pytest.fail(f"{argv} did not end within {timeout} s\n{out[-3000:]}\n{err[-3000:]}")
    ended = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check and ended.returncode:
        printed = f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
        pytest.fail(f"{argv} ended with {ended.returncode}\n{printed}")
    return ended


def end(process: subprocess.Popen[Any]) -> None:
    """End a job with all its ranks, which have separate sessions under some launchers."""
    below = descendants(process.pid)
    process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run_verb(*words: object) -> tuple[int, str, str]:
    """Run a verb in this process; returns its code, output and error output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, words)])
    return code, out.getvalue(), err.getvalue()


def run_mpi(
    mpi: Mpi, n: int, argv: Sequence[str | os.PathLike[str]], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program on n ranks; the options are those of `run`."""
    __tracebackhide__ = True
    return run([*mpi.mpiexec(n), *argv], **options)


def run_failing_mpi(
    mpi: Mpi, n: int, argv: Sequence[str | os.PathLike[str]], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program that fails on n ranks, and return all that its ranks print.

    Open MPI's launcher may drop the output of a rank that fails, so the ranks write to files. The
    launcher's own output is left out.
    """
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory() as name:
        out, err = Path(name, "stdout"), Path(name, "stderr")
        shell = f'exec "$@" >>{shlex.quote(str(out))} 2>>{shlex.quote(str(err))}'
        ended = run_mpi(mpi, n, ["sh", "-c", shell, "sh", *argv], **options)
        printed = [path.read_text() if path.exists() else "" for path in (out, err)]
    return subprocess.CompletedProcess(ended.args, ended.returncode, *printed)


def refusal(mpi: Mpi, options: list[str], folder: Path) -> str:
    """Return the error line of `run`, which must refuse its options before it starts anything."""
    words = [str(mpi.python), "-m", "mpiprof", "run", *options, "--", "/bin/touch", "started"]
    done = run(words, cwd=folder)
    assert done.returncode == 2
    assert not (folder / "started").exists()
    return done.stderr.splitlines()[-1]
