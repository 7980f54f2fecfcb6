"""Samples of call sites, from which arrival statistics and phases are computed, in one pass.

A sample comprises the series of a call site (account/instance_series.py), and the arrivals of all
ranks in some of its instances. Memory is bounded for any length of trace: arrivals are at most
MAX_CELLS values of MAX_INSTANCES instances, evenly spread over the series. Work beyond counting is
bounded, too. Only instances of the series are measured, and only the blocks of a data set with such
instances are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from mpiprof.account.coverage import first_recorded
from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import Rows, Signature
from mpiprof.account.instance_series import MAX_INSTANCES, SeriesMaker, take_columns
from mpiprof.errors import TraceError
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.dataset import Reader, StoredBlock
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

MAX_CELLS = 1 << 20
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
    """Sample of a call site: its series, and the arrivals in some instances."""

    series: pd.DataFrame
    parts: list[SamplePart]


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
    collector = _SampleCollector(trace, callsites)
    counts = _counts_by_block(trace, callsites)
    if trace.dataset is None or counts is None or not collector.is_thinned:
        for batch in trace.batches(before=True):
            collector.add(batch)
        return collector.make_samples()
    trace.repeat_problems()
    reader = Reader(trace.dataset, before=True)
    for number, block in enumerate(trace.dataset.blocks):
        matched = {callsite: int(by_block[number]) for callsite, by_block in counts.items()}
        collector.add_block(block, matched, reader)
    return collector.make_samples()


def _counts_by_block(trace: Trace, callsites: Sequence[int]) -> dict[int, Int] | None:
    """Return the number of instances of each call site per block, or None if unknown."""
    placed = trace.aggregate[0].placed
    if placed is None:
        return None
    counts = {callsite: placed.counts_of(callsite) for callsite in callsites}
    known_counts = {
        callsite: by_block for callsite, by_block in counts.items() if by_block is not None
    }
    return known_counts if len(known_counts) == len(counts) else None


class _SampleCollector:
    """Collects the samples of some call sites from batches in matching order."""

    def __init__(self, trace: Trace, callsites: Sequence[int]) -> None:
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
        self.measure = InstanceMetrics(trace)
        self.measure.callsites.update(trace.aggregate[1])  # the numbers of the first pass

    @property
    def is_thinned(self) -> bool:
        """Return whether some instances of a call site are left out."""
        return any(maker.series.every > 1 for maker in self.makers.values())

    def add(self, batch: Batch) -> None:
        """Add a batch that was read with the record before each call."""
        if batch.communicator.has_one_member:
            return
        selected: list[tuple[_SampleMaker, Signature, Int, Int]] = []
        for signature, index in self.measure.group_by_signature(batch):
            maker = self.makers.get(signature.callsite)
            if maker is not None:
                instances = np.arange(len(batch))[index]
                number, included = maker.series.next_numbers(len(instances))
                selected.append((maker, signature, instances[included], number[included]))
        if sum(len(instances) for _, _, instances, _ in selected):
            rows, row_of = self._compute_rows(batch, [instances for _, _, instances, _ in selected])
            for maker, signature, instances, number in selected:
                row = row_of[instances]
                maker.series.add_numbered(number, take_columns(rows, row))
                maker.add(batch, signature, instances[rows.complete[row]])

    def add_block(self, block: StoredBlock, counts: Mapping[int, int], reader: Reader) -> None:
        """Add a block with the given number of instances of each call site."""
        if any(
            self.makers[callsite].series.includes_any(count) for callsite, count in counts.items()
        ):
            self.add(reader.read_batch(block))
            return
        for callsite, count in counts.items():
            self.makers[callsite].series.seen += count

    def make_samples(self) -> dict[int, Sample]:
        """Return all samples."""
        return {
            callsite: Sample(
                maker.series.make_table(self.measure.algorithms), join_parts(maker.parts)
            )
            for callsite, maker in self.makers.items()
        }

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


class _SampleMaker:
    """Collects the sample of one call site."""

    def __init__(self, instances: int, complete: int, size: int, first: int) -> None:
        self.series = SeriesMaker(instances, first)
        complete = min(complete, self.series.max_instances)
        self.every = max(-(-complete * max(size, 1) // MAX_CELLS), -(-complete // MAX_INSTANCES), 1)
        self.seen = 0
        self.parts: list[SamplePart] = []

    def add(self, batch: Batch, signature: Signature, instances: Int) -> None:
        """Add complete instances of the series that are in a batch and share a signature."""
        if not len(instances) or len(batch.communicator.ranks) < 2:
            return
        number = self.seen + np.arange(len(instances))
        self.seen += len(instances)
        index = instances[select_instances(number, self.every)]
        if len(index):
            assert batch.before is not None
            arrival = np.take(batch.arrival_ns, index, axis=1)  # faster than indexing: Batch.take
            communicator = batch.communicator
            before = batch.before.take(index)
            part = SamplePart(signature, communicator.index, communicator.ranks, arrival, before)
            self.parts.append(part)


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
