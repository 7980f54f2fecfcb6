"""Runs of a synthetic program whose variation between runs and within a run is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import mpiprof
from mpiprof.trace import Trace
from mpiprof.trace.types import Float
from support.synthetic import Synthetic

MS = 1_000_000
RANKS = 8
CORRELATION = 0.9  # of a rank's noise in consecutive steps


@dataclass(frozen=True)
class Program:
    """Steps of own time, in ms, that end in an allreduce.

    loads: own time of each rank. cost: time of the allreduce after the last arrival. Variation
    between runs (relative standard deviation): run_wide scales all times of a run, by_rank the own
    time of each rank. noise: relative standard deviation within a run.
    """

    loads: tuple[float, ...] = (10.0,) * RANKS
    cost: float = 0.5
    run_wide: float = 0.0
    by_rank: float = 0.0
    noise: float = 0.02
    steps: int = 300


def noisy(random: np.random.Generator, program: Program, columns: int) -> Float:
    """Return factors with autocorrelated noise and heavy tails: steps x columns, mean about 1."""
    drawn = random.normal(0, program.noise, (program.steps, columns))
    for step in range(1, program.steps):
        innovation = np.sqrt(1 - CORRELATION**2) * drawn[step]
        drawn[step] = CORRELATION * drawn[step - 1] + innovation
    spikes = np.abs(random.standard_t(3, drawn.shape)) * program.noise / 2
    return np.asarray(np.maximum(1 + drawn + spikes, 0.1))


def simulate(program: Program, seed: int) -> tuple[Float, Float]:
    """Return arrivals and exits of a run of the program: steps x ranks, ns."""
    random = np.random.default_rng(seed)
    whole = 1 + program.run_wide * random.normal()
    of_rank = 1 + program.by_rank * random.normal(size=RANKS)
    own = noisy(random, program, RANKS) * np.array(program.loads) * of_rank * whole * MS
    cost = noisy(random, program, 1)[:, 0] * program.cost * whole * MS
    exits = np.cumsum(own.max(1) + cost)
    starts = np.concatenate([[0.0], exits[:-1]])
    return starts[:, None] + own, np.repeat(exits[:, None], RANKS, 1)


def record(folder: Path, program: Program, seed: int) -> Trace:
    """Write and open a run of the program."""
    arrivals, exits = (np.rint(times).astype(np.int64) + MS for times in simulate(program, seed))
    synthetic = Synthetic(RANKS)
    synthetic.started_ns, synthetic.ended_ns = MS, int(exits.max()) + MS
    synthetic.add_collective("allreduce", arrivals, exits, site="app.py:12:step")
    return mpiprof.open(synthetic.write(folder))
