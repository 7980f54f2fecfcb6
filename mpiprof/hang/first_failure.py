"""First failure: the ranks that died first and their signals. The launcher ends the other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals

from mpiprof.hang.rank_state import Instances, Positions
from mpiprof.hang.wait_graph import build_wait_graph, has_left, waits_for_messages


def find_first_dead(
    unfinished: list[int],
    terminated: list[int],
    signals: Mapping[int, int],
    positions: Positions,
    pending: Instances,
) -> tuple[list[int], list[int]]:
    """Return the ranks that died by themselves, and the ranks that possibly did.

    The launcher or a user ends the other ranks by SIGTERM. On a busy machine SIGKILL may follow
    before a rank can record the signal, so ranks without a signal record are judged by their waits.
    """
    fatal = [rank for rank in terminated if signals.get(rank, Signals.SIGTERM) != Signals.SIGTERM]
    if fatal:
        return fatal, []
    silent = [rank for rank in terminated if rank not in signals]
    if len(silent) == len(unfinished):
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
    absent = {rank for instance in pending for rank in instance.missing}.union(*awaited.values())
    silent = [rank for rank in silent if rank not in perhaps]
    # A rank for which another rank waited died by itself.
    return [rank for rank in silent if rank in absent] or silent, perhaps


def _signal_name(signal: int) -> str:
    try:
        return Signals(signal).name if signal else ""
    except ValueError:  # from a damaged log
        return ""


def signal_names(dead: Sequence[int], signals: Mapping[int, int]) -> str:
    """Return the names of the signals that ended ranks; "" if the signal of a rank is unknown."""
    names = dict.fromkeys(_signal_name(signals.get(rank, 0)) for rank in dead)
    return "" if "" in names else " and ".join(names)
