"""Waits whose causes the records show, and the number of waits that each of them stands for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpiprof.diagnosis.delay_graph import Waits
from mpiprof.diagnosis.record_gaps import RecordGaps
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int


def limit_to_records(waits: Waits, gaps: RecordGaps) -> tuple[Waits, Bool]:
    """Return waits with time to compare that is recorded, and which groups have a known cause.

    A gap within the time since the ranks of a group last met hides the cause. Without any time to
    compare, the cost of the group remains at the awaited rank.
    """
    is_known = np.ones(len(waits.awaited), np.bool_)
    if not len(gaps.rank):
        return waits, is_known
    since = waits.since_ns.copy()
    if len(gaps.lateness[0]):  # the gap ends at the first arrival, when all had met
        since = np.maximum(since, gaps.find_end(waits.awaited, waits.until_ns))
    is_known &= ~gaps.overlap(waits.awaited, since, waits.until_ns)
    hidden = gaps.overlap(waits.rank, since[waits.group], waits.end_ns)
    is_known &= np.bincount(waits.group, hidden, len(since)) == 0
    return replace(waits, since_ns=np.where(is_known, since, waits.until_ns)), is_known


def weigh_groups(
    trace: Trace, waits: Waits, callsite: Int, is_counted: Bool, is_known: Bool
) -> Float:
    """Return the number of waits that each group stands for, 0 for groups that are not counted.

    Groups with a known cause stand for all groups at their call site, also for those that a sample
    left out. Which instances are recorded is independent of their causes. callsite: number, -1 in
    messages.
    """
    if trace.sampling_interval == 1 and is_known.all():
        return is_counted.astype(np.float64)
    scales = np.append(callsite_scales(trace), 1.0)  # the last element is for messages
    scale = scales[callsite]
    length = np.bincount(waits.group, waits.end_ns - waits.begin_ns, len(callsite)) * is_counted
    key = _number_sites(trace, callsite, len(scales))
    known_ns = np.bincount(key, length * is_known)[key]
    total_ns = np.bincount(key, length * scale)[key]
    of_known = np.where(is_known, total_ns / np.where(known_ns > 0, known_ns, 1.0), 0.0)
    return np.where(known_ns > 0, of_known, scale) * is_counted


def _number_sites(trace: Trace, callsite: Int, callsites: int) -> Int:
    """Return a number for the call site of each group: of collectives, then of messages."""
    calls, waits = trace.message_calls, trace.message_waits
    site = calls["site_id"].to_numpy(np.int64)[waits["call"].to_numpy()]
    key = callsite.copy()
    key[callsite < 0] = callsites + 1 + site
    return key
