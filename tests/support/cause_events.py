"""Simulated programs of the specifications in tests/causes whose cause is not the program's work.

The ranks have counters of the time between two calls. As in cause_programs.py, parameters with a
default are what is planted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from support import planted_loops
from support.neighbours import make_grid
from support.program import Program
from support.random_work import MS, Noise
from support.synthetic import Synthetic

SECOND = 1_000_000_000
SITES = "ring.py:33:shift", "ring.py:34:shift"


def add_affinity(
    synthetic: Synthetic, rank: int, at: int, allowed: list[int], runs_on: int
) -> None:
    """Bind a rank to some processors, on one of which it runs from then on."""
    local = int(synthetic.to_local(rank, at))
    change = {"after_ns": local, "at_ns": local, "processors": allowed}
    synthetic.lines[rank].append({"rank": rank, "affinity": change})
    synthetic.running_on[rank] = runs_on


def add_quota(synthetic: Synthetic, rank: int, at: int, processors: float, stopped_ns: int) -> None:
    """Add a reading of the quota of a rank's control group."""
    use = {
        "at_ns": int(synthetic.to_local(rank, at)),
        "processors": processors,
        "stopped_ns": stopped_ns,
        "group": f"/job/{rank}",
    }
    synthetic.lines[rank].append({"rank": rank, "quota": use})


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
    ranks: int,
    steps: int,
    work_ms: float,
    sharing: Sequence[int] = (),
    begin: int = 0,
    end: int = 0,
    processors: int = 0,
    alone_ms: float = 0.0,
) -> Program:
    """Return halo exchanges in which some ranks take turns on one processor.

    begin: step in which they are bound to it; 0 if they are from the start. end: step in which they
    are free again; 0 if they never are. processors: that all ranks share otherwise; 0 if each has
    one. alone_ms: for which rank 0 works in each step while the others wait, also for a processor.
    """
    program = Program(ranks, intervals=True, counters=True)
    synthetic, available = program.synthetic, processors or ranks
    synthetic.node_processors, free = available, list(range(available))
    bound = [min(sharing, default=0) % available]
    if processors or begin:
        for rank in range(ranks):
            synthetic.processors[rank], synthetic.running_on[rank] = free, rank % available
    for rank in sharing if not begin else ():
        synthetic.processors[rank], synthetic.running_on[rank] = bound, bound[0]
    noise, neighbours = Noise(ranks), make_grid((ranks,))
    for step in range(steps):
        for rank in sharing if begin and step in (begin, end) else ():
            allowed, runs_on = (bound, bound[0]) if step == begin else (free, rank % available)
            add_affinity(synthetic, rank, int(program.now_ns[rank]), allowed, runs_on)
        is_sharing = np.isin(np.arange(ranks), sharing) & (begin <= step < (end or steps))
        work_ns = noise.work(work_ms * MS)
        program.work(work_ns)
        queue_ns = np.where(is_sharing, work_ns * (len(sharing) - 1), 0)
        program.lose(queue_ns=queue_ns + (work_ns * (ranks / available - 1)).astype(np.int64))
        program.halo(neighbours)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
        if alone_ms:
            program.work(np.where(np.arange(ranks) == 0, round(alone_ms * MS), 0))
            program.collective("bcast", "step.py:32:main")
    return program


def limited_ranks(
    ranks: int,
    steps: int,
    work_ms: float,
    limited: Sequence[int] = (),
    quota: float = 1.0,
    begin: int = 0,
    end: int = 0,
) -> Program:
    """Return halo exchanges in which some ranks have a quota of less than a processor.

    begin: step in which they get it. end: step in which they lose it; 0 if they never do.
    """
    program, noise = Program(ranks, intervals=True, counters=True), Noise(ranks)
    synthetic, neighbours = program.synthetic, make_grid((ranks,))
    stopped_ns = np.zeros(ranks, np.int64)
    for step in range(steps):
        if step in (begin, end):
            for rank in limited:
                processors = quota if step == begin else 0
                add_quota(synthetic, rank, int(program.now_ns[rank]), processors, 0)
        work_ns = noise.work(work_ms * MS)
        is_limited = np.isin(np.arange(ranks), limited) & (begin <= step < (end or steps))
        off_ns = np.where(is_limited, work_ns * (1 / quota - 1), 0).astype(np.int64)
        stopped_ns += off_ns
        program.work(work_ns)
        program.lose(off_ns // 2, off_ns - off_ns // 2)
        program.halo(neighbours)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
        for rank in limited if step == (end or steps) - 1 else ():
            at_ns = int(program.now_ns[rank])
            add_quota(synthetic, rank, at_ns, quota, int(stopped_ns[rank]))
    return program


def slow_file(
    ranks: int, steps: int, work_ms: float, every: int = 10, file_ms: float = 0.0
) -> Program:
    """Return steps of which some end with a gather, after which rank 0 writes a file."""
    program, noise = Program(ranks, intervals=True, counters=True), Noise(ranks)
    for step in range(steps):
        program.collective("allreduce", "step.py:31:main", noise.work(work_ms * MS))
        if step % every == every - 1:
            program.collective("gather", "step.py:33:main")
            is_writing = np.arange(ranks) == 0
            program.work(noise.work(MS) * is_writing)
            program.lose(np.where(is_writing, round(file_ms * MS), 0))
            program.collective("barrier", "step.py:35:main")
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
