"""Names for the array types that travel between the modules, and the kinds of a record."""

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
START: Final = 2  # MPI_Start of a persistent collective
COMPLETION: Final = 3  # the Wait or Test call that completed a nonblocking or started one
EXTENSION: Final = 4  # a value too wide for the record that follows it
SUMMARY: Final = 5  # totals of one shape, of traces recorded without events
STATISTICS: Final = 6  # sums over instances of a call site, with the extensions after it

OUTSIDE, NTH_START, SENT, RECEIVED, LONGEST = 1, 2, 3, 4, 5  # what an extension holds
STATISTICAL: Final = (6, 7, 8, 9, 10, 11, 12)  # those of statistics, in their order

# The state of the selector that chose what a call ran on, by the number in the record.
CHOICES = ("", "observe", "probe", "hold")


class Problems(list[str]):
    """What is wrong with a trace, in lines for people; the same line is kept once."""

    def note(self, text: str) -> None:
        """Add one line unless it stands there already; past 100 lines the rest is only counted."""
        if text in self:
            return
        if len(self) < 100:
            self.append(text)
        elif len(self) == 100:
            self.append("more problems like these are not listed")
