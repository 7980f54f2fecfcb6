"""Fast path for rings of many processes: allgather(v)s that send only to the successor.

The model is that of model/simulate.py, without 65536 schedules of 65536 rounds each. All blocks of
a ring form one list (core/schedule/algorithms/allgatherv.c). A process sends the block with number
newest - k as its k-th message, as soon as it has that block. So a round's messages are the list,
shifted by one for each process that has a block to send. Durations are looked up in a shifted view,
and a missing message takes minus infinity. Only processes without data ever skip a message. Memory
is the list plus a few numbers per process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives import pipeline_formulas
from mpiprof.collectives.machine import Machine, Numbers, Times
from mpiprof.collectives.schedule import Algorithm, Problem

RINGS = (("allgather", "ring"), ("allgatherv", "linear_ring"), ("allgatherv", "pipelined_ring"))
NO_MESSAGE = -np.inf
# Cost model of `finish`. ROUND_WORK: fixed cost of a round, in processes. SKIPPING_FACTOR: factor
# for rounds in which processes without data wait. Both were measured with 256 to 8192 processes.
ROUND_WORK, SKIPPING_FACTOR = 3000, 2


@dataclass(frozen=True)
class _Ring:
    """A ring of processes and their blocks, both in the order of the ring."""

    order: Numbers  # rank of each position
    first: Numbers  # first block of each position, then the number of blocks
    lengths: Numbers  # bytes of each block
    rounds: int
    skips: bool  # processes without data skip rounds


def applies_to(algorithm: Algorithm, problem: Problem, machine: Machine, nodes: Numbers) -> bool:
    """Return whether `finish` covers a case.

    It excludes processes that share a node's port, and machines with other times one way.
    """
    shared = machine.node_port and len(np.unique(nodes)) < len(nodes)
    excluded = shared or machine.distinguishes_ways
    ring = (algorithm.operation, algorithm.name) in RINGS
    return ring and not problem.remote_size and problem.size > 2 and not excluded


def simulate_ring(
    algorithm: Algorithm, problem: Problem, machine: Machine, begin: Times, nodes: Numbers
) -> Times:
    """Return the end of each process in a ring."""
    ring = _describe_ring(algorithm, problem)
    between = nodes[ring.order] != nodes[np.roll(ring.order, -1)]
    result = np.empty(problem.size)
    result[ring.order] = _run(ring, machine, between, begin[ring.order])
    return result


def estimate_work(algorithm: Algorithm, problem: Problem) -> float:
    """Return how long `finish` takes, about, in the time that a process needs for a round."""
    sizes = np.array(problem.counts or [problem.bytes] * problem.size, np.int64)
    rounds, skips = len(sizes) - 1, False
    if algorithm.name == "pipelined_ring":
        skips = not sizes.all()
        blocks = pipeline_formulas.count_blocks(sizes, _ring_block_size(problem, sizes))
        rounds = int(blocks.sum()) + len(sizes) * skips
    return float(rounds * (ROUND_WORK + len(sizes)) * (SKIPPING_FACTOR if skips else 1))


def _describe_ring(algorithm: Algorithm, problem: Problem) -> _Ring:
    sizes = np.array(problem.counts or [problem.bytes] * problem.size, np.int64)
    if algorithm.name != "pipelined_ring":
        number = np.arange(len(sizes) + 1)
        return _Ring(number[:-1], number, sizes, len(sizes) - 1, skips=False)
    ranks = pipeline_formulas.ring_order(sizes.tolist(), problem.order, problem.nodes)
    order = np.array(ranks, np.int64)
    sizes = sizes[order]
    block = _ring_block_size(problem, sizes)
    blocks = pipeline_formulas.count_blocks(sizes, block)
    if problem.equal_blocks:
        parts = np.maximum(blocks, 1)
        longer = sizes % parts
        pair, times = (sizes // parts + 1, sizes // parts), (longer, blocks - longer)
    else:
        last = np.minimum(blocks, 1)
        pair = (np.full_like(sizes, block), sizes - (blocks - 1) * block)
        times = (blocks - last, last)
    lengths = np.repeat(np.stack(pair, 1).reshape(-1), np.stack(times, 1).reshape(-1))
    first = np.concatenate([[0], np.cumsum(blocks)])
    rounds = pipeline_formulas.count_skipping_ring_rounds(blocks, 1)
    return _Ring(order, first, lengths, rounds, skips=not blocks.all())


def _ring_block_size(problem: Problem, sizes: Numbers) -> int:
    if problem.block_size:
        return max(1, min(problem.block_size, int(sizes.max())))
    return pipeline_formulas.best_ring_block(sizes, problem.alpha, problem.beta)


def _send_durations(
    ring: _Ring, machine: Machine, between: NDArray[np.bool_]
) -> tuple[Times, NDArray[np.intp]]:
    """Return the durations of blocks in sending order, and the start of each position in them."""
    parts: list[Times] = []
    look = np.zeros(len(between), np.intp)
    # The list is repeated, because a process sends at most the whole list. There is one such list
    # for links within nodes and one for links between nodes.
    for far in np.unique(between).tolist():
        takes = machine.message_times(ring.lengths, np.full(len(ring.lengths), far))
        takes[ring.lengths == 0] = NO_MESSAGE
        newest = len(takes) - ring.first[1:]
        look = np.where(between == far, newest + len(parts) * len(takes), look)
        parts += [takes[::-1]] * 2
    return np.concatenate(parts), look


def _run(ring: _Ring, machine: Machine, between: NDArray[np.bool_], now: Times) -> Times:
    """Compute all rounds; `now` is by position."""
    if not len(ring.lengths):
        return now
    stock = np.diff(ring.first)  # number of blocks that each position has received and not yet sent
    counts = ring.first[-1] - np.roll(stock, -1)
    table, look = _send_durations(ring, machine, between)
    stop, fewest = look + counts, int(counts.min())
    idle, active = np.zeros((2, len(now)), bool)
    takes, end = np.empty((2, len(now)))
    for r in range(ring.rounds):
        if ring.skips:
            np.take(table, look, out=takes, mode="clip")
            np.equal(stock, 0, out=idle)
            if r >= fewest:
                idle |= look >= stop
            if idle.any():
                np.logical_not(idle, out=active)
                look += active
                stock -= active
                stock[1:] += active[:-1]
                stock[0] += active[-1]
            else:
                look += 1
        else:
            # look + r, without an addition per process
            np.take(table[r:], look, out=takes, mode="clip")
            if r >= fewest:
                np.less_equal(counts, r, out=idle)
        np.copyto(takes, NO_MESSAGE, where=idle)
        # A message starts when its position and the successor are both ready.
        np.maximum(now[:-1], now[1:], out=end[:-1])
        end[-1] = max(now[-1], now[0])
        end += takes
        np.maximum(now, end, out=now)
        # Each position receives until the end of its predecessor's send.
        np.maximum(now[1:], end[:-1], out=now[1:])
        now[0] = max(now[0], end[-1])
    return now
