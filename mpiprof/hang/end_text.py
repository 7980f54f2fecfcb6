"""Sentences on the end of a job or a rank that did not reach MPI_Finalize."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.hang.exception_text import ended_by_exception
from mpiprof.hang.exit_status import describe_exit
from mpiprof.hang.first_end import read_first_end
from mpiprof.hang.job_end import JobEnd
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.verdict import Verdict
from mpiprof.hang.wait_graph import has_left
from mpiprof.interface.format_units import capitalise, format_ranks, format_time
from mpiprof.reports.site_labels import describe_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

EXCEPTION_STATUS = 1 << 8  # wait status of Python after an exception


def ended_sentences(trace: Trace, verdict: Verdict, waiting: str) -> str:
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
    return f"{how} {after}; no rank had waited unusually long{_longest_wait(trace, end)}."


def _longest_wait(trace: Trace, end: JobEnd) -> str:
    if end.longest is None:
        return ""
    at = locate_label(describe_site(trace, end.longest.site))
    lasted = format_time(float(end.lasted_ns))
    return f" (the longest time in a call was {lasted}, in {end.longest.operation} {at})"


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


def doubt_sentence(trace: Trace, positions: Positions, verdict: Verdict) -> str:
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
