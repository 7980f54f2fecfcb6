"""Colours that are safe for colour blindness (Okabe and Ito), the same on pages and in reports."""

from __future__ import annotations

from mpiprof.analysis.operations import base_operation
from mpiprof.svg import BLUE, CYCLE, GREEN, GREY, OLIVE, ORANGE, PINK, RED, SKY

__all__ = [
    "BLUE",
    "CYCLE",
    "FAMILIES",
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
FAMILIES = {
    "allreduce": BLUE,
    "alltoall": ORANGE,
    "allgather": GREEN,
    "bcast": PINK,
    "barrier": GREY,
    "reduce": SKY,
    "reduce_scatter": SKY,
    "reduce_scatter_block": SKY,
    "gather": OLIVE,
    "scatter": OLIVE,
    "scan": RED,
    "exscan": RED,
}


def operation_colour(operation: str) -> str:
    """Return the colour of an operation, the same on all pages and in all pictures."""
    base = base_operation(operation).removeprefix("neighbor_")
    return FAMILIES.get(base) or FAMILIES.get(base.rstrip("vw"), GREY)
