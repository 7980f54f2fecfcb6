"""Records of one rank as arrays, the input of matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np

from mpiprof.trace.types import CALL, Array, Bool, Int


@dataclass
class Block:
    """Consecutive records as columns of equal length; a column of only default values is None."""

    sequence: Array  # uint32
    enter_ns: Int
    exit_ns: Int  # 0 if the call is open
    shape: Array  # int32, index into Tables.shapes
    outside: Int | None = None
    kind: Array | None = None  # uint8
    start: Int | None = None  # n-th start
    sent: Int | None = None  # bytes; -1 means as in the shape
    received: Int | None = None
    share: Int | None = None  # completions that one Wait call made together
    longest: Int | None = None  # ns, of summaries
    thread: Int | None = None
    choice: Array | None = None  # uint8, index into CHOICES
    before_enter: Int | None = None  # the thread's previous record if Source.before is set, or -1
    before_exit: Int | None = None
    before_shape: Int | None = None
    before_sequence: Int | None = None

    def __len__(self) -> int:
        return len(self.sequence)

    def take(self, index: slice | Int | Bool) -> Block:
        """Return the records at an index."""
        columns = _get_columns(self)
        selected: list[Any] = [None if column is None else column[index] for column in columns]
        return Block(*selected)


EMPTY = Block(
    np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
)
COLUMNS = tuple(f.name for f in fields(Block))
_get_columns = attrgetter(*COLUMNS)  # faster than getattr for each: blocks are many
DEFAULTS = {"kind": CALL, "sent": -1, "received": -1, "share": 1} | {
    name: -1 for name in COLUMNS if name.startswith("before_")
}  # 0 for other columns


def get_column(block: Block, name: str) -> Array:
    """Return a column, or an array of its default if the block has None."""
    value: Array | None = getattr(block, name)
    if value is None:
        dtype = np.uint8 if name in ("kind", "choice") else np.int64
        return np.full(len(block), DEFAULTS.get(name, 0), dtype)
    return value


def concatenate(blocks: Sequence[Block]) -> Block:
    """Return the blocks, concatenated."""
    if len(blocks) == 1:
        return blocks[0]
    columns: list[Any] = []
    for name in COLUMNS:
        if all(getattr(b, name) is None for b in blocks):
            columns.append(None)
        else:
            columns.append(np.concatenate([get_column(b, name) for b in blocks]))
    return Block(*columns)


def distinct_pairs(sequence: Array, start: Int) -> tuple[Int, Int, Int]:
    """Return the distinct (sequence, n-th start) in order, and the index of each record's pair."""
    starts, number = np.unique(start, return_inverse=True)
    keys, instance = np.unique((sequence.astype(np.int64) << 31) + number, return_inverse=True)
    return keys >> 31, starts[keys & ((1 << 31) - 1)].astype(np.int64), instance
