"""A machine for the simulator that does not distinguish messages within and between nodes."""

from __future__ import annotations

from mpiprof.collectives.machine import Machine


def make_uniform(alpha: float, beta: float, gamma: float = 0.0) -> Machine:
    """Return the machine; alpha in ns, beta and gamma in ns per byte."""
    return Machine(alpha, beta, gamma, alpha, beta)
