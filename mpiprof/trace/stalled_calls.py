"""Calls of which a rank had no processor for most of the time, as the recorder wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpiprof.trace.validation import check_integer, check_object

# Of operations that may sleep for a file, a launcher or a name server, whatever other calls do.
SLEEPING_PREFIXES = (
    *("file_", "comm_spawn", "comm_connect", "comm_accept", "comm_join", "comm_disconnect"),
    *("open_port", "publish_name", "lookup_name", "unpublish_name", "finalize"),
)


@dataclass(frozen=True)
class StalledCall:
    """A call of one rank; times are on the clock of its node.

    shape: index into Tables.shapes, -1 if unknown. asleep_ns: at least this long, the rank was
    neither running nor ready to run, although its other calls keep the processor. queue_ns: at
    least this long, it was ready to run; -1 if unknown, and then asleep_ns includes such times.
    """

    rank: int
    enter_ns: int
    exit_ns: int
    shape: int
    asleep_ns: int
    queue_ns: int

    @property
    def off_ns(self) -> int:
        """Time off the processor."""
        return self.asleep_ns + max(self.queue_ns, 0)


def parse_stalled_call(rank: int, value: Any) -> StalledCall:
    """Return a call from its line in the tables, with the rank's number of its shape."""
    row = check_object(value)
    enter_ns = check_integer(row["enter_ns"])
    return StalledCall(
        rank,
        enter_ns,
        check_integer(row["exit_ns"], enter_ns),
        check_integer(row["shape"], 0),
        check_integer(row["asleep_ns"], 0),
        check_integer(row["queue_ns"], -1),
    )


def may_sleep(operation: str) -> bool:
    """Return whether a call of an operation may sleep although other calls keep the processor."""
    return operation.startswith(SLEEPING_PREFIXES)
