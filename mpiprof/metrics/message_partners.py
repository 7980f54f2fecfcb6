"""Partners of messages: the rows in which both ranks of a message see it, joined in C.

Source: core/python_api/message_match.c.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.time_order import order_by_rank
from mpiprof.trace.types import Bool, Int

IDENTITY = ("communicator", "source", "destination", "tag", "number")
COLUMNS = {
    **dict.fromkeys(("communicator", "source", "tag"), np.int32),
    **dict.fromkeys(("number", "partner"), np.int64),
}


def find_partners(messages: dict[str, Any], usable: Bool, ranks: int) -> Int:
    """Return for each message the last row in which its other rank sees it, or -1.

    messages: columns communicator, source, destination, tag, number and received. usable: whether
    these identify the message.
    """
    partner = np.full(len(usable), -1, np.int64)
    destination = messages["destination"]
    usable = usable & (destination < ranks)
    sides = (usable & ~messages["received"], usable & messages["received"])
    if not all(side.any() for side in sides):
        return partner
    (sent, sent_first), (received, received_first) = (
        _group_rows(np.flatnonzero(side), destination, ranks) for side in sides
    )
    columns = Struct(
        COLUMNS,
        {name: messages[name] for name in ("communicator", "source", "tag", "number")}
        | {"partner": partner},
    )
    table = np.empty((1 << (2 * int(np.diff(sent_first).max(initial=0))).bit_length(), 2), np.int64)
    for rank in np.flatnonzero((np.diff(sent_first) > 0) & (np.diff(received_first) > 0)).tolist():
        of_sent = sent[sent_first[rank] : sent_first[rank + 1]]
        of_received = received[received_first[rank] : received_first[rank + 1]]
        size = 1 << (2 * len(of_sent)).bit_length()
        call_library(
            "message_match_rank",
            *(columns, of_sent, len(of_sent), of_received, len(of_received), table, size),
        )
    return partner


def _group_rows(rows: Int, rank: Int, ranks: int) -> tuple[Int, Int]:
    """Return some rows by rank, and where each rank begins."""
    order, first = order_by_rank(rank[rows], ranks)
    return rows[order], first
