"""Calls on messages as events of an OTF2 archive; formats/otf2/export.py describes the mapping.

A message has events of sending and receiving if both of its sides are logged, because tools pair
these events in order. A message that is completed by a Wait has a request. It starts in a region of
its own if the call that started it is not logged. All other messages are parameters. Attributes
describe each message of a logged call for mpiprof.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.account.message_tables import IDENTITY
from mpiprof.formats.message_windows import make_arrows
from mpiprof.formats.otf2 import library
from mpiprof.formats.otf2.library import (
    ATTRIBUTE_BITS,
    IRECV,
    IRECV_REQUEST,
    ISEND,
    ISEND_COMPLETE,
    NEVER,
    PLAIN,
    RECV,
    SEND,
    TEST,
    UNDEFINED,
)
from mpiprof.formats.otf2.messages import SUM_COLUMNS, SUMS_PREFIX
from mpiprof.trace import Trace
from mpiprof.trace.messages import RECORDED_FLAGS, read_message_logs
from mpiprof.trace.types import MESSAGE_CALL, Array, Bool, Int, Int32

PROBES = ("probe", "iprobe")  # MPI_Mprobe takes the message, so it receives it
FIRST_REQUEST = 1 << 62  # numbers of requests of messages; those of collectives begin at 0
ROWS_PER_STRING = 1000  # rows of sums in one string of the archive


@dataclass(frozen=True)
class MessageEvents:
    """Calls on messages of one rank by time, and their messages, as in core/otf2/call.h."""

    calls: Array
    thread: Int
    messages: Array

    def between(self, first: int, until_ns: int) -> tuple[Array, Int]:
        """Return the calls from an index on that begin until a time, and their threads."""
        end = int(np.searchsorted(self.calls["enter"], np.uint64(max(until_ns, 0)), side="right"))
        return self.calls[first : max(end, first)], self.thread[first : max(end, first)]


class MessageExport:
    """Events of the messages of all ranks."""

    def __init__(self, trace: Trace, region: Array, site: Array) -> None:
        self.trace, self.region, self.site = trace, region, site
        self.calls, self.messages = trace.message_calls, trace.messages
        logged, _ = read_message_logs(trace, trace.ranks_with_messages)
        self.call_shape, self.part_shape = logged.shape, logged.messages["shape"]
        self.flags = logged.messages["flags"].astype(np.int64) & RECORDED_FLAGS
        shapes = trace.tables.shapes
        self.operation = np.array([s.operation for s in shapes], object)
        self.communicator = np.array([s.communicator for s in shapes], np.uint32)
        self.peer = np.array(
            [find_position(trace, s.communicator, s.peer) for s in shapes], np.uint32
        )
        self.call = self.messages["call"].to_numpy(np.int64)
        self.received = self.messages["received"].to_numpy(np.bool_)
        self.event, self.request, self.is_started = self._choose_events()

    def _choose_events(self) -> tuple[Int, Array, Bool]:
        """Return the event and request of each message, and whether it needs a start of its own."""
        arrows = make_arrows(self.messages, self.calls)
        operation = self.operation[self.call_shape][self.call]
        is_probe = np.isin(operation, PROBES)
        is_received = ~is_probe[arrows.received]  # the receive after a probe may not be logged
        sent, received = arrows.sent[is_received], arrows.received[is_received]
        keys = ["rank", "received", *IDENTITY]
        group = self.messages.groupby(keys, sort=False).ngroup().to_numpy(np.int64)
        count = int(group.max(initial=-1)) + 1
        arrow_of = np.full(count, -1)
        arrow_of[group[sent]] = arrow_of[group[received]] = np.arange(len(sent))
        end = np.full(count, -1)  # the row in which the message is complete
        complete = self.messages["complete"].to_numpy(np.bool_)
        usable = (arrow_of[group] >= 0) & self.messages["sure"].to_numpy(np.bool_) & ~is_probe
        done = np.flatnonzero(usable & complete)
        end[group[done]] = done
        posted = self.messages["posted_ns"].to_numpy(np.int64)
        enter = self.calls["enter_ns"].to_numpy(np.int64)[self.call]
        same_site = (
            self.messages["site_id"].to_numpy() == self.calls["site_id"].to_numpy()[self.call]
        )
        is_post = (posted == enter) & same_site & (self.operation[self.part_shape] == operation)
        rows = np.arange(len(group))
        is_end = usable & (end[group] == rows)
        waited = np.zeros(count, np.bool_)  # a request is completed by another call
        waited[group[is_end & ~is_post]] = True
        has_post = np.zeros(count, np.bool_)
        has_post[group[usable & is_post]] = True
        last = np.full(count, -1)
        last[group[usable]] = rows[usable]
        event = np.full(len(group), PLAIN)
        of_wait = usable & waited[group]
        event[of_wait & ~complete] = TEST
        event[of_wait & is_post] = np.where(self.received, IRECV_REQUEST, ISEND)[of_wait & is_post]
        event[of_wait & is_end] = np.where(self.received, IRECV, ISEND_COMPLETE)[of_wait & is_end]
        direct = usable & ~waited[group] & is_post
        event[direct] = np.where(self.received, RECV, SEND)[direct]
        lone = usable & ~has_post[group] & (last[group] == rows)
        request = np.uint64(FIRST_REQUEST) + (2 * arrow_of[group] + self.received).astype(np.uint64)
        return event, np.where(of_wait, request, np.uint64(NEVER)), lone

    def of_rank(self, rank: int) -> MessageEvents:
        """Return the events of one rank."""
        ranks = self.calls["rank"].to_numpy()
        first, last = np.searchsorted(ranks, [rank, rank + 1]).tolist()
        rows = np.flatnonzero((self.call >= first) & (self.call < last))
        started = rows[self.is_started[rows]]
        messages = np.concatenate([self._convert(rows), self._convert_starts(started)])
        calls = np.zeros(last - first + len(started), library.call_dtype())
        logged, starts = calls[: last - first], calls[last - first :]
        times = [
            self.calls[name].to_numpy(np.int64)[first:last] for name in ("enter_ns", "exit_ns")
        ]
        logged["enter"] = np.maximum(times[0], 0)
        logged["exit"] = np.where(times[1] == 0, NEVER, np.maximum(times[1], 0).view(np.uint64))
        self._describe(logged, self.call_shape[first:last])
        count = np.bincount(self.call[rows] - first, minlength=last - first)
        logged["start"], logged["request"] = count, np.cumsum(count) - count
        logged["given"] = ATTRIBUTE_BITS["communicator"] | ATTRIBUTE_BITS["root"]
        starts["enter"] = starts["exit"] = messages["posted"][len(rows) :]
        self._describe(starts, self.part_shape[started])
        starts["start"], starts["request"] = 1, len(rows) + np.arange(len(started))
        calls["kind"] = MESSAGE_CALL
        thread = self.calls["thread"].to_numpy(np.int64)
        threads = np.concatenate([thread[first:last], thread[self.call[started]]])
        order = np.argsort(calls["enter"], kind="stable")
        return MessageEvents(calls[order], threads[order], messages)

    def _describe(self, calls: Array, shape: Int | Int32) -> None:
        calls["region"], calls["site"] = self.region[shape], self.site[shape]
        calls["communicator"], calls["root"] = self.communicator[shape], self.peer[shape]

    def _convert(self, rows: Int) -> Array:
        """Return messages in the layout of core/otf2/call.h."""
        converted = np.zeros(len(rows), library.message_dtype())
        table, shape = self.messages, self.part_shape[rows]
        size = table["bytes"].to_numpy(np.int64)[rows]
        converted["bytes"] = np.where(size < 0, np.uint64(NEVER), size.view(np.uint64))
        converted["posted"] = np.maximum(table["posted_ns"].to_numpy(np.int64)[rows], 0)
        converted["tag"] = table["tag"].to_numpy(np.int64)[rows] & 0xFFFFFFFF
        converted["number"] = table["number"].to_numpy(np.int64)[rows]
        converted["communicator"], converted["peer"] = self.communicator[shape], self.peer[shape]
        converted["region"], converted["site"] = self.region[shape], self.site[shape]
        converted["flags"], converted["received"] = self.flags[rows], self.received[rows]
        converted["event"], converted["request"], converted["given"] = (
            self.event[rows],
            self.request[rows],
            1,
        )
        return converted

    def _convert_starts(self, rows: Int) -> Array:
        """Return the starts of messages without a logged start; mpiprof ignores them."""
        converted = self._convert(rows)
        event = self.event[rows]
        converted["event"] = np.select(
            [event == IRECV, event == ISEND_COMPLETE], [IRECV_REQUEST, ISEND], SEND
        )
        converted["given"] = 0
        return converted


def find_position(trace: Trace, communicator: int, rank: int) -> int:
    """Return the rank in its group of a communicator, or UNDEFINED."""
    for group in trace.tables.communicators[communicator].groups if rank >= 0 else ():
        positions = np.flatnonzero(group == rank)
        if len(positions):
            return int(positions[0])
    return UNDEFINED


def make_sum_texts(trace: Trace, site_regions: list[int]) -> list[str]:
    """Return the sums of the calls on messages as texts for mpiprof, with the sites' regions."""
    table, texts = trace.message_sums, []
    for rank, rows in table.groupby("rank"):
        for first in range(0, len(rows), ROWS_PER_STRING):
            part = rows.iloc[first : first + ROWS_PER_STRING]
            communicators = part["communicator"].tolist()
            peers = zip(communicators, part["peer"].tolist(), strict=True)
            positions = [
                find_position(trace, c, peer) if peer >= 0 else UNDEFINED for c, peer in peers
            ]
            columns: dict[str, Any] = {
                "rank": int(str(rank)),
                "operation": part["operation"].tolist(),
                "communicator": communicators,
                "site": [site_regions[s] if s >= 0 else -1 for s in part["site_id"].tolist()],
                "peer": positions,
                **{name: part[name].tolist() for name in SUM_COLUMNS},
            }
            texts.append(SUMS_PREFIX + json.dumps(columns))
    return texts
