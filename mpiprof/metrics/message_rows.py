"""Messages of recorded calls as rows in memory, from which tables and waits are computed.

A row has 40 bytes (core/python_api/messages.h). The facts of the call that posted a message are
those of its shape. The rows in which both ranks of a message see it are joined in C
(core/python_api/message_match.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.message_decoder import MESSAGE
from mpiprof.trace.messages import (
    ANY_SOURCE,
    COMPLETE,
    DOUBTFUL,
    RECEIVED_FLAG,
    UNKNOWN_PEER,
    UNSURE,
)
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

# The fields of the struct in core/python_api/messages.h.
TABLE = {
    **dict.fromkeys(("count", "ranks"), int),
    "messages": MESSAGE,
    **dict.fromkeys(("communicators", "peers", "rank"), np.int32),
    **dict.fromkeys(("enter_ns", "exit_ns"), np.int64),
}
COLUMNS = (
    *("call", "rank", "received", "communicator", "source", "destination", "tag", "number"),
    *("bytes", "posted_ns", "site_id", "complete", "sure", "any_source", "partner"),
)
IDENTITY = ("communicator", "source", "destination", "tag", "number")
OF_SHAPE = {"communicator": "communicators", "site_id": "sites"}
FLAGS = {"received": RECEIVED_FLAG, "complete": COMPLETE, "any_source": ANY_SOURCE}
WIDE = ("call", "number", "partner")  # of 64 bits in tables


@dataclass(frozen=True)
class MessageRows:
    """Messages in the order of their calls.

    rows: of MESSAGE. communicators, peers, sites: of each shape. rank, enter_ns, exit_ns: of each
    call.
    """

    rows: Array
    communicators: Array
    peers: Array
    sites: Array
    rank: Array
    enter_ns: Int
    exit_ns: Int

    def make_struct(self, ranks: int) -> Struct:
        """Return the struct in C."""
        values = {name: getattr(self, name) for name in TABLE if hasattr(self, name)}
        counts = {"count": len(self.rows), "ranks": ranks}
        return Struct(TABLE, values | counts | {"messages": self.rows})

    def have_flag(self, flag: int) -> Bool:
        """Return which messages have a flag."""
        return (self.rows["flags"] & flag) > 0

    def get_peers(self, rows: Array) -> Array:
        """Return the other rank of some messages, -1 if it is unknown."""
        unknown = (rows["flags"] & UNKNOWN_PEER) > 0
        return np.where(unknown, np.int32(-1), self.peers[rows["shape"]])

    def take_columns(self, names: Sequence[str], rows: Array | None = None) -> dict[str, Array]:
        """Return columns of `Trace.messages`; rows: some of the rows."""
        return {
            name: self._take_column(name, self.rows if rows is None else rows) for name in names
        }

    def _take_column(self, name: str, rows: Array) -> Array:
        if name in OF_SHAPE:
            column: Array = getattr(self, OF_SHAPE[name])[rows["shape"]]
        elif name in FLAGS:
            column = (rows["flags"] & FLAGS[name]) > 0
        elif name == "rank":
            column = self.rank[rows["call"]]
        elif name in ("source", "destination"):
            is_peer = ((rows["flags"] & RECEIVED_FLAG) > 0) == (name == "source")
            column = np.where(is_peer, self.get_peers(rows), self.rank[rows["call"]])
        elif name == "sure":
            column = (rows["flags"] & (UNSURE | DOUBTFUL)) == 0
            column &= self.get_peers(rows) >= 0
        else:
            column = rows[name].astype(np.int64 if name in WIDE else rows[name].dtype)
        return column


def pack_messages(table: pd.DataFrame, calls: pd.DataFrame) -> MessageRows:
    """Return the rows of the tables `Trace.messages` and `Trace.message_calls`."""
    of: dict[str, Any] = {str(name): column.to_numpy() for name, column in table.items()}
    rows = np.zeros(len(table), MESSAGE)
    for name in ("posted_ns", "bytes", "call", "partner", "number", "tag"):
        rows[name] = of[name]
    rows["flags"] = (
        RECEIVED_FLAG * of["received"] + COMPLETE * of["complete"] + DOUBTFUL * ~of["sure"]
    )
    if "any_source" in of:  # data sets of earlier versions lack it
        rows["flags"] |= (ANY_SOURCE * of["any_source"]).astype(np.uint8)
    peer = np.where(of["received"], of["source"], of["destination"])
    facts = [of["communicator"], peer, of["site_id"]]
    sizes = [int(fact.max(initial=-1)) + 2 for fact in facts]  # unknown facts are -1
    code = np.ravel_multi_index([fact.astype(np.int64) + 1 for fact in facts], sizes)
    codes, rows["shape"] = np.unique(code, return_inverse=True)
    communicators, peers, sites = np.unravel_index(codes, sizes)
    rank, enter_ns, exit_ns = (calls[name].to_numpy() for name in ("rank", "enter_ns", "exit_ns"))
    return MessageRows(rows, communicators - 1, peers - 1, sites - 1, rank, enter_ns, exit_ns)


def find_local(trace: Trace) -> Bool:
    """Return whether the numbers of messages of each communicator identify nothing.

    Those of unknown communicators are local to a rank. The last element is for no communicator.
    """
    return np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)


def find_partners(messages: Struct, is_local: Bool) -> None:
    """Set the partner of each message: the last row in which its other rank sees it, or -1.

    The receiver of a message does not know its bytes if the program ignores the status. Then these
    become those of the partner. messages: of TABLE. is_local: of each communicator,
    whether the numbers of its messages identify nothing.
    """
    ranks, count = int(messages.fields[1]), int(messages.fields[0])
    first, rows = np.zeros((2, ranks + 1), np.int64), np.empty(count, np.int32)
    next_ = np.zeros((2, ranks), np.int64)
    call_library("message_match_group", messages, is_local, first, next_, rows)
    of_sent, of_received = np.diff(first)
    table = np.empty((1 << (2 * int(of_sent.max(initial=0))).bit_length(), 2), np.int64)
    for rank in np.flatnonzero((of_sent > 0) & (of_received > 0)).tolist():
        sent, received = (rows[of[rank] : of[rank + 1]] for of in first)
        size = 1 << (2 * len(sent)).bit_length()
        sides = sent, len(sent), received, len(received)
        call_library("message_match_rank", messages, *sides, table, size)
    call_library("message_match_sizes", messages)
