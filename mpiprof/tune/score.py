"""The score of an algorithm: time in an operation that a better algorithm could save.

The mean over ranks of exit minus the earliest time that the operation's semantics allow: waiting
for the last arrival, which no algorithm can shorten, does not count.
"""

from __future__ import annotations

import numpy as np

from mpiprof.analysis.operations import WAITS
from mpiprof.model.schedule import Problem
from mpiprof.trace.types import Float


def earliest(operation: str, problem: Problem, arrivals: Float) -> Float:
    """Return when each process could leave at the earliest, from the arrivals of all.

    In a synchronising operation at the last arrival (of the other group and the own one, across an
    inter-communicator), a receiver from a root when it and the root have come, the root of a gather
    or reduce when all have, who only sends at its own arrival.
    """
    state, size = WAITS[operation], problem.size
    if state == "late_root":
        return np.asarray(np.maximum(arrivals, arrivals[problem.root]))
    if state == "early_root":
        found = arrivals.copy()
        found[problem.root] = arrivals.max()
        return found
    if not problem.remote_size:
        return np.full_like(arrivals, arrivals.max())
    last = [arrivals[:size].max(), arrivals[size:].max()]
    other = np.repeat(last[::-1], [size, problem.remote_size])
    return np.asarray(np.maximum(arrivals, other))


def score(operation: str, problem: Problem, arrivals: Float, exits: Float) -> float:
    """Return the score of one instance in ns; arrivals and exits by process, on one clock."""
    return float((exits - earliest(operation, problem, arrivals)).mean())
