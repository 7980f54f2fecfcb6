"""Array types that modules exchange, the kinds of a record, and the problems of a trace."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

CALL: Final = 1  # a blocking call, the start of a nonblocking one, or a persistent init
START: Final = 2  # the start of a persistent operation
COMPLETION: Final = 3  # the Wait or Test call that completed a nonblocking or started operation
EXTENSION: Final = 4  # a value too wide for the record that follows it
SUMMARY: Final = 5  # totals of one shape, with the extensions after it
STATISTICS: Final = 6  # sums over instances of a call site, with the extensions after it
# In chunks of messages:
SENT_PART: Final = 7  # a message that the next message call sends
RECEIVED_PART: Final = 8  # a message that the next message call receives
MESSAGE_CALL: Final = 9  # a call that sends, receives or completes messages
MESSAGE_COUNT: Final = 10  # numbers of messages with one peer, in one class of tags
INTERVAL: Final = 11  # the time between two calls
INTERVAL_TIMES: Final = 12  # counters of the next interval
INTERVAL_COUNTS: Final = 13  # more counters of the next interval
INTERVAL_PRESSURE: Final = 14  # pressure on the node, until the end of the next interval
INTERVAL_THREADS: Final = 16  # processor time of other threads in the next interval
POLL: Final = 17  # calls in vain of one loop, from the first one to the call that finds something
LOCAL_CALL: Final = 15  # a call of one rank without messages (operations.LOCAL_OPERATIONS)

OUTSIDE, NTH_START, SENT, RECEIVED, LONGEST_CALL = 1, 2, 3, 4, 5  # codes of an extension's value
EXTENSION_COLUMNS = ("outside", "start", "sent", "received", "longest")  # by code, from 1
STATISTICS_CODES: Final = tuple(range(6, 13))  # codes of the extensions of statistics, in order

START_NS, END_NS = -(1 << 62), 1 << 62  # before and after all times

# Senders of a fatal signal, in the upper byte of a header's `signal`; from SENDER_PARENT on, each
# higher value is one more generation of ancestors.
SENDER_UNIT = 256
SENDER_UNKNOWN, SENDER_ITSELF, SENDER_PARENT, SENDER_ELSEWHERE = 0, 1, 2, 255

# The state of the selector that chose a call's algorithm, by the number in the record.
CHOICES = ("", "observe", "probe", "chosen")


class Problems(list[str]):
    """Problems of a trace, as messages for the user; each message appears once."""

    def add(self, text: str) -> None:
        """Add a message unless it is present; after 100 messages the rest is dropped."""
        if text in self:
            return
        if len(self) < 100:
            self.append(text)
        elif len(self) == 100:
            self.append("more problems like these are not listed")
