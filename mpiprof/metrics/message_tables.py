"""Tables of point-to-point messages: sums by call site and peer, long calls, and their messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.metrics.tables import label_sites
from mpiprof.trace.messages import (
    COMPLETE,
    UNKNOWN_PEER,
    UNSURE,
    MessageCalls,
    read_calls,
    read_sums,
)
from mpiprof.trace.trace import Trace

SUMS = ("calls", "total_ns", "longest_ns", "sent", "received")
Make: TypeAlias = Callable[[Trace], pd.DataFrame]
PARTNER_MASK = (1 << 22) - 1
IDENTITY = ["communicator", "source", "destination", "tag", "number"]


def read_if_stored(make: Make) -> Make:
    """Let a function return the table of a data set, if the trace is one."""

    @wraps(make)
    def read_or_make(trace: Trace) -> pd.DataFrame:
        name = make.__name__.removeprefix("make_")
        columns = trace.dataset.read_columns(name) if trace.dataset is not None else None
        return make(trace) if columns is None else pd.DataFrame(columns)

    return read_or_make


@read_if_stored
def make_message_sums(trace: Trace) -> pd.DataFrame:
    """Return one row per rank, call site and peer, with sums over all calls on messages.

    rank, operation, site (text), site_id and communicator (indices into the tables), peer (world
    rank; -1 without a peer), calls, total_ns and longest_ns (time in the calls), sent and received
    (bytes; a receive with an ignored status counts no bytes).
    """
    sums = [read_sums(trace, rank) for rank in range(trace.ranks)]
    ranks = np.repeat(np.arange(trace.ranks), [len(of_rank["shape"]) for of_rank in sums])
    shapes = np.concatenate([of_rank["shape"] for of_rank in sums])
    frame = pd.DataFrame({"rank": ranks, **describe_shapes(trace, shapes)})
    for name in SUMS:
        frame[name] = np.concatenate([of_rank[name] for of_rank in sums])
    return frame


@read_if_stored
def make_message_calls(trace: Trace) -> pd.DataFrame:
    """Return one row per logged call on messages, by rank, thread and time.

    rank, thread, operation, site, site_id, communicator, peer, enter_ns, exit_ns (0 if open),
    messages (number of messages that the call sends, receives or completes).
    """
    calls = trace.derive("message_logs")
    ranks = np.repeat(np.arange(trace.ranks), [len(of_rank.enter_ns) for of_rank in calls])
    shapes = _join(calls, "shape")
    frame = pd.DataFrame({"rank": ranks, "thread": _join(calls, "thread")})
    for name, values in describe_shapes(trace, shapes).items():
        frame[name] = values
    for name, of in (("enter_ns", "enter_ns"), ("exit_ns", "exit_ns"), ("messages", "parts")):
        frame[name] = _join(calls, of)
    return frame


@read_if_stored
def make_messages(trace: Trace) -> pd.DataFrame:
    """Return one row per message of a logged call, as seen by one of its ranks.

    call (row of `message_calls`), rank, received (else sent), communicator, source and destination
    (world ranks, -1 if unknown), tag, number, bytes (-1 if unknown), posted_ns, site_id (of the
    call that posted it), complete (when the call returned), sure (whether the number is certain),
    partner (row of the same message as its other rank sees it, -1 if that is not in the table).
    """
    logs: list[MessageCalls] = trace.derive("message_logs")
    counts = [len(of_rank.enter_ns) for of_rank in logs]
    offsets = np.repeat(
        np.concatenate([[0], np.cumsum(counts)[:-1]]), [len(of_rank.call) for of_rank in logs]
    )
    ranks = np.repeat(np.arange(trace.ranks), [len(of_rank.call) for of_rank in logs])
    shape = describe_shapes(trace, _join(logs, "part_shape"))
    received, flags = _join(logs, "received").astype(np.bool_), _join(logs, "flags")
    peer = np.where(flags & UNKNOWN_PEER, -1, shape["peer"])
    frame = pd.DataFrame(
        {
            "call": _join(logs, "call") + offsets,
            "rank": ranks,
            "received": received,
            "communicator": shape["communicator"],
            "source": np.where(received, peer, ranks),
            "destination": np.where(received, ranks, peer),
            "tag": _join(logs, "tag"),
            "number": _join(logs, "number"),
            "bytes": _join(logs, "bytes"),
            "posted_ns": _join(logs, "posted_ns"),
            "site_id": shape["site_id"],
            "complete": flags & COMPLETE != 0,
            "sure": (flags & UNSURE == 0) & (peer >= 0),
        }
    )
    frame["partner"] = _find_partners(frame, trace)
    return frame


def read_message_logs(trace: Trace) -> list[MessageCalls]:
    """Return the logged message calls of each rank."""
    return [read_calls(trace, rank) for rank in range(trace.ranks)]


def describe_shapes(trace: Trace, indices: Any) -> dict[str, Any]:
    """Return columns for shapes: operation, site, site_id, communicator and peer."""
    facts: dict[str, Any] = trace.derive("shape_facts")
    return {name: values[indices] for name, values in facts.items()}


def make_shape_facts(trace: Trace) -> dict[str, Any]:
    """Return the columns of `describe_shapes`, with one value for each shape of the tables."""
    labels, shapes = label_sites(trace), trace.tables.shapes
    return {
        "operation": np.array([shape.operation for shape in shapes], object),
        "site": np.array([labels[shape.site] for shape in shapes], object),
        "site_id": np.array([shape.site for shape in shapes], np.int64),
        "communicator": np.array([shape.communicator for shape in shapes], np.int64),
        "peer": np.array([shape.peer for shape in shapes], np.int64),
    }


def _join(logs: list[MessageCalls], name: str) -> Any:
    return np.concatenate([np.zeros(0, np.int64), *(getattr(log, name) for log in logs)])


def _find_partners(messages: pd.DataFrame, trace: Trace) -> Any:
    """Return for each message the row in which its other rank sees it, or -1.

    Numbers of messages that are local to a rank (unknown communicators) identify nothing.
    """
    local = np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)
    usable = messages["sure"].to_numpy() & ~local[messages["communicator"].to_numpy()]
    is_sent = ~messages["received"].to_numpy()
    identity = _hash_identities(messages)
    rows = np.flatnonzero(_may_have_partner(identity, usable, is_sent))
    rows = rows[np.argsort(identity[rows])]
    first = np.flatnonzero(np.diff(identity[rows], prepend=~identity[rows[:1]]))
    partner = np.full(len(messages), -1, np.int64)
    # A message may be in several calls: of the start and of the Wait, or of a probe and of the
    # receive. The partner is the last row of the other rank.
    for of_side in (is_sent[rows], ~is_sent[rows]) if len(rows) else ():
        last = np.maximum.reduceat(np.where(of_side, rows, -1), first)
        last = np.repeat(last, np.diff(first, append=len(rows)))
        partner[rows[~of_side]] = last[~of_side]
    return partner


def _hash_identities(messages: pd.DataFrame) -> Any:
    """Return 64 bits that are equal for equal identities; 10^8 others collide in 1 of 3000 runs."""
    identity = np.zeros(len(messages), np.uint64)
    for name in IDENTITY:
        identity ^= messages[name].to_numpy(np.int64).view(np.uint64)
        identity *= np.uint64(0x9E3779B97F4A7C15)
        identity ^= identity >> np.uint64(32)
    return identity


def _may_have_partner(identity: Any, usable: Any, is_sent: Any) -> Any:
    """Return which usable messages may have a partner, by the last bits of the identities.

    Mostly, long calls are only on one side of the messages, so few have a partner.
    """
    low = (identity & np.uint64(PARTNER_MASK)).astype(np.int64)
    seen = []
    for side in (usable & is_sent, usable & ~is_sent):
        occurs = np.zeros(PARTNER_MASK + 1, np.bool_)
        occurs[low[side]] = True
        seen.append(occurs)
    return usable & np.where(is_sent, seen[1][low], seen[0][low])
