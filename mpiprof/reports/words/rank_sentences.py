"""Sentences on one rank: its waiting, its longest wait, and the cause to which the wait leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpiprof.interface.format_units import UNKNOWN, format_share, format_time
from mpiprof.reports.words.message_sentences import name_waits
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

MIN_INSIDE_SHARE = 0.01  # of a wait, below which its cause is called outside of MPI calls


@dataclass(frozen=True)
class WaitLink:
    """One wait of a chain, in ns: who waits for whom, since when after the begin, and where.

    tag: of the awaited message, -1 if the wait is for no message.
    """

    rank: int
    awaited: int
    begin_ns: int
    wait_ns: int
    operation: str
    site: str
    tag: int = -1

    def describe(self) -> str:
        """Return the wait as a sentence."""
        where = f"{self.operation} {locate_label(self.site)}"
        message = f" (tag {self.tag})" if self.tag >= 0 else ""
        return (
            f"Rank {self.rank} waits {format_time(self.wait_ns)} for rank {self.awaited} in "
            f"{where}{message}"
        )


@dataclass(frozen=True)
class WaitChain:
    """A wait of a rank, the waits to which it leads back, and the cause at their end.

    links: the wait itself first. inside_ns: time of the cause in MPI calls during the last link,
    mostly in `operation` at `site` ("" if it was in none).
    """

    links: tuple[WaitLink, ...]
    inside_ns: int = 0
    operation: str = ""
    site: str = ""

    @property
    def cause(self) -> int:
        """Return the rank at the end of the chain, -1 if unknown."""
        return self.links[-1].awaited

    def describe_cause(self) -> str:
        """Return where the cause was during the last wait, as a sentence."""
        span = self.links[-1].wait_ns
        if self.cause < 0:
            return "The awaited rank is unknown."
        outside = f"Rank {self.cause} waits for no other rank meanwhile"
        if self.inside_ns < MIN_INSIDE_SHARE * span:
            return f"{outside}: it is outside of MPI calls."
        share = f"{format_time(self.inside_ns)} of {format_time(span)}"
        where = f"{self.operation} {locate_label(self.site)}"
        return f"{outside}: it is inside MPI calls for {share}, mostly in {where}."


def rank_sentence(trace: Trace, rank: int, times: Mapping[Any, Any] | None) -> str:
    """Return the waiting of a rank in collectives and for messages, as shares of the run.

    times: of the rank, by the columns of the table of ranks, None if it made no call.
    """
    title = f"Rank {rank} of {trace.ranks}"
    if times is None:
        return f"{title}: no call was recorded."
    others = name_waits(trace, rank)
    names = {"collective_wait_ns": "in collectives", "message_wait_ns": others}
    values = {where: times[name] for name, where in names.items()}
    known = {where: float(ns) for where, ns in values.items() if ns is not None and ns == ns}
    if not known:
        return f"{title}: its waiting time is unknown."
    total, whole = sum(known.values()), float(trace.run_ns)
    parts = ", ".join(f"{format_time(ns)} {where}" for where, ns in known.items())
    share = format_share(total / whole) if whole > 0 else UNKNOWN
    waits = f" waits {format_time(total)} of {format_time(whole)} ({share}): {parts}."
    return title + waits
