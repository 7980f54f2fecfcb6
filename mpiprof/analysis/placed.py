"""Where the instances of a call site are: in which blocks of a data set, and how many in each."""

from __future__ import annotations

from array import array

import numpy as np

from mpiprof.trace.types import Array, Int

MOST = 1 << 22  # entries, of 12 bytes each


class Placed:
    """Counts of instances by block and call site, block by block in their order."""

    def __init__(self) -> None:
        self.blocks = self.entries = 0
        self.columns = array("i"), array("i"), array("i")  # blocks, call sites, counts

    def add(self, callsites: Int, counts: Array) -> None:
        """Add the next block: the call sites in it, with how many instances of each it holds."""
        self.entries += len(callsites)
        if self.entries <= MOST:
            block = np.full(len(callsites), self.blocks)
            for column, values in zip(self.columns, (block, callsites, counts), strict=True):
                column.frombytes(values.astype(np.intc).tobytes())
        else:
            self.columns = array("i"), array("i"), array("i")
        self.blocks += 1

    def of(self, callsite: int) -> Int | None:
        """Return how many instances each block holds; None where there are too many entries."""
        if self.entries > MOST:
            return None
        found = np.zeros(self.blocks, np.int64)
        blocks, callsites, counts = (np.array(column) for column in self.columns)
        mine = callsites == callsite
        found[blocks[mine]] = counts[mine]
        return found
