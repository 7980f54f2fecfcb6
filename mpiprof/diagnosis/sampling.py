"""Samples of call sites, from which causes and phases are computed: one pass over the trace.

A sample comprises the series of a call site (metrics/instance_series.py), the arrivals of all ranks
in some of its instances, and walks along the chain of lateness. Memory is bounded for any length of
trace: arrivals are at most MAX_CELLS values of MAX_INSTANCES instances, evenly spread over the
series, and walks are at most MAX_WALKS. Work beyond counting is bounded, too. Only instances of the
series are measured. From a data set only the blocks with such instances are read, and the blocks
that a walk reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from threading import Lock

import numpy as np
import pandas as pd

from mpiprof.diagnosis.barrier_what_if import BarrierWhatIf
from mpiprof.diagnosis.delay_chain import BatchData, BatchHistory, UnreadBatch, Walk, max_hops, walk
from mpiprof.errors import TraceError
from mpiprof.metrics.coverage import first_recorded
from mpiprof.metrics.instance_metrics import InstanceMetrics
from mpiprof.metrics.instance_rows import Rows, Signature
from mpiprof.metrics.instance_series import MAX_INSTANCES, SeriesMaker, take_columns
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.dataset import Block, Reader
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

MAX_CELLS = 1 << 20
MAX_WALKS = 128
GENERATION_CALLS = 1 << 21  # calls after which pending walks are followed; memory has twice as many
HOT_SITES = 5
HOT_SHARE = 0.01  # share of all wait time


@dataclass(frozen=True)
class SamplePart:
    """Complete instances of a call site that share a signature: P ranks x I instances."""

    signature: Signature
    communicator: int
    ranks: Int
    arrival_ns: Int
    before: Before


@dataclass(frozen=True)
class Sample:
    """Sample of a call site.

    without: cost of a barrier, else None.
    find_walks: returns walks along the chain of lateness, and the number of their starts.
    """

    series: pd.DataFrame
    parts: list[SamplePart]
    without: BarrierWhatIf | None
    find_walks: Callable[[], tuple[list[Walk], int]]

    @property
    def walks(self) -> list[Walk]:
        """Return walks along the chain of lateness."""
        return self.find_walks()[0]

    @property
    def walked(self) -> int:
        """Return the number of instances from which walks were tried."""
        return self.find_walks()[1]


def find_hot_callsites(trace: Trace) -> list[int]:
    """Return the call sites with the most wait time, the costliest first."""
    if trace.record == "summary" or not len(trace.callsites):
        return []
    waiting = trace.callsites["total_wait_ns"].sort_values(ascending=False, kind="stable")
    costly = waiting[waiting > HOT_SHARE * float(waiting.sum())].head(HOT_SITES)
    return [int(callsite) for callsite in costly.index]


def take_sample(trace: Trace, callsite: int) -> Sample:
    """Return the sample of a call site. One pass takes the samples of all hot call sites."""
    if trace.record == "summary":
        raise TraceError(f"{trace.path}: recorded as summary, without arrivals; record events")
    if not 0 <= callsite < len(trace.callsites):
        callsite_count = len(trace.callsites)
        raise TraceError(f"{trace.path}: no call site {callsite}; there are {callsite_count}")
    callsites = tuple(trace.hot) if callsite in trace.hot else (callsite,)
    samples: dict[int, Sample] = trace.samples(callsites)
    return samples[callsite]


def take_samples(trace: Trace, callsites: Sequence[int]) -> dict[int, Sample]:
    """Return the samples of some call sites, from one pass."""
    collector = _Collector(trace, callsites)
    counts = _counts_by_block(trace, callsites)
    if trace.dataset is None or counts is None or not collector.is_thinned:
        for batch in trace.batches(before=True):
            collector.add(batch)
        return collector.make_samples()
    trace.repeat_problems()
    reader = Reader(trace.dataset, before=True)
    for number, block in enumerate(trace.dataset.blocks):
        matched = {callsite: int(of[number]) for callsite, of in counts.items()}
        collector.add_block(block, matched, reader)
    return collector.make_samples()


def _counts_by_block(trace: Trace, callsites: Sequence[int]) -> dict[int, Int] | None:
    """Return the number of instances of each call site per block, or None if unknown."""
    placed = trace.aggregate[0].placed
    if placed is None:
        return None
    counts = {callsite: placed.counts_of(callsite) for callsite in callsites}
    known_counts = {callsite: of for callsite, of in counts.items() if of is not None}
    return known_counts if len(known_counts) == len(counts) else None


class _Collector:
    """Collects the samples of some call sites from batches in matching order."""

    def __init__(self, trace: Trace, callsites: Sequence[int]) -> None:
        self.least = trace.clock_error_ns
        self._following, self._is_short = Lock(), True
        table = trace.callsites
        self.makers = {
            callsite: _SampleMaker(
                int(table["instances"][callsite]),
                int(table["complete_instances"][callsite]),
                int(table["size"][callsite]),
                first_recorded(trace, callsite),
            )
            for callsite in callsites
        }
        self.barriers = {
            callsite: BarrierWhatIf(callsite, int(table["complete_instances"][callsite]))
            for callsite in callsites
            if table["operation"][callsite] == "barrier"
        }
        self.measure = InstanceMetrics(trace)
        self.measure.callsites.update(trace.aggregate[1])  # the numbers of the first pass
        self.signatures: list[Signature] = []
        self.context = BatchHistory(
            trace.tables.shapes, self.signatures, bool(trace.wrapped_chunks)
        )

    @property
    def is_thinned(self) -> bool:
        """Return whether some instances of a call site are left out."""
        return any(maker.series.every > 1 for maker in self.makers.values())

    def add(self, batch: Batch) -> None:
        """Add a batch that was read with the record before each call."""
        batch_data = BatchData.of_batch(batch)
        numbered = self._number_instances(batch, batch_data)
        if batch.communicator.has_one_member:
            numbered = []
        counts = dict.fromkeys(self.makers, 0)
        for signature, instances in numbered:
            if signature.callsite in counts:
                counts[signature.callsite] += len(instances)
        self._add_barriers(batch, batch_data, counts)  # before next_numbers advances the series
        selected: list[tuple[_SampleMaker, Signature, Int, Int]] = []
        for signature, instances in numbered:
            maker = self.makers.get(signature.callsite)
            if maker is not None:
                number, included = maker.series.next_numbers(len(instances))
                selected.append((maker, signature, instances[included], number[included]))
        if sum(len(instances) for _, _, instances, _ in selected):
            rows, row_of = self._compute_rows(batch, [instances for _, _, instances, _ in selected])
            for maker, signature, instances, number in selected:
                row = row_of[instances]
                maker.series.add_numbered(number, take_columns(rows, row))
                maker.add(batch, signature, instances[rows.complete[row]], batch_data)
        self._store_batch(batch_data)

    def add_block(self, block: Block, counts: Mapping[int, int], reader: Reader) -> None:
        """Add a block with the given number of instances of each call site."""
        communicator = reader.communicators[block.communicator]
        size = len(communicator.ranks)
        if any(self._needs_any(callsite, count, size) for callsite, count in counts.items()):
            self.add(reader.read_batch(block))
            return
        for callsite, count in counts.items():
            self.makers[callsite].series.seen += count
            if callsite in self.barriers and size > 1:
                self.barriers[callsite].barriers_seen += count
        sequences = partial(reader.read_sequence_range, block)
        read = partial(self._read, block, reader)
        self._store_batch(UnreadBatch(communicator, size * block.instances, sequences, read))

    def make_samples(self) -> dict[int, Sample]:
        """Return all samples; walks of a short trace, which retain it, are followed on demand."""
        if not self._is_short:
            self._follow()
        find_walks = self._find_walks if self._is_short else _SampleMaker.list_walks
        return {
            callsite: Sample(
                maker.series.make_table(self.measure.algorithms),
                join_parts(maker.parts),
                self.barriers.get(callsite),
                partial(find_walks, maker),
            )
            for callsite, maker in self.makers.items()
        }

    def _find_walks(self, maker: _SampleMaker) -> tuple[list[Walk], int]:
        """Follow pending walks, and return the walks of a call site and their number of starts."""
        with self._following:
            self._follow()
        return maker.list_walks()

    def _needs_any(self, callsite: int, count: int, size: int) -> bool:
        """Return whether any of the next `count` instances, called by `size` ranks, are needed."""
        barrier = self.barriers.get(callsite)
        replayed = barrier is not None and size > 1 and barrier.replays_any(count)
        return replayed or self.makers[callsite].series.includes_any(count)

    def _number_instances(self, batch: Batch, batch_data: BatchData) -> list[tuple[Signature, Int]]:
        """Return the signatures of a batch with their instances, and number the instances."""
        groups = []
        for signature, index in self.measure.group_by_signature(batch):
            instances = np.arange(len(batch))[index]
            batch_data.signature[instances] = len(self.signatures)
            self.signatures.append(signature)
            groups.append((signature, instances))
        return groups

    def _read(self, block: Block, reader: Reader) -> BatchData:
        batch = reader.read_batch(block)
        batch_data = BatchData.of_batch(batch)
        self._number_instances(batch, batch_data)
        return batch_data

    def _compute_rows(self, batch: Batch, instances: Sequence[Int]) -> tuple[Rows, Int]:
        """Return the metrics of at least the wanted instances, and the row of each instance.

        The metrics are equal to the last bit, whether measured in a subset or in the whole batch.
        """
        columns = np.unique(np.concatenate(instances))
        equal_columns = batch.complete and batch.sent is None and batch.received is None
        if not equal_columns or 2 * len(columns) > len(batch):
            return self.measure.compute_rows(batch), np.arange(len(batch))
        if len(columns) == 1:  # a single column would sum the ranks in another order
            columns = np.repeat(columns, 2)
        position = np.full(len(batch), -1)
        position[columns] = np.arange(len(columns))
        return self.measure.compute_rows(batch.take(columns)), position

    def _add_barriers(self, batch: Batch, batch_data: BatchData, counts: Mapping[int, int]) -> None:
        size = len(batch.communicator.ranks)
        batch_barriers = {
            number: self.barriers[number] for number in self.barriers if counts[number] and size > 1
        }
        if not batch_barriers:
            return
        used, inverse = np.unique(batch_data.signature, return_inverse=True)
        sites = np.array([self.signatures[i].callsite for i in used.tolist()], np.int64)[inverse]
        for callsite, barrier in batch_barriers.items():
            if self._needs_any(callsite, counts[callsite], size):
                barrier.add(batch, batch_data, self.signatures, sites)
            else:
                barrier.barriers_seen += counts[callsite]

    def _store_batch(self, batch_data: BatchData | UnreadBatch) -> None:
        self.context.add(batch_data)
        if self.context.size >= GENERATION_CALLS:
            self._is_short = False
            self._follow()

    def _follow(self) -> None:
        for maker in self.makers.values():
            maker.follow(self.context, self.least)
        self.context.drop_older()


class _SampleMaker:
    """Collects the sample of one call site."""

    def __init__(self, instances: int, complete: int, size: int, first: int) -> None:
        self.series = SeriesMaker(instances, first)
        complete = min(complete, self.series.max_instances)
        self.every = max(-(-complete * max(size, 1) // MAX_CELLS), -(-complete // MAX_INSTANCES), 1)
        self.every_walk = max(-(-complete // MAX_WALKS), 1)
        self.hops = max_hops(-(-complete // self.every_walk), size)
        self.seen = 0
        self.parts: list[SamplePart] = []
        self.starts: list[tuple[BatchData, int]] = []
        self.walks: list[Walk] = []
        self.walked = 0

    def add(
        self, batch: Batch, signature: Signature, instances: Int, batch_data: BatchData
    ) -> None:
        """Add complete instances of the series that are in a batch and share a signature."""
        if not len(instances) or len(batch.communicator.ranks) < 2:
            return
        number = self.seen + np.arange(len(instances))
        self.seen += len(instances)
        begins = instances[select_instances(number, self.every_walk)]
        self.starts += [(batch_data, column) for column in begins.tolist()]
        index = instances[select_instances(number, self.every)]
        if len(index):
            assert batch.before is not None
            arrival = np.take(batch.arrival_ns, index, axis=1)  # faster than indexing: Batch.take
            communicator = batch.communicator
            before = batch.before.take(index)
            part = SamplePart(signature, communicator.index, communicator.ranks, arrival, before)
            self.parts.append(part)

    def follow(self, context: BatchHistory, least: int) -> None:
        """Walk back from the instances selected since the last call."""
        for batch_data, column in self.starts:
            delay_walk = walk(context, batch_data, column, least, self.hops)
            self.walked += 1
            if delay_walk is not None:
                self.walks.append(delay_walk)
        self.starts = []

    def list_walks(self) -> tuple[list[Walk], int]:
        """Return the walks, and the number of instances from which walks were tried."""
        return self.walks, self.walked


def join_parts(parts: Sequence[SamplePart]) -> list[SamplePart]:
    """Join the parts that share a signature and communicator.

    A batch contains only some thousand records. Later steps would otherwise take time per batch.
    """
    groups: dict[tuple[int, int], list[SamplePart]] = {}
    for part in parts:
        groups.setdefault((id(part.signature), part.communicator), []).append(part)
    joined = []
    for group in groups.values():
        columns = {
            field.name: np.concatenate([getattr(part.before, field.name) for part in group], axis=1)
            for field in fields(Before)
        }
        arrival = np.concatenate([part.arrival_ns for part in group], axis=1)
        joined.append(replace(group[0], arrival_ns=arrival, before=Before(**columns)))
    return joined


def select_instances(number: Int, every: int) -> Bool:
    """Select one of every `every` consecutive instances, at a pseudo-random position in each block.

    A fixed position would alias with periods of the program.
    """
    if every == 1:
        return np.ones(len(number), np.bool_)
    block = (number // every).astype(np.uint64)
    mixed = (block * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return np.asarray(number % every == (mixed % np.uint64(every)).astype(np.int64))
