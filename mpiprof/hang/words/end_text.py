"""Sentences on the end of a job or a rank, and on the exceptions that ended ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from signal import Signals

from mpiprof.hang.first_end import read_first_end
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.verdict import HangVerdict, JobEnd
from mpiprof.hang.wait_graph import has_left
from mpiprof.interface.format_units import capitalise, format_ranks, format_time
from mpiprof.reports.site_labels import describe_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.exceptions import ABORT, INTERRUPT, TEST, THREAD, RaisedException
from mpiprof.trace.sites import locate_label

EXCEPTION_STATUS = 1 << 8  # wait status of Python after an exception
MAX_SENTENCES = 2


def ended_sentences(trace: Trace, verdict: HangVerdict, waiting: str) -> str:
    """Return sentences on a job that ended without a known dead rank.

    waiting: sentences on the ranks that were waiting, if the duration of their wait is unknown.
    """
    if trace.record == "summary":
        unknown = "calls are not logged, so that where its ranks were is not known"
        return f"The job ended before MPI_Finalize; {unknown}."
    end = verdict.end
    if end is None or (end.after_ns is None and end.signals):
        return (
            "The job ended before MPI_Finalize; the last calls of its ranks do not show the reason."
        )
    if end.after_ns is None:
        unknown = "no rank recorded a signal, as after SIGKILL, so the time of the end is unknown"
        duration = " The duration of this wait is unknown." if waiting else ""
        return (
            f"The job ended before MPI_Finalize; {unknown}.{' ' * bool(waiting)}{waiting}{duration}"
        )
    after = f"after {format_time(float(end.after_ns))}, before MPI_Finalize"
    how = f"{end.signals} ended the job" if end.signals else "The job ended"
    return f"{how} {after}; no rank was waiting unusually long then{_longest_wait(trace, end)}."


def _longest_wait(trace: Trace, end: JobEnd) -> str:
    if end.longest is None:
        return ""
    at = locate_label(describe_site(trace, end.longest.site))
    lasted = format_time(float(end.lasted_ns))
    return f" (the longest call had lasted {lasted}: {end.longest.operation} {at})"


def exception_sentence(trace: Trace, positions: Positions, ranks: Sequence[int]) -> str:
    """Return a sentence on a Python exception that may have ended ranks, "" in other programs."""
    if set(ranks) & ended_by_exception(trace, positions):
        return ""  # the verdict names the exception
    # mpi4py calls MPI_Finalize at exit, also after an exception.
    status = _find_exit_status(trace, ranks)
    if status is not None and status != EXCEPTION_STATUS:
        return ""
    calls = [positions[rank].current for rank in ranks]
    files = [str(site_as_data(trace, call.site)["file"]) for call in calls if call is not None]
    if not any(file.endswith(".py") or file.startswith("at exit") for file in files):
        return ""
    has_finalized = [has_left(positions[rank]) for rank in ranks]
    if all(has_finalized) and not any(file.startswith("at exit") for file in files):
        return ""  # the program has called MPI_Finalize itself
    whose = "their" if len(ranks) > 1 else "its"
    return f" A Python exception may be the reason: look at {whose} standard error."


def doubt_sentence(trace: Trace, positions: Positions, verdict: HangVerdict) -> str:
    """Return a sentence about the ranks that may have died unnoticed, or "" if there are none."""
    if not verdict.without_end_note:
        return ""
    ranks = verdict.without_end_note
    noted = leaving_sentence(trace, ranks, f" of {format_ranks(ranks)}")
    return noted + exception_sentence(trace, positions, ranks)


def leaving_sentence(trace: Trace, ranks: Sequence[int], of: str) -> str:
    """Return a sentence on how ranks without a recorded signal ended."""
    if (status := _find_exit_status(trace, ranks)) is not None:
        return f" {capitalise(format_ranks(ranks))} {describe_exit(status)}."
    pronoun = "they" if len(ranks) > 1 else "it"
    return f" No signal is noted{of}: {pronoun} left by an exit or SIGKILL, perhaps the launcher's."


def _find_exit_status(trace: Trace, ranks: Sequence[int]) -> int | None:
    """Return the wait status of a rank that ended first, None for other ranks."""
    first = read_first_end(trace.path)
    return first.status if first is not None and list(ranks) == [first.rank] else None


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
        _exception_sentence(group, positions, processes)
        for group in list(groups.values())[:MAX_SENTENCES]
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


def _exception_sentence(
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


def describe_exit(status: int) -> str:
    """Return how a process ended, as a verb with its complement: "exited with code 3"."""
    if os.WIFEXITED(status):
        return f"exited with code {os.WEXITSTATUS(status)}"
    try:
        return f"was ended by {Signals(os.WTERMSIG(status)).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {os.WTERMSIG(status)}"
