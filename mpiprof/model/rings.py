"""Rings of very many processes: allgather(v)s whose messages all go to the successor.

The same model as in simulate.py, computed without asking 65536 schedules for 65536 rounds each. All
blocks of a ring are strung up in one list (allgatherv.c): a process sends the block with the number
newest - k as its k-th message, in round k + late. A round's messages thus are the list, shifted by
one: durations are looked up in a shifted view, and "no message" takes minus infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpiprof.model.machine import Machine, Numbers, Times
from mpiprof.model.rounds import blocks_of, ring_block_size, ring_order
from mpiprof.model.schedule import Algorithm, Problem

RINGS = (("allgather", "ring"), ("allgatherv", "linear_ring"), ("allgatherv", "pipelined_ring"))
NOTHING = -np.inf


@dataclass(frozen=True)
class _Ring:
    """`order` is the rank by position; `first` each position's first block, and the end."""

    order: Numbers
    first: Numbers
    lengths: Numbers


@dataclass(frozen=True)
class _Events:
    """By round: from then on a position's messages come `late` rounds after their number.

    A negative `late`: it has no message until its next event.
    """

    rounds: Numbers
    positions: Numbers
    late: Numbers


def applies(algorithm: Algorithm, problem: Problem, machine: Machine, nodes: Numbers) -> bool:
    """Return whether `finish` can compute it: not where processes share a node's port."""
    shared = machine.node_port and len(np.unique(nodes)) < len(nodes)
    ring = (algorithm.operation, algorithm.name) in RINGS
    return ring and not problem.remote_size and problem.size > 2 and not shared


def finish(
    algorithm: Algorithm, problem: Problem, machine: Machine, begin: Times, nodes: Numbers
) -> Times:
    """Return when each process ends a ring."""
    ring = _ring(algorithm, problem)
    blocks = np.diff(ring.first)
    after = np.roll(blocks, -1)
    counts = ring.first[-1] - after
    late = _delays(blocks, counts)
    if algorithm.name != "pipelined_ring":
        late = _Events(*np.zeros((3, 0), np.int64))
    between = nodes[ring.order] != nodes[np.roll(ring.order, -1)]
    result = np.empty(problem.size)
    result[ring.order] = _run(ring, counts, late, machine, between, begin[ring.order])
    return result


def _ring(algorithm: Algorithm, problem: Problem) -> _Ring:
    sizes = np.array(problem.counts or [problem.bytes] * problem.size, np.int64)
    if algorithm.name != "pipelined_ring":
        number = np.arange(len(sizes) + 1)
        return _Ring(number[:-1], number, sizes)
    block = _block_size(problem, sizes)
    order = np.array(ring_order(sizes.tolist(), problem.order, problem.nodes), np.int64)
    blocks = blocks_of(sizes, block)[order]
    first = np.concatenate([[0], np.cumsum(blocks)])
    owner = np.repeat(np.arange(len(order)), blocks)
    place = np.arange(first[-1]) - first[owner]
    mine, parts = sizes[order][owner], blocks[owner]
    if problem.equal_blocks:
        lengths = mine // parts + (place < mine % parts)
    else:
        lengths = np.minimum(block, mine - place * block)
    return _Ring(order, first, lengths)


def _block_size(problem: Problem, sizes: Numbers) -> int:
    if problem.block_size:
        return max(1, min(problem.block_size, int(sizes.max())))
    return ring_block_size(sizes, problem.alpha, problem.beta)


def _delays(blocks: Numbers, counts: Numbers) -> _Events:
    """Return where processes without data delay the messages of others.

    Of message k of a process, `late` is the largest of h - (the blocks of the last h processes) for
    all h whose blocks are not more than k: with S the prefix sums of 1 - blocks, a step to an
    earlier, smaller S at each such h.
    """
    size = len(blocks)
    twice = np.concatenate([blocks, blocks])
    sums = np.concatenate([[0], np.cumsum(1 - twice)])
    total = np.concatenate([[0], np.cumsum(twice)])
    smaller = _previous_smaller(sums)
    # Of a run of processes without data only its far end counts: all of it is before one message.
    filled = np.concatenate([[0], np.where(twice > 0, np.arange(1, 2 * size + 1), 0)])
    run_begin = np.maximum.accumulate(filled)
    position = np.arange(size)
    end = position + size + 1
    at, late = end.copy(), np.zeros(size, np.int64)
    found: list[NDArray[np.int64]] = []
    while len(position):
        before = smaller[at]
        limit = end - (size - 2)
        ok = before >= limit
        ok &= total[end] - total[np.maximum(before, 0)] < counts[position]
        position, end, before, late, limit = (x[ok] for x in (position, end, before, late, limit))
        at = np.maximum(run_begin[before], limit)
        fresh = sums[end] - sums[at]
        number = total[end] - total[at]
        stops = number + late
        found.append(np.stack([stops, position, np.full(len(at), -1)]))
        found.append(np.stack([number + fresh, position, fresh]))
        late = fresh
    events = np.concatenate([np.zeros((3, 0), np.int64), *found], axis=1)
    # At the same round a stop comes before the start that ends it.
    return _Events(*events[:, np.lexsort((events[2], events[0]))])


def _previous_smaller(values: Numbers) -> Numbers:
    """Return for each place the nearest place before it with a smaller value, else -1."""
    result = np.full(len(values), -1, np.int64)
    stack: list[tuple[int, int]] = []
    for i, value in enumerate(values.tolist()):
        while stack and stack[-1][0] >= value:
            stack.pop()
        result[i] = stack[-1][1] if stack else -1
        stack.append((value, i))
    return result


def _run(
    ring: _Ring,
    counts: Numbers,
    events: _Events,
    machine: Machine,
    between: NDArray[np.bool_],
    now: Times,
) -> Times:
    """Go through the rounds; `now` is by position."""
    total, size = len(ring.lengths), len(now)
    if not total:
        return now
    tables = []
    for far in (True, False):
        takes = machine.times(ring.lengths, np.full(total, far))
        takes[ring.lengths == 0] = NOTHING
        tables.append(takes)
    late = np.zeros(size, np.int64)
    resting = np.zeros(size, bool)
    rounds = int((counts + (events.late.max() if len(events.late) else 0)).max())
    # The list as often as the last round looks back, for either kind of link; from table[rounds]
    # on, `look` is where a process finds its first message.
    copies = -(-rounds // total) + 1
    table = np.concatenate([np.zeros(rounds), *(np.tile(t, copies) for t in tables)])
    look = ring.first[1:] - 1 + (copies - 1) * total + np.where(between, 0, copies * total)
    at, due = 0, events.rounds.tolist()
    ends = np.sort(counts)
    takes, end = np.empty(size), np.empty(size)
    for r in range(rounds):
        while at < len(due) and due[at] == r:
            who, value = events.positions[at], events.late[at]
            resting[who] = value < 0
            if value >= 0:
                look[who] += value - late[who]
                late[who] = value
            at += 1
        # look - r, without a subtraction a process
        np.take(table[rounds - r :], look, out=takes, mode="clip")
        if at:
            takes[resting] = NOTHING
        if r >= ends[0]:
            takes[r - late >= counts] = NOTHING
        _ready(now, end)
        end += takes
        np.maximum(now, end, out=now)
        _receive(now, end)
    return now


def _ready(now: Times, out: Times) -> None:
    """Fill `out` with when each position and its successor are both ready."""
    np.maximum(now[:-1], now[1:], out=out[:-1])
    out[-1] = max(now[-1], now[0])


def _receive(now: Times, end: Times) -> None:
    """Let each position wait for what its predecessor sends."""
    np.maximum(now[1:], end[:-1], out=now[1:])
    now[0] = max(now[0], end[-1])
