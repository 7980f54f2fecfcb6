"""Exceptions that ended a rank, a thread or a test of it, as the recorder wrote them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mpiprof.trace.sites import format_site, parse_frame, read_type
from mpiprof.trace.validation import check_integer, check_list, check_object, check_text

UNCAUGHT, THREAD, ABORT, TEST, CXX = "uncaught", "thread", "abort", "test", "c++"
INTERRUPT = "KeyboardInterrupt"
MAX_MESSAGE = MAX_TYPE = 200  # characters


@dataclass(frozen=True)
class RaisedException:
    """An exception of one rank.

    at_ns: time on the clock of its node. how: UNCAUGHT, THREAD if no `except` of a thread caught
    it, ABORT if the program handled it and called MPI_Abort, TEST if a test of pytest failed by it,
    or CXX for a C++ exception. message: "" if unknown. frame: the location that raised it, None if
    unknown.
    """

    rank: int
    at_ns: int
    how: str
    type: str
    message: str
    frame: dict[str, Any] | None

    def describe(self) -> str:
        """Return type, message and location: "ValueError (bad shape) at solve.py:88 main"."""
        text = f"{self.type} ({self.message})" if self.message else self.type
        return text if self.frame is None else f"{text} at {format_site(self.frame)}"

    def as_data(self) -> dict[str, Any]:
        """Return the exception in the schema of the JSON output, without its time."""
        frame = self.frame or {"file": None, "line": None, "function": None}
        text = {"type": self.type, "message": self.message}
        return {"rank": self.rank, "how": self.how, **text, **frame}


def parse_exception(rank: int, value: Any) -> RaisedException:
    """Return an exception from its line in the tables; raises ValueError or KeyError."""
    row = check_object(value)
    frames = check_list(row["frames"], parse_frame)
    how, type_name = check_text(row["how"]), check_text(row["type"])[:MAX_TYPE]
    if how == CXX and re.fullmatch(r"[\w$.]+", type_name):
        type_name = read_type(type_name)[:MAX_TYPE]
    return RaisedException(
        rank,
        check_integer(row["at_ns"]),
        how,
        type_name or "an exception",
        check_text(row["message"])[:MAX_MESSAGE].strip(),
        frames[0] if frames and "file" in frames[0] else None,
    )
