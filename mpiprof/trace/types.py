"""Array types that modules exchange, and the kinds of a record."""

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
START: Final = 2  # the Wait or Test call that completed a nonblocking or started operation
COMPLETION: Final = 3  # a value too wide for the record that follows it
EXTENSION: Final = 4  # totals of one shape, in traces recorded without events
SUMMARY: Final = 5  # sums over instances of a call site, with the extensions after it
STATISTICS: Final = 6  # sums over instances of a call site, with the extensions after it

OUTSIDE, NTH_START, SENT, RECEIVED, LONGEST_CALL = 1, 2, 3, 4, 5  # codes of an extension's value
STATISTICS_COUNT: Final = (
    6,
    7,
    8,
    9,
    10,
    11,
    12,
)  # codes of the extensions of statistics, in order

# The state of the selector that chose a call's algorithm, by the number in the record.
CHOICES = ("", "observe", "probe", "hold")


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
