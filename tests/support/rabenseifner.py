"""Rabenseifner and Adamidis 2004 on reductions: the choice of a protocol (Section 4)."""

from __future__ import annotations

from math import log2

from mpiprof.collectives.machine import Machine as Machine
from mpiprof.collectives.papers.reports.rabenseifner import (
    largest_exponent_gap as largest_exponent_gap,
)
from mpiprof.collectives.papers.reports.rabenseifner import paper_time as paper_time
from mpiprof.collectives.schedule import find

# Process counts at which Figure 5 shows the ring ahead at 32 KB; 15 only above 64 KB.
RING_SIZES = (3, 5, 7, 9, 10, 11, 17)


def static_choice(operation: str, size: int, n: int) -> str:
    """Return the protocol that Section 4 selects for a vector of n bytes on `size` processes.

    From the paper: the rule for more than 32 processes from 16 KB on, the limits 32 B and 1 KB, and
    the ring's process counts. The paper leaves the rest to tables that it does not show. mpiprof
    applies the same rule to 32 and fewer processes, and "halving and doubling" from 1 to 16 KB.
    Below 1 KB the paper takes the vendor's routine for powers of two, "not a big difference" to
    recursive doubling, which mpiprof takes. Reduce has no recursive doubling and takes the binary
    tree.
    """
    find(operation, "binary_tree")
    power = not size & (size - 1)
    if n <= 1024:
        doubles = operation == "allreduce" and (n <= 32 or power)
        return "recursive_doubling" if doubles else "binary_tree"
    if power:
        return "halving_doubling"
    if (size in RING_SIZES and n >= 32768) or (size == 15 and n > 65536):
        return "ring"
    if n >= 16384 and largest_exponent_gap(size) < log2(n) / 2 - 2.5:
        return "binary_blocks"
    return "halving_doubling"
