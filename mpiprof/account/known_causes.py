"""Waits with causes that the records show, and the number of waits that each of them stands for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpiprof.account.delay_graph import Waits
from mpiprof.account.record_gaps import RecordGaps
from mpiprof.metrics.message_callsite_sums import weigh_waits
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_STEPS = 12  # fewer steps that are recorded as a whole do not represent a run


def limit_to_records(waits: Waits, gaps: RecordGaps, meetings_ns: Int) -> tuple[Waits, Bool]:
    """Return waits with time to compare that is recorded, and which groups have a known cause.

    A gap within the time since the ranks of a group last met hides the cause. If enough steps are
    recorded as a whole, only their waits have a known cause, because a wait of another step may
    continue in a gap. Without any time to compare, the cost of the group remains at the awaited
    rank. meetings_ns: times at which all ranks met.
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
    edges = np.append(np.iinfo(np.int64).min, np.unique(meetings_ns))
    whole = np.append(False, gaps.find_whole_steps(edges[1:])) if len(edges) > 1 else is_known[:0]
    if whole.sum() >= MIN_STEPS:
        step = np.searchsorted(edges, waits.until_ns, side="left") - 1
        is_known &= np.append(whole, False)[step]
    return replace(waits, since_ns=np.where(is_known, since, waits.until_ns)), is_known


def weigh_groups(
    trace: Trace, waits: Waits, groups: tuple[Int, Int], is_counted: Bool, is_known: Bool
) -> Float:
    """Return the number of waits that each group stands for, 0 for groups that are not counted.

    If message calls are recorded completely in windows only, the waits in these stand for the run.
    Groups with a known cause stand for all groups at their call site, also for those that a sample
    left out. Which instances are recorded is independent of their causes.

    groups: call site of collectives, -1 in messages; and row of `message_waits` of messages.
    """
    callsite, message = groups
    of_messages = callsite < 0
    scales = np.append(callsite_scales(trace), 1.0)  # the last element is for messages
    scale = scales[callsite]
    scale[of_messages] = weigh_waits(trace, waits.until_ns[of_messages])
    if is_known.all():
        return scale * is_counted
    length = np.bincount(waits.group, waits.end_ns - waits.begin_ns, len(callsite)) * is_counted
    calls, key = trace.message_waits["call"].to_numpy(), callsite.copy()
    sites = trace.message_calls["site_id"].to_numpy(np.int64)[calls]
    key[of_messages] = len(scales) + 1 + sites[message[of_messages]]
    known_ns = np.bincount(key, length * is_known)[key]
    total_ns = np.bincount(key, length * scale)[key]
    of_known = np.where(is_known, total_ns / np.where(known_ns > 0, known_ns, 1.0), 0.0)
    return np.where(known_ns > 0, of_known, scale) * is_counted
