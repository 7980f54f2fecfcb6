"""Synthetic traces of jobs that hang, and the verdicts on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.hang import job_verdict, rank_state
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text as words
from mpiprof.reports.site_labels import site_as_data
from support.synthetic import Synthetic

SECOND = 10**9
HERE, THERE = "app.py:5:main", "app.py:9:step"


def job(ranks: int, rounds: int = 3) -> Synthetic:
    """Return a trace with some completed barriers of 100 ns."""
    synthetic = Synthetic(ranks)
    times = 2000 + 1000 * (1 + np.arange(rounds)[:, None])
    arrivals = times + np.zeros((1, ranks), np.int64)
    synthetic.add_collective("barrier", arrivals, arrivals + 100, sent=0, received=0)
    return synthetic


def now(*ranks: int, after: int = 0, **more: Any) -> JobProcesses:
    """Return the state of living processes, some seconds after the last call was entered."""
    return JobProcesses(10_000 + after * SECOND, dict.fromkeys(ranks, True), **more)


def conclude(
    synthetic: Synthetic, folder: Path, processes: JobProcesses, finished: Any = False
) -> tuple[HangVerdict, str]:
    """Return the verdict on a trace, and its text."""
    for rank in range(synthetic.ranks):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    trace = mpiprof.open(synthetic.write(folder / "t", finished=finished))
    states, pending = rank_state.find(trace)
    verdict = job_verdict.conclude(trace, states, pending, processes)
    return verdict, words.format_verdict(trace, states, verdict)


def call(synthetic: Synthetic, rank: int, operation: str, **more: Any) -> None:
    """Add the next call on the world to one rank, open by default."""
    sequence = more.pop("sequence", 3)
    communicator = more.pop("communicator", "world")
    ends = more.pop("ends", 0)
    synthetic.add(
        rank, synthetic.add_shape(rank, operation, communicator, **more), sequence, 9_000, ends
    )


def places(verdict: HangVerdict, folder: Path) -> list[int]:
    """Return the source lines that a verdict names."""
    trace = mpiprof.open(folder / "t")
    return [site_as_data(trace, site)["line"] for site in verdict.sites]


def abort(folder: Path) -> None:
    """Change the end of all ranks of a finished trace to MPI_Abort."""
    for path in folder.glob("*.tables"):
        path.write_text(path.read_text().replace('"reason": "finalize"', '"reason": "abort"'))


def drop(folder: Path, rank: int, records: int = 17) -> None:
    """Mark some records of a rank as dropped."""
    path = folder / f"rank-{rank:06d}.log"
    content = bytearray(path.read_bytes())
    content[65536 + 24 : 65536 + 32] = records.to_bytes(8, "little")
    path.write_bytes(content)
