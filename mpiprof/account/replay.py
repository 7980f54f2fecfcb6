"""Replay of a run with other work: how much earlier each rank, and so the run, ends.

The recorded run is a max-plus system. A rank that depends on others continues when the last of them
has arrived. If work is removed, a rank has a lead: the time by which it is ahead of its recorded
self. The lead is negative if work is added.

    work of d ns is removed          lead += d
    a dependence ends at T           its lead = min over sources (lead at arrival + T - arrival)
    a rank enters at e, waits for T  lead = min(lead + max(T - e, 0), its lead + max(e - T, 0))

So a removed delay saves nothing while another rank is as late, and a rank that is ahead runs into
dependences that had slack in the recorded run (metrics/dependences.py). The time of transfers and
the order of messages do not change, except that a rank receives from any source in the order in
which the messages arrive (services.py). Dependences of calls that are not logged are unknown, so
the result is an upper bound there.

Cost: one step for each event, in C.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mpiprof.account.delay_graph import Intervals
from mpiprof.account.services import Services, advance_servers, find_services
from mpiprof.interface.analysis_library import call_library
from mpiprof.metrics.dependences import Dependences
from mpiprof.metrics.time_order import count_first_rows, find_places, order_by_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int


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
        rank, dependence, gap_ns = (np.ascontiguousarray(*of) for of in values)
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

    def find_ends(self, intervals: Intervals) -> Int:
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
