"""Simulated programs with messages and one planted delay each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from mpiprof.testing.neighbours import make_grid, make_ring
from mpiprof.testing.program import Program
from mpiprof.trace.types import Int

MS = 1_000_000
STEPS, EXCHANGES = 60, 5
LATE_MS = 8
NOISE = 0.02  # standard deviation of the work, over its mean

Work = Callable[[int, int, Int], Int]  # step, exchange, usual work of each rank in ns


@dataclass(frozen=True)
class PlantedProgram:
    """A program and the finding that it must lead to.

    build: makes the program. ranks: the ranks to name. sites: operations of the calls around the
    delayed work. first: first step with the delay. cost_ms: all waiting that it causes. saved_ms:
    run time without it. A value is None if it is not determined by hand.
    """

    name: str
    build: Callable[[], Program]
    cause: str
    ranks: tuple[int, ...]
    sites: tuple[str, str]
    first: int = 0
    period: int | None = None
    cost_ms: float | None = None
    saved_ms: float | None = None


class Noise:
    """Work of each rank with a small random part."""

    def __init__(self, ranks: int, seed: int = 1) -> None:
        self.random, self.ranks = np.random.default_rng(seed), ranks

    def work(self, mean_ns: float = MS, spread: float = NOISE) -> Int:
        """Return the work of each rank in ns."""
        factor = 1 + spread * self.random.standard_normal(self.ranks)
        return np.maximum(mean_ns * factor, 0).astype(np.int64)


def exchange(
    ranks: int,
    work: Work,
    collective: str | None = "allreduce",
    grid: tuple[int, ...] | None = None,
    steps: int = STEPS,
    nodes: list[int] | None = None,
) -> Program:
    """Return a halo exchange with 5 exchanges per step, and a collective at its end."""
    program = Program(ranks, intervals=True, nodes=nodes, offsets=(0,) * 8, drifts=(0.0,) * 8)
    neighbours, noise = make_grid(grid or (ranks,)), Noise(ranks)
    for step in range(steps):
        for i in range(EXCHANGES):
            program.halo(neighbours, own_ns=work(step, i, noise.work()))
        if collective:
            program.collective(collective, own_ns=noise.work(20_000))
    return program


def late(*ranks: int, at: int = 0, when: Callable[[int], bool] | None = None) -> Work:
    """Return work in which some ranks take 8 ms longer before one exchange of some steps."""

    def work(step: int, i: int, usual: Int) -> Int:
        delay = np.zeros_like(usual)
        delay[list(ranks)] = LATE_MS * MS * (i == at and (when is None or when(step)))
        return usual + delay

    return work


FIRST = ("allreduce", "irecv")  # before the first exchange of a step
LATER = ("waitall", "irecv")


def planted_programs() -> Iterator[PlantedProgram]:
    """Yield the programs."""
    whole = STEPS * LATE_MS
    for ranks in (2, 8, 32, 256):
        slow, steps = ranks // 2, STEPS if ranks < 256 else 20
        yield PlantedProgram(
            f"ring-{ranks}",
            partial(exchange, ranks, late(slow), steps=steps),
            "rank",
            (slow,),
            FIRST,
            cost_ms=(ranks - 1) * steps * LATE_MS,
            saved_ms=steps * LATE_MS,
        )
    yield PlantedProgram(
        "two",
        partial(exchange, 16, late(3, 9)),
        "rank",
        (3, 9),
        FIRST,
        cost_ms=14 * whole,
        saved_ms=whole,
    )
    late_half = late(5, at=2, when=lambda step: step >= STEPS // 2)
    yield PlantedProgram(
        "onset",
        partial(exchange, 16, late_half),
        "rank",
        (5,),
        LATER,
        STEPS // 2,
        saved_ms=whole / 2,
    )
    yield PlantedProgram("grows", partial(exchange, 16, _grow), "rank", (5,), LATER, 20)
    every_5th = late(7, at=1, when=lambda step: step % 5 == 4)
    yield PlantedProgram(
        "periodic",
        partial(exchange, 16, every_5th),
        "periodic",
        (7,),
        LATER,
        4,
        5,
        saved_ms=whole / 5,
    )
    yield PlantedProgram(
        "moving", partial(exchange, 16, _move), "moving", tuple(range(16)), LATER, saved_ms=whole
    )
    yield PlantedProgram(
        "node",
        partial(exchange, 16, _slow_node, nodes=[rank // 4 for rank in range(16)]),
        "node",
        (8, 9, 10, 11),
        LATER,
    )
    yield PlantedProgram("hot", partial(exchange, 64, _hot_centre, grid=(8, 8)), "rank", HOT, LATER)
    yield PlantedProgram(
        "without collectives", partial(exchange, 16, late(3), None), "periodic", (3,), LATER, 5, 5
    )
    yield PlantedProgram(
        "broadcasts", partial(exchange, 16, late(3), "bcast"), "rank", (3,), ("bcast", "irecv")
    )
    yield PlantedProgram(
        "pipeline", partial(_pipeline, None), "rank", (4,), ("recv", "send"), saved_ms=300
    )
    yield PlantedProgram(
        "pipeline and barrier",
        partial(_pipeline, "barrier"),
        "rank",
        (4,),
        ("recv", "send"),
        saved_ms=300,
    )
    yield PlantedProgram("any source", _any_source, "rank", (5,), ("send", "send"))


HOT = (27, 28, 29, 35, 36, 37, 43, 44, 45)


def _move(step: int, i: int, usual: Int) -> Int:
    return late(step % 16, at=1)(step, i, usual)


def _grow(step: int, i: int, usual: Int) -> Int:
    delay = np.zeros_like(usual)
    delay[5] = LATE_MS * MS * max(step - 20, 0) // 20 * (i == 2)
    return usual + delay


def _slow_node(_step: int, _i: int, usual: Int) -> Int:
    slow = np.arange(len(usual)) // 4 == 2
    return (usual * np.where(slow, 1.5, 1.0)).astype(np.int64)


def _hot_centre(_step: int, _i: int, usual: Int) -> Int:
    return usual + 2 * MS * np.isin(np.arange(len(usual)), HOT)


def _pipeline(collective: str | None) -> Program:
    """Return a pipeline in which rank 4 takes 3 ms longer for each of 100 items."""
    program, noise = Program(8, intervals=True), Noise(8)
    for _ in range(100):
        program.pipeline(noise.work() + 3 * MS * (np.arange(8) == 4))
        if collective:
            program.collective(collective)
    return program


def _any_source() -> Program:
    """Return workers that send 100 results to rank 0, of which rank 5 takes 3 times as long."""
    program, noise = Program(8, intervals=True), Noise(8)
    for _ in range(100):
        work = noise.work() * np.where(np.arange(8) == 5, 3, 1)
        program.work(work * (np.arange(8) > 0))
        for rank in range(1, 8):
            program.message(rank, 0, any_source=True)
    return program


def ring_without_delay(ranks: int, seed: int, spread: float) -> Program:
    """Return a halo exchange with random work only."""
    program, noise, ring = Program(ranks, intervals=True), Noise(ranks, seed), make_ring(ranks)
    for _ in range(STEPS):
        for _ in range(EXCHANGES):
            program.halo(ring, own_ns=noise.work(spread=spread))
        program.collective("allreduce")
    return program
