"""Sampling of call sites, in one pass over the trace.

Memory is bounded for any length of trace. It contains per call site the series, arrivals of all
ranks in some instances, and at most WALKS walks. Arrivals are at most CELLS values of MOST
instances, evenly spread over the series. Work beyond counting is bounded, too. Only instances of
the series are measured. From a data set only the blocks with such instances are read, and the
blocks that a walk reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from mpiprof.diagnosis.barrier_what_if import Without
from mpiprof.diagnosis.delay_chain import Context, Kept, Unread, Walk, hops, walk
from mpiprof.diagnosis.samples import Part, Sample, chosen, joined, part_of
from mpiprof.metrics.coverage import first_number
from mpiprof.metrics.instance_rows import Rows, Signature
from mpiprof.metrics.instance_series import MOST, SeriesMaker, columns_of, measure_again
from mpiprof.trace.batch import Batch
from mpiprof.trace.dataset import Block, Reader
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

CELLS = 1 << 20
WALKS = 128
GENERATION = 1 << 21  # records after which pending walks are followed; twice as many are in memory


def samples(trace: Trace, callsites: Sequence[int]) -> dict[int, Sample]:
    """Return the samples of some call sites, from one pass."""
    collector = _Collector(trace, callsites)
    counts = _counts(trace, callsites)
    if trace.dataset is None or counts is None or not collector.is_thinned:
        for batch in trace.batches(before=True):
            collector.add(batch)
        return collector.samples()
    trace.note_as_read()
    with Reader(trace.dataset.folder, trace.tables.communicators, before=True) as reader:
        for number, block in enumerate(trace.dataset.blocks):
            held = {callsite: int(of[number]) for callsite, of in counts.items()}
            collector.add_block(block, held, reader)
        return collector.samples()  # may read further blocks


def _counts(trace: Trace, callsites: Sequence[int]) -> dict[int, Int] | None:
    """Return the number of instances of each call site per block, or None if unknown."""
    placed = trace.aggregate[0].placed
    if placed is None:
        return None
    found = {callsite: placed.of(callsite) for callsite in callsites}
    known = {callsite: of for callsite, of in found.items() if of is not None}
    return known if len(known) == len(found) else None


_Found = tuple[Signature, Int]  # a signature, and the instances of a batch that share it


class _Collector:
    """Collects the samples of some call sites from batches in matching order."""

    def __init__(self, trace: Trace, callsites: Sequence[int]) -> None:
        self.least = trace.clock_error_ns
        table = trace.callsites
        self.makers = {
            callsite: _Maker(
                callsite,
                int(table["instances"][callsite]),
                int(table["complete_instances"][callsite]),
                int(table["size"][callsite]),
                first_number(trace, callsite),
            )
            for callsite in callsites
        }
        self.barriers = {
            callsite: Without(callsite, int(table["complete_instances"][callsite]))
            for callsite in callsites
            if table["operation"][callsite] == "barrier"
        }
        self.measure = measure_again(trace)
        self.signatures: list[Signature] = []
        self.context = Context(trace.tables.shapes, self.signatures, bool(trace.turned))

    @property
    def is_thinned(self) -> bool:
        """Return whether some instances of a call site are left out."""
        return any(maker.series.every > 1 for maker in self.makers.values())

    def add(self, batch: Batch) -> None:
        """Add a batch that was read with the record before each call."""
        kept = Kept.of(batch)
        found: list[_Found] = []
        counts = dict.fromkeys(self.makers, 0)
        for signature, instances in self._numbered(batch, kept):
            if signature.callsite in counts:
                found.append((signature, instances))
                counts[signature.callsite] += len(instances)
        self._add_barriers(batch, kept, counts)
        taken = [
            (signature, instances[wanted], number[wanted])
            for signature, instances in found
            for number, wanted in [self.makers[signature.callsite].series.next(len(instances))]
        ]
        if sum(len(instances) for _, instances, _ in taken):
            rows, place = self._rows(batch, [instances for _, instances, _ in taken])
            for signature, instances, number in taken:
                maker = self.makers[signature.callsite]
                maker.series.put(number, columns_of(rows, place[instances]))
                complete = rows.complete[place[instances]]
                maker.add(batch, signature, instances[complete], kept)
        self._keep(kept)

    def add_block(self, block: Block, counts: Mapping[int, int], reader: Reader) -> None:
        """Add a block with the given number of instances of each call site."""
        communicator = reader.communicator(block)
        size = len(communicator.ranks)
        if any(self._wants(callsite, count, size) for callsite, count in counts.items()):
            self.add(reader.batch(block))
            return
        for callsite, count in counts.items():
            self.makers[callsite].series.skip(count)
            if callsite in self.barriers and size > 1:
                self.barriers[callsite].skip(count)
        sequences, read = partial(reader.sequences, block), partial(self._read, block, reader)
        self._keep(Unread(communicator, size * block.instances, sequences, read))

    def samples(self) -> dict[int, Sample]:
        """Return all samples."""
        self._follow()
        return {
            callsite: Sample(
                callsite,
                maker.series.done(self.measure.algorithms),
                joined(maker.parts),
                maker.walks,
                maker.walked,
                self.barriers.get(callsite),
            )
            for callsite, maker in self.makers.items()
        }

    def _wants(self, callsite: int, count: int, size: int) -> bool:
        """Return whether any of the next `count` instances, called by `size` ranks, are needed."""
        barrier = self.barriers.get(callsite)
        replayed = barrier is not None and size > 1 and barrier.wants(count)
        return replayed or self.makers[callsite].series.wants(count)

    def _numbered(self, batch: Batch, kept: Kept) -> list[_Found]:
        """Return the signatures of a batch with their instances, and number the instances."""
        found = []
        for signature, index in self.measure.signatures(batch):
            instances = np.arange(len(batch)) if index is None else index
            kept.signature[instances] = len(self.signatures)
            self.signatures.append(signature)
            found.append((signature, instances))
        return found

    def _read(self, block: Block, reader: Reader) -> Kept:
        batch = reader.batch(block)
        kept = Kept.of(batch)
        self._numbered(batch, kept)
        return kept

    def _rows(self, batch: Batch, wanted: Sequence[Int]) -> tuple[Rows, Int]:
        """Return the metrics of at least the wanted instances, and the row of each instance.

        The metrics are equal to the last bit, whether measured in a subset or in the whole batch.
        """
        columns = np.unique(np.concatenate(wanted))
        alike = batch.whole and batch.sent is None and batch.received is None
        if not alike or 2 * len(columns) > len(batch):
            return self.measure.rows(batch), np.arange(len(batch))
        if len(columns) == 1:  # a single column would sum the ranks in another order
            columns = np.repeat(columns, 2)
        place = np.full(len(batch), -1)
        place[columns] = np.arange(len(columns))
        return self.measure.rows(batch.take(columns)), place

    def _add_barriers(self, batch: Batch, kept: Kept, counts: Mapping[int, int]) -> None:
        size = len(batch.communicator.ranks)
        here = {one: self.barriers[one] for one in self.barriers if counts[one] and size > 1}
        if not here:
            return
        used, inverse = np.unique(kept.signature, return_inverse=True)
        sites = np.array([self.signatures[i].callsite for i in used.tolist()], np.int64)[inverse]
        for callsite, barrier in here.items():
            if self._wants(callsite, counts[callsite], size):
                barrier.add(batch, kept, self.signatures, sites)
            else:
                barrier.skip(counts[callsite])

    def _keep(self, kept: Kept | Unread) -> None:
        self.context.add(kept)
        if self.context.size >= GENERATION:
            self._follow()

    def _follow(self) -> None:
        for maker in self.makers.values():
            maker.follow(self.context, self.least)
        self.context.forget()


class _Maker:
    """Collects the sample of one call site."""

    def __init__(self, callsite: int, instances: int, complete: int, size: int, first: int) -> None:
        self.callsite = callsite
        self.series = SeriesMaker(instances, first)
        complete = min(complete, self.series.most)
        self.every = max(-(-complete * max(size, 1) // CELLS), -(-complete // MOST), 1)
        self.every_walk = max(-(-complete // WALKS), 1)
        self.hops = hops(-(-complete // self.every_walk), size)
        self.seen = 0
        self.parts: list[Part] = []
        self.starts: list[tuple[Kept, int]] = []
        self.walks: list[Walk] = []
        self.walked = 0

    def add(self, batch: Batch, signature: Signature, instances: Int, kept: Kept) -> None:
        """Add complete instances of the series that are in a batch and share a signature."""
        if not len(instances) or len(batch.communicator.ranks) < 2:
            return
        number = self.seen + np.arange(len(instances))
        self.seen += len(instances)
        begins = instances[chosen(number, self.every_walk)]
        self.starts += [(kept, column) for column in begins.tolist()]
        index = instances[chosen(number, self.every)]
        if len(index):
            self.parts.append(part_of(batch, signature, index))

    def follow(self, context: Context, least: int) -> None:
        """Walk back from the instances selected since the last call."""
        for kept, column in self.starts:
            found = walk(context, kept, column, least, self.hops)
            self.walked += 1
            if found is not None:
                self.walks.append(found)
        self.starts = []
