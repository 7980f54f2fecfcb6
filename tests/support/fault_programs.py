"""Programs with planted faults, and the verdicts of `status` on them.

tests/benchmarks/faults.py lists the programs with their true faults. As a user would, the helper
runs `status` on the job repeatedly, until there is a verdict or the job ends.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults import Case

import mpiprof
from mpiprof.errors import MpiprofError
from mpiprof.hang import hang_pictures, job_verdict, rank_state, status
from support.compilation import compiled
from support.jobs import end, start
from support.mpis import Mpi
from support.prepared_runs import prepare_run
from support.wait_until import HANG_S

STABLE_S = 1.0  # for which a verdict must be the same


def watch(
    case: Case, mpi: Mpi, folder: Path, source: str | Path | None = None, *flags: str
) -> list[dict[str, Any]]:
    """Run a case and return its verdicts, as `watch_command` does."""
    compiler = mpi.mpifort if str(source).endswith("F90") else None
    program = compiled(mpi, source or case.source, *flags, compiler=compiler)
    command = prepare_run(["-o", folder / "t"], [program, *case.words])
    return watch_command(command, case.ranks, mpi, folder)


def watch_command(
    command: Sequence[str], ranks: int, mpi: Mpi, folder: Path
) -> list[dict[str, Any]]:
    """Run a command on ranks, which record into folder / "t", and return every verdict in order.

    Ends when a verdict that is not `none` has been the same for STABLE_S, or when the job has
    ended: a rank that has no processor may enter the faulty call later than the others.
    """
    launch, silent = [*mpi.mpiexec(ranks), *command], subprocess.DEVNULL
    job = start(launch, cwd=folder, stdout=silent, stderr=silent)
    printed: list[dict[str, Any]] = []
    deadline = time.monotonic() + HANG_S
    key: tuple[Any, ...] = ()
    since = 0.0
    try:
        while time.monotonic() < deadline:
            over = job.poll() is not None
            found = verdict(folder / "t")
            if found is not None:
                printed.append(found)
                last, key = key, (found["class"], found["odd_ranks"])
                since = since if key == last else time.monotonic()
                if found["class"] != "none" and time.monotonic() - since >= STABLE_S:
                    break
            if over:
                break
            time.sleep(0.4)
    finally:
        end(job)
    return printed


def verdict(folder: Path) -> dict[str, Any] | None:
    """Return the present verdict of `status --json`, or None if the trace is not readable yet."""
    try:
        trace = mpiprof.open(folder)
        if len(trace.tables.processes) < trace.ranks or not trace.meta:
            return None
        states, pending = rank_state.find(trace)
    except MpiprofError:
        return None
    concluded = job_verdict.find_verdict(trace, states, pending)
    if concluded.is_bad:  # the pictures exist for every fault
        hang_pictures.draw_hang(trace, states, pending, concluded)
        assert hang_pictures.draw_strip(trace, states, concluded).svg.count("<rect") >= trace.ranks
        hang_pictures.draw_moments(trace, states, concluded)
    reported: dict[str, Any] = status.as_json(trace, states, pending, concluded)["verdict"]
    return reported
