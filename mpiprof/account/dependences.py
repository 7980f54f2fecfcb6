"""Dependences between ranks in collectives and messages, also without waiting.

A dependence ends when the last of its sources has arrived: the members of a collective that enter
it, or the ranks that post a message. Then the ranks that depend on it can continue. The rules are
those of wait_states.py and message_waits.py. A rank that came later than the end had slack, which
a change of the run may use up.

Outside of the windows in which every call on messages is recorded, only long calls have messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.account.message_waits import EAGER, Postings
from mpiprof.account.wait_states import Group, ProgressWaits, find_progress_waits
from mpiprof.facts.operations import WaitRule
from mpiprof.trace.messages import ANY_SOURCE
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

WAIT_COLUMNS = ("rank", "awaited", "begin_ns", "until_ns")  # of `Trace.message_waits`


@dataclass(frozen=True)
class Dependences:
    """Events of dependences in order of time: a source arrives, or a rank can continue.

    Per event: rank (world), time_ns, dependence and gap_ns. At a source, `dependence` is its number
    and `gap_ns` the time until the dependence ends. At a rank that continues, `dependence` is
    -1 - the number, and `gap_ns` is the end of the dependence minus the rank's entry: its wait if
    positive, else its slack. count: number of dependences. from_any: of each dependence, whether it
    is a message that a call receives from any source. callsites: callsite of collectives and first
    number of each range of dependences that share it, ascending; -1 for those without.
    """

    rank: Int
    time_ns: Int
    dependence: Int
    gap_ns: Int
    count: int
    from_any: Bool
    callsites: Int

    def are_at(self, callsites: Sequence[int]) -> Bool:
        """Return which events are of collectives at some call sites."""
        number = np.where(self.dependence < 0, -1 - self.dependence, self.dependence)
        sites, first = self.callsites
        return np.isin(sites[np.searchsorted(first, number, "right") - 1], callsites)

    def take(self, chosen: Bool) -> Dependences:
        """Return some of the events."""
        return replace(
            self,
            rank=self.rank[chosen],
            time_ns=self.time_ns[chosen],
            dependence=self.dependence[chosen],
            gap_ns=self.gap_ns[chosen],
        )


def find_dependences(trace: Trace) -> Dependences:
    """Return the dependences in the complete instances and the logged messages of a trace."""
    collector = DependenceCollector()
    metrics = InstanceMetrics(trace)
    metrics.callsites.update(trace.aggregate[1])
    least_ns = max(trace.clock_error_ns, 1_000)
    for batch in trace.batches():
        for signature, index in metrics.group_by_signature(batch):
            if signature.state is None or not signature.is_whole or len(batch.arrival_ns) < 2:
                continue
            arrival, begin, finish = take_complete(batch, signature, index)
            if signature.group.rule is WaitRule.UNSPECIFIED:
                met = finish.min(0) >= arrival.max(0)
                arrival, begin, finish = arrival[:, met], begin[:, met], finish[:, met]
            ranks, group = batch.communicator.ranks, signature.group
            collector.begin_callsite(signature.callsite)
            for sources, waiting in _find_row_sets(group):
                times = arrival[sources], begin[waiting]
                collector.add_instances(ranks[sources], ranks[waiting], *times)
            is_blocking = batch.begin_ns is batch.arrival_ns
            progress_waits = find_progress_waits(
                arrival, begin, finish, group, least_ns, is_blocking=is_blocking
            )
            collector.add_progress_waits(ranks, progress_waits)
    collector.begin_callsite(-1)
    postings, index = _take_postings(trace)
    collector.add_messages(postings, index)
    collector.add_tests(trace, postings)
    one_sided: pd.DataFrame = trace.derive("one_sided_waits")
    collector.add_waits(*(one_sided[name].to_numpy() for name in WAIT_COLUMNS))
    return collector.join()


def _take_postings(trace: Trace) -> tuple[Postings, Int]:
    """Return the postings of a trace, and the index of messages for which calls may wait."""
    postings: Postings = trace.derive("postings")
    index = np.flatnonzero(postings.is_timed)
    if isinstance(trace, TraceWindow):
        messages = postings.messages
        index = index[trace.covers(messages.enter_ns[messages.rows["call"][index]])]
    return postings, index


def _find_row_sets(group: Group) -> Iterator[tuple[Int, Int]]:
    """Yield sets of rows that are awaited, and the rows that wait for all of these."""
    size = sum(group.sizes)
    if group.through is not None:
        reached = group.through.latest_awaited(np.eye(size, dtype=np.int8)) > 0
        sets, number = np.unique(reached, axis=0, return_inverse=True)
        for i, awaited in enumerate(sets):
            yield np.flatnonzero(awaited), np.flatnonzero(number.ravel() == i)
        return
    for rows, first, last in group.spans:
        waiting = np.arange(size)[rows]
        for end in np.unique(last):
            yield np.arange(first, end + 1), waiting[last == end]


class DependenceCollector:
    """Collects the events of dependences."""

    def __init__(self) -> None:
        self.events: list[list[Int]] = []  # rank, time, dependence, gap
        self.count = 0
        self.from_any: list[Int] = []  # numbers of dependences
        self.callsites = [(-1, 0)]  # callsite and first number of each range

    def begin_callsite(self, callsite: int) -> None:
        """Count the following dependences for a call site of collectives, -1 for none."""
        self.callsites.append((callsite, self.count))

    def add_instances(self, sources: Int, waiting: Int, arrival_ns: Int, begin_ns: Int) -> None:
        """Add one dependence per instance; times are ranks x instances."""
        instances = arrival_ns.shape[1]
        if not instances or not (len(sources) > 1 or (waiting != sources).any()):
            return
        # The events of an instance follow each other, so they are nearly in order of time.
        arrival, begin = arrival_ns.T.ravel(), begin_ns.T.ravel()
        end = arrival_ns.max(0)
        number = self.count + np.arange(instances)
        ends = np.repeat(end, len(sources))
        ranks = np.tile(sources, instances)
        self._add(ranks, arrival, np.repeat(number, len(sources)), ends - arrival)
        ends = np.repeat(end, len(waiting))
        ranks, number = np.tile(waiting, instances), np.repeat(-1 - number, len(waiting))
        self._add(ranks, np.maximum(begin, ends), number, ends - begin)
        self.count += instances

    def add_progress_waits(self, ranks: Int, waits: ProgressWaits) -> None:
        """Add one dependence per wait; ranks: of the rows."""
        times = waits.begin_ns, waits.until_ns
        self.add_waits(ranks[waits.row], ranks[waits.awaited], *times)

    def add_waits(self, rank: Int, awaited: Int, begin_ns: Int, until_ns: Int) -> None:
        """Add one dependence per wait of a rank for another one."""
        number = self.count + np.arange(len(rank))
        self._add(awaited, until_ns, number, np.zeros_like(number))
        self._add(rank, until_ns, -1 - number, until_ns - begin_ns)
        self.count += len(number)

    def add_messages(self, postings: Postings, index: Int) -> None:
        """Add one dependence per call that depends on messages; index: of these messages.

        A send that need not wait for its receiver depends on it only if it did wait.
        """
        messages, waits = postings.messages, postings.waits
        rows, state = messages.rows[index], postings.state[index]
        call = rows["call"]
        begins = messages.enter_ns.copy()
        begins[waits["call"]] = np.minimum(begins[waits["call"]], waits["begin_ns"])
        enter = begins[call]
        # A rank leaves the call later, so a dependence on its next call is later as well.
        arrived = np.minimum(postings.posted_ns[index], messages.exit_ns[call] - 1)
        depends = np.flatnonzero((state != EAGER) | (arrived > enter))
        rows, arrived, enter, call = rows[depends], arrived[depends], enter[depends], call[depends]
        first = np.flatnonzero(np.diff(call, prepend=-1))
        count = np.diff(first, append=len(call))
        number = np.repeat(np.arange(len(first)), count)
        end = np.maximum.reduceat(arrived, first) if len(first) else arrived
        self._add(messages.get_peers(rows), arrived, self.count + number, end[number] - arrived)
        rank, enter = messages.rank[call[first]], enter[first]
        continues = -1 - self.count - np.arange(len(first))
        self._add(rank, np.maximum(enter, end), continues, end - enter)
        is_from_any = (rows["flags"][first] & ANY_SOURCE > 0) & (count == 1)
        self.from_any.append(self.count + np.flatnonzero(is_from_any))
        self.count += len(first)

    def add_tests(self, trace: Trace, postings: Postings) -> None:
        """Add one dependence per wait in tests whose message completes in a short call."""
        waits = postings.waits
        chosen = ~postings.is_timed[waits["message"]]
        if isinstance(trace, TraceWindow):
            chosen &= trace.covers(waits["begin_ns"])
        self.add_waits(*(waits[name][chosen] for name in WAIT_COLUMNS))

    def join(self) -> Dependences:
        """Return everything collected, in order of time; sources precede ranks that continue."""
        empty = [np.zeros(0, np.int64)] * 4
        parts = zip(empty, *self.events, strict=True)
        rank, time, dependence, gap = (np.concatenate(part) for part in parts)
        order = np.argsort(2 * time + (dependence < 0), kind="stable")
        from_any = np.zeros(self.count, np.bool_)
        from_any[np.concatenate([np.zeros(0, np.int64), *self.from_any])] = True
        columns = rank[order], time[order], dependence[order], gap[order]
        callsites = np.array(self.callsites, np.int64).T
        return Dependences(*columns, self.count, from_any, callsites)

    def _add(self, *columns: Int) -> None:
        self.events.append(list(columns))
