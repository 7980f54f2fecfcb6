"""Processor time of the threads of a process by name, as the recorder read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.trace.validation import check_integer, check_list, check_object, check_text


@dataclass(frozen=True)
class NamedThreads:
    """Threads of a process with the same name: their number and their processor time so far."""

    name: str
    count: int
    ns: int


def parse_threads(value: Any) -> list[NamedThreads]:
    """Return the threads of a line in the tables."""
    threads: list[NamedThreads] = check_list(check_object(value)["names"], _parse_named)
    return threads


def join_threads(
    before: Sequence[NamedThreads], after: Sequence[NamedThreads]
) -> list[NamedThreads]:
    """Return the threads of two readings, the longest processor time first.

    A later reading lacks the threads that have ended since then, so the largest time counts.
    """
    joined: dict[str, NamedThreads] = {}
    for named in sorted([*before, *after], key=lambda named: -named.ns):
        joined.setdefault(named.name, named)
    return list(joined.values())


def _parse_named(value: Any) -> NamedThreads:
    row = check_object(value)
    count = check_integer(row["count"], 1)
    return NamedThreads(check_text(row["name"]), count, check_integer(row["ns"], 0))
