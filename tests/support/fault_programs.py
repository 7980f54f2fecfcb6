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
from mpiprof.hang import moment_picture, rank_state, status, verdict_text, wait_picture
from support.compilation import compiled
from support.jobs import end, start
from support.mpis import Mpi
from support.wait_until import HANG_S

STABLE_S = 1.0  # for which a verdict must be the same


def watch(
    case: Case, mpi: Mpi, folder: Path, source: str | Path | None = None, *flags: str
) -> list[dict[str, Any]]:
    """Run a case and return its verdicts, as `watch_command` does."""
    compiler = mpi.mpifort if str(source).endswith("F90") else None
    program = compiled(mpi, source or case.source, *flags, compiler=compiler)
    return watch_command(["--", str(program), *case.words], case.ranks, mpi, folder)


def watch_command(
    command: Sequence[str], ranks: int, mpi: Mpi, folder: Path
) -> list[dict[str, Any]]:
    """Run a program and return every verdict up to the last, oldest first.

    Ends when a verdict that is not `none` has been the same for STABLE_S, or when the job has
    ended: a rank that has no processor may enter the faulty call later than the others.
    """
    launch = [*mpi.mpiexec(ranks), str(mpi.python), "-m", "mpiprof", "run", "-o", "t"]
    job = start(
        [*launch, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
    concluded = verdict_text.find_verdict(trace, states, pending)
    if concluded.is_bad:  # the pictures exist for every fault
        wait_picture.draw_hang(trace, states, pending, concluded)
        assert moment_picture.draw_strip(trace, states, concluded).svg.count("<rect") >= trace.ranks
        moment_picture.draw_moments(trace, states, concluded)
    reported: dict[str, Any] = status.as_json(trace, states, pending, concluded)["verdict"]
    return reported
