"""Instances of one communicator as matrices: what matching gives."""

from __future__ import annotations

from dataclasses import dataclass

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
