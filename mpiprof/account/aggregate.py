"""Sums per call site, computed from batches: memory is independent of the number of instances."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable

import numpy as np

from mpiprof.account import disagreement
from mpiprof.account.batch_map import BatchPass
from mpiprof.account.columns import of_instances
from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import CallsiteKey, Rows
from mpiprof.account.quantiles import Quantiles, count_distinct
from mpiprof.account.sampling_estimates import SampledInstances
from mpiprof.facts.operations import WAIT_STATES
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int

SMALL_BYTES = 1000  # limit between small and larger messages in the paper (Figure 2)
FACTOR_RANGES = (1.0, 8.0, 32.0, 128.0, 1024.0)  # upper limits of the ranges of worst-case factors
RANGE_NAMES = ("<1", "1-8", "8-32", "32-128", "128-1024", ">=1024")


# Vectors of an Aggregate that are joined by maximum or minimum; all others are added.
MAX_COLUMNS, MIN_COLUMNS = ("size", "bytes_max", "worst_max"), ("bytes_min",)
INITIAL_VALUES = dict.fromkeys(MAX_COLUMNS, -1.0) | dict.fromkeys(MIN_COLUMNS, np.inf)

MAX_ENTRIES = 1 << 22  # maximum number of entries of a BlockIndex; each takes 12 bytes


class BlockIndex:
    """Counts of instances by block of a data set and call site, added in order of blocks."""

    def __init__(self) -> None:
        self.blocks = self.entries = 0
        self.columns = array("i"), array("i"), array("i")  # blocks, call sites, counts

    def add(self, callsites: Int, counts: Array) -> None:
        """Add the next block: its call sites, and the number of instances of each."""
        self.entries += len(callsites)
        if self.entries <= MAX_ENTRIES:
            block = np.full(len(callsites), self.blocks)
            for column, values in zip(self.columns, (block, callsites, counts), strict=True):
                column.frombytes(values.astype(np.intc).tobytes())
        else:
            self.columns = array("i"), array("i"), array("i")
        self.blocks += 1

    def counts_of(self, callsite: int) -> Int | None:
        """Return the number of instances per block, or None if there are too many entries."""
        if self.entries > MAX_ENTRIES:
            return None
        block_counts = np.zeros(self.blocks, np.int64)
        blocks, callsites, counts = (np.array(column) for column in self.columns)
        at_callsite = callsites == callsite
        block_counts[blocks[at_callsite]] = counts[at_callsite]
        return block_counts


class Aggregate:
    """Sums per call site over the rows of all batches."""

    def __init__(self, ranks: int, clock_error_ns: int, sampling_interval: int) -> None:
        self.ranks = ranks
        self.clock_error_ns = clock_error_ns
        self.size = 0
        means = of_instances(means=True)
        names = [
            *(*means, *(f"{name}_count" for name in means)),
            *("instances", "complete", "left", "elapsed", "incomplete_elapsed"),
            *("balanced", "judged"),
            *(f"wait_{state}" for state in WAIT_STATES),
            *(size + name for size in ("small", "large") for name in RANGE_NAMES),
            *INITIAL_VALUES,
        ]
        # Vectors with one value per call site. Means of columns are over complete instances with a
        # known value, whose number is in `..._count`.
        self.sums: dict[str, Float] = {name: np.zeros(0) for name in names}
        self.late: Counter[tuple[int, int]] = Counter()  # by call site and last rank
        self.algorithms: Counter[tuple[int, int]] = Counter()  # by call site and algorithm
        self.algorithm_names: dict[str, int] = {}
        self.quantiles = Quantiles()
        # None if all instances are recorded
        self.sampled = SampledInstances(sampling_interval) if sampling_interval > 1 else None
        self.placed: BlockIndex | None = None  # if the trace is a data set
        self.wrong: list[disagreement.Disagreement] = []

    def grow(self, size: int) -> None:
        """Extend the sums to at least `size` call sites."""
        if size > self.size:
            added_size = max(size, 2 * self.size) - self.size
            for name, values in self.sums.items():
                added = np.full(added_size, INITIAL_VALUES.get(name, 0.0))
                self.sums[name] = np.append(values, added)
            self.size += added_size

    def take_sums(self, size: int) -> dict[str, Float]:
        """Return the sums of the first `size` call sites."""
        self.grow(size)
        return {name: values[:size] for name, values in self.sums.items()}

    def add_batch(self, measure: InstanceMetrics, batch: Batch) -> tuple[Int, Int]:
        """Add a batch. Returns its call sites, and the number of instances of each."""
        rows = measure.compute_rows(batch)
        if measure.wrong:
            self.wrong = disagreement.select_earliest([*self.wrong, *measure.wrong])
            measure.wrong = []
        if self.sampled is not None and len(batch):
            self.sampled.add(batch, rows, list(measure.callsites))
        return self.add(rows, batch.communicator.size)

    def add(self, rows: Rows, size: int) -> tuple[Int, Int]:
        """Add the rows of a batch of a communicator of `size` ranks; returns as `add_batch`.

        A communicator of one rank adds only its time: its calls are no instances.
        """
        ids, counts = count_distinct(rows.callsite, int(rows.callsite.max(initial=-1)) + 1)
        if not len(ids):
            return ids, counts
        self.grow(int(ids[-1]) + 1)
        self.sums["size"][ids] = np.maximum(self.sums["size"][ids], size)
        if size == 1:
            np.add.at(self.sums["elapsed"], rows.callsite, rows.elapsed)
            return ids[:0], counts[:0]
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
        if not all_done:
            total("incomplete_elapsed", rows.elapsed, ~done)
        for name, instance in of_instances(means=True).items():
            values = instance(rows)
            good = None if all_done and not np.isnan(values.sum()) else done & ~np.isnan(values)
            total(name, values, good)
            total(name + "_count", None, good)
        for state, values in rows.waits.items():
            total("wait_" + state, values, None if all_done else done)
        self._add_extremes(rows, ids, where)
        self._add_balance(rows, total)
        # If the clock error exceeds the difference, the late rank is unknown.
        late = done & (rows.worst_imbalance > self.clock_error_ns)
        _count_pairs(self.late, ids, where[late], rows.last_rank[late], self.ranks)
        kinds = int(rows.algorithm.max()) + 1
        _count_pairs(self.algorithms, ids, where, rows.algorithm, kinds)
        self.quantiles.add(rows, ids, where)
        return ids, counts

    def add_aggregate(self, aggregate: Aggregate, callsites: Int, algorithms: Int) -> None:
        """Add the sums of further instances.

        callsites, algorithms: map the numbers in `aggregate` to the numbers in this object.
        """
        self.wrong = disagreement.select_earliest([*self.wrong, *aggregate.wrong])
        n = min(len(callsites), aggregate.size)
        if not n:
            return
        at = callsites[:n]
        self.grow(int(at.max()) + 1)
        for name, values in aggregate.sums.items():
            sums, addend = self.sums[name], values[:n]
            if name in MAX_COLUMNS:
                sums[at] = np.fmax(sums[at], addend)
            elif name in MIN_COLUMNS:
                sums[at] = np.fmin(sums[at], addend)
            else:
                sums[at] += addend
        for (callsite, algorithm), count in aggregate.algorithms.items():
            self.algorithms[int(callsites[callsite]), int(algorithms[algorithm])] += count
        for (callsite, rank), count in aggregate.late.items():
            self.late[int(callsites[callsite]), rank] += count
        self.quantiles.add_counts(aggregate.quantiles, callsites)
        if self.sampled is not None and aggregate.sampled is not None:
            self.sampled.add_sampled(aggregate.sampled, callsites)

    def _add_extremes(self, rows: Rows, ids: Int, where: Int) -> None:
        sums = self.sums
        at = ids[where] if len(ids) > 1 else ids
        for name, values, best in (
            ("bytes_max", rows.bytes_max, np.fmax),
            ("bytes_min", rows.bytes_min, np.fmin),
            ("worst_max", rows.worst_factor, np.fmax),
        ):
            if len(ids) == 1:
                sums[name][at] = best(sums[name][at], best.reduce(values))
            else:
                best.at(sums[name], at, values)

    def _add_balance(self, rows: Rows, total: Callable[..., None]) -> None:
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


def _count_pairs(
    into: Counter[tuple[int, int]], ids: Int, where: Int, second: Int, cells: int
) -> None:
    """Count the instances by call site ids[where] and a second number below `cells`."""
    keys, counts = count_distinct(where * cells + second, len(ids) * cells)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        site, number = divmod(key, cells)
        into[int(ids[site]), number] += count


def aggregate(trace: Trace) -> tuple[Aggregate, dict[CallsiteKey, int]]:
    """Return the sums and their call sites, from one pass over the trace."""
    arguments = trace.ranks, trace.clock_error_ns, trace.sampling_interval
    sums = Aggregate(*arguments)
    block_index = sums.placed = BlockIndex() if trace.dataset is not None else None
    if trace.workers is None:
        measure = InstanceMetrics(trace)
        for batch in trace.batches():
            callsites, counts = sums.add_batch(measure, batch)
            if block_index is not None:
                block_index.add(callsites, counts)
        sums.algorithm_names = measure.algorithms
        return sums, measure.callsites
    over = BatchPass(trace, sum_batch, *arguments)
    for part in over:
        sums.add_aggregate(part.value, part.callsites, part.algorithms)
        if block_index is not None:
            instances = part.value.sums["instances"]
            present = np.flatnonzero(instances)
            block_index.add(part.callsites[present], instances[present])
    sums.algorithm_names = over.algorithms
    return sums, over.callsites


def sum_batch(measure: InstanceMetrics, batch: Batch, *arguments: int) -> Aggregate:
    """Return the sums of one batch, to be joined with the sums of other batches."""
    sums = Aggregate(*arguments)
    sums.add_batch(measure, batch)
    return sums


def find_disagreements(trace: Trace) -> list[disagreement.Disagreement]:
    """Return the first instances of a trace in which members make different calls."""
    return list(trace.aggregate[0].wrong)
