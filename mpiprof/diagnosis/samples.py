"""Samples of call sites from which causes and phases are computed.

A sample comprises the series of a call site (metrics/instance_series.py), the arrivals of all ranks
in some of its instances, and walks along the chain of lateness. diagnosis/sampling.py takes the
samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from mpiprof.diagnosis.barrier_what_if import BarrierWhatIf
from mpiprof.diagnosis.delay_chain import Walk
from mpiprof.errors import TraceError
from mpiprof.metrics.instance_rows import Signature
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

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

    walked: number of instances from which walks were tried. without: cost of a barrier, else None.
    """

    callsite: int
    series: pd.DataFrame
    parts: list[SamplePart]
    walks: list[Walk]
    walked: int
    without: BarrierWhatIf | None


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
        known = len(trace.callsites)
        raise TraceError(f"{trace.path}: no call site {callsite}; there are {known}")
    together = trace.hot
    wanted = tuple(together) if callsite in together else (callsite,)
    found: dict[int, Sample] = trace.samples(wanted)
    return found[callsite]


def make_part(batch: Batch, signature: Signature, index: Int) -> SamplePart:
    """Return the given instances of a batch, which share a signature."""
    assert batch.before is not None
    return SamplePart(
        signature,
        batch.communicator.index,
        batch.communicator.ranks,
        np.take(batch.arrival_ns, index, axis=1),  # faster than indexing, see Batch.take
        batch.before.take(index),
    )


def join_parts(parts: Sequence[SamplePart]) -> list[SamplePart]:
    """Join the parts that share a signature and communicator.

    A batch contains only some thousand records. Later steps would otherwise take time per batch.
    """
    groups: dict[tuple[int, int], list[SamplePart]] = {}
    for part in parts:
        groups.setdefault((id(part.signature), part.communicator), []).append(part)
    return [_concatenate(group) for group in groups.values()]


def _concatenate(parts: list[SamplePart]) -> SamplePart:
    if len(parts) == 1:
        return parts[0]
    befores = [part.before for part in parts]
    columns = {
        field.name: np.concatenate([getattr(before, field.name) for before in befores], axis=1)
        for field in fields(Before)
    }
    arrival = np.concatenate([part.arrival_ns for part in parts], axis=1)
    return replace(parts[0], arrival_ns=arrival, before=Before(**columns))


def callsites_of_shapes(trace: Trace) -> list[int]:
    """Return the first call site with the operation and site of each shape, or -2 if there is none.

    The last entry stands for no shape and is -1, the start of the run.
    """
    keys = trace.aggregate[1]
    number = {(k.operation, s): n for k, n in reversed(keys.items()) for s in k.sites}
    return [*(number.get((s.operation, s.site), -2) for s in trace.tables.shapes), -1]


def select_instances(number: Int, every: int) -> Bool:
    """Select one of every `every` consecutive instances, at a pseudo-random position in each block.

    A fixed position would alias with periods of the program.
    """
    if every == 1:
        return np.ones(len(number), np.bool_)
    block = (number // every).astype(np.uint64)
    mixed = (block * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    picked: Bool = number % every == (mixed % np.uint64(every)).astype(np.int64)
    return picked
