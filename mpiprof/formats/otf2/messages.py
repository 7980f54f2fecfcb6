"""Calls on messages of one rank of an archive, as records.

An archive of mpiprof describes each message by attributes. In other archives, a request joins the
event that starts a message with the event that completes it, and messages are numbered in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.formats.otf2.definitions import ArchiveClock, Definitions
from mpiprof.formats.otf2.events import Location
from mpiprof.formats.otf2.library import (
    ATTRIBUTE_BITS,
    IRECV,
    IRECV_REQUEST,
    ISEND,
    ISEND_COMPLETE,
    NEVER,
    RECV,
    SEND,
    UNDEFINED,
)
from mpiprof.formats.otf2.shapes import RankTables
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.message_counts import TAG_CLASSES
from mpiprof.trace.messages import COMPLETE, UNSURE
from mpiprof.trace.types import MESSAGE_CALL, RECEIVED_PART, SENT_PART, Array, Int
from mpiprof.trace.validation import check_integer, check_object
from mpiprof.trace.writer import RECORD_TYPE, make_sums

SUMS_PREFIX = "mpiprof messages "  # of strings with the sums of a rank
SUM_COLUMNS = ("calls", "total_ns", "sent", "received", "longest_ns")


@dataclass
class RankMessages:
    """Calls on messages of a rank, by thread and time, and their messages.

    thread: of each call. owner: the call of each message.
    """

    calls: Array
    thread: Int
    messages: Array
    owner: Int


def merge_messages(locations: list[Location]) -> RankMessages:
    """Return the calls and messages of all threads of a rank."""
    calls = np.concatenate([location.message_calls for location in locations])
    thread = np.repeat(
        np.arange(len(locations)), [len(records.message_calls) for records in locations]
    )
    before = np.cumsum([0, *(len(records.messages) for records in locations)])[:-1]
    messages = np.concatenate([location.messages for location in locations])
    calls["request"] += before.astype(np.uint64)[thread]
    order = np.lexsort((calls["enter"], thread))
    calls, thread = calls[order], thread[order]
    count = calls["start"].astype(np.int64)
    owner = np.repeat(np.arange(len(calls)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return RankMessages(
        calls, thread, messages[calls["request"].astype(np.int64)[owner] + within], owner
    )


class MessageRecords:
    """Records of the messages of one rank; shapes are added to its tables."""

    def __init__(self, tables: RankTables, locations: list[Location], ticks: ArchiveClock) -> None:
        self.tables, self.ticks = tables, ticks
        self.operations = tables.regions.message_operations
        self._shapes: dict[tuple[str, int, int, int], int] = {}
        self.of = merge_messages(locations)
        calls = self.of.calls
        is_message_call = np.isin(calls["region"], list(self.operations))
        if tables.regions.by_mpiprof:
            # The start of a message outside the logged calls is in a call without attributes.
            is_message_call &= (calls["given"] & ATTRIBUTE_BITS["communicator"]) != 0
        self._take_calls(is_message_call)
        if tables.regions.by_mpiprof:
            self._take_messages(self.of.messages["given"] != 0)
        else:
            self._join_requests()
        self._describe_calls()

    def _take_calls(self, chosen: Array) -> None:
        location = self.of
        self._take_messages(chosen[location.owner])
        location.owner = (np.cumsum(chosen) - 1)[location.owner]
        location.calls, location.thread = location.calls[chosen], location.thread[chosen]

    def _take_messages(self, chosen: Array) -> None:
        location = self.of
        location.messages, location.owner = location.messages[chosen], location.owner[chosen]

    # Archives of other tools

    def _join_requests(self) -> None:
        """Copy fields between the events that start and complete a message."""
        location, m = self.of, self.of.messages
        call = location.calls[location.owner]
        m["posted"], m["region"], m["site"] = call["enter"], call["region"], call["site"]
        event = m["event"]
        starts = np.isin(event, (ISEND, IRECV_REQUEST))
        rows = np.flatnonzero(starts | np.isin(event, (ISEND_COMPLETE, IRECV)))
        rows = rows[np.lexsort((m["time"][rows], m["request"][rows]))]
        last = np.maximum.accumulate(np.where(starts[rows], np.arange(len(rows)), -1))
        paired = ~starts[rows] & (last >= 0) & (m["request"][rows[last]] == m["request"][rows])
        end, start = rows[paired], rows[last[paired]]
        for name in ("posted", "region", "site"):
            m[name][end] = m[name][start]
        for name in ("communicator", "peer", "tag"):
            sends, receives = event[end] == ISEND_COMPLETE, event[end] == IRECV
            m[name][end[sends]] = m[name][start[sends]]
            m[name][start[receives]] = m[name][end[receives]]
        sends = event[end] == ISEND_COMPLETE
        m["bytes"][end[sends]] = m["bytes"][start[sends]]
        m["flags"] = np.where(starts, 0, COMPLETE)
        m["flags"][np.setdiff1d(np.flatnonzero(event == IRECV), end)] |= UNSURE
        self._number_messages(start, end)

    def _number_messages(self, start: Int, end: Int) -> None:
        """Number the messages of each peer and class of tags, and drop numbers without a peer."""
        m = self.of.messages
        event = m["event"]
        counted = np.isin(event, (SEND, ISEND, RECV, IRECV_REQUEST)) & (
            m["communicator"] != UNDEFINED
        )
        rows = np.flatnonzero(counted)
        rows = rows[np.argsort(m["posted"][rows], kind="stable")]
        keys = pd.DataFrame(
            {name: m[name][rows] for name in ("communicator", "peer", "received")}
            | {"tag": m["tag"][rows] % TAG_CLASSES}
        )
        m["number"][rows] = keys.groupby(list(keys.columns)).cumcount()
        m["number"][end] = m["number"][start]
        self._take_messages(
            self.tables.communicators.has_member(m["communicator"], self.tables.rank)
        )

    def _describe_calls(self) -> None:
        """Set communicator and root, which is the peer, of calls that have no attributes."""
        location = self.of
        communicators = self.tables.communicators
        if not self.tables.regions.by_mpiprof:
            location.calls["communicator"], location.calls["root"] = communicators.world, UNDEFINED
            posted_here = location.messages["posted"] == location.calls["enter"][location.owner]
            posted_here &= location.messages["region"] == location.calls["region"][location.owner]
            # The received message describes the call, as the last one here.
            rows = np.flatnonzero(posted_here)
            rows = rows[np.argsort(location.messages["received"][rows], kind="stable")]
            location.calls["communicator"][location.owner[rows]] = location.messages[
                "communicator"
            ][rows]
            location.calls["root"][location.owner[rows]] = location.messages["peer"][rows]

    # Records

    def _find_shapes(self, *described: Array) -> Int:
        """Return the shapes of calls, from their region, communicator, site and peer."""
        columns = [values.astype(np.int64) for values in described]
        frame = pd.DataFrame(dict(enumerate(columns)))
        codes = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy(np.int64)
        distinct = frame[~frame.duplicated()].to_numpy(np.int64)
        ids = [
            self._find_shape(self.operations.get(row[0], ""), *row[1:]) for row in distinct.tolist()
        ]
        return np.array(ids, np.int64)[codes]

    def _find_shape(self, operation: str, communicator: int, site: int, peer: int) -> int:
        key = operation, communicator, site, -1 if peer == UNDEFINED else peer
        if key not in self._shapes:
            self._shapes[key] = self.tables.add_message_shape(*key)
        return self._shapes[key]

    def make_records(self) -> tuple[Array, Int]:
        """Return the records of calls and messages, each call after its messages, and threads."""
        location, ticks = self.of, self.ticks
        m, c = location.messages, location.calls
        names = ("region", "communicator", "site")
        self.call_shape = self._find_shapes(*(c[name] for name in names), c["root"])
        self.part_shape = self._find_shapes(*(m[name] for name in names), m["peer"])
        parts, calls = np.zeros(len(m), RECORD_TYPE), np.zeros(len(c), RECORD_TYPE)
        parts["enter_ns"] = ticks.times_to_ns(m["posted"])
        parts["exit_ns"] = _signed(m["bytes"])
        parts["sequence"], parts["shape"] = m["number"], self.part_shape
        parts["outside_ns"], parts["choice"] = m["tag"], m["flags"]
        parts["kind"] = np.where(m["received"] != 0, RECEIVED_PART, SENT_PART)
        calls["enter_ns"], calls["exit_ns"] = map(ticks.times_to_ns, (c["enter"], c["exit"]))
        calls["sequence"] = np.bincount(location.owner, minlength=len(c))
        calls["shape"], calls["kind"] = self.call_shape, MESSAGE_CALL
        owner = np.concatenate([location.owner, np.arange(len(c))])
        order = np.argsort(owner, kind="stable")
        records = np.concatenate([parts, calls])[order]
        return records, location.thread[owner[order]]

    def make_sums(self, recorded: Iterable[dict[str, Any]]) -> Array:
        """Return the records of the sums: those that mpiprof has written, else of the calls."""
        if not self.tables.regions.by_mpiprof:
            by_shape = self._sum_up()
            used = np.flatnonzero(by_shape.any(0))
            return make_sums(used, by_shape[:, used])
        shapes: list[int] = []
        sums: list[Int] = [np.zeros((len(SUM_COLUMNS), 0), np.int64)]
        for columns in recorded:
            described = (columns[name] for name in ("operation", "communicator", "site", "peer"))
            for operation, communicator, site, peer in zip(*described, strict=True):
                place = UNDEFINED if site < 0 else site
                shapes.append(self._find_shape(operation, communicator, place, peer))
            sums.append(np.array([columns[name] for name in SUM_COLUMNS], np.int64))
        return make_sums(np.array(shapes, np.int64), np.concatenate(sums, axis=1))

    def _sum_up(self) -> Int:
        """Return the sums by shape, in the order of SUM_COLUMNS."""
        sums = np.zeros((len(SUM_COLUMNS), self.tables.shape_count), np.int64)
        c, m = self.of.calls, self.of.messages
        open_ = c["exit"] == NEVER
        elapsed = np.where(open_, 0, self.ticks.spans_to_ns(c["exit"] - c["enter"]))
        shape = self.call_shape
        np.add.at(sums[0], shape, ~open_)
        np.add.at(sums[1], shape, elapsed)
        np.maximum.at(sums[4], shape, elapsed)
        sizes = np.maximum(_signed(m["bytes"]), 0)
        for row, events in ((2, (SEND, ISEND)), (3, (RECV, IRECV))):
            chosen = np.isin(m["event"], events)
            np.add.at(sums[row], self.part_shape[chosen], sizes[chosen])
        return sums


def read_recorded_sums(definitions: Definitions) -> dict[int, list[dict[str, Any]]]:
    """Return the columns of the sums that mpiprof has written, by rank."""
    recorded: dict[int, list[dict[str, Any]]] = {}
    for text in definitions.strings.values():
        if text.startswith(SUMS_PREFIX):
            with suppress(ValueError, KeyError):
                columns = check_object(parse_json(text.removeprefix(SUMS_PREFIX)))
                rank = check_integer(columns.pop("rank"), 0)
                recorded.setdefault(rank, []).append(columns)
    return recorded


def _signed(sizes: Array) -> Int:
    return np.where(sizes == NEVER, -1, np.minimum(sizes, 1 << 61).astype(np.int64))
