"""A stretch of a run as a trace: only the calls, messages and intervals in it are read.

A trace that does not fit in memory is analysed window by window. The windows of a run begin and end
when all its ranks meet in a collective (account/run_windows.py). Nobody waits across such a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof.trace.batch import Batch
from mpiprof.trace.chunks import SEARCHED_RECORDS, Chunk
from mpiprof.trace.match import BATCH_RECORDS
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS, Bool, Int

# Calls on messages are read before and after a window, at most the next chunk of each thread. They
# have the other sides of messages that are posted in one window and completed in the next.
MARGIN_CHUNKS = 1
MARGIN_SHARE = 0.25  # of the time of a window
# That cover the whole run also in a window, so they are not read again.
WHOLE_TABLES = {"call_sums", "local_sums", "message_counts", "message_sums", "point_to_point"}
# Attributes of the whole trace that are computed again.
RECOMPUTED = {"dataset", "workers", "_derived", "_known", "_message_chunks_of"} | {
    *("spans", "run_start_ns", "run_ns", "calls_start_ns", "duration_ns")
}


class TraceWindow(Trace):
    """The part of a trace from one time to another; its derived tables cover only this part.

    An instance of a collective is in the window in which its last rank arrives. A call on messages
    and an interval are in the window in which they begin. Sums of whole runs, such as
    `message_sums`, remain those of the whole run.
    """

    def __init__(
        self, whole: Trace, begin_ns: int, end_ns: int, derived: Mapping[str, Callable[..., Any]]
    ) -> None:
        """Copy the attributes of the whole trace; derived: functions of its tables."""
        self._whole_spans, error_ns = whole.spans, whole.clock_error_ns
        self.__dict__.update({k: of for k, of in vars(whole).items() if k not in RECOMPUTED})
        self.begin_ns, self.end_ns, self.workers = begin_ns, end_ns, None
        self.__dict__["complete_windows"] = whole.complete_windows
        self.__dict__["complete_share"] = whole.complete_share
        self._since_ns = None if begin_ns == START_NS else begin_ns - error_ns
        self._until_ns = None if end_ns == END_NS else end_ns + error_ns
        self._derived, self._known = dict(derived), {}
        for name in WHOLE_TABLES & whole._derived.keys():
            self._derived[name] = lambda _, name=name: whole.derive(name)
        self._message_chunks_of: dict[int, list[list[Chunk]]] = {}
        self._of_window: list[Batch] | None = None
        self.__dict__["dataset"] = None  # its tables can only be read as a whole

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """First and last known time of each rank in the window."""
        return {
            rank: (max(first, self.begin_ns), max(min(last, self.end_ns), self.begin_ns))
            for rank, (first, last) in self._whole_spans.items()
        }

    @cached_property
    def margin_ns(self) -> int:
        """Time before and after the window in which calls on messages are read."""
        return round(MARGIN_SHARE * self.run_ns)

    def covers(self, begin_ns: Int) -> Bool:
        """Return which calls or intervals are in the window."""
        return (begin_ns >= self.begin_ns) & (begin_ns < self.end_ns)

    def batches(
        self,
        local_times: bool = False,
        batch: int = BATCH_RECORDS,
        before: bool = False,
        since_ns: int | None = None,
        until_ns: int | None = None,
    ) -> Iterator[Batch]:
        """Yield batches as Trace.batches does, of the instances in the window.

        All batches are cached: several analyses pass over them, and a window fits in memory.
        """
        is_special = local_times or batch != BATCH_RECORDS or before
        if is_special or since_ns is not None or until_ns is not None:
            return self._read_batches(local_times, batch, before, since_ns, until_ns)
        if self._of_window is None:
            self._of_window = list(self._read_batches(False, batch, False, None, None))
        return iter(self._of_window)

    def _read_batches(
        self,
        local_times: bool,
        batch: int,
        before: bool,
        since_ns: int | None,
        until_ns: int | None,
    ) -> Iterator[Batch]:
        since = max((of for of in (since_ns, self._since_ns) if of is not None), default=None)
        until = min((of for of in (until_ns, self._until_ns) if of is not None), default=None)
        for instances in super().batches(local_times, batch, before, since, until):
            last_ns = instances.arrival_ns.max(0)
            index = np.flatnonzero((last_ns > self.begin_ns) & (last_ns <= self.end_ns))
            if len(index):
                yield instances if len(index) == len(instances) else instances.take(index)

    @property
    def meeting_at_begin(self) -> Batch | None:
        """The instance at which all ranks met when the window began, None without one.

        It is in the window before, but its ranks leave it in this window. It is found once for all
        passes over the windows of a run.
        """
        if self.begin_ns not in self.meetings:
            self.meetings[self.begin_ns] = self._find_meeting()
        return self.meetings[self.begin_ns]

    def _find_meeting(self) -> Batch | None:
        if self._since_ns is None:
            return None
        few = SEARCHED_RECORDS * max(self.ranks, 1)
        for batch in super().batches(batch=few, since_ns=self._since_ns, until_ns=self.begin_ns):
            if are_of_all_ranks(batch, self.ranks):
                meeting = select_meeting(batch, self.begin_ns)
                if len(meeting):
                    return meeting
        return None

    def message_chunks(self, rank: int) -> list[list[Chunk]]:
        """Return the chunks with messages of each thread of a rank that the window requires."""
        if rank not in self._message_chunks_of:
            threads = super().message_chunks(rank)
            self._message_chunks_of[rank] = [self._select_chunks(rank, of) for of in threads]
        return self._message_chunks_of[rank]

    def _select_chunks(self, rank: int, chunks: list[Chunk]) -> list[Chunk]:
        """Return the chunks of a thread from before the begin of the window to after its end."""
        if len(chunks) <= 1 + 2 * MARGIN_CHUNKS or chunks[0].is_summed():
            return chunks
        numbers = range(len(chunks))

        def find_time(number: int) -> int:
            time_ns = chunks[number].begin_ns()
            return START_NS if time_ns is None else self._to_joint_ns(rank, time_ns)

        begin, first = (
            bisect_right(numbers, time_ns, key=find_time) - 1
            for time_ns in (self.begin_ns - self.margin_ns, self.begin_ns)
        )
        last, end = (
            bisect_left(numbers, time_ns, key=find_time)
            for time_ns in (self.end_ns, self.end_ns + self.margin_ns)
        )
        return chunks[max(begin, first - MARGIN_CHUNKS, 0) : min(end, last + MARGIN_CHUNKS)]


def are_of_all_ranks(batch: Batch, ranks: int) -> bool:
    """Return whether a batch has blocking calls of all ranks."""
    return len(batch.communicator.ranks) == ranks and batch.begin_ns is batch.arrival_ns


def select_meeting(batch: Batch, time_ns: int) -> Batch:
    """Return the first instance of a batch whose last rank arrives at a time, none without one."""
    return batch.take(np.flatnonzero(batch.arrival_ns.max(0) == time_ns)[:1])
