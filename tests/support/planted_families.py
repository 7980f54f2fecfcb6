"""Families of planted causes, with the sentence that each must lead to, and noise without any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.trace.types import Float
from support import loop_programs as loops
from support import planted_loops as planted
from support.loop_programs import Loop
from support.planted_loops import Delay, PlantedLoop

STEPS = 48
LATE_MS = 5.0
CAUSE_SEEDS = 5  # causes of each family
NOISE_KINDS = (
    "normal",
    "lognormal",
    "pareto",
    "correlated 0.9",
    "correlated 0.99",
    "node",
    "spikes",
)


@dataclass(frozen=True)
class PlantedCause:
    """A cause and the finding that it must lead to.

    causes: names of findings that describe it. ranks: late ranks. named: ranks that the sentence
    must name, at least. first: first step with the cause, within `tolerance` steps. period: in
    steps. site: operations of the calls around the work.
    """

    family: str
    planted: PlantedLoop
    causes: tuple[str, ...]
    ranks: tuple[int, ...]
    named: tuple[int, ...]
    first: int = 0
    tolerance: int = 1
    period: int | None = None

    @property
    def sites(self) -> tuple[str, str]:
        """Return the operations of the calls before and after the late work."""
        return self.planted.loop.places[self.planted.delays[0].place]

    def __str__(self) -> str:
        return f"{self.family}, {self.planted.loop.ranks} ranks"


@dataclass(frozen=True)
class _Draw:
    """Random choices of one cause. steps: number of steps with few ranks."""

    random: np.random.Generator
    number: int
    steps: int

    def count_steps(self, ranks: int) -> int:
        """Return fewer steps for many ranks, to bound the time."""
        return self.steps if ranks <= 64 else self.steps // 3

    def pick(self, *values: int) -> int:
        """Return a value that depends on the number of the cause."""
        return values[self.number % len(values)]

    def rank(self, ranks: int, first: int = 0) -> int:
        """Return a rank from `first` on."""
        return int(self.random.integers(first, ranks))


def planted_causes(
    seed: int = 1, families: Collection[str] = (), steps: int = STEPS
) -> Iterator[PlantedCause]:
    """Yield the causes; families: all by default. steps: number of steps with few ranks."""
    for index, (name, make) in enumerate(FAMILIES.items()):
        for number in range(CAUSE_SEEDS):
            if not families or name in families:
                yield make(name, _Draw(np.random.default_rng((seed, index, number)), number, steps))


def _make(
    name: str,
    draw: _Draw,
    loop: Loop,
    late: Float,
    causes: str = "rank",
    place: int = 0,
    **more: Any,
) -> PlantedCause:
    """Return a cause in a loop with little noise; late: steps x ranks in ms."""
    nodes = more.pop("nodes", 1)
    others = more.pop("others", ())
    ranks = tuple(np.flatnonzero(late.any(0)).tolist())
    ranks = more.pop("ranks", ranks)
    shape = len(late), len(loop.places), loop.ranks
    noise = planted.make_noise("quiet", shape, draw.rank(1 << 30))
    built = PlantedLoop(loop, noise, (Delay(place, late), *others), nodes)
    named = more.pop("named", ranks)
    return PlantedCause(name, built, tuple(causes.split()), ranks, named, **more)


def _one_rank(
    make_loop: Callable[[int, _Draw], Loop], *sizes: int, place: int = 0, late: int | None = None
) -> Callable[[str, _Draw], PlantedCause]:
    """Return a family in which one rank works longer in each step.

    late: rank, by default any from 1 on except the last one.
    """

    def make(name: str, draw: _Draw) -> PlantedCause:
        loop = make_loop(draw.pick(*sizes), draw)
        ranks = loop.ranks
        rank = draw.rank(max(ranks - 1, 2), 1) if late is None else late
        delay = planted.constant(draw.count_steps(ranks), ranks, [rank], LATE_MS)
        return _make(name, draw, loop, delay, place=place)

    return make


def _halo_or_collectives(draw: _Draw, *sizes: int) -> Loop:
    """Return a loop with messages for every second cause."""
    ranks = draw.pick(*sizes)
    if draw.number % 2:
        return loops.collectives(ranks, "allreduce", "alltoall")
    return loops.halo(ranks)


def _grid(draw: _Draw) -> Loop:
    shape = ((2, 2), (4, 4), (4, 8), (8, 8), (16, 16))[draw.number % 5]
    return loops.halo(shape[0] * shape[1], shape)


def _ring_only(name: str, draw: _Draw) -> PlantedCause:
    """Return a delay before each third exchange, all of which have the same call sites."""
    loop = loops.halo(draw.pick(2, 4, 8, 16, 32), collective=None)
    late = planted.constant(draw.steps, loop.ranks, [draw.rank(loop.ranks)], LATE_MS)
    return _make(name, draw, loop, late, "periodic", period=3, tolerance=3)


def _late_receiver(name: str, draw: _Draw) -> PlantedCause:
    loop = loops.large_messages(draw.pick(2, 4, 8, 16, 32))
    rank = 2 * draw.rank(loop.ranks // 2) + 1
    late = planted.constant(draw.steps, loop.ranks, [rank], LATE_MS)
    return _make(name, draw, loop, late)


def _several_ranks(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 8, 12, 16, 32, 64)
    few = draw.random.choice(loop.ranks, draw.pick(2, 3, 4), replace=False).tolist()
    return _make(name, draw, loop, planted.constant(draw.steps, loop.ranks, few, LATE_MS))


def _two_causes(name: str, draw: _Draw) -> PlantedCause:
    """Return two ranks with different delays at different places, far from each other."""
    loop = _halo_or_collectives(draw, 8, 12, 16, 32, 64)
    first = draw.rank(loop.ranks)
    second = (first + loop.ranks // 2) % loop.ranks
    late = planted.constant(draw.steps, loop.ranks, [first], LATE_MS)
    other = Delay(1, planted.constant(draw.steps, loop.ranks, [second], LATE_MS / 2))
    allowed = tuple(sorted((first, second)))
    return _make(name, draw, loop, late, others=(other,), ranks=allowed, named=(first,))


def _hot_centre(name: str, draw: _Draw) -> PlantedCause:
    side = draw.pick(4, 6, 8, 10, 12)
    centre = range(side // 2 - 1, side // 2 + 1 + side // 8)
    hot = [row * side + column for row in centre for column in centre]
    loop = loops.halo(side * side, (side, side))
    return _make(name, draw, loop, planted.constant(draw.steps, side * side, hot, LATE_MS / 2))


def _slow_node(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 16, 16, 32, 64, 24)
    nodes = loop.ranks // planted.RANKS_PER_NODE
    of_node = np.arange(planted.RANKS_PER_NODE) + planted.RANKS_PER_NODE * draw.rank(nodes)
    late = planted.constant(draw.steps, loop.ranks, of_node.tolist(), 1.0)
    return _make(name, draw, loop, late, "node rank", nodes=nodes)


def _growing(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 4, 8, 16, 32, 12)
    first = draw.pick(0, 0, draw.steps // 2, draw.steps // 2, draw.steps // 3)
    late = planted.growing(draw.steps, loop.ranks, draw.rank(loop.ranks), 2 * LATE_MS, first)
    return _make(name, draw, loop, late, first=first, tolerance=draw.steps // 8)


def _onset(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 2, 4, 16, 32, 64)
    late = planted.constant(draw.steps, loop.ranks, [draw.rank(loop.ranks)], LATE_MS)
    first = draw.rank(draw.steps - 12, 12)
    late[:first] = 0.0
    return _make(name, draw, loop, late, first=first)


def _periodic(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 2, 4, 8, 16, 32)
    period = draw.pick(2, 3, 5, 6, 4)
    late = planted.constant(draw.steps, loop.ranks, [draw.rank(loop.ranks)], LATE_MS)
    first = draw.rank(period)
    late[np.arange(draw.steps) % period != first] = 0.0
    return _make(name, draw, loop, late, "periodic", first=first, period=period)


def _moving(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 4, 4, 8, 8, 16)
    stay = draw.pick(1, 1, 20, 20, 1)
    late = planted.moving(max(draw.steps, stay * loop.ranks), loop.ranks, LATE_MS, stay)
    return _make(name, draw, loop, late, "moving", tolerance=2)


def _gradient(name: str, draw: _Draw) -> PlantedCause:
    loop = _halo_or_collectives(draw, 8, 8, 16, 32, 64)
    late = np.broadcast_to(LATE_MS * np.linspace(0, 1, loop.ranks), (draw.steps, loop.ranks))
    return _make(name, draw, loop, late, "gradient", named=(loop.ranks - 1,))


def _own_loads(name: str, draw: _Draw) -> PlantedCause:
    """Return a load of each rank with a standard deviation of 15 %."""
    loop = _halo_or_collectives(draw, 16, 32, 32, 64, 64)
    load_ms = LATE_MS * (1 + 0.15 * draw.random.standard_normal(loop.ranks))
    late = np.broadcast_to(load_ms, (draw.steps, loop.ranks))
    above = tuple(np.flatnonzero(load_ms > np.median(load_ms)).tolist())
    return _make(name, draw, loop, late, ranks=above, named=(int(load_ms.argmax()),))


def _outlier(name: str, draw: _Draw) -> PlantedCause:
    """Return one rank that is very late in one step."""
    loop = _halo_or_collectives(draw, 2, 4, 16, 32, 8)
    first = draw.rank(draw.steps)
    late = np.zeros((draw.steps, loop.ranks))
    late[first, draw.rank(loop.ranks)] = 20 * LATE_MS
    return _make(name, draw, loop, late, "outlier rank", first=first, tolerance=0)


def _varying(name: str, draw: _Draw) -> PlantedCause:
    """Return a rank whose delay varies from step to step, with heavy tails or without."""
    loop = _halo_or_collectives(draw, 2, 4, 8, 16, 64)
    kind = planted.VARYING[draw.number % len(planted.VARYING)]
    late = planted.varying(kind, draw.steps, loop.ranks, draw.rank(loop.ranks), draw.random)
    # The first delays may be short.
    return _make(name, draw, loop, LATE_MS * late, tolerance=draw.steps // 8)


def _file_of_root(name: str, draw: _Draw) -> PlantedCause:
    """Return a rank 0 that writes a file before a barrier, every tenth step."""
    loop = loops.collectives(draw.pick(2, 4, 8, 32, 64), "allreduce", "barrier")
    late = planted.constant(2 * draw.steps, loop.ranks, [0], 3 * LATE_MS)
    late[np.arange(2 * draw.steps) % 10 != 9] = 0.0
    return _make(name, draw, loop, late, "periodic", place=1, first=9, period=10)


FAMILIES: dict[str, Callable[[str, _Draw], PlantedCause]] = {
    # With messages
    "ring": _one_rank(lambda ranks, _: loops.halo(ranks), 2, 8, 32, 256, 1024),
    "grid": _one_rank(lambda _, draw: _grid(draw), 0, place=1),
    "ring, broadcast": _one_rank(
        lambda ranks, _: loops.halo(ranks, collective="bcast"), 3, 4, 8, 16, 32
    ),
    "ring only": _ring_only,
    "pipeline": _one_rank(
        lambda ranks, draw: loops.pipeline(ranks, (None, "barrier")[draw.number % 2]),
        *(4, 6, 8, 12, 16),
    ),
    "pipeline, large messages": _one_rank(
        lambda ranks, _: loops.pipeline(ranks, "bcast", loops.LARGE), 4, 6, 8, 12, 16
    ),
    "workers": _one_rank(
        lambda ranks, draw: loops.workers(ranks, any_source=draw.number % 2 == 0),
        *(3, 5, 8, 12, 16),
    ),
    "root of workers": _one_rank(
        lambda ranks, _: loops.workers(ranks, "bcast"), 3, 5, 8, 12, 16, place=1, late=0
    ),
    "sendrecv": _one_rank(lambda ranks, _: loops.sendrecv_ring(ranks), 3, 4, 8, 16, 64, place=1),
    "late receiver": _late_receiver,
    "sparse neighbours": _one_rank(
        lambda ranks, draw: loops.sparse_neighbours(ranks, draw.number), 6, 8, 16, 32, 64
    ),
    "hot centre": _hot_centre,
    # Every second one with messages
    "several ranks": _several_ranks,
    "two causes": _two_causes,
    "slow node": _slow_node,
    "growing": _growing,
    "onset": _onset,
    "periodic": _periodic,
    "moving": _moving,
    "gradient": _gradient,
    "own loads": _own_loads,
    "outlier": _outlier,
    # Without messages
    "allreduce": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "allreduce"), 2, 4, 32, 256, 1024
    ),
    "several collectives": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "allreduce", "bcast", "alltoall"),
        *(3, 4, 8, 32, 64),
        place=2,
    ),
    "reduce and barrier": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "reduce", "barrier"), 3, 4, 8, 32, 64
    ),
    "root of bcast": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "bcast", "barrier"), 2, 4, 8, 32, 64, late=0
    ),
    "scatter and gather": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "scatter", "gather"), 3, 4, 8, 32, 64, place=1
    ),
    "late Wait": _one_rank(lambda ranks, _: loops.nonblocking(ranks), 2, 4, 8, 16, 64, place=1),
    "rows and columns": _one_rank(
        lambda _, draw: loops.rows_and_columns(
            *((2, 2), (2, 4), (4, 4), (4, 8), (8, 8))[draw.number % 5]
        ),
        *(0,),
    ),
    "heavy allgatherv": _one_rank(
        lambda ranks, _: loops.collectives(ranks, "barrier", "allgatherv"),
        *(2, 4, 8, 32, 64),
        place=1,
    ),
    "file of the root": _file_of_root,
    "varying delay": _varying,
}


def noise_loops(seed: int, count: int) -> Iterator[tuple[str, PlantedLoop]]:
    """Yield loops without a cause and their names; every second one has messages."""
    for number in range(count):
        random = np.random.default_rng((seed, number))
        kind = (*NOISE_KINDS, "role")[number // 2 % (len(NOISE_KINDS) + 1)]
        ranks = int(random.choice([2, 3, 4, 8, 16, 32]))
        with_role = kind == "role"
        loop = _noise_loop(random, max(ranks, 3), with_role, number % 2 == 0)
        nodes = max(loop.ranks // planted.RANKS_PER_NODE, 1) if kind == "node" else 1
        shape = STEPS, len(loop.places), loop.ranks
        if kind == "node" and nodes == 1:
            kind = "normal"
        factors = planted.make_noise("normal" if with_role else kind, shape, number, nodes)
        yield f"{kind}, {loop.ranks} ranks", PlantedLoop(loop, factors, nodes=nodes)


def _noise_loop(random: np.random.Generator, ranks: int, with_role: bool, messages: bool) -> Loop:
    """Return a loop; with_role: of whose ranks some wait or work differently by their role."""
    halo, without = (
        [
            lambda: loops.halo(ranks),
            lambda: loops.halo(ranks, collective="bcast"),
            lambda: loops.sendrecv_ring(ranks),
            lambda: loops.halo(ranks, collective=None),
            lambda: loops.large_messages(ranks + ranks % 2),
        ],
        [
            lambda: loops.collectives(ranks, "allreduce"),
            lambda: loops.collectives(ranks, "allreduce", "bcast", "alltoall"),
            lambda: loops.nonblocking(ranks),
            lambda: loops.rows_and_columns(2, max(ranks // 2, 2)),
        ],
    )
    roles = [
        [
            lambda: loops.pipeline(ranks),
            lambda: loops.pipeline(ranks, "barrier"),
            lambda: loops.workers(ranks),
            lambda: loops.workers(ranks, "barrier"),
        ],
        [
            lambda: loops.collectives(ranks, "reduce", "barrier"),
            lambda: loops.collectives(ranks, "bcast", "barrier"),
            lambda: loops.collectives(ranks, "scatter", "gather"),
        ],
    ]
    made = roles[not messages] if with_role else (without, halo)[messages]
    return made[int(random.integers(len(made)))]()
