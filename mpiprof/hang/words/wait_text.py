"""Sentences on ranks that wait, that make different calls, or that stay in calls without a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mpiprof.account.disagreement import Disagreement, Side
from mpiprof.facts.operations import function_name
from mpiprof.hang.blocked_ranks import MessageLink
from mpiprof.hang.blocking_calls import UNKNOWN_SITE, WAITS_FOR_ALL, WAITS_FOR_ANY
from mpiprof.hang.first_divergence import Divergence
from mpiprof.hang.rank_state import Positions
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.wait_graph import Link
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_size,
    format_time,
)
from mpiprof.reports.site_labels import communicator_name, describe_site, format_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.message_counts import Unreceived
from mpiprof.trace.metadata import Call
from mpiprof.trace.sites import locate_label

MAX_LINKS = 8
MAX_GROUPS = 4  # of ranks that wait in the same call
MAX_OTHERS = 2
DIFFERENT_ORDER = "call different operations in the same place of their order"
DISAGREEMENT_WORDS = {  # the fault, and the rule that it breaks
    "operation": (DIFFERENT_ORDER, "call the same operation"),
    "root": ("name different roots in the same {operation}", "name the same root"),
    "count": ("give different sizes in the same {operation}", "give the same size"),
    "type": ("give different datatypes in the same {operation}", "give the same datatype"),
    "reduction": ("give different reductions in the same {operation}", "give the same reduction"),
}
MAX_CALLS = 4  # that sentences name


def circle_sentences(trace: Trace, cycle: Sequence[Link], ended: bool) -> str:
    """Return sentences about ranks that wait for each other, and the rule that they break."""
    links = [link_clause(trace, link, ended) for link in cycle[:MAX_LINKS]]
    wait = "waited" if ended else "wait"
    if len(cycle) > MAX_LINKS:
        links.append(f"and {len(cycle) - MAX_LINKS} more")
    return f"Ranks {wait} for each other in a circle: {'; '.join(links)}. {_circle_rule(cycle)}"


def chain_sentence(trace: Trace, chain: Sequence[Link], now: int | None, ended: bool) -> str:
    """Return a sentence on the first waiting rank and the ranks between it and the last one."""
    begun = chain[0].call.enter_ns
    lasting = format_time(float(now - begun)) if now is not None and not ended else ""
    clauses = [
        link_clause(trace, link, ended, "" if i else lasting)
        for i, link in enumerate(chain[:MAX_LINKS])
    ]
    return f"{capitalise('; '.join(clauses))}."


def missing_deed(chain: Sequence[Link]) -> str:
    """Return what the last rank of a chain has not done: "arrived", "sent it" or "received it"."""
    last = chain[-1] if chain else None
    if not isinstance(last, MessageLink):
        return "arrived"
    return "sent it" if last.need.message.received else "received it"


def never_sentences(chain: Sequence[Link], who: str, plural: bool, ended: bool) -> str:
    """Return sentences about ranks that have called MPI_Finalize instead of a message call."""
    received = missing_deed(chain) == "sent it"
    deed, here = ("send", "receive") if received else ("receive", "send")
    absent = f"A {deed} is missing there, or a {here} is one too many here."
    return f"{finalized_sentence(who, deed + ' it', plural, ended)} {absent}"


def finalized_sentence(who: str, deed: str, plural: bool, ended: bool) -> str:
    """Return a sentence about ranks that cannot do something after MPI_Finalize."""
    will = "could not" if ended else "will never"
    have = f"{'they' if plural else 'it'} {'had' if ended else 'have' if plural else 'has'}"
    return f"{who} {will} {deed}: {have} called MPI_Finalize."


def waiting_sentence(trace: Trace, links: Sequence[Link], now: int | None, ended: bool) -> str:
    """Return a sentence on ranks that wait for other ranks, equal waits together; "" if none."""
    groups: dict[str, list[Link]] = {}
    for link in links:
        groups.setdefault(_wait_clause(trace, link), []).append(link)
    clauses = []
    for clause, members in list(groups.items())[:MAX_GROUPS]:
        ranks = sorted({link.rank for link in members})
        plural = len(ranks) > 1
        wait = "waited" if ended else "wait" if plural else "waits"
        if now is not None and not ended:
            begun = min(link.call.enter_ns for link in members)
            have = "have" if plural else "has"
            wait = f"{have} waited for {format_time(float(now - begun))}"
        clauses.append(f"{format_ranks(ranks)} {wait} {clause}")
    named = {link.rank for group in list(groups.values())[:MAX_GROUPS] for link in group}
    more = len({link.rank for link in links} - named)
    if more:
        verb = "waited" if ended else "wait" if more > 1 else "waits"
        clauses.append(f"and {format_count(more)} more rank{'s' * (more > 1)} {verb}")
    return f"{capitalise('; '.join(clauses))}." if clauses else ""


def link_clause(trace: Trace, link: Link, ended: bool = False, lasting: str = "") -> str:
    """Return a clause on the call that a rank waits in, and what it waits for from which rank."""
    wait = f"has waited for {lasting}" if lasting else "waited" if ended else "waits"
    return f"rank {link.rank} {wait} {_wait_clause(trace, link)}"


def _wait_clause(trace: Trace, link: Link) -> str:
    where = locate_label(describe_site(trace, link.call.site))
    if isinstance(link.call, Call):
        on = communicator_name(trace, link.call.key[0])
        call = f"{link.call.operation} on {on} {where}"
        return f"in {call} for rank {link.waits_for}"
    assert isinstance(link, MessageLink)
    message = link.need.message
    on = communicator_name(trace, message.communicator)
    subject = f"in {link.call.operation} on {on} {where}"
    tag = "a message" if message.tag < 0 else f"tag {message.tag}"
    if len(link.call.messages) > 1 and link.call.operation in WAITS_FOR_ANY:
        return f"{subject} for any of {len(link.call.messages)} messages, the first {tag}"
    is_any = link.need.waits_for < 0
    peer = "any rank" if is_any else f"rank {link.waits_for}"
    posted = ""
    if link.call.operation in WAITS_FOR_ALL and message.site not in (-1, link.call.site):
        posted = f" ({message.operation} at {describe_site(trace, message.site)})"
    if not message.received:
        return f"{subject} for {peer} to receive {tag}{posted}"
    return f"{subject} for {tag} from {peer}{posted}{_others_clause(trace, link)}"


def _others_clause(trace: Trace, link: MessageLink) -> str:
    """Return a clause on the messages that the awaited rank has sent instead; "" if none."""
    texts = [_other_text(trace, link, other) for other in link.others[:MAX_OTHERS]]
    return f", which sent {' and '.join(texts)}" if texts else ""


def _other_text(trace: Trace, link: MessageLink, other: Unreceived) -> str:
    text = f"tag {other.tag}"
    if other.number > 1:
        text = f"{other.number} messages, the last with {text}"
    if other.destination != link.rank:
        text += f" to rank {other.destination}"
    if other.communicator != link.need.message.communicator:
        text += f" on {communicator_name(trace, other.communicator)}"
    return f"{text} at {describe_site(trace, other.site)}"


def _circle_rule(cycle: Sequence[Link]) -> str:
    """Return the rule that a circle breaks, as advice."""
    for link in cycle:
        if isinstance(link, MessageLink) and link.others:
            return _mismatch_rule(link, link.others[0])
    receives = [link.need.message.received for link in cycle if isinstance(link, MessageLink)]
    if not receives:
        return (
            "All ranks must call the collectives of different communicators in the same order, and "
            "equally often."
        )
    for link in cycle:
        if isinstance(link.call, Call):
            deed = "send" if receives[0] else "receive"
            if (unfed := _find_wildcard(cycle)) is not None:
                return (
                    f"A rank must send to rank {unfed.rank} before it calls "
                    f"{link.call.operation}, or rank {unfed.rank} receives once too often."
                )
            return f"Rank {link.rank} must {deed} before it calls {link.call.operation}."
    if all(receives) and (unfed := _find_wildcard(cycle)) is not None:
        return (
            f"A rank must send to rank {unfed.rank} before it receives, "
            f"or rank {unfed.rank} receives once too often."
        )
    if all(receives):
        return "One of these ranks must send before it receives."
    if not any(receives):
        remedy = "Receive first on one of these ranks, or use MPI_Sendrecv or MPI_Isend."
        return f"A send may wait until its message is received. {remedy}"
    return "Each receive needs a send with the same ranks, tag and communicator."


def _find_wildcard(cycle: Sequence[Link]) -> MessageLink | None:
    """Return the first receive of a circle that several ranks could feed, or None."""
    links = (link for link in cycle if isinstance(link, MessageLink))
    return next((link for link in links if len(link.need.ranks) > 1), None)


def _mismatch_rule(link: MessageLink, other: Unreceived) -> str:
    if other.destination != link.rank:
        return "The send must name the rank that receives."
    if other.communicator != link.need.message.communicator:
        return "Send and receive must use the same communicator."
    return "Send and receive must have the same tag."


def disagreement_sentences(trace: Trace, wrong: Disagreement) -> str:
    """Return sentences about which ranks call what where, and the rule that they break."""
    fault, rule = DISAGREEMENT_WORDS[wrong.kind]
    sides = "; ".join(_side_clause(trace, wrong.kind, side) for side in wrong.sides[:4])
    omitted = len(wrong.sides) - 4
    if omitted > 0:
        sides += f"; and {omitted} more"
    instance = f"sequence {wrong.key[1]} on {communicator_name(trace, wrong.key[0])}"
    fault = fault.format(operation=wrong.operation)
    return f"Ranks {fault} ({instance}): {sides}. All must {rule}."


def divergence_sentences(trace: Trace, divergence: Divergence) -> str:
    """Return sentences about the calls that ranks lack or have made in excess."""
    calls = _count_calls(trace, divergence.calls)
    first, count = next(iter(calls.items()))
    further = calls.total() - count
    more = f" and {further} further call{'s' * (further > 1)}" if further else ""
    communicator = communicator_name(trace, divergence.communicator)
    return (
        f"{capitalise(format_ranks(divergence.ranks))} made {count} "
        f"{'fewer' if divergence.fewer else 'more'} call{'s' * (count > 1)} of {first}{more} than "
        f"the other ranks (sequence {divergence.sequence} on {communicator}). All later calls "
        "match if they are shifted by this number. All ranks must make the same calls: decide by "
        "a value that is equal on all ranks."
    )


def _count_calls(trace: Trace, calls: Sequence[Call]) -> Counter[str]:
    """Count calls by operation and location, a method for Python objects as one call."""
    counts: Counter[str] = Counter()
    for call in calls:
        site = site_as_data(trace, call.site)
        part, _, method = str(site.get("method") or "").rpartition(" of ")
        if part != "data":
            counts[f"{method or call.operation} at {format_site({**site, 'method': None})}"] += 1
    return counts or Counter(call.operation for call in calls)


def _side_clause(trace: Trace, kind: str, side: Side) -> str:
    where = describe_site(trace, side.sites[0]) if side.sites else "unknown place"
    value = str(side.value)
    if kind == "root":
        value = f"root {side.value}"
    elif kind == "count":
        value = format_size(float(side.value))
    verb = ("call" if kind == "operation" else "say") + "s" * (len(side.ranks) == 1)
    return f"{format_ranks(side.ranks)} {verb} {value} at {where}"


def list_outside(positions: Positions, blocked: Sequence[int]) -> list[int]:
    """Return the ranks outside MPI, which the blocked ranks may wait for."""
    return [
        position.rank for position in positions
        if position.state == "outside" and not position.between and position.rank not in blocked
    ]  # fmt: skip


def local_call_sentences(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None, last: str
) -> str:
    """Return sentences on the calls of the odd ranks, and on the ranks outside MPI.

    now: on the trace's clock. last: where the ranks outside MPI were last seen.
    """
    ranks_by_call: dict[tuple[str, int], list[int]] = {}
    for rank in verdict.odd_ranks:
        call = positions[rank].local_calls[0]
        ranks_by_call.setdefault((call.operation, call.site), []).append(rank)
    sentences = []
    for (operation, site), ranks in list(ranks_by_call.items())[:MAX_CALLS]:
        begin_ns = min(positions[rank].local_calls[0].enter_ns for rank in ranks)
        where = function_name(operation)
        if site != UNKNOWN_SITE:
            where += f" {locate_label(describe_site(trace, site))}"
        be = _be(verdict, ranks)
        if now is not None and not verdict.ended:
            be = "have been" if len(ranks) > 1 else "has been"
            where += f" for {format_time(float(now - begin_ns))}"
        sentences.append(f"{capitalise(format_ranks(ranks))} {be} in {where}.")
    if outside := list_outside(positions, verdict.odd_ranks):
        seen = f", last seen{last}" if last else ""
        who = capitalise(format_ranks(outside))
        sentences.append(f"{who} {_be(verdict, outside)} outside MPI{seen}.")
    return " ".join(sentences)


def _be(verdict: HangVerdict, ranks: Sequence[int]) -> str:
    if verdict.ended:
        return "were" if len(ranks) > 1 else "was"
    return "are" if len(ranks) > 1 else "is"
