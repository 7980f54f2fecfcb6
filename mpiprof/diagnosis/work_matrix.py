"""Matrix of times whose excess over other ranks causes waits: ranks x steps of a run."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

MAX_ARRIVALS = 1 << 20  # maximum number of cells: ranks x instances
MAX_INSTANCES = 1 << 15


class WorkMatrix(ABC):
    """Times of ranks (rows) in steps (columns) in ns; their excess over others causes waits.

    - ranks: world ranks of the rows, ascending.
    - number: number of each column's step. first_ns: its begin.
    - work_ns: the times; NaN for ranks that do not take part.
    - node: index into `nodes` for each row.
    - least_ns: the clock error, at least 1 us. Smaller differences are not significant.
    """

    work_ns: Float

    def __init__(self, trace: Trace, ranks: Int, number: Int, first_ns: Int) -> None:
        """Prepare the rows and columns; a subclass adds `work_ns`."""
        self.ranks, self.number, self.first_ns = ranks, number, first_ns
        self.least_ns = max(float(trace.clock_error_ns), 1_000.0)
        self.nodes, self.node = number_nodes(trace, ranks)

    @property
    def instance_count(self) -> int:
        """Number of columns."""
        return len(self.number)

    @abstractmethod
    def compute_waiting(self, work_ns: Float) -> Float:
        """Return the wait in ns, summed over the ranks of each step, for given times."""

    def compute_excess(self, ranks: Sequence[int], columns: Int) -> Float:
        """Return the values of some ranks beyond the median of the others in the column, else 0.

        Without ranks, or without others, all ranks are compared with the median of all.
        """
        rows = np.isin(self.ranks, ranks)
        if rows.all() or not rows.any():
            rows[:] = True
        others = self.work_ns[:, columns] if rows.all() else self.work_ns[np.ix_(~rows, columns)]
        cells = np.ix_(rows, columns)
        excess = np.zeros_like(self.work_ns)
        excess[cells] = np.maximum(self.work_ns[cells] - column_medians(others), 0.0)
        return np.nan_to_num(excess)

    def compute_caused_waits(self) -> Float:
        """Return the wait in ns that each row causes, 0 if all ranks wait for the last one."""
        return np.zeros(len(self.ranks))


def column_medians(values: Float) -> Float:
    """Return the median of the known values of each column; NaN for a column without values."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about columns without values
        return np.asarray(np.nanmedian(values, 0))


def number_nodes(trace: Trace, ranks: Int) -> tuple[list[str], Int]:
    """Return the names of the nodes of some ranks, and the index of each rank's node."""
    names = [trace.node_ids.get(rank, "?") for rank in ranks.tolist()]
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(index), np.array([index[name] for name in names], np.int64)


def find_host(trace: Trace, node: str | None) -> str | None:
    """Return the host name of a node, or the node itself if it has none."""
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)
