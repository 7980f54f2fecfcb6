"""Processor time of the threads of a process by name, as the recorder read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpiprof.trace.validation import check_integer, check_list, check_object, check_text


@dataclass(frozen=True)
class NamedThreads:
    """Threads of a process with the same name: their number and their times so far.

    ns: on a processor. queue_ns: ready to run, 0 in traces of earlier versions.
    """

    name: str
    count: int
    ns: int
    queue_ns: int = 0


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


def find_stretches(threads: Mapping[int, Sequence[NamedThreads]]) -> dict[int, float]:
    """Return the time in which a rank's threads run or are ready to run, per processor time."""
    stretches = {}
    for rank, groups in threads.items():
        processor_ns = sum(group.ns for group in groups)
        if processor_ns:
            stretches[rank] = 1 + sum(group.queue_ns for group in groups) / processor_ns
    return stretches


def _parse_named(value: Any) -> NamedThreads:
    row = check_object(value)
    count = check_integer(row["count"], 1)
    times = (check_integer(row["ns"], 0), check_integer(row.get("queue_ns", 0), 0))
    return NamedThreads(check_text(row["name"]), count, *times)
