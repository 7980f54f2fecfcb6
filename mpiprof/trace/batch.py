"""Instances of one communicator as matrices, the result of matching."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mpiprof.trace.metadata import Communicator
from mpiprof.trace.types import Array, Int


@dataclass(frozen=True)
class Before:
    """The record before each call on the same rank: int64 matrices of P ranks x I instances."""

    enter: Int  # ns; all columns but `outside` are -1 without a previous record
    exit: Int  # ns, 0 if that call is open
    shape: Int
    sequence: Int
    outside: Int  # ns in point-to-point and completion calls since then

    def take(self, index: Int) -> Before:
        """Return the columns of the indexed instances, each rank contiguous in memory."""
        return Before(*(take_columns(getattr(self, f.name), index) for f in fields(Before)))


# Columns of trace/rank_arrays.py by field.
BEFORE_COLUMNS = {f.name: f"before_{f.name}" for f in fields(Before)} | {"outside": "outside"}


@dataclass
class Batch:
    """Instances of one communicator: vectors of I instances, matrices of P ranks x I instances."""

    communicator: Communicator
    sequence: Int
    start: Int
    arrival_ns: Int  # entry of the rank
    # Entry and exit of the call that could wait: of a nonblocking or started operation, the
    # completing Wait. The exit is 0 if the call is open or absent.
    begin_ns: Int
    exit_ns: Int
    elapsed_ns: Int  # inside the calls; operations that one Wait completed share its time
    shape: Array  # -1 if the rank is absent
    sent: Int | None  # bytes that replace those of the shape, else -1; None if no call has any
    received: Int | None
    complete: bool  # no rank is absent and no call is open
    before: Before | None = None
    choice: Array | None = None  # index into CHOICES, of members that have left; None if all are 0

    def __len__(self) -> int:
        return len(self.sequence)

    def take(self, index: Int) -> Batch:
        """Return the indexed instances, each rank contiguous in memory as in the whole batch."""
        arrival_ns = take_columns(self.arrival_ns, index)
        return Batch(
            self.communicator,
            self.sequence[index],
            self.start[index],
            arrival_ns,
            arrival_ns if self.begin_ns is self.arrival_ns else take_columns(self.begin_ns, index),
            take_columns(self.exit_ns, index),
            take_columns(self.elapsed_ns, index),
            take_columns(self.shape, index),
            None if self.sent is None else take_columns(self.sent, index),
            None if self.received is None else take_columns(self.received, index),
            self.complete,
            None if self.before is None else self.before.take(index),
            None if self.choice is None else self.choice[index],
        )


def take_columns(values: Array, index: slice | Int) -> Array:
    """Return the indexed instances of a matrix, each rank contiguous; a view for a slice."""
    # An array in values[:, index] would lay the ranks of an instance side by side. That is slow for
    # few ranks, and sums of floats depend on the memory order.
    return values[:, index] if isinstance(index, slice) else np.take(values, index, axis=1)
