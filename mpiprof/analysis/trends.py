"""Lateness of one rank that grows or shrinks steadily over the run: told from wandering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.analysis import tails
from mpiprof.analysis.grid import median_of
from mpiprof.trace.types import Float

FEWEST = 24  # instances
STRETCHES = 12  # of the run, of which the medians are compared
ALIKE = 1.5  # neighbouring changes of a random walk's means are correlated by 1/4
LEAST = 1.5  # times the lateness at one end: what it is at the other


@dataclass(frozen=True)
class Trend:
    """row: of the grid; line: its lateness in each instance, in ns; p: how likely by chance."""

    row: int
    line: Float
    p: float


def trend_of(arrival: Float, waits: Float, sure: float) -> Trend | None:
    """Return the steady change of the lateness of the rank that most waiting is for, if any.

    A rank that wanders has a line, too: but from one stretch of the run to the next it changes now
    this way and now that, and only what changes alike each time is no chance.
    """
    ranks, count = arrival.shape
    if count < FEWEST or ranks < 2 or np.isnan(arrival).any():
        return None
    row = int(np.argmax(np.bincount(arrival.argmax(0), waits, ranks)))
    late = arrival[row] - median_of(np.delete(arrival, row, 0))
    along = np.arange(count) - (count - 1) / 2
    power = float(along @ along)
    slope = float(along @ late) / power
    line = late.mean() + slope * along
    if min(line[0], line[-1]) * LEAST > max(line[0], line[-1]):
        return None
    middles = [np.median(part) for part in np.array_split(late, STRETCHES)]  # spikes don't count
    changes = np.sign(slope) * np.diff(middles)
    error = max(float(changes.std(ddof=1)), 1.0) * np.sqrt(ALIKE / len(changes))
    p = min(2 * ranks * float(tails.student(len(changes) - 1, changes.mean() / error)), 1.0)
    return Trend(row, np.maximum(line, 0.0), p) if p <= sure else None
