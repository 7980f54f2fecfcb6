"""Blocking message calls that ranks are in, and the ranks and messages that these calls wait for.

The recorder shows an open call with its messages, also those that are already complete. The message
counts of both sides show which of them the other side has sent or received. Counts are read after
the open calls: a call whose message is missing then has been waiting all the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mpiprof.facts.operations import LOCAL_OPERATIONS
from mpiprof.hang.processes import find_alive, trace_now_ns
from mpiprof.trace import Trace
from mpiprof.trace.message_counts import TAG_CLASSES, MessageCounts, Unreceived
from mpiprof.trace.messages import RECEIVED_FLAG, UNSURE, read_message_logs
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.types import LOCAL_CALL

WAITS_FOR_ALL = ("wait", "waitall")
WAITS_FOR_ANY = ("waitany", "waitsome")
PROBES = ("probe", "mprobe")
BLOCKING = (
    *("send", "ssend", "rsend", "recv", "sendrecv", "sendrecv_replace", "mrecv"),
    *(*PROBES, *WAITS_FOR_ALL, *WAITS_FOR_ANY),
)
UNKNOWN_SITE = -1
MAX_PAUSE_NS = 1_000_000_000  # a rank that has not polled for longer has left the loop
SYNCHRONOUS = ("ssend", "issend", "ssend_init")


@dataclass(frozen=True)
class OpenMessage:
    """A message of an open call; peer and tag are negative if any peer or any tag fits.

    number: among the messages of its class of tags, None if unknown. operation, site: of the call
    that posted it.
    """

    received: bool
    communicator: int
    peer: int
    tag: int
    number: int | None
    operation: str
    site: int


@dataclass(frozen=True)
class MessageWait:
    """A blocking call on messages that a thread of a rank is in."""

    rank: int
    thread: int
    operation: str
    site: int
    enter_ns: int
    messages: tuple[OpenMessage, ...] = ()
    exit_ns: int = field(default=0, init=False)  # open, as in trace.metadata.Call

    @property
    def waits_for_any(self) -> bool:
        """Return whether the call ends with the first of its messages."""
        return self.operation in WAITS_FOR_ANY


@dataclass(frozen=True)
class MessageNeed:
    """A message that a call waits for, and the ranks of which any may send or receive it."""

    rank: int
    call: MessageWait
    message: OpenMessage
    ranks: tuple[int, ...]
    is_sure: bool  # else the call may wait for another of its messages

    @property
    def waits_for(self) -> int:
        """Return the only rank, or -1 if there are several."""
        return self.ranks[0] if len(self.ranks) == 1 else -1


def find_waits(trace: Trace, rank: int) -> list[MessageWait]:
    """Return the blocking message calls that the threads of a rank are in."""
    calls, _ = read_message_logs(trace, [rank], newest=True)
    counts, shapes = MessageCounts(trace), trace.tables.shapes
    waits = []
    for index in (calls.exit_ns == 0).nonzero()[0].tolist():
        shape = shapes[int(calls.shape[index])]
        if shape.operation not in BLOCKING:
            continue
        parts = calls.messages[calls.messages["call"] == index]
        if len(parts) < int(calls.parts[index]) and shape.operation in WAITS_FOR_ANY:
            parts = parts[:0]  # a message that is not listed may end the call
        messages = []
        for part in parts:
            posted, flags = shapes[int(part["shape"])], int(part["flags"])
            received, of = bool(flags & RECEIVED_FLAG), (posted.communicator, posted.peer)
            tag, number = int(part["tag"]), None
            if not flags & UNSURE:
                number = counts.find_ordinal(rank, *of, tag, received, int(part["number"]))
            facts = posted.operation, posted.site
            messages.append(OpenMessage(received, *of, tag, number, *facts))
        waits.append(
            MessageWait(
                rank,
                int(calls.thread[index]),
                shape.operation,
                shape.site,
                int(calls.enter_ns[index]),
                tuple(messages),
            )
        )
    return waits


def find_poll(trace: Trace, rank: int) -> MessageWait | None:
    """Return the loop of calls in vain that a rank is in, or None.

    The rank may have left the loop since its last call. Then it is outside MPI. A rank of several
    threads is in a loop only if all of them are in MPI.
    """
    functions = [call for (owner, _), call in trace.logs.functions.items() if owner == rank]
    polls = [function for function in functions if function is not None and function.polled_ns]
    if not polls or None in functions:
        return None
    poll, shapes = polls[0], trace.tables.shapes
    times = trace.clock_of(rank).to_global(np.array([poll.since_ns, poll.polled_ns]))
    now_ns = trace_now_ns(trace) if find_alive(trace).get(rank) else None
    if now_ns is not None and now_ns - int(times[1]) > MAX_PAUSE_NS:
        return None
    calls, _ = read_message_logs(trace, [rank], newest=True)
    is_here = (calls.polls > 0) & (calls.enter_ns == times[0])
    sites = [shapes[index].site for index in calls.shape[is_here].tolist()]
    site = sites[-1] if sites else UNKNOWN_SITE
    return MessageWait(rank, 0, poll.operation, site, int(times[0]))


def find_local_calls(trace: Trace, rank: int) -> list[MessageWait]:
    """Return the open calls on windows, files, communicators etc. (operations.LOCAL_OPERATIONS)."""
    shapes, clock = trace.tables.shapes, trace.clock_of(rank)
    shape_map = np.append(trace.tables.shape_map(rank), -1)
    found = []
    for chunks in trace.message_chunks(rank):
        records = chunks[-1].read()
        is_open = (records["kind"] == LOCAL_CALL) & (records["exit_ns"] == 0)
        open_calls = records[is_open]
        enter_ns = clock.to_global(open_calls["enter_ns"].astype(np.int64)).tolist()
        indices = shape_map.take(open_calls["shape"].astype(np.int64), mode="clip").tolist()
        for thread, begin_ns, index in zip(open_calls["thread"], enter_ns, indices, strict=True):
            if index >= 0:
                shape = shapes[index]
                found.append(MessageWait(rank, int(thread), shape.operation, shape.site, begin_ns))
    threads = {call.thread for call in found}
    return found + [call for call in _find_functions(trace, rank) if call.thread not in threads]


def _find_functions(trace: Trace, rank: int) -> list[MessageWait]:
    """Return the calls that the threads are in according to their windows; the sites are unknown.

    A call has no open record if a callback in it has made other calls, or while recording pauses.
    """
    clock, calls = trace.clock_of(rank), []
    for (owner, thread), function in trace.logs.functions.items():
        if owner != rank or function is None or not function.since_ns or function.polled_ns:
            continue
        if function.operation in LOCAL_OPERATIONS:
            begin_ns = int(clock.to_global(np.array([function.since_ns]))[0])
            calls.append(MessageWait(rank, thread, function.operation, UNKNOWN_SITE, begin_ns))
    return calls


class MessageNeeds:
    """The messages that blocking calls of all ranks still wait for."""

    def __init__(self, trace: Trace, waits: Iterable[MessageWait]) -> None:
        self.trace, self.counts = trace, MessageCounts(trace)
        self._waits: dict[int, list[MessageWait]] = {}
        for wait in waits:
            self._waits.setdefault(wait.rank, []).append(wait)

    def find(self, wait: MessageWait) -> list[MessageNeed]:
        """Return the messages that a call waits for; empty if none is known to be missing.

        A call for any of several messages has one need with all ranks.
        """
        needs = [self._need(wait, message) for message in wait.messages]
        missing = [need for need in needs if need is not None and need.ranks]
        if wait.waits_for_any:
            if not missing or len(missing) < len(needs):
                return []
            ranks = dict.fromkeys(rank for need in missing for rank in need.ranks)
            return [MessageNeed(wait.rank, wait, missing[0].message, tuple(ranks), is_sure=True)]
        sure = [need for need in missing if need.is_sure]
        return sure or missing

    def _need(self, wait: MessageWait, message: OpenMessage) -> MessageNeed | None:
        """Return the need of a message; None if the other side has sent or received it."""
        communicator = self.trace.tables.communicators[message.communicator]
        if communicator.is_local:
            return MessageNeed(wait.rank, wait, message, (), is_sure=False)
        peers = _possible_peers(communicator, wait.rank, message.peer)
        answers = [self._is_matched(wait, message, peer) for peer in peers]
        if any(answers):
            return None
        certain = all(answer is False for answer in answers)
        blocks = message.received or message.operation in SYNCHRONOUS
        # A library may complete other sends before they are received. The only message of a call
        # that lasts is certain.
        sure = (certain and blocks) or len(wait.messages) == 1
        return MessageNeed(wait.rank, wait, message, tuple(peers), sure)

    def _is_matched(self, wait: MessageWait, message: OpenMessage, peer: int) -> bool | None:
        """Return whether the peer has sent or received a message; None if that is unknown."""
        if message.received:
            return self._is_sent(wait, message, peer)
        if any(_accepts(other, message, wait.rank) for other in self._open_receives(peer)):
            return True
        count = self.counts.find(peer, message.communicator, wait.rank, message.tag)
        if count is None or message.number is None:
            return None
        is_other = count.received == message.number + 1 and count.received_tag != message.tag
        return count.received > message.number and not is_other

    def _open_receives(self, rank: int) -> list[OpenMessage]:
        """Return the unnumbered receives in the open calls of a rank."""
        messages = (m for wait in self._waits.get(rank, ()) for m in wait.messages)
        return [m for m in messages if m.received and m.number is None]

    def _is_sent(self, wait: MessageWait, message: OpenMessage, source: int) -> bool | None:
        if message.number is not None:
            count = self.counts.find(source, message.communicator, wait.rank, message.tag)
            if count is None:
                return None
            is_other = count.sent == message.number + 1 and count.sent_tag != message.tag
            return count.sent > message.number and not is_other
        unreceived = self.counts.find_unreceived(source, wait.rank)
        if unreceived is None:
            return None
        return any(
            other.communicator == message.communicator and _may_have_tag(other, message.tag)
            for other in unreceived
        )


def _may_have_tag(messages: Unreceived, tag: int) -> bool:
    """Return whether one of several messages may have a tag; negative: any tag."""
    is_in_class = messages.tag % TAG_CLASSES == tag % TAG_CLASSES
    return tag < 0 or messages.tag == tag or (is_in_class and messages.number > 1)


def _possible_peers(communicator: Communicator, rank: int, peer: int) -> list[int]:
    """Return the ranks that a message of a rank may come from or go to, except the rank itself."""
    peers = [peer]
    if peer < 0:
        groups = [group.tolist() for group in communicator.groups]
        peers = [
            member for group in groups for member in group
            if not communicator.is_inter or rank not in group
        ]  # fmt: skip
    return [member for member in peers if member != rank]


def _accepts(receive: OpenMessage, message: OpenMessage, source: int) -> bool:
    """Return whether an unnumbered receive of a rank would match a message of `source`."""
    return (
        receive.communicator == message.communicator
        and receive.peer in (source, -1)
        and (receive.tag < 0 or receive.tag == message.tag)
    )


def find_other_messages(
    counts: MessageCounts, need: MessageNeed, ranks: Iterable[int]
) -> list[Unreceived]:
    """Return messages of the awaited rank that differ from the awaited one in one respect.

    They have another tag, another communicator or, among `ranks`, another destination.
    """
    awaited, source = need.message, need.waits_for
    if not awaited.received or source < 0:
        return []
    found = []
    for destination in dict.fromkeys((need.rank, *ranks)):
        for other in counts.find_unreceived(source, destination) or ():
            equal = (
                destination == need.rank,
                other.communicator == awaited.communicator,
                awaited.tag < 0 or other.tag == awaited.tag,
            )
            if sum(equal) == 2:
                found.append(other)
    return found
