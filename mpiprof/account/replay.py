"""Replay of a run with other work: how much earlier each rank, and so the run, ends.

The recorded run is a max-plus system. A rank that depends on others continues when the last of them
has arrived. If work is removed, a rank has a lead: the time by which it is ahead of its recorded
self. The lead is negative if work is added.

    work of d ns is removed          lead += d
    a dependence ends at T           its lead = min over sources (lead at arrival + T - arrival)
    a rank enters at e, waits for T  lead = min(lead + max(T - e, 0), its lead + max(e - T, 0))

So a removed delay saves nothing while another rank is as late, and a rank that is ahead runs into
dependences that had slack in the recorded run (account/dependences.py). The time of transfers and
the order of messages do not change, except at servers. Dependences of calls that are not logged are
unknown, so the result is an upper bound there.

A server receives messages from any source in the order in which they arrive:

    clients 1 and 2   work | send to 0 | ── wait ── | recv of 0 | work with the lock | send to 0
    server 0          recv from any (1) | send to 1 | recv of 1 | recv from any (2) | send to 2 ...

Without some work of a client, its requests arrive earlier, and the server serves them earlier. So
the server's events for a message are a block (core/python_api/services.h), and consecutive blocks
change their order with the arrivals of their messages. A block with messages of several ranks, or
in a collective, keeps its place.

Cost: one step for each event, in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.dependences import Dependences
from mpiprof.account.row_order import count_first_rows, find_places, order_by_time
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

# Fields of the structs in C, in their order.
EVENTS = {
    "ranks": int,
    "first": np.int64,
    "rank": np.int32,
    "dependence": np.int64,
    **dict.fromkeys(("time_ns", "gap_ns"), np.float64),
    "other": np.int64,
    "is_from_any": np.uint8,
}
BLOCKS = {
    **dict.fromkeys(("begin", "end", "stretch", "stretch_end"), np.int64),
    **dict.fromkeys(("entry_ns", "arrival_ns"), np.float64),
    **dict.fromkeys(("beginning", "served"), np.int64),
}
STEP = np.dtype([("time_ns", "f8"), *((name, "i8") for name in ("kind", "rank", "version"))])
STATE = {
    "leads": np.float64,
    **dict.fromkeys(("at", "until", "stretch", "position", "version", "is_choosing"), np.int64),
    **dict.fromkeys(("begin_ns", "ends"), np.float64),
    **dict.fromkeys(("missing", "waiting", "next_waiting"), np.int64),
    "arrivals": np.float64,
    **dict.fromkeys(("queue", "queued"), np.int64),
    "steps": STEP,
    "count": np.int64,
}
NONE = -1  # no event, block or rank


class Replay:
    """The dependences of a run, for replays with other work."""

    def __init__(self, dependences: Dependences, ranks: int) -> None:
        self.dependences, self.ranks = dependences, ranks
        # The events by rank and time, and where each rank begins.
        self._order, self._first = order_by_time(dependences.rank, dependences.time_ns, ranks)
        self._time_ns = dependences.time_ns[self._order]

    def compute_leads(self, rank: Int, time_ns: Int, removed_ns: Float) -> Float:
        """Return the lead of each rank at the end of the run, in ns.

        removed_ns: work that a rank no longer does, up to a time; negative for more work.
        """
        next_ = find_places(self._first, self._time_ns, rank, time_ns)
        before = next_ < self._first[rank + 1]
        leads = self._advance_leads(next_[before], removed_ns[before])
        after = ~before
        return leads + np.bincount(rank[after], removed_ns[after], self.ranks)

    @cached_property
    def services(self) -> Services | None:
        """Return the blocks of ranks that receive from any source, None without any."""
        return find_services(self.dependences, self._order, self.ranks)

    @cached_property
    def _sources(self) -> tuple[Int, Int]:
        """First source of each rank and their number, and the times of all sources by rank."""
        sources = self._order[self.dependences.dependence[self._order] >= 0]
        first = count_first_rows(self.dependences.rank[sources], self.ranks)
        return first, self.dependences.time_ns[sources]

    @cached_property
    def _columns(self) -> tuple[Array, Int, Float]:
        """Rank, dependence and gap of each event, as the C code requires."""
        events = self.dependences
        values = (events.rank, np.int32), (events.dependence, np.int64), (events.gap_ns, float)
        rank, dependence, gap_ns = (np.ascontiguousarray(*column) for column in values)
        return rank, dependence, gap_ns

    def _advance_leads(self, next_: Int, removed_ns: Float) -> Float:
        """Return the lead of each rank after all events.

        next_: of each removal, the next event of its rank, by rank and time.
        """
        events, leads = len(self._order), None
        if self.services is not None:
            by_rank = np.bincount(next_, removed_ns, events).astype(np.float64)
            leads = advance_servers(self.services, by_rank)
        if leads is None:
            removed = np.bincount(self._order[next_], removed_ns, events).astype(np.float64)
            ends, leads = np.full(self.dependences.count, np.inf), np.zeros(self.ranks)
            call_library("replay_advance", events, *self._columns, removed, ends, leads)
        return leads

    def find_ends(self, intervals: WorkIntervals) -> Int:
        """Return the end of each interval, or the first time in it at which it is a source.

        An interval between logged calls may contain short calls on messages.
        """
        first, time_ns = self._sources
        at = find_places(first, time_ns, intervals.rank, intervals.begin_ns, after=True)
        has_source = at < first[intervals.rank + 1]
        ends = intervals.end_ns.copy()
        ends[has_source] = np.minimum(ends[has_source], time_ns[at[has_source]])
        return ends

    def find_saved_times(
        self, trace: Trace, rank: Int, time_ns: Int, removed_ns: Float
    ) -> tuple[float, float]:
        """Return how much earlier the run ends without some work, and the sum for all ranks."""
        leads = self.compute_leads(rank, time_ns, removed_ns)
        end = np.array([trace.spans.get(rank, (0, 0))[1] for rank in range(self.ranks)])
        return float(end.max() - (end - leads).max()), float(leads.sum())


def make_replay(trace: Trace) -> Replay:
    """Return the replay of a trace."""
    return Replay(trace.derive("dependences"), trace.ranks)


@dataclass(frozen=True)
class Services:
    """Events of a run by rank and time, and the blocks of servers.

    first: of each rank, and the number of events. missing: number of sources of each dependence.
    """

    events: Struct
    blocks: Struct
    first: Int
    missing: Int
    block_count: int


def find_services(dependences: Dependences, order: Int, ranks: int) -> Services | None:
    """Return the blocks of servers, None without any; order: of the events, by rank and time."""
    if not dependences.from_any.any():
        return None
    rank, time_ns, dependence, gap_ns = (
        getattr(dependences, name)[order] for name in ("rank", "time_ns", "dependence", "gap_ns")
    )
    count = len(rank)
    is_source = dependence >= 0
    number = np.where(is_source, dependence, -1 - dependence)
    missing = np.bincount(number[is_source], minlength=dependences.count)
    other_ends = _find_other_ends(number, is_source, dependences.count)
    first = np.searchsorted(rank, np.arange(ranks + 1))
    values = {"ranks": ranks, "first": first, "rank": rank, "dependence": dependence}
    values |= {"time_ns": time_ns - time_ns.min(), "gap_ns": gap_ns, "other": other_ends}
    values |= {"is_from_any": dependences.from_any[number] & ~is_source & (other_ends >= 0)}
    events = Struct(EVENTS, values)
    max_blocks = int(values["is_from_any"].sum())
    of_blocks: dict[str, Any] = {name: np.full(max_blocks, NONE) for name in list(BLOCKS)[:6]}
    of_blocks |= {name: np.full(count, NONE) for name in ("beginning", "served")}
    blocks, block_counts = Struct(BLOCKS, of_blocks), np.zeros(1, np.int64)
    call_library("service_blocks_find", events, blocks, block_counts)
    block_count = int(block_counts[0])
    return Services(events, blocks, first, missing, block_count) if block_count else None


def advance_servers(services: Services, removed_ns: Float) -> Float | None:
    """Return the lead of each rank after all events, None if they wait for each other.

    removed_ns: work that is removed before each event.
    """
    first, ranks, blocks = services.first, len(services.first) - 1, services.block_count
    dependences = len(services.missing)
    leads, count = np.zeros(ranks), np.zeros(2, np.int64)
    names = ("position", "version", "is_choosing", "begin_ns")
    values: dict[str, Any] = {name: np.zeros(ranks) for name in names}
    values |= {"leads": leads, "at": first[:-1].copy(), "until": first[:-1].copy()}
    values |= {"stretch": np.full(ranks, NONE), "next_waiting": np.full(ranks, NONE)}
    values |= {"ends": np.full(dependences, np.inf), "missing": services.missing.copy()}
    values |= {"waiting": np.full(dependences, NONE), "arrivals": np.zeros(blocks)}
    values |= {"queue": np.zeros(blocks), "queued": np.zeros(blocks), "count": count}
    state = Struct(STATE, values | {"steps": np.zeros(blocks + 2 * ranks, STEP)})
    call_library("replay_services", services.events, services.blocks, state, removed_ns)
    return leads if count[1] == first[-1] else None


def _find_other_ends(number: Int, is_source: Int, dependences: int) -> Int:
    """Return the event at the other end of each message between two ranks, else NONE.

    number: of the dependence of each event.
    """
    ends = np.full((2, dependences), NONE)
    counts = np.zeros((2, dependences), np.int64)
    for side in (0, 1):
        events = np.flatnonzero(is_source == side)
        ends[side, number[events]] = events
        counts[side] = np.bincount(number[events], minlength=dependences)
    is_message = (counts == 1).all(0)
    other_ends = np.where(is_source, ends[0, number], ends[1, number])
    return np.where(is_message[number], other_ends, NONE)
