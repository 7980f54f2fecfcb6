"""Colours that are safe for colour blindness (Okabe and Ito), shared by pages and reports."""

from __future__ import annotations

from functools import cache

from mpiprof.interface import svg
from mpiprof.interface.svg import BLUE, CYCLE, GREEN, GREY, OLIVE, ORANGE, PINK, RED, SKY
from mpiprof.operations import MESSAGE_OPERATIONS, OPERATIONS, base_operation

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

OTHER = "#4c5158"  # calls that create communicators, windows and files
# Operations that occur together get distinct colours. Variants of one operation get shades of one
# colour: the share of white, or of black if negative.
SHADES = (0.0, 0.45, -0.35, 0.65, -0.6, 0.25)


def operation_colour(operation: str) -> str:
    """Return the colour of an operation, which is the same on all pages and pictures."""
    if operation in MESSAGE_OPERATIONS:
        return MESSAGES
    return _operation_colours().get(base_operation(operation), OTHER)


@cache
def _operation_colours() -> dict[str, str]:
    shades = {operation.colour: iter(SHADES) for operation in OPERATIONS.values()}
    return {
        name: _shade_colour(getattr(svg, operation.colour), next(shades[operation.colour]))
        for name, operation in OPERATIONS.items()
    }


def _shade_colour(colour: str, part: float) -> str:
    target = 255 if part > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (target - c) * abs(part)):02x}" for c in parts)
