"""Reads the next records of many ranks, and decodes the plain records of several ranks together.

A trace of thousands of ranks has few records per rank and pass. A call into NumPy for each rank and
column then takes longer than the work on the records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.log import LogFile
from mpiprof.trace.rank_arrays import Block, concatenate
from mpiprof.trace.record_read import NOT_PLAIN, find_call, find_calls, read_calls
from mpiprof.trace.stream import BEFORE_FIELDS, RankStream, ThreadStream
from mpiprof.trace.types import Int

GROUP_RECORDS = 1 << 15  # that are decoded at a time, so that they remain in the cache


@dataclass(frozen=True)
class RankGroup:
    """The next records of several ranks, rank after rank.

    ranks, counts: ranks with records, and the number of their records. ended: ranks without more
    records.
    """

    ranks: Int
    counts: Int
    block: Block | None
    ended: list[int]


def skip_to(streams: Iterable[RankStream], time_ns: int) -> None:
    """Skip calls of ranks that were entered well before a time of the joint clock."""
    threads = [thread for stream in streams for thread in stream.threads]
    times = [thread.source.to_local(time_ns) for thread in threads]
    numbers = [thread.find_chunk(time) for thread, time in zip(threads, times, strict=True)]
    skipped = list(zip(threads, numbers, times, strict=True))
    for log, group in itertools.groupby(skipped, key=lambda skip: _find_log(skip[0], skip[1])):
        part = list(group)
        chunks = [thread.chunks[number] for thread, number, _ in part]
        part_times = [time for _, _, time in part]
        if log is None:
            firsts = list(map(find_call, chunks, part_times))
        else:
            firsts = find_calls(log, [chunk.index for chunk in chunks], part_times)
        for (thread, number, _), chunk, first in zip(part, chunks, firsts, strict=True):
            is_intact = chunk.log.is_intact(chunk.index)
            thread.skip_to(number, first if is_intact else NOT_PLAIN)


def _find_log(thread: ThreadStream, number: int) -> LogFile | None:
    """Return the log of a chunk of a thread, None if its records must be read alone."""
    if number >= len(thread.chunks) or thread.chunks[number].live:
        return None
    log = thread.chunks[number].log
    return log if log.is_plain else None


def read_groups(
    streams: Mapping[int, RankStream], ranks: Sequence[int], count: int
) -> Iterator[RankGroup]:
    """Yield the next records of some ranks, about `count` of each."""
    step = max(GROUP_RECORDS // max(count, 1), 1)
    for first in range(0, len(ranks), step):
        yield _read_group(streams, ranks[first : first + step], count)


def _read_group(streams: Mapping[int, RankStream], ranks: Sequence[int], count: int) -> RankGroup:
    found: list[int] = []
    counts: list[int] = []
    blocks: list[Block] = []
    ended: list[int] = []
    for log, group in itertools.groupby(ranks, key=lambda rank: _find_common_log(streams[rank])):
        alone = list(group)
        if log is not None:
            threads = {rank: streams[rank].threads[0] for rank in alone}
            calls, block = _read_together(log, threads, count)
            if block is not None:
                found += calls
                counts += calls.values()
                blocks.append(block)
            alone = [rank for rank in alone if rank not in calls]
        for rank in alone:
            block = streams[rank].read(count)
            if block is None:
                ended.append(rank)
            else:
                found.append(rank)
                counts.append(len(block))
                blocks.append(block)
    return RankGroup(
        np.array(found, np.int64),
        np.array(counts, np.int64),
        concatenate(blocks) if blocks else None,
        ended,
    )


def _find_common_log(stream: RankStream) -> LogFile | None:
    """Return the log of a rank's next records if they may be read with those of other ranks."""
    if not stream.is_plain:
        return None
    thread = stream.threads[0]
    if not thread.is_between_records:
        return None
    return _find_log(thread, thread.position[0])


def _read_together(
    log: LogFile, threads: Mapping[int, ThreadStream], count: int
) -> tuple[dict[int, int], Block | None]:
    """Return the numbers of the next records of ranks, and the records as one block.

    Ranks are missing if they have other records than calls, or if a record is impossible. The next
    `read` of their threads returns these records.
    """
    pieces = {}
    for rank, thread in threads.items():
        log_of_pieces, of_rank = thread.take_pieces(count)
        if log_of_pieces is log and not thread.last_chunk.live:
            pieces[rank] = of_rank
        elif log_of_pieces is not None:
            thread.unread = thread.read_pieces(log_of_pieces, of_rank)
    if not pieces:
        return {}, None
    counts, block = read_calls(log, [threads[rank].source for rank in pieces], [*pieces.values()])
    for (rank, of_rank), number in zip(pieces.items(), counts, strict=True):
        if number <= 0:
            threads[rank].unread = threads[rank].read_pieces(log, of_rank)
        elif number < sum(stop - first for _, first, stop in of_rank):
            threads[rank].note_empty()
    calls = {rank: number for rank, number in zip(pieces, counts, strict=True) if number > 0}
    if calls:
        _complete([threads[rank] for rank in calls], np.cumsum(list(calls.values())), block)
    return calls, block if calls else None


def _complete(threads: Sequence[ThreadStream], ends: Int, block: Block) -> None:
    """Convert the times of calls to the joint clock, and add their previous records if requested.

    ends: of the calls of each thread.
    """
    begin = 0
    numbered = zip(threads, ends.tolist(), strict=True)
    for clock, group in itertools.groupby(numbered, key=lambda each: each[0].source.clock):
        *_, (_, end) = group
        if clock is not None:
            is_open = block.exit_ns[begin:end] == 0
            for times in (block.enter_ns, block.exit_ns):
                times[begin:end] = clock.to_global(times[begin:end])
            block.exit_ns[begin:end][is_open] = 0
        begin = end
    if threads[0].source.before:
        _note_before(block, threads, ends)


def _note_before(block: Block, threads: Sequence[ThreadStream], ends: Int) -> None:
    """Add each record's previous record of the same thread."""
    starts = np.concatenate([[0], ends[:-1]])
    firsts = np.array([thread.before for thread in threads]).T
    columns = (block.enter_ns, block.exit_ns, block.shape, block.sequence)
    lasts = []
    for name, values, first in zip(BEFORE_FIELDS, columns, firsts, strict=True):
        before = np.empty(len(values), np.int64)
        before[1:] = values[:-1]
        before[starts] = first
        setattr(block, name, before)
        lasts.append(values[ends - 1].tolist())
    for thread, *last in zip(threads, *lasts, strict=True):
        thread.before = last
