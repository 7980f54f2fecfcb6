"""Loops with planted delays or with noise only, and the truth about them.

The noise is drawn before the program runs, so that the same program without a delay differs in
nothing else. The difference in waiting is the cost of the delay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.trace.types import Float
from support.loop_programs import Loop
from support.program import Program

MS = 1_000_000
QUIET = 0.02  # standard deviation of the work, over its mean


@dataclass(frozen=True)
class Delay:
    """Work in excess: steps x ranks in ms, at one place of the loop."""

    place: int
    late_ms: Float


@dataclass(frozen=True)
class PlantedLoop:
    """A loop with delays and noise.

    noise: steps x places x ranks, factors of a mean work of 1 ms. nodes: number of nodes. sample,
    ring: as in Program and Synthetic, for traces with some of the calls only.
    """

    loop: Loop
    noise: Float
    delays: tuple[Delay, ...] = ()
    nodes: int = 1
    sample: int = 1
    ring: int = 0

    def build(self, removed: Collection[int] = ()) -> Program:
        """Return the program without the delays of some ranks."""
        loop = self.loop
        nodes = [rank * self.nodes // loop.ranks for rank in range(loop.ranks)]
        offsets, drifts = (0,) * self.nodes, (0.0,) * self.nodes
        options: dict[str, Any] = {"nodes": nodes, "offsets": offsets, "drifts": drifts}
        options["ring"] = self.ring
        program = Program(loop.ranks, intervals=True, sample=self.sample, **options)
        if loop.prepare:
            loop.prepare(program)
        work_ns = self.noise * MS
        for delay in self.delays:
            late_ms = delay.late_ms.copy()
            late_ms[:, list(removed)] = 0.0
            work_ns[:, delay.place] += late_ms * MS
        whole_ns = np.maximum(work_ns, 0.0).astype(np.int64)
        for of_step in whole_ns:
            loop.add_step(program, of_step.__getitem__)
        return program

    def cost_ns(self, removed: Collection[int]) -> int:
        """Return the waiting that vanishes without the delays of some ranks, as in `build`."""
        waiting = []
        for of in ((), removed):
            program = self.build(of)
            program.collective("finalize")
            waiting.append(int(program.make_truth()["wait_ns"].sum()))
        return waiting[0] - waiting[1]


# Delays of some ranks, steps x ranks in ms
DELAYS = ("constant", "growing", "moving", "varying", "bump", "swing")


def constant(steps: int, ranks: int, late: Collection[int], ms: float) -> Float:
    """Return the same delay of some ranks in each step."""
    result = np.zeros((steps, ranks))
    result[:, list(late)] = ms
    return result


def growing(steps: int, ranks: int, late: int, ms: float, first: int = 0) -> Float:
    """Return a delay of one rank that grows from a step on."""
    result = np.zeros((steps, ranks))
    result[first:, late] = ms * np.arange(1, steps - first + 1) / (steps - first)
    return result


def moving(steps: int, ranks: int, ms: float, stay: int = 1, by: int = 1) -> Float:
    """Return a delay that stays at a rank for some steps and then moves by some ranks."""
    result = np.zeros((steps, ranks))
    result[np.arange(steps), np.arange(steps) // stay * by % ranks] = ms
    return result


def bump(steps: int, ranks: int, ms: float, width: float, speed: float) -> Float:
    """Return a delay with its maximum at a rank that grows by `speed` per step."""
    centre = np.arange(steps) * speed % ranks
    distance = np.abs(np.arange(ranks) - centre[:, None])
    distance = np.minimum(distance, ranks - distance)
    return np.asarray(ms * np.exp(-(distance**2) / (2 * width**2)))


def swing(steps: int, ranks: int, ms: float, stay: int, width: float, start: int) -> Float:
    """Return a delay whose centre moves to and fro; width: 0 for a single rank."""
    phase = (np.arange(steps) // stay + start) % (2 * ranks - 2)
    distance = np.arange(ranks) - np.abs(phase - (ranks - 1))[:, None]
    if not width:
        return np.where(distance == 0, ms, 0.0)
    return np.asarray(ms * np.exp(-((distance / width) ** 2)))


def varying(kind: str, steps: int, ranks: int, late: int, random: np.random.Generator) -> Float:
    """Return delays of one rank with a mean of about 1 that differ from step to step."""
    drawn = {
        "exponential": random.exponential(1.0, steps),
        "pareto": 0.5 * random.pareto(1.5, steps) + 0.1,  # infinite variance
        "uniform": random.uniform(0.0, 2.0, steps),
    }
    result = np.zeros((steps, ranks))
    result[:, late] = drawn[kind]
    return result


# Noise without a cause


def make_noise(kind: str, shape: tuple[int, int, int], seed: int, nodes: int = 1) -> Float:
    """Return factors of the mean work: steps x places x ranks.

    kind "elsewhere": little noise at the first place, and much at all others.
    """
    random = np.random.default_rng(seed)
    steps, places, ranks = shape
    if kind.startswith("correlated"):
        series = correlate(random, steps * places, ranks, float(kind.split()[1]))
        return np.maximum(1 + 0.2 * series.reshape(shape), 0.05)
    if kind == "node":
        series = correlate(random, steps * places, nodes, 0.9).reshape(steps, places, nodes)
        of_node = series[..., np.arange(ranks) * nodes // ranks]
        return np.maximum(1 + 0.2 * of_node + 0.05 * random.standard_normal(shape), 0.05)
    noise: Float
    if kind == "quiet":
        noise = 1 + QUIET * random.standard_normal(shape)
    elif kind == "small":
        noise = 1 + 0.06 * random.standard_normal(shape)
    elif kind == "accidents":
        noise = 1 + QUIET * random.standard_normal(shape)
        is_struck = (random.random((steps, 1)) < 1 / 6) & (random.random((steps, ranks)) < 1 / 3)
        noise[:, 0] += 5 * is_struck
    elif kind == "elsewhere":
        noise = 1 + QUIET * random.standard_normal(shape)
        noise[:, 1:] += 2 * np.exp(random.standard_normal((steps, places - 1, ranks)) - 0.5)
    elif kind == "gamma":
        noise = random.gamma(1.0, 3.0, shape)
    elif kind == "normal":
        noise = np.maximum(1 + 0.3 * random.standard_normal(shape), 0.05)
    elif kind == "lognormal":
        noise = np.exp(random.standard_normal(shape) - 0.5)
    elif kind == "pareto":
        noise = 0.5 * (1 + random.pareto(1.5, shape)) / 1.5
    elif kind == "spikes":
        noise = 1 + 0.05 * random.standard_normal(shape) + 10 * (random.random(shape) < 0.01)
    else:
        raise ValueError(kind)
    return noise


def correlate(random: np.random.Generator, count: int, series: int, kept: float) -> Float:
    """Return series of values (count x series) that keep a share of their predecessors."""
    values = random.standard_normal((count, series))
    for at in range(1, count):
        values[at] = kept * values[at - 1] + np.sqrt(1 - kept**2) * values[at]
    return values
