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
IDENTITY = ["communicator", "source", "destination", "tag", "number"]


def _stored(make: Make) -> Make:
    """Let a function return the table of a data set, if the trace is one."""

    @wraps(make)
    def read_or_make(trace: Trace) -> pd.DataFrame:
        name = make.__name__.removeprefix("make_")
        columns = trace.dataset.read_messages(name) if trace.dataset is not None else None
        return make(trace) if columns is None else pd.DataFrame(columns)

    return read_or_make


@_stored
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


@_stored
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


@_stored
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
    labels, shapes = label_sites(trace), trace.tables.shapes
    used, inverse = np.unique(indices, return_inverse=True)
    described = [shapes[index] for index in used.tolist()]

    def spread(values: list[Any], dtype: Any) -> Any:
        return np.array(values, dtype)[inverse]

    return {
        "operation": spread([shape.operation for shape in described], object),
        "site": spread([labels[shape.site] for shape in described], object),
        "site_id": spread([shape.site for shape in described], np.int64),
        "communicator": spread([shape.communicator for shape in described], np.int64),
        "peer": spread([shape.peer for shape in described], np.int64),
    }


def _join(logs: list[MessageCalls], name: str) -> Any:
    return np.concatenate([np.zeros(0, np.int64), *(getattr(log, name) for log in logs)])


def _find_partners(messages: pd.DataFrame, trace: Trace) -> Any:
    """Return for each message the row in which its other rank sees it, or -1.

    Numbers of messages that are local to a rank (unknown communicators) identify nothing.
    """
    local = np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)
    usable = messages[messages["sure"].to_numpy() & ~local[messages["communicator"].to_numpy()]]
    sent, received = (
        usable.loc[usable["received"] == side, IDENTITY].reset_index() for side in (False, True)
    )
    # A message may be in several calls: of the start and of the Wait, or of a probe and of the
    # receive. The partner is the last row of the other rank.
    partner = np.full(len(messages), -1, np.int64)
    for rows, others in ((received, sent), (sent, received)):
        last = others.drop_duplicates(IDENTITY, keep="last")
        pairs = rows.merge(last, on=IDENTITY, suffixes=("", "_other"))
        partner[pairs["index"]] = pairs["index_other"]
    return partner
