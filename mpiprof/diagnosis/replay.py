"""Replay of a run with less work: how much earlier each rank, and so the run, ends.

The recorded run is a max-plus system. A rank that waited continues when the awaited rank arrives;
all members leave a synchronising collective after the last one has arrived. If work is removed, a
rank has a lead: the time by which it is ahead of its recorded self.

    work of d ns is removed        lead += d
    rank r waits w ns for rank s   lead of r = min(lead of r + w, lead of s)
    all members of a group meet    lead = T - max over members of (arrival - lead)

T is the recorded time of the last arrival. So a removed delay saves nothing while another rank is
as late. The time of transfers does not change. Dependences are unknown in messages for which no
rank waited noticeably, so the result is an upper bound there.

Cost: one step for each wait for a message, and O(ranks) for each meeting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.delay_graph import Intervals, Waits
from mpiprof.trace.types import Float, Int

CHUNK_EVENTS = 1 << 12


@dataclass(frozen=True)
class Meetings:
    """Times at which the members of a communicator met: time_ns and communicator (index).

    members: world ranks by communicator.
    """

    time_ns: Int
    communicator: Int
    members: dict[int, Int]


class Replay:
    """The events of a run in order of time."""

    def __init__(self, waits: Waits, group_communicator: Int, meetings: Meetings, ranks: int):
        """Prepare the events.

        group_communicator: communicator of the meeting at which a group of waits ends, else -1.
        """
        self.waits, self.meetings, self.ranks = waits, meetings, ranks
        order = np.argsort(waits.group, kind="stable")
        self.member = order
        counts = np.bincount(waits.group, minlength=len(waits.awaited))
        self.first = np.concatenate([[0], np.cumsum(counts)])
        self.group_of_meeting = _match_groups(waits, group_communicator, meetings)
        alone = np.flatnonzero(group_communicator < 0)
        times = np.concatenate([waits.until_ns[alone], meetings.time_ns])
        numbers = np.concatenate([alone, -1 - np.arange(len(meetings.time_ns))])
        in_time = np.argsort(times, kind="stable")
        self.events, self.times = numbers[in_time], times[in_time]

    def compute_leads(self, intervals: Intervals, removed_ns: Float) -> Float:
        """Return the lead of each rank at the end of the run, in ns.

        removed_ns: work that is removed from each interval, before anybody waits for it.
        """
        end_ns = self._first_waits(intervals)
        removal = _Removal(intervals.rank, end_ns, removed_ns, self.ranks)
        shift = np.zeros(self.ranks)  # lead beyond the removed work: negative after new waits
        for begin in range(0, len(self.events), CHUNK_EVENTS):
            events = self.events[begin : begin + CHUNK_EVENTS]
            removed = removal.until(self.times[begin : begin + CHUNK_EVENTS])
            for number, done in zip(events.tolist(), removed, strict=True):
                if number >= 0:
                    self._wait(number, shift, done)
                else:
                    self._meet(-1 - number, shift, done)
        return shift + removal.total

    def _first_waits(self, intervals: Intervals) -> Int:
        """Return the end of each interval, or the first time in it at which a wait for it ends.

        An interval between recorded calls may contain short calls on messages.
        """
        waits = self.waits
        origin = min(int(waits.until_ns.min(initial=0)), int(intervals.begin_ns.min(initial=0)))
        latest = max(int(waits.until_ns.max(initial=0)), int(intervals.end_ns.max(initial=0)))
        stride = latest - origin + 1
        order = np.lexsort((waits.until_ns, waits.awaited))
        position = waits.awaited[order] * stride + (waits.until_ns[order] - origin)
        begin = intervals.rank * stride + (intervals.begin_ns - origin)
        at = np.searchsorted(position, begin, side="right")
        inside = at < len(order)
        first = np.full(len(begin), np.iinfo(np.int64).max)
        group = order[at[inside]]
        same_rank = waits.awaited[group] == intervals.rank[inside]
        first[inside] = np.where(same_rank, waits.until_ns[group], first[inside])
        earliest: Int = np.minimum(first, intervals.end_ns)
        return earliest

    def _wait(self, group: int, shift: Float, removed: Float) -> None:
        """Let the members of a group wait for the awaited rank."""
        waits = self.waits
        awaited = waits.awaited[group]
        lead = shift[awaited] + removed[awaited]
        for member in self.member[self.first[group] : self.first[group + 1]].tolist():
            rank = waits.rank[member]
            wait = waits.end_ns[member] - waits.begin_ns[member]
            shift[rank] = min(shift[rank] + wait, lead - removed[rank])

    def _meet(self, number: int, shift: Float, removed: Float) -> None:
        """Let the members of a communicator meet."""
        meetings, waits = self.meetings, self.waits
        ranks = meetings.members[int(meetings.communicator[number])]
        early = np.zeros(self.ranks)  # wait of each rank in the recorded run
        group = self.group_of_meeting[number]
        if group >= 0:
            member = self.member[self.first[group] : self.first[group + 1]]
            early[waits.rank[member]] = waits.end_ns[member] - waits.begin_ns[member]
        lead = (shift[ranks] + removed[ranks] + early[ranks]).min()
        shift[ranks] = lead - removed[ranks]


class _Removal:
    """Work removed from each rank up to a time."""

    def __init__(self, rank: Int, end_ns: Int, removed_ns: Float, ranks: int) -> None:
        used = np.flatnonzero(removed_ns > 0)
        used = used[np.argsort(end_ns[used], kind="stable")]
        self.rank, self.end_ns = rank[used], end_ns[used]
        self.removed_ns = removed_ns[used]
        self.ranks = ranks
        self.total = np.bincount(self.rank, self.removed_ns, ranks).astype(np.float64)
        self.done = np.zeros(ranks)
        self.position = 0

    def until(self, times: Int) -> Float:
        """Return times x ranks; the times must ascend from call to call."""
        edges = np.searchsorted(self.end_ns, times, side="right")
        result = np.empty((len(times), self.ranks))
        for row, edge in enumerate(edges.tolist()):
            if edge > self.position:
                new = slice(self.position, edge)
                np.add.at(self.done, self.rank[new], self.removed_ns[new])
                self.position = edge
            result[row] = self.done
        return result


def _match_groups(waits: Waits, group_communicator: Int, meetings: Meetings) -> Int:
    """Return the group of waits that ends at each meeting, or -1."""
    groups = np.flatnonzero(group_communicator >= 0)
    keys = {
        (int(communicator), int(time)): int(group)
        for group, communicator, time in zip(
            groups, group_communicator[groups], waits.until_ns[groups], strict=True
        )
    }
    pairs = zip(meetings.communicator.tolist(), meetings.time_ns.tolist(), strict=True)
    return np.array([keys.get(pair, -1) for pair in pairs], np.int64)
