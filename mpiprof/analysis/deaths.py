"""Who of the ranks that are gone died first, and of what: the launcher ends the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals

from mpiprof.analysis.positions import Pending, Position
from mpiprof.analysis.waiting import leaves, waits_for_messages, whom


def first_dead(
    left: list[int],
    gone: list[int],
    signals: Mapping[int, int],
    positions: Sequence[Position],
    pending: Sequence[Pending],
) -> tuple[list[int], list[int]]:
    """Return who died by itself, and who may have: the launcher, or a person, ends all others.

    By SIGTERM; on a busy machine by SIGKILL before one could note anything. So may who waited for a
    rank that was ended, too, or for a message: it only may have died. Of the others that note
    nothing those died that others waited for. Nothing tells where all were ended alike. Who is in
    MPI_Finalize notes no signal any more: where all are gone, that it has none tells nothing. Nor
    does it where calls are not logged, so that who waited for whom is not known.
    """
    fatal = [rank for rank in gone if signals.get(rank, Signals.SIGTERM) != Signals.SIGTERM]
    if fatal:
        return fatal, []
    silent = [rank for rank in gone if rank not in signals]
    if len(silent) == len(left):
        return [], []
    if len(gone) == len(left) and any(positions[rank].unlogged for rank in silent):
        return [], silent
    if len(gone) == len(left):
        silent = [rank for rank in silent if not leaves(positions[rank])]
    awaited, ended = whom(positions, pending), {*signals, *silent}
    perhaps = [
        rank for rank in silent
        if awaited.get(rank, set()) & ended or (signals and waits_for_messages(positions[rank]))
    ]  # fmt: skip
    absent = {rank for one in pending for rank in one.missing}.union(*awaited.values())
    silent = [rank for rank in silent if rank not in perhaps]
    return [rank for rank in silent if rank in absent] or silent, perhaps


def _name(signal: int) -> str:
    try:
        return Signals(signal).name if signal else ""
    except ValueError:  # of a damaged log
        return ""


def names(dead: Sequence[int], signals: Mapping[int, int]) -> str:
    """Return of which signals ranks died; "" where that is not known of all."""
    names = dict.fromkeys(_name(signals.get(rank, 0)) for rank in dead)
    return "" if "" in names else " and ".join(names)
