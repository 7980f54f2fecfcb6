"""Simulated programs of the specifications in tests/causes that repeat a step of loop_programs.py.

The delays of some ranks are what is planted; without them, the work varies at random only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpiprof.trace.types import Float
from support import loop_programs, planted_loops
from support.cause_judgement import list_ranks
from support.planted_loops import Delay, PlantedLoop
from support.program import Program


def make_loop(
    loop: str,
    ranks: int,
    steps: int,
    noise: str = "quiet",
    seed: int = 1,
    nodes: int = 1,
    operations: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    work_ms: float | Sequence[float] = 1.0,
    delays: Sequence[Mapping[str, Any]] = (),
    sample: int = 1,
    ring: int = 0,
) -> PlantedLoop:
    """Return a loop with delays (parameters of make_delay).

    loop: a function of loop_programs. operations, options: its parameters. noise, seed: of the
    work, as in planted_loops.make_noise. work_ms: mean work, of all places or of each.
    """
    made = getattr(loop_programs, loop)(ranks, *operations, **(options or {}))
    factors = planted_loops.make_noise(noise, (steps, len(made.places), ranks), seed, nodes)
    factors *= np.broadcast_to(work_ms, len(made.places))[:, None]
    planted = tuple(make_delay(steps, ranks, **fields) for fields in delays)
    return PlantedLoop(made, factors, planted, nodes, sample, ring)


def planted_loop(**parameters: Any) -> Program:
    """Return the program of a loop (parameters of make_loop)."""
    return make_loop(**parameters).build()


def make_delay(
    steps: int,
    ranks: int,
    ms: float | Float,
    late: int | str | Sequence[int] | None = None,
    place: int = 0,
    first: int = 0,
    last: int | None = None,
    every: int = 1,
    at: Sequence[int] | None = None,
) -> Delay:
    """Return a delay of some ranks (late; all by default) at a place.

    late: also as "48 to 63". ms: of all steps and late ranks, or an array with one axis for each.
    first, last, every: steps with the delay. at: these steps.
    """
    chosen = list_ranks(late) if isinstance(late, str) else late
    late_ranks = np.arange(ranks) if chosen is None else np.atleast_1d(np.array(chosen, np.int64))
    late_steps = np.arange(first, steps if last is None else last + 1, every)
    late_steps = late_steps if at is None else np.array(at, np.int64)
    of_all = np.broadcast_to(np.asarray(ms, np.float64), (steps, len(late_ranks)))
    late_ms = np.zeros((steps, ranks))
    late_ms[np.ix_(late_steps, late_ranks)] = of_all[late_steps]
    return Delay(place, late_ms)
