"""Matrix of times whose excess over other ranks causes waits: ranks x steps of a run."""

from __future__ import annotations

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
    - least_work_ns: least work of a rank in each column, which `work_ns` does not contain.
    """

    work_ns: Float
    least_work_ns: Float

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
        other_work_ns = (
            self.work_ns[:, columns] if rows.all() else self.work_ns[np.ix_(~rows, columns)]
        )
        cells = np.ix_(rows, columns)
        excess = np.zeros_like(self.work_ns)
        excess[cells] = np.maximum(self.work_ns[cells] - column_medians(other_work_ns), 0.0)
        return np.nan_to_num(excess)

    def compute_caused_waits(self) -> Float:
        """Return the wait in ns that each row causes, 0 if all ranks wait for the last one."""
        return np.zeros(len(self.ranks))


def column_medians(values: Float) -> Float:
    """Return the median of the known values of each column; NaN for a column without values."""
    if not len(values):
        return np.full(values.shape[1], np.nan)
    # NumPy sorts several times as fast as it finds medians. Unknown values come last.
    ordered = np.sort(values, axis=0)
    if not np.isnan(ordered[-1]).any():
        return np.asarray((ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2)
    count = len(values) - np.isnan(values).sum(0)
    columns = np.arange(values.shape[1])
    low, high = ordered[np.maximum(count - 1, 0) // 2, columns], ordered[count // 2, columns]
    return np.asarray((low + high) / 2)


def number_nodes(trace: Trace, ranks: Int) -> tuple[list[str], Int]:
    """Return the names of the nodes of some ranks, and the index of each rank's node."""
    names = [trace.node_ids.get(rank, "?") for rank in ranks.tolist()]
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(index), np.array([index[name] for name in names], np.int64)


def find_host(trace: Trace, node: str | None) -> str | None:
    """Return the host name of a node, or the node itself if it has none."""
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)
