"""Verdict on a job, the facts about a job from which it is derived, and the end of a job.

A wait is evidence of a hang only if it lasted. The time of the end is known if a rank recorded a
signal or called MPI_Abort, or if a process beside the launcher saw the first end. SIGKILL to all
ranks leaves no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mpiprof.account.disagreement import Disagreement
from mpiprof.hang.blocking_calls import MessageWait
from mpiprof.hang.first_divergence import Divergence
from mpiprof.hang.first_end import read_first_end
from mpiprof.hang.first_failure import FatalSignals
from mpiprof.hang.hang_threshold import (
    HangThreshold,
    has_reported_hang,
    make_ended_threshold,
    select_lasting,
)
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Instances, Pending, Positions
from mpiprof.hang.wait_graph import Link, has_waiting_rank
from mpiprof.trace import Trace
from mpiprof.trace.log import LogFile
from mpiprof.trace.metadata import Call
from mpiprof.trace.types import SENDER_ITSELF


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


@dataclass(frozen=True)
class HangVerdict:
    """Verdict on a job: its class in `status --json`, the ranks concerned, and the reason."""

    kind: str
    odd_ranks: tuple[int, ...] = ()
    sites: tuple[int, ...] = ()  # call sites concerned
    disagreement: Disagreement | None = None
    divergence: Divergence | None = None
    cycle: tuple[Link, ...] = ()  # in the wait-for graph
    chain: tuple[Link, ...] = ()  # in the wait-for graph, from a waiting rank to the odd ranks
    waits: tuple[Link, ...] = ()  # of ranks that wait for dead or finished ranks, direct first
    pending: Pending | None = None  # the waiting instance
    ended: bool = False  # no process of the job is left, and some did not end in MPI_Finalize
    all_finished: bool = False  # although the calls of some were wrong
    # The subclass: finished, busy, files, still, stopped, abort, unwritten, unlogged, resting,
    # threads, a class of MPI calls or names of signals.
    reason: str = ""
    without_end_note: tuple[int, ...] = ()  # ranks that died or were ended by the launcher
    end: JobEnd | None = None  # of a job without a sign of a fault before its end
    may_still_arrive: tuple[int, ...] = ()  # in a cycle, ranks with a thread that may still arrive
    # Processes from which the verdict was derived, so that `status` reports the same moment.
    processes: JobProcesses | None = field(default=None, compare=False)
    further: tuple[
        HangVerdict, ...
    ] = ()  # on instances that wait for ranks unrelated to this verdict

    @property
    def is_bad(self) -> bool:
        """Return whether there is or may be a fault."""
        return self.kind != "none"


NO_FAULT = HangVerdict("none")


class Job:
    """The job to judge."""

    def __init__(
        self,
        trace: Trace,
        positions: Positions,
        pending: Instances,
        processes: JobProcesses,
        threshold: HangThreshold,
    ) -> None:
        self.trace, self.positions, self.processes = trace, positions, processes
        # Ranks that did not end in MPI_Finalize. `gone`: those of them without a process.
        self.left = [p.rank for p in positions if not p.finished and p.rank not in processes.ended]
        # The positions of some ranks are unknown, so no pending instance is evidence.
        self.blind = bool(self.left) and any(position.is_unknown for position in positions)
        self.pending = [] if self.blind else pending
        noted = trace.logs.signals | processes.signals
        self.signals = {rank: noted[rank] for rank in self.left if noted.get(rank)}
        self.gone = [r for r in self.left if r in self.signals or processes.alive.get(r) is False]
        self.aborted = sorted(r for r, e in trace.tables.ends.items() if e["reason"] == "abort")
        everyone = len(self.gone) == len(self.left)
        self.ended = bool(self.left) and (bool(self.aborted) or everyone)
        self.hang_was_reported = has_reported_hang(trace.path)
        self.fatal_signals = self._find_fatal_signals()
        # Time until which open calls lasted, None if it is unknown.
        self.until_ns = find_end_ns(trace) if self.ended else processes.now_ns
        self.threshold = make_ended_threshold(positions) if self.ended else threshold

    def _find_fatal_signals(self) -> FatalSignals:
        """Return the signals of ranks, with evidence of the rank that ended first."""
        senders = self.trace.logs.senders | self.processes.senders
        if not self.ended or not self.hang_was_reported:
            first_end, together = read_first_end(self.trace.path), has_ended_together(self.trace)
            return FatalSignals(self.signals, senders, first_end, together)
        # After the report, the agent (`--on-hang abort`) or a user ends the ranks one by one.
        by_themselves = {rank: s for rank, s in senders.items() if s == SENDER_ITSELF}
        return FatalSignals(self.signals, by_themselves)

    @cached_property
    def long(self) -> Instances:
        """The instances that have long blocked ranks."""
        if self.ended and self.hang_was_reported:
            return [p for p in self.pending if has_waiting_rank(p, self.positions)]
        return select_lasting(self.positions, self.pending, self.until_ns, self.threshold)

    def is_lasting(self, since_ns: int) -> bool:
        """Return whether a wait since some time has lasted so long that it hangs or is slow."""
        if self.ended and self.hang_was_reported:
            return True
        return self.until_ns is not None and self.until_ns - since_ns >= self.threshold.ns

    def sites(self, ranks: Sequence[int], instance: Pending | None) -> tuple[int, ...]:
        """Return the current or last call sites of ranks, and where other ranks wait."""
        communicator = None if instance is None else instance.communicator
        last_calls = [self.positions[rank].last_seen(communicator) for rank in ranks]
        calls = [call.site for call in last_calls if call is not None][:4]
        return tuple(dict.fromkeys([*calls, *([] if instance is None else instance.sites)]))

    def verdict(
        self, kind: str, ranks: Sequence[int], instance: Pending | None = None, reason: str = ""
    ) -> HangVerdict:
        """Return the verdict that names some ranks."""
        sites = self.sites(ranks, instance)
        return HangVerdict(
            kind, tuple(ranks), sites, pending=instance, ended=self.ended, reason=reason
        )

    def gone_verdict(self, ranks: Sequence[int], reason: str = "") -> HangVerdict:
        """Return the verdict that ranks died, and the instance that waits for them."""
        instance = next((p for p in self.pending if set(p.missing) & set(ranks)), None)
        return self.verdict("dead", ranks, instance, reason)

    def undecided(self, near: Sequence[int], instance: Pending, reason: str = "") -> HangVerdict:
        """Return a verdict without odd ranks, with the call sites of some ranks."""
        return replace(self.verdict("undecided", near, instance, reason), odd_ranks=())

    def describe_outside(self, ranks: Sequence[int]) -> tuple[str, list[int], str]:
        """Return class, ranks and subclass of the verdict on ranks outside MPI, by what they do."""
        for reason, active in (("files", self.processes.in_files), ("busy", self.processes.busy)):
            if named := [rank for rank in ranks if rank in active]:
                return "stalled", named, reason
        idle = set(ranks)
        stopped = "stopped" if idle <= self.processes.stopped else ""
        return "missing", list(ranks), stopped or ("still" if idle <= self.processes.still else "")
