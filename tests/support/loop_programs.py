"""Simulated programs that repeat a step, with known call sites around the work of each place.

A loop function returns a Loop. Its `add_step` adds one step to a program. The work before each call
comes from a function of the place, so that a planted delay or noise is independent of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Int
from support.neighbours import make_grid, make_neighbours, make_ring
from support.program import Program

LARGE = 1 << 20  # bytes of a message that waits for its receiver
SHORT_NS = 20_000  # work before a call that follows another one at once

WorkAt = Callable[[int], Int]  # place -> work of each rank in ns


@dataclass(frozen=True)
class Loop:
    """The step of a program.

    places: operations of the calls before and after the work, by place. prepare: called once.
    """

    ranks: int
    messages: bool
    places: tuple[tuple[str, str], ...]
    add_step: Callable[[Program, WorkAt], None]
    prepare: Callable[[Program], None] | None = None


def halo(
    ranks: int,
    grid: tuple[int, ...] | None = None,
    collective: str | None = "allreduce",
    exchanges: int = 3,
) -> Loop:
    """Return exchanges with the neighbours of a ring or grid, and a collective at the end."""
    neighbours = make_grid(grid or (ranks,))

    def add_step(program: Program, work: WorkAt) -> None:
        for place in range(exchanges):
            program.halo(neighbours, own_ns=work(place))
        if collective:
            program.collective(collective, own_ns=SHORT_NS)

    first = ((collective or "waitall", "irecv"),)
    return Loop(ranks, True, first + (("waitall", "irecv"),) * (exchanges - 1), add_step)


def chain(ranks: int) -> Loop:
    """Return an exchange with the neighbours in a chain, and an allreduce."""
    neighbours = make_ring(ranks, periodic=False)

    def add_step(program: Program, work: WorkAt) -> None:
        program.halo(neighbours, own_ns=work(0))
        program.collective("allreduce")

    return Loop(ranks, True, (("allreduce", "irecv"),), add_step)


def paired(ranks: int, collective: str | None = "allreduce") -> Loop:
    """Return an allreduce with each neighbour in a chain, and one of all ranks."""
    pairs = [low for first in (0, 1) for low in range(first, ranks - 1, 2)]

    def prepare(program: Program) -> None:
        for low in pairs:
            program.synthetic.add_communicator(f"pair-{low}", [low, low + 1])

    def add_step(program: Program, work: WorkAt) -> None:
        program.work(work(0))
        for low in pairs:
            program.collective("allreduce", "app.py:21:couple", communicator=f"pair-{low}")
        if collective:
            program.collective(collective)

    return Loop(ranks, False, (("allreduce", "allreduce"),), add_step, prepare)


def sparse_neighbours(ranks: int, drawn: int) -> Loop:
    """Return an exchange with neighbours that a number draws, and a barrier."""
    random = np.random.default_rng(drawn)
    lists: list[list[int]] = [[(rank - 1) % ranks, (rank + 1) % ranks] for rank in range(ranks)]
    for _ in range(ranks // 2):
        a, b = random.choice(ranks, 2, replace=False).tolist()
        lists[a].append(b)
        lists[b].append(a)
    neighbours = make_neighbours(lists)

    def add_step(program: Program, work: WorkAt) -> None:
        program.halo(neighbours, own_ns=work(0))
        program.halo(neighbours, own_ns=work(1))
        program.collective("barrier", own_ns=SHORT_NS)

    return Loop(ranks, True, (("barrier", "irecv"), ("waitall", "irecv")), add_step)


def pipeline(ranks: int, collective: str | None = None, bytes_: int = 8) -> Loop:
    """Return a pipeline; its first and last rank have other calls around their work."""

    def add_step(program: Program, work: WorkAt) -> None:
        program.pipeline(work(0), bytes_=bytes_)
        if collective:
            program.collective(collective)

    return Loop(ranks, True, (("recv", "send"),), add_step)


def workers(ranks: int, collective: str | None = None, any_source: bool = True) -> Loop:
    """Return workers that send their results to rank 0, which then may work itself."""

    def add_step(program: Program, work: WorkAt) -> None:
        program.work(work(0) * (np.arange(ranks) > 0))
        for rank in range(1, ranks):
            program.message(rank, 0, any_source=any_source)
        if collective:
            of_root = work(1) * (np.arange(ranks) == 0)
            program.collective(collective, own_ns=of_root)

    return Loop(ranks, True, ((collective or "send", "send"), ("recv", str(collective))), add_step)


def sendrecv_ring(ranks: int, collective: str | None = "allreduce") -> Loop:
    """Return two shifts along a ring by MPI_Sendrecv, and a collective."""
    right, left = (np.arange(ranks) + 1) % ranks, (np.arange(ranks) - 1) % ranks

    def add_step(program: Program, work: WorkAt) -> None:
        program.sendrecv(right, left, own_ns=work(0))
        program.sendrecv(left, right, own_ns=work(1))
        if collective:
            program.collective(collective, own_ns=SHORT_NS)

    return Loop(
        ranks, True, ((collective or "sendrecv", "sendrecv"), ("sendrecv", "sendrecv")), add_step
    )


def large_messages(ranks: int, collective: str | None = "barrier") -> Loop:
    """Return sends of even to odd ranks that wait for the receiver; place 0 is the receivers'."""
    even, odd = np.arange(0, ranks - 1, 2), np.arange(1, ranks, 2)

    def add_step(program: Program, work: WorkAt) -> None:
        program.work(work(0))
        program.message(even, odd, LARGE)
        if collective:
            program.collective(collective, own_ns=SHORT_NS)

    return Loop(ranks, True, ((collective or "recv", "recv"),), add_step)


def collectives(ranks: int, *operations: str) -> Loop:
    """Return collectives of all ranks, with work before each; rank 0 is the root."""

    def add_step(program: Program, work: WorkAt) -> None:
        for place, operation in enumerate(operations):
            program.collective(operation, f"app.py:{place + 1}:main", own_ns=work(place))

    before = (operations[-1], *operations[:-1])
    return Loop(ranks, False, tuple(zip(before, operations, strict=True)), add_step)


def nonblocking(ranks: int) -> Loop:
    """Return an iallreduce with work before its start (place 0) and before its Wait (place 1)."""

    def add_step(program: Program, work: WorkAt) -> None:
        started = program.start("iallreduce", own_ns=work(0))
        program.wait(started, own_ns=work(1))

    return Loop(ranks, False, (("wait", "iallreduce"), ("iallreduce", "wait")), add_step)


def rows_and_columns(ranks: int, columns: int) -> Loop:
    """Return an allgather in each row and an allreduce in each column of a grid of ranks."""
    rows, grid = ranks // columns, np.arange(ranks).reshape(-1, columns)

    def prepare(program: Program) -> None:
        for name, groups in (("row", grid), ("column", grid.T)):
            for number, members in enumerate(groups.tolist()):
                program.synthetic.add_communicator(f"{name}-{number}", members)

    def add_step(program: Program, work: WorkAt) -> None:
        for place, (name, count, operation) in enumerate(
            (("row", rows, "allgather"), ("column", columns, "allreduce"))
        ):
            own_ns = work(place)
            for number in range(count):
                site = f"app.py:{place + 1}:main"
                of = f"{name}-{number}"
                program.collective(operation, site, own_ns=own_ns, communicator=of)

    places = (("allreduce", "allgather"), ("allgather", "allreduce"))
    return Loop(ranks, False, places, add_step, prepare)
