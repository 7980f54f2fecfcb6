"""Index of a data set's blocks: the number of instances of each call site per block."""

from __future__ import annotations

from array import array

import numpy as np

from mpiprof.trace.types import Array, Int

MAX_ENTRIES = 1 << 22  # maximum number of entries; each takes 12 bytes


class BlockIndex:
    """Counts of instances by block and call site, added in order of blocks."""

    def __init__(self) -> None:
        self.blocks = self.entries = 0
        self.columns = array("i"), array("i"), array("i")  # blocks, call sites, counts

    def add(self, callsites: Int, counts: Array) -> None:
        """Add the next block: its call sites, and the number of instances of each."""
        self.entries += len(callsites)
        if self.entries <= MAX_ENTRIES:
            block = np.full(len(callsites), self.blocks)
            for column, values in zip(self.columns, (block, callsites, counts), strict=True):
                column.frombytes(values.astype(np.intc).tobytes())
        else:
            self.columns = array("i"), array("i"), array("i")
        self.blocks += 1

    def counts_of(self, callsite: int) -> Int | None:
        """Return the number of instances per block, or None if there are too many entries."""
        if self.entries > MAX_ENTRIES:
            return None
        found = np.zeros(self.blocks, np.int64)
        blocks, callsites, counts = (np.array(column) for column in self.columns)
        mine = callsites == callsite
        found[blocks[mine]] = counts[mine]
        return found
