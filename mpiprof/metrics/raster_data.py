"""Raster data of a page's pictures: any trace is summed into a fixed number of cells.

Each row stands for an equal number of world ranks, in order. Memory is the cells plus 16 bytes per
instance of the requested call sites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.aggregate import FACTOR_RANGES
from mpiprof.metrics.instance_metrics import InstanceMetrics
from mpiprof.operations import base_operation
from mpiprof.trace.rank_arrays import Block, get_column
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import CALL, COMPLETION, Array, Bool, Float, Int

BLOCK = 1 << 16

Step = Callable[[int], None]


def assign_rows(trace: Trace, rows: int) -> Int:
    """Return the row of each rank in a picture of at most `rows` rows."""
    count = min(rows, trace.ranks)
    return np.arange(trace.ranks) * count // trace.ranks


@dataclass(frozen=True)
class TimeShares:
    """Shares of each cell's time that ranks spend in operations: rows x columns x operations."""

    operations: tuple[str, ...]  # by the time in them, most first
    cells: Float
    waiting: Float  # the part of `cells` in which only another rank was missing
    point_to_point_ns: int  # time of all ranks in point-to-point and completion calls outside


def compute_time_shares(trace: Trace, columns: int, rows: int, step: Step) -> TimeShares:
    """Divide the run into columns of equal time and the ranks into rows; two passes."""
    names = [base_operation(s.operation) for s in trace.tables.shapes]
    operations = sorted(set(names))
    of_shape = np.array([operations.index(name) for name in names], np.int64)
    end = max(trace.duration_ns, 1)
    edges = np.linspace(0, end, columns + 1)
    row = assign_rows(trace, rows)
    cells = np.zeros((int(row[-1]) + 1, columns, len(operations)))
    outside = 0
    for rank in range(trace.ranks):
        for block in trace.open_stream(rank, complete_only=True).iterate_blocks(BLOCK):
            outside += int(get_column(block, "outside").sum())
            step(len(block))
            chosen = _records_inside(block)
            exit_ns = block.exit_ns[chosen]
            enter = block.enter_ns[chosen] - trace.calls_start_ns
            exit_ = np.where(exit_ns == 0, end, exit_ns - trace.calls_start_ns)
            _add_times(cells[row[rank]], edges, of_shape[block.shape[chosen]], enter, exit_)
    waiting = np.minimum(_waiting_ns(trace, edges, row, of_shape, cells.shape), cells)
    inside = cells.sum((0, 1))
    order = np.argsort(-inside, kind="stable")
    order = order[inside[order] > 0]  # without calls on messages, which are not in this picture
    of_time = (edges[1] * np.bincount(row))[:, None, None]
    cells, waiting = (ns[:, :, order] / of_time for ns in (cells, waiting))
    return TimeShares(tuple(operations[i] for i in order), cells, waiting, outside)


def _waiting_ns(
    trace: Trace, edges: Float, row: Int, of_shape: Int, shape: tuple[int, int, int]
) -> Float:
    """Return the ns of waiting in rows x columns x operations; `row` of each rank."""
    wait_ns, measure = np.zeros(shape), InstanceMetrics(trace)
    for batch in trace.batches():
        blocked = measure.blocked = np.zeros(batch.arrival_ns.shape, np.int64)
        measure.compute_rows(batch)
        for member, rank in enumerate(batch.communicator.ranks.tolist()):
            waiting_instances = np.flatnonzero(blocked[member] > 0)
            begin = batch.begin_ns[member, waiting_instances] - trace.calls_start_ns
            operation = of_shape[batch.shape[member, waiting_instances]]
            end = begin + blocked[member, waiting_instances]
            _add_times(wait_ns[row[rank]], edges, operation, begin, end)
    return wait_ns


def _records_inside(block: Block) -> Bool:
    """Select the records of time in collectives: calls, and one record per Wait."""
    kind = get_column(block, "kind")
    waits = kind == COMPLETION
    # A Wait that completes several operations leaves several records with equal times.
    again = np.zeros(len(block), np.bool_)
    again[1:] = waits[1:] & waits[:-1]
    again[1:] &= (np.diff(block.enter_ns) == 0) & (np.diff(block.exit_ns) == 0)
    return np.asarray((kind == CALL) | (waits & ~again))


def _add_times(cells: Float, edges: Float, operation: Int, begin: Int, end: Int) -> None:
    """Add intervals of time in operations to cells: columns of time x operations."""

    def passed(times: Int) -> Float:
        """Return for each edge the sum of the times that have passed since earlier `times`."""
        times = np.sort(times).astype(np.float64)
        sums = np.concatenate([[0.0], np.cumsum(times)])
        count = np.searchsorted(times, edges)
        return np.asarray(count * edges - sums[count])

    for i in np.unique(operation).tolist():
        mine = operation == i
        cells[:, i] += np.diff(passed(begin[mine]) - passed(end[mine]))


@dataclass(frozen=True)
class Site:
    """Data of one call site over its instances without absent ranks, in columns of equal counts."""

    instances: int
    # Rows x columns, ns after the first arrival, of the latest of the row's ranks, mean over the
    # column's instances, NaN where no rank took part.
    lateness: Float
    worst_factor: Float  # mean of each column
    worst_imbalance: Float  # mean of each column
    ranges: Int  # instances by range of their worst-case factor (aggregate.RANGE_NAMES)
    late: Float  # mean lateness of each world rank, NaN without
    last: Int  # number of instances in which each rank was last


def make_sites(
    trace: Trace, chosen: Sequence[int], columns: int, rows: int, step: Step
) -> dict[int, Site]:
    """Return the data of the chosen call sites, without call sites that have no instances."""
    firsts: dict[int, list[Int]] = {c: [] for c in chosen}
    for _, part in InstanceMetrics(trace).iterate_batches():
        for c, index in _collect_arrivals(part.callsite, part.arrived, chosen):
            firsts[c].append(part.first_arrival[index])
    cells_by_callsite = {
        c: _Cells(trace, np.sort(np.concatenate(first_arrivals)), columns, rows)
        for c, first_arrivals in firsts.items()
        if first_arrivals
    }
    for batch, part in InstanceMetrics(trace).iterate_batches():
        step(batch.shape.size)
        for c, index in _collect_arrivals(part.callsite, part.arrived, list(cells_by_callsite)):
            first = part.first_arrival[index]
            late = (batch.arrival_ns[:, index] - first).astype(np.float64)
            factor = part.worst_factor[index]
            cells_by_callsite[c].add(batch.communicator.ranks, first, late, factor)
    return {c: cells.site() for c, cells in cells_by_callsite.items()}


def _collect_arrivals(callsite: Int, arrived: Bool, chosen: Sequence[int]) -> list[tuple[int, Int]]:
    callsites = np.intersect1d(callsite, np.array(chosen, np.int64)).tolist()
    pairs = [(c, np.flatnonzero((callsite == c) & arrived)) for c in callsites]
    return [(c, index) for c, index in pairs if len(index)]


class _Cells:
    """Sums of one call site. `firsts` are the first arrivals of its instances, sorted."""

    def __init__(self, trace: Trace, firsts: Int, columns: int, rows: int) -> None:
        self.instances, count = len(firsts), min(columns, len(firsts))
        self.begins = firsts[np.arange(count) * len(firsts) // count]
        self.row, self.columns = assign_rows(trace, rows), count
        self.sums, self.counts = np.zeros((2, int(self.row[-1]) + 1, count))
        self.factors, self.spreads, self.each, self.known = np.zeros((4, count))
        self.ranges = np.zeros(len(FACTOR_RANGES) + 1, np.int64)
        self.late, self.took_part, self.last = np.zeros((3, trace.ranks))

    def add(self, ranks: Int, first: Int, late: Float, factor: Float) -> None:
        """Add instances by lateness (ranks x instances), first arrival and imbalance factor."""
        at = np.searchsorted(self.begins, first, "right") - 1

        def by_column(values: Array | None = None) -> Float:
            return np.bincount(at, values, self.columns).astype(np.float64)

        number = by_column()
        rows = self.row[ranks]
        for row in np.unique(rows).tolist():
            # The mean over the ranks of a row would hide a late one among them.
            self.sums[row] += by_column(late[rows == row].max(0))
            self.counts[row] += number
        self.late[ranks] += late.sum(1)
        self.took_part[ranks] += late.shape[1]
        latest = late.argmax(0)
        self.last += np.bincount(ranks[latest], late.max(0) > 0, len(self.last))
        self.each += number
        self.spreads += by_column(late.max(0))
        is_known = ~np.isnan(factor)
        self.known += by_column(is_known)
        self.factors += by_column(np.where(is_known, factor, 0.0))
        where = np.searchsorted(FACTOR_RANGES, factor[is_known], "right")
        self.ranges += np.bincount(where, minlength=len(self.ranges))

    def site(self) -> Site:
        """Return the means over instances."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return Site(
                self.instances,
                self.sums / self.counts,
                self.factors / self.known,
                self.spreads / self.each,
                self.ranges,
                self.late / self.took_part,
                self.last.astype(np.int64),
            )
