"""Instances of one communicator as matrices, the result of matching."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mpiprof.trace.metadata import Communicator
from mpiprof.trace.types import Array, Int


@dataclass(frozen=True)
class Before:
    """The record before each call on the same rank: int64 matrices of P ranks x I instances.

    enter, exit: ns, -1 without a previous record; exit is 0 if that call is open.
    shape, sequence: of the previous record, -1 without one.
    outside: ns in point-to-point and completion calls since then.
    """

    enter: Int
    exit: Int
    shape: Int
    sequence: Int
    outside: Int

    def take(self, index: Int) -> Before:
        """Return the columns of the indexed instances, each rank contiguous in memory."""
        return Before(*(_take_columns(getattr(self, f.name), index) for f in fields(Before)))


BEFORE_COLUMNS = {  # fields of Before to columns of trace/rank_arrays.py
    "enter": "before_enter",
    "exit": "before_exit",
    "shape": "before_shape",
    "sequence": "before_sequence",
    "outside": "outside",
}


@dataclass
class Batch:
    """Instances of one communicator: vectors of I instances, matrices of P ranks x I instances.

    arrival: entry time of the rank.
    begin, finish: entry and exit of the call that could wait, which for nonblocking and started
      operations is the completing Wait; finish is 0 if the call is open or absent.
    elapsed: ns inside the calls; operations that one Wait completed share its time.
    shape: -1 if the rank is absent.
    sent, received: bytes that replace those of the shape, -1 elsewhere; None if no call has any.
    choice: indices into CHOICES, from the members that have left the call; None if all are 0.
    """

    communicator: Communicator
    sequence: Int
    start: Int
    arrival_ns: Int
    begin_ns: Int
    exit_ns: Int
    elapsed_ns: Int
    shape: Array
    sent: Int | None
    received: Int | None
    complete: bool  # no rank is absent and no call is open
    before: Before | None = None
    choice: Array | None = None

    def __len__(self) -> int:
        return len(self.sequence)

    def take(self, index: Int) -> Batch:
        """Return the indexed instances, each rank contiguous in memory as in the whole batch."""
        arrival_ns = _take_columns(self.arrival_ns, index)
        return Batch(
            self.communicator,
            self.sequence[index],
            self.start[index],
            arrival_ns,
            arrival_ns if self.begin_ns is self.arrival_ns else _take_columns(self.begin_ns, index),
            _take_columns(self.exit_ns, index),
            _take_columns(self.elapsed_ns, index),
            _take_columns(self.shape, index),
            None if self.sent is None else _take_columns(self.sent, index),
            None if self.received is None else _take_columns(self.received, index),
            self.complete,
            None if self.before is None else self.before.take(index),
            None if self.choice is None else self.choice[index],
        )


def _take_columns(values: Array, index: Int) -> Array:
    # values[:, index] would lay the ranks of an instance side by side. That is slow for few ranks,
    # and sums of floats depend on the memory order.
    return np.take(values, index, axis=1)
