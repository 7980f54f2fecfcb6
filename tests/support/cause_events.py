"""Simulated programs of the specifications in tests/causes whose cause is not the program's work.

The ranks have counters of the time between two calls. As in cause_programs.py, parameters with a
default are what is planted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from mpiprof.testing.neighbours import make_grid
from mpiprof.testing.program import Program
from support import planted_loops
from support.random_work import MS, Noise

SECOND = 1_000_000_000
SITES = "ring.py:33:shift", "ring.py:34:shift"


@contextmanager
def calls_that_take(program: Program, more_s: float) -> Iterator[None]:
    """Let calls take longer by a time, after the arrival of the awaited ranks."""
    usual = program.network
    more_ns = round(more_s * SECOND)
    latency_ns = usual.latency_ns + more_ns // max((program.ranks - 1).bit_length(), 1)
    program.network = replace(usual, latency_ns=latency_ns)
    yield
    program.network = usual


def stopped_rank(
    ranks: int,
    steps: int,
    work_ms: float,
    noise: str = "quiet",
    inside: str = "",
    rank: int | Sequence[int] = 0,
    step: int = 0,
    stop_s: float = 0.0,
    times: int = 1,
    processors: int = 0,
) -> Program:
    """Return a shift along a ring, and an allreduce; one rank is stopped, mostly once.

    inside: "allreduce" or "send", the call in which it is stopped; otherwise it is before the
    send, and may be some ranks. noise: of the work, as in planted_loops.make_noise. times: number
    of stops, in steps at random from the first one on. processors: that the ranks share, so that
    they wait for one; 0 if each rank has one.
    """
    program = Program(ranks, intervals=True, counters=True)
    work_ns = planted_loops.make_noise(noise, (steps, 1, ranks), 1)[:, 0] * work_ms * MS
    later = np.random.default_rng(1).choice(np.arange(1, 4 * times), times - 1, replace=False)
    stop_steps = {step, *(step + later).tolist()}
    if processors:
        program.synthetic.node_processors = processors
        program.synthetic.processors |= {of: list(range(processors)) for of in range(ranks)}
    for number in range(steps):
        stop_ns = round(stop_s * SECOND * (number in stop_steps))
        program.work(work_ns[number].astype(np.int64))
        if processors:
            program.lose(queue_ns=(work_ns[number] * (ranks / processors - 1)).astype(np.int64))
        if not inside:
            program.lose(stop_ns * np.isin(np.arange(ranks), rank))
        _shift(program, rank, stop_ns * (inside == "send"))
        with calls_that_take(program, stop_ns / SECOND * (inside == "allreduce")):
            program.collective("allreduce", "ring.py:40:main")
    return program


def _shift(program: Program, rank: int | Sequence[int], stop_ns: int) -> None:
    """Send from each rank to the next one; the send of some ranks may stop before it sends."""
    usual = program.network
    for phase in range(2):
        senders = np.arange(phase, program.ranks, 2)
        is_stopped = np.isin(senders, rank)
        other, stopped = senders[~is_stopped], senders[is_stopped]
        program.message(other, (other + 1) % program.ranks, sites=SITES)
        if len(stopped):
            program.network = replace(usual, call_ns=usual.call_ns + stop_ns)
            program.message(stopped, (stopped + 1) % program.ranks, sites=SITES)
            program.network = usual


def shared_processor(
    ranks: int, steps: int, work_ms: float, sharing: Sequence[int] = ()
) -> Program:
    """Return halo exchanges in which some ranks take turns on one processor."""
    program = Program(ranks, intervals=True, counters=True)
    program.synthetic.node_processors = ranks
    for rank in sharing:
        program.synthetic.processors[rank] = [min(sharing)]
    noise, neighbours = Noise(ranks), make_grid((ranks,))
    is_sharing = np.isin(np.arange(ranks), sharing)
    for _ in range(steps):
        work_ns = noise.work(work_ms * MS)
        program.work(work_ns)
        program.lose(queue_ns=np.where(is_sharing, work_ns * (len(sharing) - 1), 0))
        program.halo(neighbours)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
    return program


def busy_node(
    ranks: int, steps: int, work_ms: float, queue_ms: float = 0.0, longer: float = 0.0
) -> Program:
    """Return an allreduce in each step, on a node whose processors other programs have at times.

    queue_ms: mean time for which a rank waits for a processor in a step. longer: by this share,
    the waiting of rank 0 is longer.
    """
    program, noise = Program(ranks, intervals=True, counters=True), Noise(ranks)
    mean_ns, random = np.full(ranks, queue_ms * MS), np.random.default_rng(1)
    mean_ns[0] *= 1 + longer
    for _ in range(steps):
        program.work(noise.work(work_ms * MS))
        program.lose(queue_ns=random.exponential(mean_ns).astype(np.int64))
        program.collective("allreduce", "step.py:31:main")
    return program


def object_broadcast(
    ranks: int, steps: int, work_ms: float, rank: int = 0, pickle_ms: float = 0.0
) -> Program:
    """Return steps that begin with mpi4py's bcast of an object: of its size, then of its bytes."""
    program, noise = Program(ranks, intervals=True, counters=True), Noise(ranks)
    site, pickle_ns = "train.py:18:step", round(pickle_ms * MS) * (np.arange(ranks) == rank)
    for _ in range(steps):
        program.collective("bcast", site, pickle_ns, 8, rank, datatype="MPI_COUNT")
        program.collective("bcast", site, 0, 1 << 20, rank, datatype="MPI_BYTE")
        program.collective("allreduce", "train.py:25:step", noise.work(work_ms * MS))
    return program
