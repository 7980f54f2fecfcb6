"""Numbers of messages that each rank has sent to and received from each peer.

The recorder updates them in place, so that they also describe a job that hangs or has died. Both
sides count the messages of a communicator in classes of tags (tag modulo TAG_CLASSES).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.chunks import Chunk
from mpiprof.trace.records import Records
from mpiprof.trace.types import MESSAGE_COUNT

TAG_CLASSES = 16  # as in core/tracefile/event.h
# The upper bits of a message's number also contain a code of the earlier messages in its class
# with other tags (core/record/message_number.c). The lower bits are the count alone.
COUNT_PERIOD = 1 << 18
COUNTS_END = TAG_CLASSES  # class in the record after which a process counts no more messages
POINT_TO_POINT = 0  # index into trace.layout.OUTSIDE_CLASSES

CountKey = tuple[int, int, int]  # communicator, peer (world rank), class of tags


@dataclass(frozen=True)
class MessageCount:
    """Messages of one rank with one peer in one class of tags.

    received: number of posted receives; receives from any source count when they complete.
    The tags and sites belong to the last message; sites are indices into Tables.sites.
    """

    sent: int = 0
    received: int = 0
    sent_tag: int = -1
    received_tag: int = -1
    sent_site: int = -1
    received_site: int = -1


@dataclass(frozen=True)
class Unreceived:
    """Messages that a rank has sent in one class of tags, and that no receive was posted for.

    tag, site: of the last of them.
    """

    destination: int
    communicator: int
    tag: int
    number: int
    site: int


class MessageCounts:
    """Message counts of all ranks, each read when it is first needed."""

    def __init__(self, trace: Records) -> None:
        self.trace = trace
        self._of_rank: dict[int, dict[CountKey, MessageCount] | None] = {}

    def of_rank(self, rank: int) -> dict[CountKey, MessageCount] | None:
        """Return the counts of one rank, None if they are unknown."""
        if rank not in self._of_rank:
            self._of_rank[rank] = _read_counts(self.trace, rank)
        return self._of_rank[rank]

    def find(self, rank: int, communicator: int, peer: int, tag: int) -> MessageCount | None:
        """Return a rank's counts for a peer and the class of a tag; None if they are unknown."""
        counts = self.of_rank(rank)
        if counts is None or self.trace.tables.communicators[communicator].is_local:
            return None
        return counts.get((communicator, peer, tag % TAG_CLASSES), MessageCount())

    def find_only_tag(self, communicator: int, source: int, destination: int) -> int:
        """Return the last tag of a rank's messages to another one if they have one class, or -1."""
        of_rank = self.of_rank(source) or {}
        keys = ((communicator, destination, tags) for tags in range(TAG_CLASSES))
        tags = [of_rank[key].sent_tag for key in keys if key in of_rank and of_rank[key].sent]
        return tags[0] if len(tags) == 1 else -1

    def find_ordinal(
        self, rank: int, communicator: int, peer: int, tag: int, received: bool, number: int
    ) -> int | None:
        """Return the position of a recent message among the messages of its class, from its number.

        None if earlier messages of the class had other tags, or the counts are unknown.
        """
        if number < COUNT_PERIOD:
            return number
        count = self.find(rank, communicator, peer, tag)
        if count is None:
            return None
        last = (count.received if received else count.sent) - 1
        ordinal = last - (last - number) % COUNT_PERIOD
        return ordinal if ordinal == number else None

    def find_unreceived(self, source: int, destination: int) -> list[Unreceived] | None:
        """Return the messages without a receive; None if the counts of a side are unknown."""
        sent, received = self.of_rank(source), self.of_rank(destination)
        if sent is None or received is None:
            return None
        found = []
        for (communicator, peer, tags), count in sent.items():
            if peer == destination:
                other_side = received.get((communicator, source, tags), MessageCount())
                number = count.sent - other_side.received
                if number > 0:
                    site = count.sent_site
                    found.append(
                        Unreceived(destination, communicator, count.sent_tag, number, site)
                    )
        return found


def _read_counts(trace: Records, rank: int) -> dict[CountKey, MessageCount] | None:
    tables = trace.tables
    shape_map = np.append(tables.shape_map(rank), -1)
    counts: dict[CountKey, MessageCount] = {}
    for chunks in trace.message_chunks(rank):
        for chunk in filter(Chunk.is_summed, chunks):
            records = chunk.read()
            records = records[records["kind"] == MESSAGE_COUNT]
            if (records["choice"] >= COUNTS_END).any():
                return None
            last_received = records["enter_ns"].astype(np.int64)
            sent_shapes = shape_map.take(records["shape"].astype(np.int64), mode="clip")
            received_shapes = shape_map.take(last_received & 0xFFFFFFFF, mode="clip")
            for i, index in enumerate(sent_shapes.tolist()):
                if index < 0:
                    return None
                shape, sent = tables.shapes[index], int(records["sequence"][i])
                if tables.communicators[shape.communicator].is_local:
                    continue
                if shape.peer < 0:
                    return None
                received = int(records["exit_ns"][i])
                received_shape = int(received_shapes[i]) if received else -1
                key = (shape.communicator, shape.peer, int(records["choice"][i]))
                counts[key] = MessageCount(
                    sent,
                    received,
                    int(records["outside_ns"][i]) if sent else -1,
                    int(last_received[i] >> 32) if received else -1,
                    shape.site if sent else -1,
                    tables.shapes[received_shape].site if received_shape >= 0 else -1,
                )
    return counts if counts or _has_sent_nothing(trace, rank) else None


def _has_sent_nothing(trace: Records, rank: int) -> bool:
    """Return whether a rank without counts has made no message call."""
    keys = [key for key in trace.logs.threads if key[0] == rank]
    spent = [trace.logs.outside_ns.get(key) for key in keys]
    functions = [trace.logs.functions.get(key) for key in keys]
    inside = (f is not None and f.call_class == "point_to_point" for f in functions)
    known = bool(keys) and all(times is not None for times in spent)
    return (
        known
        and not any(times[POINT_TO_POINT] for times in spent if times)
        and (not any(inside) or bool(trace.message_chunks(rank)))
    )
