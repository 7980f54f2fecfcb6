"""First failure: the ranks that died first and their signals. The launcher ends the other ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals

from mpiprof.hang.first_end import FirstEnd
from mpiprof.hang.rank_state import Instances, Positions
from mpiprof.hang.wait_graph import build_wait_graph, has_left, waits_for_messages
from mpiprof.trace.types import SENDER_ELSEWHERE, SENDER_ITSELF, SENDER_PARENT, SENDER_UNKNOWN


@dataclass(frozen=True)
class FatalSignals:
    """Signals that ended ranks, and who sent them (SENDER_* of trace.types), by rank."""

    numbers: Mapping[int, int]
    senders: Mapping[int, int] = field(default_factory=dict)
    first_end: FirstEnd | None = None  # if a process beside the launcher saw it
    ended_together: bool = False  # the launcher ended all ranks before any had ended

    @property
    def came_from_launcher(self) -> bool:
        """True if the launcher ended a rank by SIGTERM."""
        terminated = [rank for rank, number in self.numbers.items() if number == Signals.SIGTERM]
        senders = [self.senders.get(rank, SENDER_UNKNOWN) for rank in terminated]
        return any(SENDER_PARENT <= sender < SENDER_ELSEWHERE for sender in senders)

    def sent_to_one_rank(self, unfinished: Collection[int]) -> list[int]:
        """Return the ranks that received SIGTERM from another sender than the launcher.

        The launcher is the nearest ancestor of the ranks that has sent the signal. The result is
        empty if all unfinished ranks received the signal from elsewhere.
        """
        ended = [rank for rank, number in self.numbers.items() if number == Signals.SIGTERM]
        senders = {rank: self.senders.get(rank, SENDER_UNKNOWN) for rank in ended}
        ancestors = [s for s in senders.values() if SENDER_PARENT <= s < SENDER_ELSEWHERE]
        launcher = min(ancestors) if len(ended) > 1 and ancestors else SENDER_PARENT
        ranks = [rank for rank, s in senders.items() if s not in (SENDER_UNKNOWN, launcher)]
        return ranks if len(ranks) < len(unfinished) or len(unfinished) == 1 else []


def find_first_dead(
    unfinished: list[int],
    terminated: list[int],
    fatal_signals: FatalSignals,
    positions: Positions,
    pending: Instances,
) -> tuple[list[int], list[int]]:
    """Return the ranks that died by themselves, and the ranks that possibly did.

    The launcher or a user ends the other ranks by SIGTERM. On a busy machine SIGKILL may follow
    before a rank can record the signal, so ranks without a signal record are judged by their waits.
    """
    signals = fatal_signals.numbers
    fatal = [rank for rank in terminated if signals.get(rank, Signals.SIGTERM) != Signals.SIGTERM]
    if fatal:
        return fatal, []
    silent = [rank for rank in terminated if rank not in signals]
    if single := _find_single(unfinished, terminated, fatal_signals, positions, pending):
        return single, []
    if len(silent) == len(unfinished) or fatal_signals.ended_together:
        return [], []
    if len(terminated) == len(unfinished) and any(positions[rank].unlogged for rank in silent):
        return [], silent  # wait dependences are unknown
    if len(terminated) == len(unfinished):  # a rank in MPI_Finalize records no signals
        silent = [rank for rank in silent if not has_left(positions[rank])]
    # A rank that waited for a message, or for a rank that was ended too, may have been ended.
    awaited, ended = build_wait_graph(positions, pending), {*signals, *silent}
    perhaps = [
        rank for rank in silent
        if awaited.get(rank, set()) & ended or (signals and waits_for_messages(positions[rank]))
    ]  # fmt: skip
    absent = _find_awaited(positions, pending)
    silent = [rank for rank in silent if rank not in perhaps]
    # A rank for which another rank waited died by itself.
    return [rank for rank in silent if rank in absent] or silent, perhaps


def _find_awaited(positions: Positions, pending: Instances) -> set[int]:
    """Return the ranks that other ranks wait for, or that are missing in pending instances."""
    awaited = build_wait_graph(positions, pending).values()
    return {rank for instance in pending for rank in instance.missing}.union(*awaited)


def _find_single(
    unfinished: list[int],
    terminated: list[int],
    fatal_signals: FatalSignals,
    positions: Positions,
    pending: Instances,
) -> list[int]:
    """Return the ranks that SIGTERM or SIGKILL ended before the launcher ended other ranks."""
    single = fatal_signals.sent_to_one_rank(unfinished)
    absent = _find_awaited(positions, pending)
    first = fatal_signals.first_end
    if not single and first and not first.is_interrupted and (first.sure or first.rank in absent):
        single = [r for r in terminated if r == first.rank and r not in fatal_signals.numbers]
    if len(terminated) < len(unfinished):
        return single
    # A user may have ended all ranks, one after the other, because they waited for another rank.
    by_themselves = {r for r in single if fatal_signals.senders.get(r) == SENDER_ITSELF}
    return [rank for rank in single if rank in by_themselves or rank in absent or not absent]


def _signal_name(signal: int) -> str:
    try:
        return Signals(signal).name if signal else ""
    except ValueError:  # from a damaged log
        return ""


def signal_names(dead: Sequence[int], signals: Mapping[int, int]) -> str:
    """Return the names of the signals that ended ranks; "" if the signal of a rank is unknown."""
    names = dict.fromkeys(_signal_name(signals.get(rank, 0)) for rank in dead)
    return "" if "" in names else " and ".join(names)
