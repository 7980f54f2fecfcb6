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
from typing import Literal

import numpy as np

from mpiprof.account.delay_graph import Intervals
from mpiprof.account.delay_library import advance_leads
from mpiprof.account.services import Services, advance_servers, find_services
from mpiprof.metrics.dependences import Dependences
from mpiprof.metrics.time_order import order_by_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int


class Replay:
    """The dependences of a run, for replays with other work."""

    def __init__(self, dependences: Dependences, ranks: int) -> None:
        self.dependences, self.ranks = dependences, ranks
        # The events by rank and time.
        self._order, _ = order_by_time(dependences.rank, dependences.time_ns, ranks)
        self._rank, self._time_ns = (
            of[self._order] for of in (dependences.rank, dependences.time_ns)
        )

    def compute_leads(self, rank: Int, time_ns: Int, removed_ns: Float) -> Float:
        """Return the lead of each rank at the end of the run, in ns.

        removed_ns: work that a rank no longer does, up to a time; negative for more work.
        """
        events = self.dependences
        next_ = _find_positions(self._rank, self._time_ns, rank, time_ns, "left")
        before = next_ < len(self._rank)
        before[before] = self._rank[next_[before]] == rank[before]
        removed = np.bincount(next_[before], removed_ns[before], len(events.rank))
        leads = self._advance_leads(removed.astype(np.float64))
        after = ~before
        return leads + np.bincount(rank[after], removed_ns[after], self.ranks)

    @cached_property
    def services(self) -> Services | None:
        """Return the blocks of ranks that receive from any source, None without any."""
        return find_services(self.dependences, self._order, self.ranks)

    def _advance_leads(self, removed: Float) -> Float:
        """Return the lead of each rank after all events; removed: before each, by rank and time."""
        leads = None if self.services is None else advance_servers(self.services, removed)
        if leads is None:
            events, by_time = self.dependences, np.zeros(len(removed))
            by_time[self._order] = removed
            columns = events.rank, events.dependence, events.gap_ns, by_time
            leads = advance_leads(*columns, events.count, self.ranks)
        return leads

    def find_ends(self, intervals: Intervals) -> Int:
        """Return the end of each interval, or the first time in it at which it is a source.

        An interval between logged calls may contain short calls on messages.
        """
        of_sources = self.dependences.dependence[self._order] >= 0
        rank, time_ns = self._rank[of_sources], self._time_ns[of_sources]
        at = _find_positions(rank, time_ns, intervals.rank, intervals.begin_ns, "right")
        here = np.flatnonzero(at < len(rank))
        here = here[rank[at[here]] == intervals.rank[here]]
        ends = intervals.end_ns.copy()
        ends[here] = np.minimum(ends[here], time_ns[at[here]])
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


def _find_positions(
    rank: Int, time_ns: Int, of_rank: Int, of_ns: Int, side: Literal["left", "right"]
) -> Int:
    """Return where pairs (rank, time) belong among others, which are in order."""
    origin = min(int(time_ns.min(initial=0)), int(of_ns.min(initial=0)))
    latest = max(int(time_ns.max(initial=0)), int(of_ns.max(initial=0)))
    stride = latest - origin + 1
    position = rank * stride + (time_ns - origin)
    return np.searchsorted(position, of_rank * stride + (of_ns - origin), side=side)
