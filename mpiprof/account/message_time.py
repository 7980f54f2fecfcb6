"""Time in messages of which only sums are recorded: neither work nor known waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.message_callsite_sums import are_waits_known, recorded_messages
from mpiprof.metrics.time_order import find_last_rows
from mpiprof.operations import base_operation
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

# In the note of the recorder that it no longer logs messages (core/record/message.c).
SUMS_NOTE = "only sums of messages are recorded"
MIN_SHARE = 0.01  # minimum share of all ranks' time; less delays no rank


@dataclass(frozen=True)
class MessageTime:
    """Time in calls on messages before each collective of a rank, by rank and time.

    rank, end_ns (begin of the collective), spent_ns (in messages since the collective before).
    """

    rank: Int
    end_ns: Int
    spent_ns: Int

    def find(self, rank: Int, end_ns: Int) -> Int:
        """Return the time in messages before each collective that begins at end_ns."""
        row = find_last_rows((self.rank, self.end_ns), rank, end_ns, until=True)
        is_same = np.append(self.end_ns, -1)[row] == end_ns
        return np.where(is_same, np.append(self.spent_ns, 0)[row], 0)


def find_message_time(trace: Trace) -> MessageTime:
    """Return the time in messages without records, none if long calls are logged or negligible."""
    parts = [np.zeros((3, 0), np.int64)]
    least = MIN_SHARE * max(trace.process_time_ns, 1)
    if not _are_waits_logged(trace) and _find_unknown_time(trace) >= least:
        for batch in trace.batches(before=True):
            assert batch.before is not None
            row, column = np.nonzero((batch.before.outside > 0) & (batch.shape >= 0))
            times = batch.arrival_ns[row, column], batch.before.outside[row, column]
            parts.append(np.stack([batch.communicator.ranks[row], *times]))
    rank, end_ns, spent_ns = np.concatenate(parts, axis=1)
    order = np.lexsort((end_ns, rank))
    return MessageTime(rank[order], end_ns[order], spent_ns[order])


def _are_waits_logged(trace: Trace) -> bool:
    """Return whether all calls on messages that may wait have records, which fit in memory."""
    if not are_waits_known(trace) or any(SUMS_NOTE in note for note in trace.notes):
        return False
    return len(trace.message_calls) > 0 or recorded_messages(trace) in ("auto", "all")


def _find_unknown_time(trace: Trace) -> float:
    """Return the time in calls on messages, without Wait for nonblocking collectives."""
    table = trace.callsites
    is_blocking = ~table["started"] & (table["operation"].map(base_operation) == table["operation"])
    of_collectives = float(table.loc[~is_blocking, "total_elapsed_ns"].sum())
    return float(trace.point_to_point.sum()) - of_collectives
