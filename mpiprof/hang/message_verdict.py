"""Verdict on a job whose ranks wait in message calls: circles, ranks that have left, slow ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiprof.hang import blocked_ranks
from mpiprof.hang.blocked_ranks import Conditions, MessageLink
from mpiprof.hang.blocking_calls import MessageNeeds, MessageWait
from mpiprof.hang.verdict import HangVerdict, Job
from mpiprof.hang.wait_graph import Link, has_left, shortest_cycle


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
    conditions = blocked_ranks.find_conditions(
        job.trace, job.positions, job.pending, long, messages
    )
    left = {position.rank for position in job.positions if has_left(position)}
    stuck = blocked_ranks.find_stuck(conditions, left)
    verdict = (
        _find_left(job, stuck, left, messages, lasting)
        or _find_circle(job, conditions, stuck, lasting)
        or (None if silent else _find_end_of_chain(job, conditions, lasting))
    )
    if verdict is None:
        return None
    everyone = range(job.trace.ranks)
    cycle = blocked_ranks.add_other_messages(verdict.cycle, messages, everyone)
    chain = blocked_ranks.add_other_messages(verdict.chain, messages, everyone)
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
    links = blocked_ranks.list_links(conditions, stuck)
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
        ends = blocked_ranks.follow_links(conditions, wait.rank)
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
