"""Traces to be exported as data sets, one for each case of matching and summing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.formats import values
from mpiprof.formats.cache import Writer
from mpiprof.trace.match import MAX_READ_RECORDS
from mpiprof.trace.types import OUTSIDE
from support.dashboard_traces import of_size
from support.export_trace import mixed
from support.interval_records import counters, interval, pressure
from support.jobs import run_verb
from support.neighbours import make_ring
from support.program import Program
from support.program_log import NO_SHAPE
from support.synthetic import Synthetic

MS = 1_000_000


def _random(trace: Synthetic, communicator: str, operation: str, seed: int, count: int) -> None:
    """Add instances with random lateness, at a call site of the operation and communicator."""
    members = sum(len(group) for group in trace.members[communicator])
    random = np.random.default_rng(seed)
    arrivals = MS * np.arange(1, count + 1)[:, None] + seed * 1_000
    arrivals = arrivals + random.integers(0, 90_001, (count, members))
    exits = arrivals.max(1, keepdims=True) + random.integers(1, 9_001, (count, members))
    root = 0 if operation == "bcast" else None
    site = f"{communicator}.py:{seed}:{operation}"
    trace.add_collective(operation, arrivals, exits, communicator, 800, 800, root=root, site=site)


def several(folder: Path) -> Path:
    """Write 5 ranks with overlapping communicators, two of them with a shared call site.

    The trace has more than one batch.
    """
    trace = Synthetic(5)
    trace.add_communicator("odd", [1, 3])
    trace.add_communicator("even", [4, 0, 2])
    _random(trace, "world", "allreduce", 1, MAX_READ_RECORDS + 800)
    _random(trace, "even", "bcast", 2, MAX_READ_RECORDS + 300)
    for name, size in (("odd", 2), ("even", 3)):
        arrivals = MS * np.arange(1, 301)[:, None] + np.arange(size) * 70_001
        site = "both.py:7:step"
        exits = np.broadcast_to(arrivals.max(1, keepdims=True) + 9, arrivals.shape)
        trace.add_collective("barrier", arrivals, exits, name, site=site)
    trace.ended_ns = (MAX_READ_RECORDS + 802) * MS
    return trace.write(folder)


def inter(folder: Path) -> Path:
    """Write two inter-communicators: of one rank with two, and of two with three."""
    trace = Synthetic(5)
    trace.add_communicator("small", [4], [0, 2])
    trace.add_communicator("wide", [0, 1], [2, 3, 4])
    _random(trace, "wide", "allgather", 3, 200)
    _random(trace, "small", "barrier", 4, 100)
    _random(trace, "world", "allreduce", 5, 100)
    trace.ended_ns = 300 * MS
    return trace.write(folder)


def talking(folder: Path) -> Path:
    """Write 3 ranks with point-to-point time between their collectives, sampled by 1 in 4.

    The intervals of the sums are estimates.
    """
    trace = Synthetic(3)
    trace.meta["sample"] = 4
    for rank in range(3):
        shape = trace.add_shape(rank, "allreduce", "world", sent=8, received=8)
        for i in range(0, 320, 4):
            trace.add_extension(rank, OUTSIDE, 100_000 + rank * 7_001 + i)
            trace.add(rank, shape, i, MS * (i + 1) + rank * 40_003, MS * (i + 1) + 90_000 + i)
    trace.ended_ns = 330 * MS
    return trace.write(folder)


def drifting(folder: Path) -> Path:
    """Write 6 ranks on 3 nodes with drifting clocks; ranks 3 and 5 were killed in open calls."""
    trace = Synthetic(6, [0, 0, 1, 1, 2, 2], [0, 40_000, -7_000], [0.0, 2e-6, -3e-6])
    trace.add_communicator("pair", [5, 2])
    for rank in (2, 4):
        for at in (1_000, 90 * MS):
            trace.add_clock(rank, 0, at, 3_000)
    _random(trace, "world", "allreduce", 6, 150)
    _random(trace, "pair", "barrier", 7, 150)
    last = np.array([[400 * MS + 10, 400 * MS, -1, 400 * MS + 7, -1, -1]])
    trace.add_collective("alltoall", last, 0 * last, site="end.py:3:main")
    trace.ended_ns = 401 * MS
    return trace.write(folder, finished=(0, 1, 2, 4))


def cut(folder: Path) -> Path:
    """Write 3 ranks; one log ends inside a chunk, so the remaining calls are lost."""
    trace = Synthetic(3)
    _random(trace, "world", "allreduce", 8, 5_000)
    trace.write(folder)
    log = folder / "rank-000001.log"
    log.write_bytes(log.read_bytes()[: 2 * 65536 + 4_000])
    return folder


def many(folder: Path) -> Path:
    """Write 96 ranks."""
    return of_size(folder, 96, 40)


def silent(folder: Path) -> Path:
    """Write 2 ranks without a call."""
    trace = Synthetic(2)
    trace.ended_ns = MS
    return trace.write(folder)


def messaging(folder: Path) -> Path:
    """Write 6 ranks on 2 nodes with messages and intervals.

    In some steps, as outside of complete windows, only long calls are logged. The first two
    intervals of a rank have counters, one of them also a reading of the node's pressure.
    """
    nodes: dict[str, Any] = {"nodes": [0, 0, 0, 1, 1, 1], "offsets": (0, 9 * MS)}
    program = Program(6, start_ns=20 * MS, intervals=True, drifts=(0.0, 0.0), **nodes)
    program.synthetic.started_ns = 10 * MS  # before the simulated calls
    random = np.random.default_rng(4)
    for step in range(40):
        program.log.is_complete = step % 8 < 5
        program.halo(make_ring(6), random.integers(0, MS, 6), (8, 65_536)[step % 2])
        program.pipeline(random.integers(0, MS // 8, 6), tag=step)
        program.collective("allreduce", own_ns=random.integers(0, MS, 6))
    for rank in range(6):
        shape = program.synthetic.add_shape(rank, "send", "world", site="app.py:3:main", peer=0)
        for begin_ns, more in ((11 * MS, ()), (12 * MS, (pressure(),))):
            times = program.synthetic.to_local(rank, np.array([begin_ns, begin_ns + MS // 4]))
            between = interval(NO_SHAPE, shape, *times.tolist(), *more, *counters())
            program.synthetic.add_messages(rank, between)
    return program.write(folder)


MADE: dict[str, Callable[[Path], Path]] = {
    made.__name__: made
    for made in (mixed, several, inter, talking, drifting, cut, many, silent, messaging)
}


def exported(make: Callable[[Path], Path], base: Path) -> tuple[Path, Path]:
    """Write a trace and its data set, with the same name."""
    base.mkdir(exist_ok=True)
    folder, to = make(base / "job"), base / "set" / "job"
    to.parent.mkdir()
    code, _, error = run_verb("export", folder, "--to", "dataset", "-o", to)
    assert (code, error) == (0, "")
    return folder, to


def bits(value: Any, scratch: Path) -> bytes:
    """Return a derived value in the store's format; equal bytes mean equal bits."""
    path = scratch / "value"
    writer = Writer(path)
    writer.close(values.write(value, writer))
    return path.read_bytes()
