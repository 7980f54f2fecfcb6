"""The calls of one rank over all its threads: sorted, and starts matched with completions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.formats.otf2.events import Location
from mpiprof.formats.otf2.library import ATTRIBUTE_BITS, NEVER, UNDEFINED
from mpiprof.trace.types import CALL, COMPLETION, Array, Bool, Int

# Fields that a start and its completion exchange.
EXCHANGED_FIELDS = ("communicator", "root", "sent", "received", "operation")


@dataclass
class RankCalls:
    """Calls in order of entry, and the thread of each call."""

    calls: Array
    thread: Int

    def take(self, chosen: Bool | Int) -> RankCalls:
        """Return the chosen calls; the same object if all are chosen."""
        if chosen.dtype == np.bool_ and bool(chosen.all()):
            return self
        return RankCalls(self.calls[chosen], self.thread[chosen])


def merge_threads(locations: list[Location]) -> RankCalls:
    """Return the calls of all threads of a rank."""
    each = [location.calls for location in locations]
    calls = each[0] if len(each) == 1 else np.concatenate(each)
    thread = np.repeat(np.arange(len(locations)), [len(location.calls) for location in locations])
    if len(calls) > 1 and not bool((calls["enter"][1:] >= calls["enter"][:-1]).all()):
        order = np.argsort(calls["enter"], kind="stable")
        calls, thread = calls[order], thread[order]
    return RankCalls(calls, thread)


def pair_completions(rank_calls: RankCalls, by_thread: bool) -> RankCalls:
    """Exchange the fields of starts and their completions; drop completions without a start.

    by_thread: True if request numbers are per thread.
    """
    calls = rank_calls.calls
    rows = np.flatnonzero(calls["request"] != NEVER)
    if not len(rows):
        return rank_calls
    request = calls["request"][rows].astype(np.uint64)
    thread = rank_calls.thread[rows] if by_thread else np.zeros(len(rows), np.int64)
    order = np.lexsort((rows, request, thread))
    rows, request, thread = rows[order], request[order], thread[order]
    starts = calls["kind"][rows] != COMPLETION
    last = np.maximum.accumulate(np.where(starts, np.arange(len(rows)), -1))
    paired = (last >= 0) & (request[last] == request) & (thread[last] == thread)
    done = ~starts & paired
    start, completion = rows[last[done]], rows[done]
    unknown = calls["communicator"][start] == UNDEFINED
    for name in EXCHANGED_FIELDS:
        calls[name][start[unknown]] = calls[name][completion[unknown]]
        calls[name][completion] = calls[name][start]
    for name in ("region", "site", "sequence", "start"):
        calls[name][completion] = calls[name][start]
    calls["given"][completion] = calls["given"][start]
    calls["request"][completion] = start  # from here on: the row that it completes
    not_dropped = np.ones(len(calls), np.bool_)
    not_dropped[rows[~starts & ~paired]] = False
    moved = np.cumsum(not_dropped) - 1
    calls["request"][completion] = moved[start]
    return rank_calls.take(not_dropped)


def number_calls(rank_calls: RankCalls) -> None:
    """Set the sequence number of each call: the number in the archive, else counted on."""
    calls = rank_calls.calls
    blocking = np.flatnonzero(calls["kind"] == CALL)
    communicator = calls["communicator"][blocking]
    ordered = bool((communicator[1:] >= communicator[:-1]).all())
    order = slice(None) if ordered else np.argsort(communicator, kind="stable")
    rows, communicator = blocking[order], communicator[order]
    if len(rows):
        position = np.arange(len(rows))
        first = np.ones(len(rows), np.bool_)
        first[1:] = communicator[1:] != communicator[:-1]
        recorded = (calls["given"][rows] & ATTRIBUTE_BITS["sequence"]) != 0
        anchor = np.maximum.accumulate(np.where(first | recorded, position, 0))
        base = np.where(recorded, calls["sequence"][rows], 0)
        calls["sequence"][rows] = base[anchor] + (position - anchor)
    done = np.flatnonzero(calls["kind"] == COMPLETION)
    start = calls["request"][done].astype(np.int64)
    calls["sequence"][done] = calls["sequence"][start]
