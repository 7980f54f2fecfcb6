"""Colours of pictures that cannot use CSS variables, from the design tokens and the older palette.

The palette is by Okabe and Ito and safe for colour blindness. It remains for algorithms, of which
there are more than the tokens have colours.
"""

from __future__ import annotations

from mpiprof.interface.svg import BLUE, CYCLE, GREEN, GREY, OLIVE, ORANGE, PINK, RED, SKY
from mpiprof.reports.tokens import get_colour, name_operation_colour

__all__ = [
    "BLUE",
    "CYCLE",
    "GREEN",
    "GREY",
    "MESSAGES",
    "MESSAGE_WAITING",
    "OLIVE",
    "ORANGE",
    "PINK",
    "RED",
    "SKY",
    "WAITING",
    "WORK",
    "operation_colour",
]

WAITING, WORK, MESSAGES, MESSAGE_WAITING = RED, BLUE, SKY, ORANGE


def operation_colour(operation: str, *, dark: bool = False) -> str:
    """Return the colour of an operation, which is the same on all pages and pictures."""
    return get_colour(name_operation_colour(operation), dark=dark)
