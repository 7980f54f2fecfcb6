"""Trends: lateness of one rank that grows or shrinks steadily, as opposed to a random walk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.arrival_matrix import column_medians
from mpiprof.trace.types import Float

MIN_INSTANCES = 24  # instances
STRETCHES = 12  # of the run; their medians are compared
MAX_QUARTER_RATIO = 1.5  # variance factor: changes of a random walk's means have correlation 1/4
MIN_GROWTH = 1.5  # minimum ratio of the lateness at both ends


@dataclass(frozen=True)
class Trend:
    """A trend: row of the arrival matrix, lateness in each instance (ns), and p-value."""

    row: int
    fitted_line: Float
    p: float


def find_trend(arrival: Float, waits: Float, sure: float) -> Trend | None:
    """Return the steady change in lateness of the rank that causes most wait, or None.

    A wandering rank has a regression line, too. But its changes between stretches differ in sign,
    and only changes of equal sign are significant.
    """
    ranks, count = arrival.shape
    if count < MIN_INSTANCES or ranks < 2 or np.isnan(arrival).any():
        return None
    row = int(np.argmax(np.bincount(arrival.argmax(0), waits, ranks)))
    late = arrival[row] - column_medians(np.delete(arrival, row, 0))
    along = np.arange(count) - (count - 1) / 2
    power = float(along @ along)
    slope = float(along @ late) / power
    line = late.mean() + slope * along
    if min(line[0], line[-1]) * MIN_GROWTH > max(line[0], line[-1]):
        return None
    from scipy import special

    middles = [np.median(part) for part in np.array_split(late, STRETCHES)]  # medians ignore spikes
    changes = np.sign(slope) * np.diff(middles)
    error = max(float(changes.std(ddof=1)), 1.0) * np.sqrt(MAX_QUARTER_RATIO / len(changes))
    p = min(2 * ranks * float(special.stdtr(len(changes) - 1, -changes.mean() / error)), 1.0)
    return Trend(row, np.maximum(line, 0.0), p) if p <= sure else None
