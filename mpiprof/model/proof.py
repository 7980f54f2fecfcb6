"""Result of the verification of a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.errors import MpiprofError


class BrokenScheduleError(MpiprofError):
    """Raised for a schedule that violates its operation; names rank, round and range."""


@dataclass(frozen=True)
class Proof:
    """Cost of a proved schedule. All values are maxima over the ranks, without tokens.

    - rounds: rounds with messages. ordered: reductions preserve the order of operands.
    - conflicts: rounds in which a rank sends or receives several messages at once.
    - span, volume: time of the last end if every message takes time 1 (also tokens), or its bytes.
    Span and volume assume full-duplex ports that serve one message at a time, in the order of the
    proof. They are an algorithm's cost before alpha and beta.
    """

    rounds: int
    messages: int
    sent: int
    received: int
    conflicts: int
    ordered: bool
    span: int
    volume: int
