"""End of a job that did not reach MPI_Finalize: its time, its signals, and the waits at that time.

A wait is evidence of a hang only if it lasted. The time of the end is known if a rank recorded a
signal or called MPI_Abort, or if a process beside the launcher saw the first end. SIGKILL to all
ranks leaves no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.first_end import read_first_end
from mpiprof.hang.rank_state import Positions
from mpiprof.trace import Trace
from mpiprof.trace.log import LogFile
from mpiprof.trace.metadata import Call


@dataclass(frozen=True)
class JobEnd:
    """How a job ended before MPI_Finalize.

    after_ns: since the start of the run, None if unknown. signals: names. longest: the open call
    that had lasted longest, None if no rank was in a call.
    """

    after_ns: int | None
    signals: str = ""
    longest: Call | MessageWait | None = None
    lasted_ns: int = 0


def find_end_ns(trace: Trace) -> int | None:
    """Return the last known time at which ranks ended, on the trace's clock; None if unknown."""
    return max(
        (ns + trace.clock_of(rank).offset_at(ns) for rank, ns in _list_ends(trace)), default=None
    )


def _list_ends(trace: Trace) -> Iterator[tuple[int, int]]:
    """Yield the known ends, as a rank and a time on the clock of its node."""
    for log, rank in _list_logs(trace).items():
        if (signal := log.read_signal()) is not None:
            yield rank, signal[0]
    for rank, end in trace.tables.ends.items():
        if end["reason"] == "abort":
            yield rank, end["at_ns"]
    first = read_first_end(trace.path)
    if first is not None and first.at_ns is not None:
        yield first.rank, first.at_ns


def has_ended_together(trace: Trace) -> bool:
    """Return whether the launcher ended all ranks of a node while no rank had ended.

    It has waited for a rank that ended first before it ends the others.
    """
    ranks_of_node = Counter(trace.node_ids.values())
    for log, rank in _list_logs(trace).items():
        signal = log.read_signal()
        if signal is not None and signal[1] >= ranks_of_node[trace.node_ids.get(rank, "?")] > 1:
            return True
    return False


def _list_logs(trace: Trace) -> dict[LogFile, int]:
    """Return the logs of a trace, each with one of its ranks."""
    return {chunks[0].log: rank for (rank, _), chunks in trace.logs.threads.items() if chunks}


def describe_end(trace: Trace, positions: Positions, end_ns: int | None, signals: str) -> JobEnd:
    """Return how a job ended."""
    if end_ns is None:
        return JobEnd(None, signals)
    unfinished = [position for position in positions if not position.finished]
    calls: list[Call | MessageWait] = []
    for position in unfinished:
        calls += [*position.open, *position.waits, *position.local_calls]
    longest = min(calls, key=lambda call: call.enter_ns, default=None)
    lasted_ns = 0 if longest is None else max(end_ns - longest.enter_ns, 0)
    return JobEnd(end_ns - int(trace.run_start_ns), signals, longest, lasted_ns)
