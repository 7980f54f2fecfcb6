"""Sentences on the Python exceptions that ended ranks of a job."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.wait_graph import has_left
from mpiprof.interface.format_units import capitalise, format_ranks
from mpiprof.trace import Trace
from mpiprof.trace.exceptions import ABORT, INTERRUPT, THREAD, RaisedException

MAX_SENTENCES = 2


def raised_sentences(
    trace: Trace, positions: Positions = (), processes: JobProcesses | None = None
) -> str:
    """Return sentences on the exceptions that ended ranks, in order of time; "" without any.

    positions: of all ranks of a job that has not ended in MPI_Finalize.
    """
    groups: dict[tuple[str, str], list[RaisedException]] = {}
    for raised in _list_ending(trace, positions):
        groups.setdefault((raised.how, raised.describe()), []).append(raised)
    sentences = [
        _sentence(group, positions, processes) for group in list(groups.values())[:MAX_SENTENCES]
    ]
    if more := len(groups) - MAX_SENTENCES:
        sentences += [f"There are {more} further exceptions."] if more > 0 else []
    return " ".join(sentences)


def ended_by_exception(trace: Trace, positions: Positions) -> set[int]:
    """Return the ranks that an exception has ended."""
    return {raised.rank for raised in _list_ending(trace, positions) if raised.how != THREAD}


def _list_ending(trace: Trace, positions: Positions) -> list[RaisedException]:
    """Return the exceptions after which a rank or a thread made no further call, by time."""
    listed = [
        (raised.at_ns + trace.clock_of(rank).offset_at(raised.at_ns), raised)
        for rank, exceptions in trace.tables.exceptions.items()
        for raised in exceptions
    ]
    called_ns = {
        position.rank: call.enter_ns
        for position in positions
        if (call := position.current) is not None and call.operation != "finalize"
    }
    # Python prints exceptions also for programs that handle them and continue.
    return [
        raised for at_ns, raised in sorted(listed, key=lambda item: item[0])
        if raised.how == THREAD or called_ns.get(raised.rank, at_ns) <= at_ns
    ]  # fmt: skip


def _sentence(
    group: Sequence[RaisedException], positions: Positions, processes: JobProcesses | None
) -> str:
    raised, ranks = group[0], sorted({raised.rank for raised in group})
    who, has = capitalise(format_ranks(ranks)), "have" if len(ranks) > 1 else "has"
    if raised.how == THREAD:
        threads = "Threads" if len(group) > 1 else "A thread"
        return f"{threads} of {format_ranks(ranks)} raised {raised.describe()} and {has} ended."
    if raised.how == ABORT:
        return f"{who} raised {raised.describe()} and called MPI_Abort."
    alive = processes.alive if processes is not None else {}
    remain = [rank for rank in ranks if alive.get(rank) and not _left(positions, rank)]
    end = (
        f", but {'have' if len(remain) > 1 else 'has'} not ended" if remain else f" and {has} left"
    )
    if raised.type == INTERRUPT:
        was = "were" if len(ranks) > 1 else "was"
        return f"{who} {was} interrupted ({raised.describe()}){end}."
    return f"{who} raised {raised.describe()}{end}."


def _left(positions: Positions, rank: int) -> bool:
    return rank < len(positions) and has_left(positions[rank])
