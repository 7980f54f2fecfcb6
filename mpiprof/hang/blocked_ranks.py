"""Ranks that wait for each other in collectives and in message calls, and the ranks they wait for.

A thread continues when all its needs are met. A need is met by any of its ranks: a collective has a
need for each missing rank, a receive from any source has one need with all possible senders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mpiprof.hang.blocking_calls import MessageNeed, MessageNeeds, find_other_messages
from mpiprof.hang.rank_state import Instances, Pending, Positions
from mpiprof.hang.verdict import Job
from mpiprof.hang.wait_graph import Link, awaited_missing, has_left, open_calls
from mpiprof.trace import Trace
from mpiprof.trace.message_counts import Unreceived
from mpiprof.trace.metadata import Key

Needs = Sequence[Sequence[Link]]  # of one thread; a need is met by any of its links
Conditions = Mapping[int, Sequence[Needs]]  # of the threads of each waiting rank


@dataclass(frozen=True)
class MessageLink(Link):
    """An edge of the wait-for graph: a rank in a message call, and a rank that it waits for.

    others: unreceived messages of that rank that differ from the awaited one in one respect.
    """

    need: MessageNeed
    others: tuple[Unreceived, ...] = ()


def find_conditions(
    trace: Trace, positions: Positions, pending: Instances, long: set[Key], messages: MessageNeeds
) -> dict[int, list[Needs]]:
    """Return the needs of all threads of the ranks that wait with each of their threads."""
    by_key = {instance.key: instance for instance in pending}
    conditions: dict[int, list[Needs]] = {}
    for position in positions:
        # A thread outside all calls may still act, so its rank does not wait.
        if position.free or position.may_send or has_left(position):
            continue
        threads: list[Needs] = []
        for call in position.open:
            instance = by_key.get(call.key)
            missing = instance.missing if instance else ()
            if instance is not None and missing:
                missing = awaited_missing(trace, position.rank, call, instance, call.key in long)
            threads.append([[Link(position.rank, call, rank)] for rank in missing])
        threads += [[_links_of(need) for need in messages.find(wait)] for wait in position.waits]
        if threads and all(threads):
            conditions[position.rank] = threads
    return conditions


def _links_of(need: MessageNeed) -> list[Link]:
    return [MessageLink(need.rank, need.call, rank, need) for rank in need.ranks]


def find_stuck(conditions: Conditions, left: set[int]) -> set[int]:
    """Return the ranks that no rank can release; `left`: ranks that make no more calls."""
    stuck = set(conditions)
    while True:
        released = {
            rank for rank in stuck
            if any(
                all(any(link.waits_for not in stuck | left for link in need) for need in needs)
                for needs in conditions[rank]
            )
        }  # fmt: skip
        if not released:
            return stuck
        stuck -= released


def list_links(conditions: Conditions, ranks: set[int]) -> dict[int, list[Link]]:
    """Return the links of some ranks to each other."""
    return {
        rank: [link for link in links_from(conditions, rank) if link.waits_for in ranks]
        for rank in sorted(ranks)
    }


def links_from(conditions: Conditions, rank: int) -> list[Link]:
    """Return all links of a waiting rank."""
    return [link for needs in conditions[rank] for need in needs for link in need]


def follow_links(conditions: Conditions, start: int) -> dict[int, tuple[Link, ...]]:
    """Return the ranks outside `conditions` that a rank finally waits for, each with its path."""
    paths: dict[int, tuple[Link, ...]] = {start: ()}
    ends: dict[int, tuple[Link, ...]] = {}
    queue = deque([start])
    while queue:
        rank = queue.popleft()
        if rank not in conditions:
            ends[rank] = paths[rank]
            continue
        for link in links_from(conditions, rank):
            if link.waits_for not in paths:
                paths[link.waits_for] = (*paths[rank], link)
                queue.append(link.waits_for)
    return ends


def add_other_messages(
    links: Sequence[Link], messages: MessageNeeds, ranks: Sequence[int]
) -> tuple[Link, ...]:
    """Return links with the messages that the awaited ranks have sent instead."""
    completed: list[Link] = []
    for link in links:
        if isinstance(link, MessageLink):
            others = tuple(find_other_messages(messages.counts, link.need, ranks))
            completed.append(MessageLink(link.rank, link.call, link.waits_for, link.need, others))
        else:
            completed.append(link)
    return tuple(completed)


def find_waiting_ranks(job: Job, awaited: Collection[int]) -> tuple[Link, ...]:
    """Return one link for each rank that waits for a rank of `awaited`, direct waits first.

    A rank that waits for a waiting rank has a link to that rank. In a running job, a receive from
    any rank counts only if all possible senders are among these ranks.
    """
    waits = [wait for p in job.positions if not p.is_unknown for wait in p.waits]
    messages = MessageNeeds(job.trace, waits)
    needs = [need for wait in waits for need in messages.find(wait)]
    return tuple(_WaitSearch(job, needs).find(sorted(awaited)))


class _WaitSearch:
    """Breadth-first search from the awaited ranks to the ranks that wait for them."""

    def __init__(self, job: Job, needs: Sequence[MessageNeed]) -> None:
        self.job = job
        self.long = {instance.key for instance in job.long}
        self.instances: dict[int, list[Pending]] = {}  # by missing rank
        self.visited: set[Key] = set()  # instances all of whose waiting ranks are found
        for instance in job.pending:
            for rank in instance.missing:
                self.instances.setdefault(rank, []).append(instance)
        self.needs: dict[int, list[MessageNeed]] = {}  # by the only awaited rank
        for need in needs:
            self.needs.setdefault(need.waits_for, []).append(need)
        self.wildcards = self.needs.pop(-1, [])

    def find(self, awaited: Sequence[int]) -> list[Link]:
        """Return the links in the order of the search."""
        reached, queue = set(awaited), deque(awaited)
        found: list[Link] = []
        while queue:
            rank = queue.popleft()
            for link in (*self._links_to(rank), *self._wildcard_links(rank, reached)):
                if link.rank not in reached:
                    reached.add(link.rank)
                    queue.append(link.rank)
                    found.append(link)
        return found

    def _links_to(self, awaited: int) -> Iterator[Link]:
        """Yield the links of the ranks that wait for one rank."""
        for instance in self.instances.get(awaited, ()):
            if instance.key in self.visited:
                continue
            is_long = instance.key in self.long
            self.visited.update([instance.key] if is_long else [])
            for rank in instance.arrived:
                position = self.job.positions[rank]
                for call in () if has_left(position) else open_calls(position, instance):
                    if is_long or awaited in awaited_missing(
                        self.job.trace, rank, call, instance, is_long
                    ):
                        yield Link(rank, call, awaited)
        for need in self.needs.get(awaited, ()):
            yield MessageLink(need.rank, need.call, awaited, need)

    def _wildcard_links(self, awaited: int, reached: set[int]) -> Iterator[Link]:
        """Yield the links of receives from any rank whose possible senders cannot send."""
        remaining = []
        for need in self.wildcards:
            if awaited in need.ranks if self.job.ended else reached.issuperset(need.ranks):
                yield MessageLink(need.rank, need.call, awaited, need)
            else:
                remaining.append(need)
        self.wildcards = remaining
