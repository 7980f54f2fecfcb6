"""Records of one rank as arrays, the input of matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mpiprof.trace.types import CALL, Array, Bool, Int


@dataclass
class Block:
    """Consecutive records as columns of equal length.

    An optional column is None if all its values are default.

    sequence: uint32.
    enter, exit: int64 ns; exit is 0 if the call is open.
    shape: int32, index into Tables.shapes.
    kind: uint8; None if all are calls.
    start: n-th start, default 0.
    sent, received: bytes; -1 means as in the shape.
    share: completions that one Wait call made together, default 1.
    longest: ns, of summaries.
    thread: default 0.
    choice: uint8, index into CHOICES.
    before_enter, before_exit, before_shape, before_sequence: the thread's previous record if
      Source.before is set; ns, and -1 if there is none.
    """

    sequence: Array
    enter_ns: Int
    exit_ns: Int
    shape: Array
    outside: Int | None = None
    kind: Array | None = None
    start: Int | None = None
    sent: Int | None = None
    received: Int | None = None
    share: Int | None = None
    longest: Int | None = None
    thread: Int | None = None
    choice: Array | None = None
    before_enter: Int | None = None
    before_exit: Int | None = None
    before_shape: Int | None = None
    before_sequence: Int | None = None

    def __len__(self) -> int:
        return len(self.sequence)

    def take(self, index: slice | Int | Bool) -> Block:
        """Return the records at an index."""
        columns = (getattr(self, name) for name in COLUMNS)
        selected: list[Any] = [None if column is None else column[index] for column in columns]
        return Block(*selected)


COLUMNS = tuple(f.name for f in fields(Block))
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
