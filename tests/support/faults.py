"""Programs with planted faults: which there are, what is true of each, and what `status` says.

`faults.c` makes the fault; the job is watched as a person would, by `status` again and again, until
a verdict is given or the time for one is over.
"""

from __future__ import annotations

import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.analysis import positions
from mpiprof.errors import MpiprofError
from mpiprof.reports import hang, status
from support.jobs import end, start
from support.mpis import Mpi
from support.programs import compiled

ROOTED = ("bcast", "reduce", "gather", "scatter")
REDUCING = ("reduce", "allreduce", "scan", "reduce_scatter_block")
SIZED = (*ROOTED, "allreduce", "allgather", "alltoall", "scan", "reduce_scatter_block")
SYNCHRONISING = ("barrier", "allreduce", "allgather", "alltoall")
# kind -> the class that is right, and the operations that show it.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "operation": ("operation", (*SIZED, "barrier")),
    "root": ("root", ROOTED),
    "count": ("count", SIZED),
    "type": ("type", SIZED),
    "reduction": ("reduction", REDUCING),
    "order": ("order", SYNCHRONISING),
    "leave": ("missing", SYNCHRONISING),
    "skip": ("missing", SYNCHRONISING),
    "extra": ("missing", SYNCHRONISING),
    "sleep": ("missing", SYNCHRONISING),
    "compute": ("stalled", SYNCHRONISING),
    "receive": ("point_to_point", SYNCHRONISING),
    "wait": ("point_to_point", SYNCHRONISING),
    "deadlock": ("point_to_point", ("barrier",)),
    "segv": ("dead", SYNCHRONISING),
    "kill": ("dead", SYNCHRONISING),
    "abort": ("dead", SYNCHRONISING),
}
PATIENCE_S = 45.0


@dataclass(frozen=True)
class Case:
    """One job; odd is the rank that goes wrong, count the elements of a block."""

    kind: str
    operation: str
    ranks: int
    odd: int
    count: int = 16
    form: int = 0

    @property
    def right(self) -> tuple[str, list[int]]:
        """The right class and the right ranks."""
        if self.kind == "none":
            return "none", []
        kind = KINDS[self.kind][0]
        disagree = kind in ("operation", "root", "count", "type", "reduction", "order")
        if self.kind == "deadlock" or (disagree and self.ranks == 2):
            return kind, list(range(self.ranks))
        return kind, [self.odd]


def cases(number: int, seed: int, most_ranks: int = 8) -> list[Case]:
    """Return so many cases, all kinds in turn, a sound program after every fifth of them."""
    chance = random.Random(seed)
    made: list[Case] = []
    kinds = list(KINDS)
    while len(made) < number:
        if len(made) % 6 == 5:
            made.append(Case("none", "allreduce", chance.randint(2, most_ranks), 0))
            continue
        kind = kinds[(len(made) - len(made) // 6) % len(kinds)]
        ranks = chance.randint(3 if kind == "extra" else 2, most_ranks)
        # The root keeps its own ways: it is a rank like any other, but the size is as others give.
        odd = chance.randrange(ranks)
        made.append(
            Case(
                kind,
                chance.choice(KINDS[kind][1]),
                ranks,
                odd,
                chance.choice((1, 16, 4096, 1 << 15)),
                chance.choice((0, 0, 1)) if KINDS[kind][0] not in ("order", "missing") else 0,
            )
        )
    return made


def watch(
    case: Case, mpi: Mpi, folder: Path, source: str = "faults.c", *flags: str
) -> list[dict[str, Any]]:
    """Run a case and return every verdict that was given until the last, oldest first.

    Ends with the first verdict that is not `none`, or when the job has ended or patience has.
    """
    compiler = mpi.mpifort if source.endswith("F90") else None
    program = compiled(mpi, source, *flags, compiler=compiler)
    words = [case.kind, case.operation, case.odd, case.count, case.form]
    launch = [*mpi.mpiexec(case.ranks), str(mpi.python), "-m", "mpiprof", "run", "-o", "t", "--"]
    job = start(
        [*launch, str(program), *map(str, words)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    said: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            over = job.poll() is not None
            found = verdict(folder / "t")
            if found is not None:
                said.append(found)
                if found["class"] != "none":
                    break
            if over:
                break
            time.sleep(0.4)
    finally:
        end(job)
    return said


def verdict(folder: Path) -> dict[str, Any] | None:
    """Return the verdict of `status --json` now; None while there is nothing to read."""
    try:
        trace = mpiprof.open(folder)
        if len(trace.tables.processes) < trace.ranks or not trace.meta:
            return None
        found, pending = positions.find(trace)
    except MpiprofError:
        return None
    concluded = hang.verdict(trace, found, pending)
    told: dict[str, Any] = status.as_json(trace, found, pending, concluded)["verdict"]
    return told
