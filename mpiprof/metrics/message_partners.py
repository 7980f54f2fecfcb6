"""Partners of messages: the rows in which both ranks of a message see it, joined in C.

Source: core/python_api/message_match.c.
"""

from __future__ import annotations

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool


def find_local(trace: Trace) -> Bool:
    """Return whether the numbers of messages of each communicator identify nothing.

    Those of unknown communicators are local to a rank. The last element is for no communicator.
    """
    return np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)


def find_partners(messages: Struct, is_local: Bool) -> None:
    """Set the partner of each message: the last row in which its other rank sees it, or -1.

    The receiver of a message does not know its bytes if the program ignores the status. Then these
    become those of the partner. messages: of message_rows.TABLE. is_local: of each communicator,
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
