"""A trace with all sorts of calls for export, and the command that exports it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.jobs import run_verb
from support.synthetic import Synthetic

HOSTILE = "<script>alert('&');<b>\"];.py"


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


def export(*words: object) -> Done:
    """Run the verb in this process."""
    return Done(*run_verb("export", *words))


def mixed(folder: Path) -> Path:
    """Write a trace of 4 ranks on 2 nodes.

    It has blocking, nonblocking and persistent calls, and one open call.
    """
    trace = Synthetic(4, nodes=[0, 0, 1, 1], offsets=[0, 700], drifts=[0.0, 0.0])
    for when in (5_000, 45_000_000):  # exact
        trace.add_clock(2, 0, when, 0)
    trace.add_communicator("odd", [1, 3])
    base = 10_000 + 1_000_000 * np.arange(30)[:, None]
    late = np.array([[0, 3_001, 20_007, 500]])
    trace.add_collective(
        "allreduce", base + late, base + 50_000 + 0 * late, site=f"{HOSTILE}:3:step"
    )
    base = base + 100_000
    trace.add_collective(
        "bcast",
        base + late,
        base + 30_000 + 0 * late,
        sent=800,
        received=800,
        root=1,
        site="a.py:9:main",
    )
    base = base + 100_000
    begin = base + late
    done = (base + 60_000 + 0 * late, base + 90_000 + late)
    trace.add_collective("ibarrier", begin, begin + 100, site="a.py:20:main", completions=done)
    odd = base[:, [0, 0]] + 200_000
    trace.add_collective("allgather", odd, odd + 7, "odd", site="a.py:30:main")
    persistent = [
        trace.add_shape(r, "allreduce_init", "world", site="a.py:40:main") for r in range(4)
    ]
    at, number = 40_000_000, trace.sequence["world"]
    for rank, shape in enumerate(persistent):
        trace.add(rank, shape, number, at, at + 10)
        trace.add_start(rank, shape, number, 1, at + 100, (at + 5_000, at + 6_000 + rank))
    for rank in range(4):  # the last rank never arrives
        shape = trace.add_shape(rank, "barrier", "world", site="a.py:50:main")
        if rank < 3:
            trace.add(rank, shape, number + 1, at + 10_000 + rank, 0)
    trace.ended_ns = at + 1_000_000
    return trace.write(folder)
