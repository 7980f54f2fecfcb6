"""Sums per call site, computed from batches: memory is independent of the number of instances."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mpiprof.metrics import disagreement
from mpiprof.metrics.batch_map import BatchPass
from mpiprof.metrics.bincount import count_distinct
from mpiprof.metrics.block_index import BlockIndex
from mpiprof.metrics.columns import of_instances
from mpiprof.metrics.instance_metrics import InstanceMetrics
from mpiprof.metrics.instance_rows import CallsiteKey, Rows
from mpiprof.metrics.quantiles import Quantiles
from mpiprof.metrics.sampling_estimates import SampledInstances
from mpiprof.operations import WAIT_STATES
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

SMALL_BYTES = 1000  # limit between small and larger messages in the paper (Figure 2)
FACTOR_RANGES = (1.0, 8.0, 32.0, 128.0, 1024.0)  # upper limits of the ranges of worst-case factors
RANGE_NAMES = ("<1", "1-8", "8-32", "32-128", "128-1024", ">=1024")


class _GrowingVectors:
    """Named vectors with one slot per call site, which grow together."""

    def __init__(self) -> None:
        self.size = 0
        self.vectors: dict[str, Float] = {}
        self.fill: dict[str, float] = {}

    def __getitem__(self, name: str) -> Float:
        return self.vectors[name]

    def declare(self, name: str, fill: float) -> None:
        self.vectors[name] = np.full(self.size, fill)
        self.fill[name] = fill

    def grow(self, size: int) -> None:
        if size > self.size:
            capacity = max(size, 2 * self.size)
            for name, old in self.vectors.items():
                new = np.full(capacity, self.fill[name])
                new[: len(old)] = old
                self.vectors[name] = new
            self.size = capacity


# Vectors of an Aggregate that are joined by maximum or minimum; all others are added.
MAX_COLUMNS, MIN_COLUMNS = ("size", "bytes_max", "worst_max", "last"), ("bytes_min", "first")


class Aggregate:
    """Sums per call site over the rows of all batches."""

    def __init__(self, ranks: int, clock_error_ns: int) -> None:
        self.ranks = ranks
        self.clock_error_ns = clock_error_ns
        self.sums = _GrowingVectors()
        for name in of_instances(means=True):  # sums over complete instances with a known value
            self.sums.declare(name, 0.0)
            self.sums.declare(name + "_count", 0.0)
        for name in ("instances", "complete", "left", "elapsed", "balanced", "judged", "late"):
            self.sums.declare(name, 0.0)
        for state in WAIT_STATES:
            self.sums.declare("wait_" + state, 0.0)
        for name in MAX_COLUMNS:
            self.sums.declare(name, -1.0)
        for name in MIN_COLUMNS:
            self.sums.declare(name, np.inf)
        for size in ("small", "large"):
            for name in RANGE_NAMES:
                self.sums.declare(size + name, 0.0)
        self.late: dict[int, dict[int, int]] = {}
        self.algorithms: Counter[tuple[int, int]] = Counter()  # by call site and algorithm
        self.algorithm_names: dict[str, int] = {}
        self.quantiles = Quantiles()
        self.sampled: SampledInstances | None = (
            None  # if only a sample of the instances is recorded
        )
        self.placed: BlockIndex | None = None  # if the trace is a data set
        self.wrong: list[disagreement.Disagreement] = []

    def add(self, rows: Rows, size: int) -> tuple[Int, Int]:
        """Add the instances of one batch, of a communicator of `size` ranks.

        Returns their call sites, and the number of instances of each.
        """
        ids, counts = count_distinct(rows.callsite, int(rows.callsite.max(initial=-1)) + 1)
        if not len(ids):
            return ids, counts
        self.sums.grow(int(ids[-1]) + 1)
        n = len(ids)
        index = np.zeros(int(ids[-1]) + 1, np.int64)
        index[ids] = np.arange(n)
        where = index[rows.callsite]

        def total(name: str, values: Float | Bool | None, chosen: Bool | None = None) -> None:
            if chosen is not None:
                values = chosen if values is None else np.where(chosen, values, 0.0)
            if values is None:
                self.sums[name][ids] += counts
            elif n == 1:
                self.sums[name][ids] += values.sum()
            else:
                self.sums[name][ids] += np.bincount(where, values, n)

        done = rows.complete
        all_done = bool(done.all())
        total("instances", None)
        total("complete", None if all_done else done)
        total("left", None, None if all_done else rows.left)
        total("elapsed", rows.elapsed)
        for name, instance in of_instances(means=True).items():
            values = instance(rows)
            good = None if all_done and not np.isnan(values.sum()) else done & ~np.isnan(values)
            total(name, values, good)
            total(name + "_count", None, good)
        for state, values in rows.waits.items():
            total("wait_" + state, values, None if all_done else done)
        self._add_extremes(rows, size, ids, where)
        self._add_balance(rows, total)
        self._count_latest(rows, done, ids, where)
        self._count_algorithms(rows, ids, where)
        self.quantiles.add(rows, ids, where)
        return ids, counts

    def add_aggregate(self, other: Aggregate, callsites: Int, algorithms: Int) -> None:
        """Add the sums of further instances.

        callsites, algorithms: map the numbers in `other` to the numbers in this object.
        """
        self.wrong = disagreement.select_earliest([*self.wrong, *other.wrong])
        n = min(len(callsites), other.sums.size)
        if not n:
            return
        at = callsites[:n]
        self.sums.grow(int(at.max()) + 1)
        for name, values in other.sums.vectors.items():
            mine, more = self.sums[name], values[:n]
            if name in MAX_COLUMNS:
                mine[at] = np.fmax(mine[at], more)
            elif name in MIN_COLUMNS:
                mine[at] = np.fmin(mine[at], more)
            else:
                mine[at] += more
        for (callsite, algorithm), count in other.algorithms.items():
            self.algorithms[int(callsites[callsite]), int(algorithms[algorithm])] += count
        for callsite, late in other.late.items():
            ranks = self.late.setdefault(int(callsites[callsite]), {})
            for rank, count in late.items():
                ranks[rank] = ranks.get(rank, 0) + count
        self.quantiles.add_counts(other.quantiles, callsites)
        if self.sampled is not None and other.sampled is not None:
            self.sampled.add_sampled(other.sampled, callsites)

    def _add_extremes(self, rows: Rows, size: int, ids: Int, where: Int) -> None:
        sums = self.sums
        sums["size"][ids] = np.maximum(sums["size"][ids], size)
        at = ids[where] if len(ids) > 1 else ids
        for name, values, best in (
            ("bytes_max", rows.bytes_max, np.fmax),
            ("bytes_min", rows.bytes_min, np.fmin),
            ("worst_max", rows.worst_factor, np.fmax),
            ("first", rows.first_arrival.astype(np.float64), np.fmin),
            ("last", rows.last_exit.astype(np.float64), np.fmax),
        ):
            if len(ids) == 1:
                sums[name][at] = best(sums[name][at], best.reduce(values))
            else:
                best.at(sums[name], at, values)

    def _add_balance(self, rows: Rows, total: Any) -> None:
        judged = rows.complete & ~np.isnan(rows.worst_factor)
        if not judged.any():
            return
        total("judged", None, judged)
        total("balanced", None, judged & (rows.worst_factor < 1))
        range_ = np.searchsorted(FACTOR_RANGES, rows.worst_factor, "right")
        small = rows.message_bytes <= SMALL_BYTES
        for size, chosen in (("small", judged & small), ("large", judged & ~small)):
            if chosen.any():
                for i, name in enumerate(RANGE_NAMES):
                    inside = chosen & (range_ == i)
                    if inside.any():
                        total(size + name, None, inside)

    def _count_algorithms(self, rows: Rows, ids: Int, where: Int) -> None:
        kinds = int(rows.algorithm.max()) + 1
        keys, counts = count_distinct(where * kinds + rows.algorithm, len(ids) * kinds)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            place, algorithm = divmod(key, kinds)
            self.algorithms[int(ids[place]), algorithm] += count

    def _count_latest(self, rows: Rows, done: Bool, ids: Int, where: Int) -> None:
        # If the clock error exceeds the difference, the late rank is unknown.
        late = done & (rows.worst_imbalance > self.clock_error_ns)
        if not late.any():
            return
        key = where[late] * self.ranks + rows.last_rank[late]
        keys, counts = count_distinct(key, len(ids) * self.ranks)
        for k, count in zip(keys.tolist(), counts.tolist(), strict=True):
            place, rank = divmod(k, self.ranks)
            ranks = self.late.setdefault(int(ids[place]), {})
            ranks[rank] = ranks.get(rank, 0) + count


def aggregate(trace: Trace) -> tuple[Aggregate, dict[CallsiteKey, int]]:
    """Return the sums and their call sites, from one pass over the trace."""
    sums = _empty_sums(trace.ranks, trace.clock_error_ns, trace.sampling_interval)
    block_index = sums.placed = BlockIndex() if trace.dataset is not None else None
    if trace.workers is None:
        measure = InstanceMetrics(trace)
        for batch in trace.batches():
            callsites, counts = _add(sums, measure, batch)
            if block_index is not None:
                block_index.add(callsites, counts)
        sums.algorithm_names = measure.algorithms
        return sums, measure.callsites
    over = BatchPass(trace, sum_batch, trace.ranks, trace.clock_error_ns, trace.sampling_interval)
    for part in over:
        sums.add_aggregate(part.value, part.callsites, part.algorithms)
        if block_index is not None:
            instances = part.value.sums["instances"]
            there = np.flatnonzero(instances)
            block_index.add(part.callsites[there], instances[there])
    sums.algorithm_names = over.algorithms
    return sums, over.callsites


def find_disagreements(trace: Trace) -> list[disagreement.Disagreement]:
    """Return the first instances of a trace in which members make different calls."""
    return list(trace.aggregate[0].wrong)


def _empty_sums(ranks: int, clock_error_ns: int, sample: int) -> Aggregate:
    sums = Aggregate(ranks, clock_error_ns)
    if sample > 1:
        sums.sampled = SampledInstances(sample)
    return sums


def _add(sums: Aggregate, measure: InstanceMetrics, batch: Batch) -> tuple[Int, Int]:
    rows = measure.compute_rows(batch)
    if measure.wrong:
        sums.wrong = disagreement.select_earliest([*sums.wrong, *measure.wrong])
        measure.wrong = []
    if sums.sampled is not None and len(batch):
        sums.sampled.add(batch, rows, list(measure.callsites))
    return sums.add(rows, batch.communicator.size)


def sum_batch(
    measure: InstanceMetrics, batch: Batch, ranks: int, clock_error_ns: int, sample: int
) -> Aggregate:
    """Return the sums of one batch, to be joined with the sums of other batches."""
    sums = _empty_sums(ranks, clock_error_ns, sample)
    _add(sums, measure, batch)
    return sums
