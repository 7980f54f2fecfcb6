"""Reads the next records of many ranks, and decodes the plain records of several ranks together.

A trace of thousands of ranks has few records per rank and pass. A call into NumPy for each rank and
column then takes longer than the work on the records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mpiprof.trace.rank_arrays import Block, concatenate
from mpiprof.trace.stream import BEFORE_FIELDS, RankStream, ThreadStream, make_plain_block
from mpiprof.trace.types import Array, Int

GROUP_RECORDS = 1 << 15  # that are decoded at a time, so that they remain in the cache
Plain: TypeAlias = tuple[ThreadStream, Array]  # records that need no other ones to be decoded


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


def read_groups(
    streams: Mapping[int, RankStream], ranks: Sequence[int], count: int
) -> Iterator[RankGroup]:
    """Yield the next records of some ranks, about `count` of each."""
    step = max(GROUP_RECORDS // max(count, 1), 1)
    for first in range(0, len(ranks), step):
        yield _read_group(streams, ranks[first : first + step], count)


def _read_group(streams: Mapping[int, RankStream], ranks: Sequence[int], count: int) -> RankGroup:
    plain = {rank: streams[rank].read_plain(count) for rank in ranks}
    found: list[int] = []
    counts: list[int] = []
    blocks: list[Block] = []
    ended: list[int] = []
    for _, group in itertools.groupby(ranks, key=lambda rank: _find_layout(plain[rank])):
        of = list(group)
        together = [one for rank in of if (one := plain[rank]) is not None]
        block = _decode_together(together) if together else None
        if block is not None:
            found += of
            counts += [len(records) for _, records in together]
            blocks.append(block)
            continue
        for rank in of:
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


def _find_layout(plain: Plain | None) -> int:
    """Return a number that is equal for records of one type, 0 for records that are not plain."""
    return 0 if plain is None else id(plain[1].dtype)


def _decode_together(plain: list[Plain]) -> Block | None:
    """Return the records of several threads as one block, or None if one must be decoded alone."""
    counts = [len(records) for _, records in plain]
    raw = np.concatenate([records.view(np.uint8) for _, records in plain])
    block = make_plain_block(raw.view(plain[0][1].dtype))
    sources = [thread.source for thread, _ in plain]
    low, high = max(s.earliest_ns for s in sources), min(s.latest_ns for s in sources)
    if (
        int(block.enter_ns.min()) < low
        or int(block.exit_ns.max()) > high
        or int((block.exit_ns - block.enter_ns).min()) < 0
    ):
        return None
    maps = [thread.shape_map for thread, _ in plain]
    sizes = np.array([len(of) for of in maps], np.int64)
    index = np.minimum(block.shape, np.repeat(sizes - 1, counts))
    index += np.repeat(np.cumsum(sizes) - sizes, counts)
    joint = np.concatenate(maps).take(index)
    if int(joint.min()) < 0:
        return None
    block.shape = joint.astype(np.int32)
    at = 0
    for to_global, group in itertools.groupby(plain, key=lambda one: one[0].source.to_global):
        end = at + sum(len(records) for _, records in group)
        if to_global is not None:
            is_open = block.exit_ns[at:end] == 0
            for times in (block.enter_ns, block.exit_ns):
                times[at:end] = to_global(times[at:end])
            block.exit_ns[at:end][is_open] = 0
        at = end
    if sources[0].before:
        _note_before(block, [thread for thread, _ in plain], np.cumsum(counts))
    for thread, _ in plain:
        thread.unread = None
    return block


def _note_before(block: Block, threads: list[ThreadStream], ends: Int) -> None:
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
