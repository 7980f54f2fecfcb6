"""One call of one rank, and the key of its instance."""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.trace.metadata import Shape

Key = tuple[int, int, int]  # communicator, sequence number, persistent operation's start (or 0)


@dataclass(frozen=True)
class Call:
    """One call of one rank; exit_ns is 0 if open; sent and received in bytes, -1 if unknown."""

    shape: Shape
    key: Key
    enter_ns: int
    exit_ns: int
    sent: int
    received: int

    @property
    def operation(self) -> str:
        """Operation without MPI_."""
        return self.shape.operation

    @property
    def site(self) -> int:
        """Index into Tables.sites, -1 if unknown."""
        return self.shape.site
