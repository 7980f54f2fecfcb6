"""Replay of a run with other work: how much earlier each rank, and so the run, ends.

The recorded run is a max-plus system. A rank that depends on others continues when the last of them
has arrived. If work is removed, a rank has a lead: the time by which it is ahead of its recorded
self. The lead is negative if work is added.

    work of d ns is removed          lead += d
    a dependence ends at T           its lead = min over sources (lead at arrival + T - arrival)
    a rank enters at e, waits for T  lead = min(lead + max(T - e, 0), its lead + max(e - T, 0))

So a removed delay saves nothing while another rank is as late, and a rank that is ahead runs into
dependences that had slack in the recorded run (metrics/dependences.py). The time of transfers and
the order of messages do not change. Dependences of calls that are not logged are unknown, so the
result is an upper bound there.

Cost: one step for each event, in C.
"""

from __future__ import annotations

import numpy as np

from mpiprof.diagnosis.delay_graph import Intervals
from mpiprof.metrics.dependences import Dependences
from mpiprof.model.max_plus import advance_leads
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int


class Replay:
    """The dependences of a run, for replays with other work."""

    def __init__(self, dependences: Dependences, ranks: int) -> None:
        self.dependences, self.ranks = dependences, ranks

    def compute_leads(self, rank: Int, time_ns: Int, removed_ns: Float) -> Float:
        """Return the lead of each rank at the end of the run, in ns.

        removed_ns: work that a rank no longer does, up to a time; negative for more work.
        """
        events, total = self.dependences, np.bincount(rank, removed_ns, self.ranks)
        order = np.lexsort((time_ns, rank))
        ordered = rank[order], time_ns[order]
        edge = _find_positions(*ordered, events.rank, events.time_ns)
        sums = np.concatenate([[0.0], np.cumsum(removed_ns[order])])
        first = sums[np.searchsorted(ordered[0], np.arange(self.ranks))]
        done = sums[edge] - first[events.rank]
        columns = events.rank, events.dependence, events.gap_ns, done
        leads: Float = advance_leads(*columns, events.count, self.ranks) + total
        return leads

    def find_ends(self, intervals: Intervals) -> Int:
        """Return the end of each interval, or the first time in it at which it is a source.

        An interval between logged calls may contain short calls on messages.
        """
        events = self.dependences
        source = np.flatnonzero(events.dependence >= 0)
        source = source[np.lexsort((events.time_ns[source], events.rank[source]))]
        rank, time = events.rank[source], events.time_ns[source]
        at = _find_positions(rank, time, intervals.rank, intervals.begin_ns)
        here = at < len(source)
        at = np.minimum(at, max(len(source) - 1, 0))
        if len(source):
            here &= rank[at] == intervals.rank
            first = np.where(here, time[at], intervals.end_ns)
            return np.minimum(first, intervals.end_ns)
        return intervals.end_ns

    def find_saved_time(self, trace: Trace, rank: Int, time_ns: Int, removed_ns: Float) -> float:
        """Return how much earlier the run ends without some work, in ns."""
        leads = self.compute_leads(rank, time_ns, removed_ns)
        end = np.array([trace.spans.get(rank, (0, 0))[1] for rank in range(self.ranks)])
        return float(end.max() - (end - leads).max())


def make_replay(trace: Trace) -> Replay:
    """Return the replay of a trace."""
    return Replay(trace.derive("dependences"), trace.ranks)


def _find_positions(rank: Int, time_ns: Int, of_rank: Int, until_ns: Int) -> Int:
    """Return the number of pairs (rank, time), in order, up to each other pair, in order."""
    origin = min(int(time_ns.min(initial=0)), int(until_ns.min(initial=0)))
    latest = max(int(time_ns.max(initial=0)), int(until_ns.max(initial=0)))
    stride = latest - origin + 1
    position = rank * stride + (time_ns - origin)
    return np.searchsorted(position, of_rank * stride + (until_ns - origin), side="right")
