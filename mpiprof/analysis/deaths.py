"""Who of the ranks that are gone died first, and of what: the launcher ends the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals


def first_dead(
    left: list[int],
    gone: list[int],
    signals: Mapping[int, int],
    absent: set[int],
    leaving: set[int],
) -> list[int]:
    """Return who died by itself: the launcher, or a person, ends all others by SIGTERM.

    On a busy machine it may kill one before that could note anything: then those that others waited
    for. Nothing tells where all were ended alike. Who is in MPI_Finalize notes no signal any more:
    where all are gone, that it has none tells nothing.
    """
    fatal = [rank for rank in gone if signals.get(rank, Signals.SIGTERM) != Signals.SIGTERM]
    if fatal:
        return fatal
    silent = [rank for rank in gone if rank not in signals]
    if len(silent) == len(left):
        return []
    if len(gone) == len(left):
        silent = [rank for rank in silent if rank not in leaving]
    return [rank for rank in silent if rank in absent] or silent


def _name(signal: int) -> str:
    try:
        return Signals(signal).name if signal else ""
    except ValueError:  # of a damaged log
        return ""


def names(dead: Sequence[int], signals: Mapping[int, int]) -> str:
    """Return of which signals ranks died; "" where that is not known of all."""
    names = dict.fromkeys(_name(signals.get(rank, 0)) for rank in dead)
    return "" if "" in names else " and ".join(names)
