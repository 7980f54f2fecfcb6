"""Programs under `--switch auto` that run until their trace meets a test's condition."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.errors import TraceError
from support.jobs import end, start
from support.mpis import Mpi
from support.wait_until import HANG_S, wait_until


def run_until(
    mpi: Mpi,
    ranks: int,
    words: Sequence[str],
    condition: Callable[[Any], bool],
    trace: Path,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command, and create its end file when the events of its trace meet a condition.

    The command must wait for this file.
    """
    sign = trace.with_name(f"{trace.name}-sign")
    job = start(
        [*mpi.mpiexec(ranks), *words, str(sign)],
        env=env,
        cwd=trace.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )

    def met() -> bool:
        try:
            return condition(mpiprof.open(trace).events)
        except TraceError:  # the trace does not exist yet
            return False

    try:
        wait_until(met, "the events of the trace meet the condition", job)
        sign.touch()
        _, printed = job.communicate(timeout=HANG_S)
    finally:
        end(job)
    assert job.returncode == 0, printed[-3000:]


def has_probes(operation: str) -> Callable[[Any], bool]:
    """Return a condition: an instance of an operation was a probe."""
    return lambda events: bool(
        ((events["operation"] == operation) & (events["choice"] == "probe")).any()
    )


def holds(operation: str) -> Callable[[Any], bool]:
    """Return a condition: the recorder has made its choice for an operation."""
    return lambda events: bool(
        ((events["operation"] == operation) & (events["choice"] == "chosen")).any()
    )
