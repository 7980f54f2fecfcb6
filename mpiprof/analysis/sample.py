"""What the causes and phases of call sites are worked out from, in one pass over the trace.

Memory stays bounded however long the trace is: of each call site its series (see series.py), whole
rows of arrivals (at most CELLS values and MOST instances, evenly spread), and at most WALKS walks
back along the chain of lateness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from mpiprof.analysis.chain import Context, Kept, Walk, walk
from mpiprof.analysis.held import first_number
from mpiprof.analysis.measure import Measure
from mpiprof.analysis.measured import Rows, Signature
from mpiprof.analysis.series import MOST, SeriesMaker, columns_of, measure_again
from mpiprof.analysis.without import Without
from mpiprof.errors import TraceError
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

CELLS = 1 << 20
WALKS = 128
GENERATION = 1 << 21  # records after which the chain is followed; twice as many are held
HOT_SITES = 5
HOT_SHARE = 0.01  # of all waiting


@dataclass(frozen=True)
class Part:
    """Some complete instances of a call site with equal shapes: P ranks x I instances."""

    signature: Signature
    communicator: int
    ranks: Int
    arrival: Int
    before: Before


@dataclass(frozen=True)
class Sample:
    """What was kept of a call site.

    walked: how many instances walks were tried from; without: of a barrier, what it costs.
    """

    callsite: int
    series: pd.DataFrame
    parts: list[Part]
    walks: list[Walk]
    walked: int
    without: Without | None


def hot(trace: Trace) -> list[int]:
    """Return the call sites that cost most waiting, the costliest first."""
    if trace.record == "summary" or not len(trace.callsites):
        return []
    waiting = trace.callsites["total_wait_ns"].sort_values(ascending=False, kind="stable")
    costly = waiting[waiting > HOT_SHARE * float(waiting.sum())].head(HOT_SITES)
    return [int(callsite) for callsite in costly.index]


def sample_of(trace: Trace, callsite: int) -> Sample:
    """Return the sample of a call site; those of all hot ones are taken in one pass."""
    if trace.record == "summary":
        raise TraceError(f"{trace.path}: recorded as summary, without arrivals; record events")
    if not 0 <= callsite < len(trace.callsites):
        known = len(trace.callsites)
        raise TraceError(f"{trace.path}: no call site {callsite}; there are {known}")
    together = trace.hot
    wanted = tuple(together) if callsite in together else (callsite,)
    found: dict[int, Sample] = trace.samples(wanted)
    return found[callsite]


def samples(trace: Trace, callsites: Sequence[int]) -> dict[int, Sample]:
    """Return the samples of some call sites, by one pass."""
    table = trace.callsites
    makers = {
        callsite: _Maker(
            callsite,
            int(table["instances"][callsite]),
            int(table["complete_instances"][callsite]),
            int(table["size"][callsite]),
            first_number(trace, callsite),
        )
        for callsite in callsites
    }
    measure = measure_again(trace)
    signatures: list[Signature] = []
    context = Context(trace.tables.shapes, signatures)
    barriers = [
        Without(callsite, int(table["complete_instances"][callsite]))
        for callsite in callsites
        if table["operation"][callsite] == "barrier"
    ]
    for batch in trace.batches(before=True):
        kept = Kept.of(batch)
        rows: Rows | None = None
        for signature, index in measure.signatures(batch):
            instances = np.arange(len(batch)) if index is None else index
            kept.signature[instances] = len(signatures)
            signatures.append(signature)
            if signature.callsite in makers:
                rows = measure.rows(batch) if rows is None else rows
                makers[signature.callsite].add(batch, rows, signature, instances, kept)
        if barriers:
            used, inverse = np.unique(kept.signature, return_inverse=True)
            sites = np.array([signatures[i].callsite for i in used.tolist()], np.int64)[inverse]
            for barrier in barriers:
                barrier.add(batch, kept, signatures, sites)
        context.add(kept)
        if context.size >= GENERATION:
            _follow(makers.values(), context, trace.clock_error_ns)
    _follow(makers.values(), context, trace.clock_error_ns)
    without = {barrier.callsite: barrier for barrier in barriers}
    return {
        callsite: maker.done(measure, without.get(callsite)) for callsite, maker in makers.items()
    }


def _follow(makers: Iterable[_Maker], context: Context, least: int) -> None:
    for maker in makers:
        maker.follow(context, least)
    context.forget()


class _Maker:
    """Collects the sample of one call site."""

    def __init__(self, callsite: int, instances: int, complete: int, size: int, first: int) -> None:
        self.callsite = callsite
        self.series = SeriesMaker(instances, first)
        self.every = max(-(-complete * max(size, 1) // CELLS), -(-complete // MOST), 1)
        self.every_walk = max(-(-complete // WALKS), 1)
        self.seen = 0
        self.parts: list[Part] = []
        self.starts: list[tuple[Kept, int]] = []
        self.walks: list[Walk] = []
        self.walked = 0

    def add(
        self, batch: Batch, rows: Rows, signature: Signature, instances: Int, kept: Kept
    ) -> None:
        """Add the instances of a batch that share a signature."""
        self.series.add(columns_of(rows, instances))
        instances = instances[rows.complete[instances]]
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
        """Walk back from what was chosen since the last time."""
        for kept, column in self.starts:
            found = walk(context, kept, column, least)
            self.walked += 1
            if found is not None:
                self.walks.append(found)
        self.starts = []

    def done(self, measure: Measure, without: Without | None) -> Sample:
        """Return all that was collected."""
        return Sample(
            self.callsite,
            self.series.done(measure.algorithms),
            joined(self.parts),
            self.walks,
            self.walked,
            without,
        )


def part_of(batch: Batch, signature: Signature, index: Int) -> Part:
    """Return some instances of a batch that share a signature."""
    before = batch.before
    assert before is not None

    def taken(values: Array) -> Array:
        # An index would give the ranks of an instance side by side: slow where ranks are few.
        return np.take(values, index, axis=1)

    return Part(
        signature,
        batch.communicator.index,
        batch.communicator.ranks,
        taken(batch.arrival),
        Before(**{f.name: taken(getattr(before, f.name)) for f in fields(Before)}),
    )


def joined(parts: Sequence[Part]) -> list[Part]:
    """Return parts with those of one signature and communicator as one.

    A batch holds some thousand records: without this, what follows would take its time by batches.
    """
    groups: dict[tuple[int, int], list[Part]] = {}
    for part in parts:
        groups.setdefault((id(part.signature), part.communicator), []).append(part)
    return [_one(group) for group in groups.values()]


def _one(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    befores = [part.before for part in parts]
    columns = {
        field.name: np.concatenate([getattr(before, field.name) for before in befores], axis=1)
        for field in fields(Before)
    }
    arrival = np.concatenate([part.arrival for part in parts], axis=1)
    return replace(parts[0], arrival=arrival, before=Before(**columns))


def callsite_of_shape(trace: Trace) -> list[int]:
    """Return for each shape the first call site that has its operation and site, -2 unknown.

    The last entry stands for no shape, and is -1: the start of the run.
    """
    keys = trace.aggregate[1]
    number = {(k.operation, s): n for k, n in reversed(keys.items()) for s in k.sites}
    return [*(number.get((s.operation, s.site), -2) for s in trace.tables.shapes), -1]


def chosen(number: Int, every: int) -> Bool:
    """Return one of each `every` consecutive instances, at a place that changes.

    Always the same place would meet a period of the program always at the same phase.
    """
    if every == 1:
        return np.ones(len(number), np.bool_)
    block = (number // every).astype(np.uint64)
    mixed = (block * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    picked: Bool = number % every == (mixed % np.uint64(every)).astype(np.int64)
    return picked
