"""Colours that are safe for colour blindness (Okabe and Ito), the same on pages and in reports."""

from __future__ import annotations

from mpiprof.analysis.operations import base_operation
from mpiprof.operations import OPERATIONS
from mpiprof.svg import BLUE, CYCLE, GREEN, GREY, OLIVE, ORANGE, PINK, RED, SKY

__all__ = [
    "BLUE",
    "CYCLE",
    "GREEN",
    "GREY",
    "MESSAGES",
    "OLIVE",
    "ORANGE",
    "PINK",
    "RED",
    "SKY",
    "WAITING",
    "WORK",
    "operation_colour",
]

WAITING, WORK, MESSAGES = RED, BLUE, SKY

# Operations that occur together get colours apart; those that do the same for all ranks share one.
PALETTE = {
    "BLUE": BLUE,
    "GREEN": GREEN,
    "GREY": GREY,
    "OLIVE": OLIVE,
    "ORANGE": ORANGE,
    "PINK": PINK,
    "RED": RED,
    "SKY": SKY,
}


def operation_colour(operation: str) -> str:
    """Return the colour of an operation, the same on all pages and in all pictures."""
    known = OPERATIONS.get(base_operation(operation))
    return PALETTE[known.colour] if known is not None else GREY
