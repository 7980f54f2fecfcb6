"""Ranks that wait for each other in collectives and message calls, and the verdict on them.

A thread continues when all its needs are met. A need is met by any of its ranks: a collective has a
need for each missing rank, a receive from any source has one need with all possible senders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mpiprof.hang.blocking_calls import MessageNeed, MessageNeeds, MessageWait, find_other_messages
from mpiprof.hang.rank_state import Instances, Pending, Positions
from mpiprof.hang.verdict import HangVerdict, Job
from mpiprof.hang.wait_graph import Link, awaited_missing, has_left, open_calls, shortest_cycle
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


def find_message_verdict(job: Job, silent: bool) -> HangVerdict | None:
    """Return the verdict if ranks have long waited in message calls, and the reason is known.

    silent: the job has ended, and no rank has recorded a signal.
    """
    waits = [wait for position in job.positions for wait in position.waits]
    lasting = [wait for wait in waits if job.is_lasting(wait.enter_ns)]
    if not lasting:
        return None
    messages = MessageNeeds(job.trace, waits)
    long = {instance.key for instance in job.long}
    conditions = find_conditions(job.trace, job.positions, job.pending, long, messages)
    left = {position.rank for position in job.positions if has_left(position)}
    stuck = find_stuck(conditions, left)
    verdict = (
        _find_left(job, stuck, left, messages, lasting)
        or _find_circle(job, conditions, stuck, lasting)
        or (None if silent else _find_end_of_chain(job, conditions, lasting))
    )
    if verdict is None:
        return None
    everyone = range(job.trace.ranks)
    cycle = add_other_messages(verdict.cycle, messages, everyone)
    chain = add_other_messages(verdict.chain, messages, everyone)
    return replace(verdict, cycle=cycle, chain=chain)


def find_waits_for(job: Job, ranks: Sequence[int]) -> tuple[Link, ...]:
    """Return the link of a rank that waits for a message of one of these ranks, or ()."""
    waits = [wait for position in job.positions for wait in position.waits]
    messages = MessageNeeds(job.trace, waits)
    for wait in waits:
        for need in messages.find(wait):
            if wait.rank not in ranks and need.waits_for in ranks:
                return (MessageLink(need.rank, wait, need.waits_for, need),)
    return ()


def _sites_of(job: Job, links: Sequence[Link], ranks: Sequence[int]) -> tuple[int, ...]:
    """Return the call sites of links, then the last call sites of ranks."""
    sites = [link.call.site for link in links]
    return tuple(dict.fromkeys((*sites, *job.sites(ranks, None))))


def _find_left(
    job: Job,
    stuck: set[int],
    left: set[int],
    messages: MessageNeeds,
    lasting: Sequence[MessageWait],
) -> HangVerdict | None:
    """Detect a rank that waits for a message of ranks that have called MPI_Finalize."""
    for wait in lasting:
        for need in messages.find(wait) if wait.rank in stuck else ():
            if set(need.ranks) <= left:
                chain = (MessageLink(wait.rank, wait, need.ranks[0], need),)
                sites = _sites_of(job, chain, need.ranks)
                return HangVerdict(
                    "missing", need.ranks, sites, ended=job.ended, reason="finished", chain=chain
                )
    return None


def _find_circle(
    job: Job, conditions: Conditions, stuck: set[int], lasting: Sequence[MessageWait]
) -> HangVerdict | None:
    """Detect ranks that wait for each other, at least one of them for a message."""
    links = list_links(conditions, stuck)
    cycle = shortest_cycle(links)
    in_messages = [link for link in cycle if isinstance(link, MessageLink)]
    if not in_messages or not all(link.call in lasting for link in in_messages):
        return None
    first = cycle.index(in_messages[0])
    cycle = cycle[first:] + cycle[:first]
    odd = tuple(sorted(link.rank for link in in_messages))
    sites = tuple(dict.fromkeys(link.call.site for link in (*in_messages, *cycle)))
    return HangVerdict("point_to_point", odd, sites, cycle=cycle, ended=job.ended)


def _find_end_of_chain(
    job: Job, conditions: Conditions, lasting: Sequence[MessageWait]
) -> HangVerdict | None:
    """Detect ranks that other ranks finally wait for, and that wait for no rank themselves."""
    for wait in sorted(lasting, key=lambda wait: wait.enter_ns):
        if wait.rank not in conditions:
            continue
        ends = follow_links(conditions, wait.rank)
        positions = job.positions
        outside = [
            rank for rank in sorted(ends)
            if not (positions[rank].open or positions[rank].waits or positions[rank].between)
        ]  # fmt: skip
        if not outside or len(outside) < len(ends):
            continue
        kind, ranks, reason = job.describe_outside(outside)
        chain = ends[ranks[0]]
        sites = _sites_of(job, chain, ranks)
        return HangVerdict(kind, tuple(ranks), sites, ended=job.ended, reason=reason, chain=chain)
    return None
