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
SUMS_TABLE = "message_sums"  # has plain texts, the other tables have categories
TEXTS = {"operation", "site"}
PARTNER_MASK = (1 << 22) - 1
IDENTITY = ["communicator", "source", "destination", "tag", "number"]


def read_if_stored(make: Make) -> Make:
    """Let a function return the table of a data set, if the trace is one."""

    @wraps(make)
    def read_or_make(trace: Trace) -> pd.DataFrame:
        name = make.__name__.removeprefix("make_")
        stored = trace.dataset.read_columns(name) if trace.dataset is not None else None
        if stored is None:
            return make(trace)
        columns: dict[str, Any] = {**stored}
        if name != SUMS_TABLE:
            facts: dict[str, Any] = trace.derive("shape_facts")
            for text in columns:
                of = text.rpartition("_")[2]
                if of in TEXTS:
                    columns[text] = pd.Categorical(columns[text], facts[of].categories)
        return pd.DataFrame(columns, copy=False)

    return read_or_make


@read_if_stored
def make_message_sums(trace: Trace) -> pd.DataFrame:
    """Return one row per rank, call site and peer, with sums over all calls on messages.

    rank, operation, site (text), site_id and communicator (indices into the tables), peer (world
    rank; -1 without a peer), calls, total_ns and longest_ns (time in the calls), sent and received
    (bytes; a receive with an ignored status counts no bytes).
    """
    sums = [read_sums(trace, rank) for rank in trace.ranks_with_messages]
    counts = [len(of_rank["shape"]) for of_rank in sums]
    ranks = np.repeat(np.array(trace.ranks_with_messages, np.int64), counts)
    empty = np.zeros(0, np.int64)
    shapes = np.concatenate([empty, *(of_rank["shape"] for of_rank in sums)])
    described = {name: np.asarray(of) for name, of in describe_shapes(trace, shapes).items()}
    frame = pd.DataFrame({"rank": ranks, **described})
    for name in SUMS:
        frame[name] = np.concatenate([empty, *(of_rank[name] for of_rank in sums)])
    return frame


@read_if_stored
def make_message_calls(trace: Trace) -> pd.DataFrame:
    """Return one row per logged call on messages, by rank, thread and time.

    rank, thread, operation, site, site_id, communicator, peer, enter_ns, exit_ns (0 if open),
    messages (number of messages that the call sends, receives or completes).
    """
    calls: pd.DataFrame = trace.derive("message_logs")[0]
    return calls


@read_if_stored
def make_messages(trace: Trace) -> pd.DataFrame:
    """Return one row per message of a logged call, as seen by one of its ranks.

    call (row of `message_calls`), rank, received (else sent), communicator, source and destination
    (world ranks, -1 if unknown), tag, number, bytes (-1 if unknown), posted_ns, site_id (of the
    call that posted it), complete (when the call returned), sure (whether the number is certain),
    partner (row of the same message as its other rank sees it, -1 if that is not in the table).
    """
    messages: pd.DataFrame = trace.derive("message_logs")[1]
    return messages


def read_message_logs(trace: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of logged calls and of their messages, which one pass reads."""
    logs = [read_calls(trace, rank) for rank in trace.ranks_with_messages]
    calls = _make_calls(trace, logs)
    return calls, _make_messages(trace, logs)


def _make_calls(trace: Trace, logs: list[MessageCalls]) -> pd.DataFrame:
    counts = [len(of_rank.enter_ns) for of_rank in logs]
    ranks = np.repeat(np.array(trace.ranks_with_messages, np.int32), counts)
    columns = {"rank": ranks, "thread": _join(logs, "thread", np.int32)}
    columns |= describe_shapes(trace, _join(logs, "shape"))
    columns |= {"enter_ns": _join(logs, "enter_ns"), "exit_ns": _join(logs, "exit_ns")}
    columns["messages"] = _join(logs, "parts")
    return pd.DataFrame(columns, copy=False)


def _make_messages(trace: Trace, logs: list[MessageCalls]) -> pd.DataFrame:
    parts = [len(of_rank.call) for of_rank in logs]
    calls = np.cumsum([0, *(len(of_rank.enter_ns) for of_rank in logs)])[:-1]
    ranks = np.repeat(np.array(trace.ranks_with_messages, np.int32), parts)
    shape = describe_shapes(trace, _join(logs, "part_shape"))
    received, flags = _join(logs, "received", np.bool_), _join(logs, "flags").astype(np.uint8)
    peer = np.where(flags & UNKNOWN_PEER, np.int32(-1), shape["peer"])
    columns = {
        "call": _join(logs, "call") + np.repeat(calls, parts),
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
    columns["partner"] = _find_partners(columns, trace)
    return pd.DataFrame(columns, copy=False)


def describe_shapes(trace: Trace, indices: Any) -> dict[str, Any]:
    """Return columns for shapes: operation, site, site_id, communicator and peer.

    Texts are categories. Index -1 stands for no call: "" and -1.
    """
    facts: dict[str, Any] = trace.derive("shape_facts")
    return {name: values[indices] for name, values in facts.items()}


def make_shape_facts(trace: Trace) -> dict[str, Any]:
    """Return the columns of `describe_shapes`: a value for each shape, and one for no call."""
    labels, shapes = label_sites(trace), trace.tables.shapes
    return {
        "operation": pd.Categorical([shape.operation for shape in shapes] + [""]),
        "site": pd.Categorical([labels[shape.site] for shape in shapes] + [""]),
        "site_id": np.array([shape.site for shape in shapes] + [-1], np.int32),
        "communicator": np.array([shape.communicator for shape in shapes] + [-1], np.int32),
        "peer": np.array([shape.peer for shape in shapes] + [-1], np.int32),
    }


def _join(logs: list[MessageCalls], name: str, dtype: Any = np.int64) -> Any:
    return np.concatenate([np.zeros(0, dtype), *(getattr(log, name) for log in logs)], dtype=dtype)


def _find_partners(messages: dict[str, Any], trace: Trace) -> Any:
    """Return for each message the row in which its other rank sees it, or -1.

    Numbers of messages that are local to a rank (unknown communicators) identify nothing.
    """
    local = np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)
    usable = messages["sure"] & ~local[messages["communicator"]]
    is_sent = ~messages["received"]
    identity = _hash_identities(messages)
    rows = np.flatnonzero(_may_have_partner(identity, usable, is_sent))
    rows = rows[np.argsort(identity[rows])]
    first = np.flatnonzero(np.diff(identity[rows], prepend=~identity[rows[:1]]))
    partner = np.full(len(identity), -1, np.int64)
    # A message may be in several calls: of the start and of the Wait, or of a probe and of the
    # receive. The partner is the last row of the other rank.
    for of_side in (is_sent[rows], ~is_sent[rows]) if len(rows) else ():
        last = np.maximum.reduceat(np.where(of_side, rows, -1), first)
        last = np.repeat(last, np.diff(first, append=len(rows)))
        partner[rows[~of_side]] = last[~of_side]
    return partner


def _hash_identities(messages: dict[str, Any]) -> Any:
    """Return 64 bits that are equal for equal identities; 10^8 others collide in 1 of 3000 runs."""
    identity = np.zeros(len(messages["tag"]), np.uint64)
    for name in IDENTITY:
        identity ^= messages[name].astype(np.uint64)
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
