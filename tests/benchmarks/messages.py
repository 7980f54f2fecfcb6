"""Messages that rank 0 sends to start and end a recording: `python -m benchmarks.messages`.

The numbers come from formulas. A test compares them with counted messages at 2 to 64 ranks. The
library's own messages for the recorder (a communicator, a reduction) are those of Open MPI 5.0.
Two ranks that measure message times exchange more messages, for 20 ms.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.checks import Row, store

RANKS = (2, 16, 128, 1024, 10_000, 100_000)
RANKS_A_NODE = 128
FOLDER_BYTES = 80  # of a trace folder's name

TIMES_ASKED, TIME_BYTES = 20, 24  # how a node's leader asks another for the time
NODE_BYTES = 32  # of a node in the list that all get
A_LEVEL, A_LEVEL_BYTES = 10, 102  # of the tree; without the list and the folder's name
A_LEVEL_AUTO = 2  # more where algorithms are chosen: a reduction, and when the clock began
CLOCKS, CLOCK_BYTES = 256, 48  # of the leaders, in a message to all that choose


@dataclass(frozen=True)
class Sent:
    """Messages and bytes that a rank sends."""

    messages: int
    bytes: int


def levels(count: int) -> int:
    """Return the levels of a binomial tree: the logarithm of its nodes, rounded up."""
    return (count - 1).bit_length()


def clocks(nodes: int) -> Sent:
    """Return the messages of the two clock comparisons between nodes."""
    messages = TIMES_ASKED * levels(nodes)
    return Sent(messages, messages * TIME_BYTES)


def start(
    ranks: int, nodes: int = 1, folder_bytes: int = FOLDER_BYTES, *, auto: bool = False
) -> Sent:
    """Return the messages of rank 0 in MPI_Init."""
    messages = A_LEVEL
    size = A_LEVEL_BYTES + folder_bytes + NODE_BYTES * nodes
    if auto:
        rows = -(-nodes // CLOCKS) if nodes > 1 else 0
        messages += A_LEVEL_AUTO + rows + (nodes > 1)
        size += 16 + CLOCK_BYTES * nodes * (nodes > 1) + 8 * (nodes > 1)
    depth, leaders = levels(ranks), clocks(nodes)
    return Sent(messages * depth + leaders.messages, size * depth + leaders.bytes)


def command() -> int:
    """Print the table."""
    line = "{:>8} {:>7} {:>9} {:>8} {:>9} {:>8} {:>9} {:>8}"
    print(line.format("", "", "start", "", "with auto", "", "end", "").rstrip())
    print(line.format("ranks", "nodes", *("messages", "bytes") * 3))
    for ranks in RANKS:
        nodes = -(-ranks // RANKS_A_NODE)
        found = (start(ranks, nodes), start(ranks, nodes, auto=True), clocks(nodes))
        print(line.format(ranks, nodes, *(x for s in found for x in (s.messages, s.bytes))))
        phases = ("start", "start with `--switch auto`", "end")
        sent = [f"{p} {s.messages} ({s.bytes:,} B)" for p, s in zip(phases, found, strict=True)]
        store(Row(f"{ranks:,} ranks, nodes {nodes:,}: messages of rank 0", "", ", ".join(sent)))
    return 0


if __name__ == "__main__":
    sys.exit(command())
