"""The call that a thread is in, from the header of its live window."""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.facts.operations import call_class
from mpiprof.trace.layout import CALL_CLASSES, Layout
from mpiprof.trace.types import Array

BETWEEN_POLLS = 2  # value of `polling` (core/record/poll.h)


@dataclass(frozen=True)
class CurrentFunction:
    """The call that a thread is in: its class as in operations.call_class, and its operation.

    operation: "" in older logs. since_ns: begin on the node's clock, 0 if it is unknown.
    polled_ns: if the thread is between two calls of a poll, when the last one had returned, on the
    node's clock; else 0. Then since_ns is the begin of the poll.
    """

    call_class: str
    operation: str = ""
    since_ns: int = 0
    polled_ns: int = 0


def find_function(layout: Layout, head: Array) -> CurrentFunction | None:
    """Return the call that the header of a live window names, None outside MPI."""
    fields = head.dtype.names or ()
    if {"function", "since_ns"} <= set(fields):
        number = int(head["function"])
        if not 0 < number <= len(layout.operations):
            return None
        operation = layout.operations[number - 1]
        is_between = "polling" in fields and int(head["polling"]) == BETWEEN_POLLS
        polled_ns = int(head["polled_ns"]) if is_between else 0
        return CurrentFunction(call_class(operation), operation, int(head["since_ns"]), polled_ns)
    number = min(int(head["inside"]), len(CALL_CLASSES)) if "inside" in fields else 0
    return CurrentFunction(CALL_CLASSES[number - 1]) if number else None
