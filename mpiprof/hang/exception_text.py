"""Sentences on the exceptions that ended ranks of a job, their threads, or tests of pytest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.wait_graph import has_left
from mpiprof.interface.format_units import capitalise, format_ranks
from mpiprof.trace import Trace
from mpiprof.trace.exceptions import ABORT, INTERRUPT, TEST, THREAD, RaisedException

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
    ending = _list_ending(trace, positions)
    return {raised.rank for raised in ending if raised.how not in (THREAD, TEST)}


def _list_ending(trace: Trace, positions: Positions) -> list[RaisedException]:
    """Return the exceptions after which a rank or a thread made no further call, by time.

    In addition, return the first one by which a test failed, but not on all ranks.
    """
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
    listed.sort(key=lambda item: item[0])
    test = _first_test([raised for _, raised in listed if raised.how == TEST], trace.ranks)
    return [
        raised
        for at_ns, raised in listed
        if _is_ending(raised, test, called_ns.get(raised.rank, at_ns) <= at_ns)
    ]


def _is_ending(raised: RaisedException, test: str | None, made_no_call: bool) -> bool:
    if raised.how == TEST:
        return _describe_source(raised) == test
    # Python prints exceptions also for programs that handle them and continue.
    return raised.how == THREAD or made_no_call


def _first_test(failures: Sequence[RaisedException], ranks: int) -> str | None:
    """Return the source of the first failure that not all ranks have, or None."""
    failed: dict[str, set[int]] = {}
    for raised in failures:
        failed.setdefault(_describe_source(raised), set()).add(raised.rank)
    return next((source for source, members in failed.items() if len(members) < ranks), None)


def _describe_source(raised: RaisedException) -> str:
    """Return type and location, without the message, which may differ between ranks."""
    return replace(raised, message="").describe()


def _sentence(
    group: Sequence[RaisedException], positions: Positions, processes: JobProcesses | None
) -> str:
    raised, ranks = group[0], sorted({raised.rank for raised in group})
    who, has = capitalise(format_ranks(ranks)), "have" if len(ranks) > 1 else "has"
    if raised.how == THREAD:
        threads = "Threads" if len(group) > 1 else "A thread"
        return f"{threads} of {format_ranks(ranks)} raised {raised.describe()} and {has} ended."
    if raised.how == TEST:
        return f"A test failed on {format_ranks(ranks)}: {raised.describe()}."
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
