"""Simulated programs of the specifications in tests/causes that mostly send messages.

As in cause_programs.py, parameters with a default are what is planted.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import permutations, product
from typing import Any

import numpy as np

from mpiprof.trace.types import Int
from support.cause_programs import only
from support.neighbours import make_grid
from support.program import Program
from support.random_work import MS, Noise
from support.simulation import Network

SMALL = 4096  # bytes of a message that needs no waiting receiver
REQUEST_SITES = "client.py:14:lock", "server.py:8:serve"
GRANT_SITES = "server.py:9:serve", "client.py:15:lock"
RELEASE_SITES = "client.py:18:unlock", "server.py:11:serve"


def slow_link(
    ranks: int,
    steps: int,
    work_ms: float,
    bytes_: int = SMALL,
    between: Sequence[int] = (),
    slow_ms: float = 0.0,
) -> Program:
    """Return a halo exchange on a ring; between: two ranks whose messages take longer."""
    links = dict.fromkeys(permutations(between, 2), round(slow_ms * MS))
    program = Program(ranks, Network(slow_links=links), intervals=True)
    noise, neighbours = Noise(ranks), make_grid((ranks,))
    for _ in range(steps):
        program.halo(neighbours, noise.work(work_ms * MS), bytes_)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
    return program


def slow_network(
    grid: Sequence[int],
    nodes: int,
    steps: int,
    work_ms: float,
    node: int | None = None,
    slow_ms: float = 0.0,
) -> Program:
    """Return a halo exchange on a grid; messages between nodes take longer.

    node: the only node whose messages to other nodes take longer; all by default.
    """
    ranks = int(np.prod(grid))
    node_of = [rank * nodes // ranks for rank in range(ranks)]
    slow_links = {}
    for pair in permutations(range(ranks), 2):
        ends = {node_of[rank] for rank in pair}
        if len(ends) == 2 and (node is None or node in ends):
            slow_links[pair] = round(slow_ms * MS)
    clocks: dict[str, Any] = {"offsets": (0,) * nodes, "drifts": (0.0,) * nodes}
    network = Network(slow_links=slow_links)
    program = Program(ranks, network, intervals=True, nodes=node_of, **clocks)
    noise, neighbours = Noise(ranks), make_grid(grid)
    for _ in range(steps):
        program.halo(neighbours, noise.work(work_ms * MS))
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
    return program


def particles(
    ranks: int, steps: int, work_ms: float, rank: int = 0, late_ms: float = 0.0
) -> Program:
    """Return particles that move to other ranks: in each step, pairs at random exchange messages.

    late_ms: work of one rank after the exchange.
    """
    program, noise, random = Program(ranks, intervals=True), Noise(ranks), np.random.default_rng(1)
    sites = "migrate.py:55:send_out", "migrate.py:61:take_in"
    for _ in range(steps):
        program.work(noise.work(work_ms * MS))
        first, second = random.permutation(ranks).reshape(2, -1)
        program.message(first, second, SMALL, sites=sites)
        program.message(second, first, SMALL, sites=sites)
        deposit_ns = noise.work(work_ms * MS / 3) + only(ranks, rank, late_ms)
        program.collective("allreduce", "particles.py:20:advance", deposit_ns)
    return program


def larger_messages(
    ranks: int, steps: int, work_ms: float, rank: int = 0, bytes_: int = SMALL
) -> Program:
    """Return a shift along a ring in two phases; bytes_: of the messages of one rank."""
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    sites = "shift.py:17:shift", "shift.py:18:shift"
    for _ in range(steps):
        program.work(noise.work(work_ms * MS))
        for phase in range(2):
            senders = np.arange(phase, ranks, 2)
            other = senders[senders != rank]
            program.message(other, (other + 1) % ranks, SMALL, sites=sites)
            if rank in senders:
                program.message(rank, (rank + 1) % ranks, bytes_, sites=sites)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
    return program


def sweeps(
    side: int,
    steps: int,
    corners: int,
    work_ms: float,
    is_opposite: bool = False,
    is_dependent: bool = False,
) -> Program:
    """Return sweeps over a grid of ranks from some corners in turn, and other work.

    A rank receives from both ranks before it, works, and sends to both ranks after it.
    is_opposite: let the second sweep begin at the corner where the first one ends. is_dependent:
    False to let each rank work before the messages.
    """
    ranks = np.arange(side * side).reshape(side, side)
    program, noise = Program(side * side, intervals=True), Noise(side * side)
    turned = [ranks[:: 1 - 2 * down, :: 1 - 2 * right] for down, right in product((0, 1), repeat=2)]
    turned = turned[:: 3 if is_opposite else 1]
    for _ in range(steps):
        for grid in turned[:corners]:
            work_ns = noise.work(work_ms * MS)
            if not is_dependent:
                program.work(work_ns)
            _sweep(program, grid, work_ns * is_dependent)
        program.collective("allreduce", "sweep.py:60:main", noise.work(work_ms * MS))
    return program


def _sweep(program: Program, grid: Int, work_ns: Int) -> None:
    side = len(grid)
    for diagonal in range(2 * side - 1):
        row = np.arange(max(diagonal - side + 1, 0), min(diagonal, side - 1) + 1)
        column = diagonal - row
        on_diagonal = np.isin(np.arange(program.ranks), grid[row, column])
        program.work(np.where(on_diagonal, work_ns, 0))
        for down, line in ((0, 41), (1, 43)):
            to_row, to_column = row + down, column + 1 - down
            inside = (to_row < side) & (to_column < side)
            if inside.any():
                sites = f"sweep.py:{line + 6}:sweep", f"sweep.py:{line}:sweep"
                senders = grid[row[inside], column[inside]]
                receivers = grid[to_row[inside], to_column[inside]]
                program.message(senders, receivers, SMALL, sites=sites)


def lock_server(
    ranks: int,
    locks: int,
    work_ms: float,
    hold_ms: float = 0.0,
    rank: int = 0,
    longer_ms: float = 0.0,
) -> Program:
    """Return clients that lock a resource which rank 0 grants to one of them at a time.

    locks: number of each client. hold_ms: work with the lock; longer_ms: more of it, by one rank.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    hold_ns = only(ranks, range(1, ranks), hold_ms) + only(ranks, rank, longer_ms)
    work_ns = np.array([noise.work(work_ms * MS, 0.2) for _ in range(locks)])
    program.work(work_ns[0] * (np.arange(ranks) > 0))
    requests = [(int(program.now_ns[client]), client, 1) for client in range(1, ranks)]
    heapify(requests)
    while requests:
        _, client, served = heappop(requests)
        is_client = np.arange(ranks) == client
        program.message(client, 0, sites=REQUEST_SITES, any_source=True)
        program.message(0, client, sites=GRANT_SITES)
        program.work(hold_ns * is_client)
        program.message(client, 0, sites=RELEASE_SITES)
        if served < locks:
            program.work(work_ns[served] * is_client)
            heappush(requests, (int(program.now_ns[client]), client, served + 1))
    program.collective("barrier", "client.py:30:main")
    return program


def message_tree(
    ranks: int,
    steps: int,
    work_ms: float,
    rank: int = 0,
    slow_ms: float = 0.0,
    combine_ms: float = 0.0,
) -> Program:
    """Return a reduction and a broadcast along a binomial tree that the program has written.

    slow_ms: work of one rank before the reduction. combine_ms: after its first two messages.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    everybody = np.arange(ranks)
    strides = [1 << bit for bit in range((ranks - 1).bit_length())]
    for _ in range(steps):
        program.work(noise.work(work_ms * MS) + only(ranks, rank, slow_ms))
        for stride in strides:
            children = everybody[everybody % (2 * stride) == stride]
            sites = "tree.py:22:reduce", "tree.py:19:reduce"
            program.message(children, children - stride, SMALL, sites=sites)
            program.work(only(ranks, rank, combine_ms * (stride == 2)))
        for stride in reversed(strides):
            children = everybody[everybody % (2 * stride) == stride]
            sites = "tree.py:37:broadcast", "tree.py:33:broadcast"
            program.message(children - stride, children, SMALL, sites=sites)
    return program


def polling_master(ranks: int, tasks: int, work_ms: float, pause_ms: float = 0.0) -> Program:
    """Return workers that request each task from rank 0, which polls and pauses.

    tasks: number of each worker.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    sites = "worker.py:12:work", "master.py:20:run", "master.py:22:run"
    for _ in range(tasks):
        program.work(noise.work(work_ms * MS, 0.2) * (np.arange(ranks) > 0))
        for worker in (1 + np.argsort(program.now_ns[1:])).tolist():
            program.poll(worker, 0, round(pause_ms * MS), sites=sites)
            program.message(0, worker, sites=("master.py:24:run", "worker.py:13:work"))
    return program


def task_rounds(
    ranks: int, rounds: int, task_ms: float, start_ms: float, prepare_ms: float = 0.0
) -> Program:
    """Return a master, rank 0, that sends a task to each worker in each round, one after another.

    start_ms: work of all ranks before. prepare_ms: work of the master before each round.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    program.work(noise.work(start_ms * MS))
    for _ in range(rounds):
        program.work(only(ranks, 0, prepare_ms))
        for worker in range(1, ranks):
            program.message(0, worker, sites=("master.py:12:send_tasks", "worker.py:8:work"))
        program.work(noise.work(task_ms * MS) * (np.arange(ranks) > 0))
        for worker in range(1, ranks):
            program.message(worker, 0, sites=("worker.py:10:work", "master.py:14:take_results"))
        program.work(noise.work(MS / 500))
    return program
