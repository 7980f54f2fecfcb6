"""Instances of one communicator as matrices: what matching gives."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mpiprof.trace.described import Communicator
from mpiprof.trace.types import Array, Int


@dataclass(frozen=True)
class Before:
    """What each rank recorded before it called: matrices of P ranks x I instances, int64.

    enter, exit: ns, -1 none and exit 0 while open; shape and sequence of that record, -1 none;
    outside: ns in point-to-point and completion calls since then.
    """

    enter: Int
    exit: Int
    shape: Int
    sequence: Int
    outside: Int

    def take(self, index: Int) -> Before:
        """Return those of some instances, rank by rank."""
        return Before(**{f.name: _taken(getattr(self, f.name), index) for f in fields(Before)})


BEFORE = {  # from fields of Before to columns of blocks
    "enter": "before_enter",
    "exit": "before_exit",
    "shape": "before_shape",
    "sequence": "before_sequence",
    "outside": "outside",
}


@dataclass
class Batch:
    """Instances of one communicator: vectors of I instances, matrices of P ranks x I instances.

    arrival: when the rank called; begin, finish: when the call that could wait (for nonblocking
    and started operations the completing Wait) was entered and left, finish 0 while open or
    absent; elapsed: ns inside, calls that one Wait completed share its time; shape: -1 where the
    rank is absent; sent, received: bytes that replace the shape's, -1 elsewhere, or None;
    choice: a vector of indices into CHOICES, of the members that have left, or None: all 0.
    """

    communicator: Communicator
    sequence: Int
    start: Int
    arrival: Int
    begin: Int
    finish: Int
    elapsed: Int
    shape: Array
    sent: Int | None
    received: Int | None
    whole: bool  # no rank is absent and nothing is open
    before: Before | None = None
    choice: Array | None = None

    def __len__(self) -> int:
        return len(self.sequence)

    def take(self, index: Int) -> Batch:
        """Return some instances, rank by rank as all of them lie."""
        arrival = _taken(self.arrival, index)
        return Batch(
            self.communicator,
            self.sequence[index],
            self.start[index],
            arrival,
            arrival if self.begin is self.arrival else _taken(self.begin, index),
            _taken(self.finish, index),
            _taken(self.elapsed, index),
            _taken(self.shape, index),
            None if self.sent is None else _taken(self.sent, index),
            None if self.received is None else _taken(self.received, index),
            self.whole,
            None if self.before is None else self.before.take(index),
            None if self.choice is None else self.choice[index],
        )


def _taken(values: Array, index: Int) -> Array:
    # An index would give the ranks of an instance side by side: slow where ranks are few, and sums
    # of floats depend on it.
    return np.take(values, index, axis=1)
