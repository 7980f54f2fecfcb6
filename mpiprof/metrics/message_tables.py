"""Tables of messages: sums by call site and peer, long calls, their messages, and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.metrics.message_rows import (
    COLUMNS,
    MessageRows,
    find_local,
    find_partners,
    pack_messages,
)
from mpiprof.metrics.tables import label_sites
from mpiprof.operations import MESSAGE_OPERATIONS
from mpiprof.trace.intervals import Intervals
from mpiprof.trace.message_counts import TAG_CLASSES
from mpiprof.trace.messages import DOUBTFUL, MessageCalls, read_message_logs, read_sums
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS

SUMS = ("calls", "total_ns", "longest_ns", "sent", "received")
Make: TypeAlias = Callable[[Trace], pd.DataFrame]
SUMS_TABLES = ("message_sums", "local_sums")  # have plain texts, the other tables have categories
TEXTS = {"operation", "site"}
MAX_NS = np.iinfo(np.int64).max
CALL_COLUMNS = ("operation", "site", "site_id")  # of the calls before and after an interval
SHAPE_COLUMNS = ("operation", "site", "site_id", "communicator", "peer")


def read_if_stored(make: Make) -> Make:
    """Let a function return the table of a data set, if the trace is one."""

    @wraps(make)
    def read_or_make(trace: Trace) -> pd.DataFrame:
        name = make.__name__.removeprefix("make_")
        stored = trace.dataset.read_columns(name) if trace.dataset is not None else None
        if stored is None:
            return make(trace)
        columns: dict[str, Any] = {**stored}
        if name not in SUMS_TABLES:
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
    (bytes; of a nonblocking receive with an ignored status, the size of its buffer).
    """
    sums: pd.DataFrame = trace.derive("call_sums")
    return sums[sums["operation"].isin(MESSAGE_OPERATIONS)].reset_index(drop=True)


@read_if_stored
def make_local_sums(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and call site, with sums over all calls of one rank without messages.

    These calls concern partitions, windows, files, the creation of communicators, and
    communicators of one rank. The columns are those of `message_sums`.
    """
    sums: pd.DataFrame = trace.derive("call_sums")
    return sums[~sums["operation"].isin(MESSAGE_OPERATIONS)].reset_index(drop=True)


def make_call_sums(trace: Trace) -> pd.DataFrame:
    """Return the rows of `message_sums` and `local_sums`, which one pass reads."""
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
    """Return one row per logged call on messages, windows, files etc., by rank, thread and time.

    rank, thread, operation, site, site_id, communicator (or window or file; the group of
    MPI_Win_post and MPI_Win_start), peer, enter_ns, exit_ns (0 if open), messages (number of
    messages that the call sends, receives or completes), epoch (number of a MPI_Win_post or
    MPI_Win_start on its window, else 0), lock (1 exclusive, 2 shared, 0 other calls), polls (number
    of calls in vain in the row, which begins with the first of them), polled_ns (begin of the call
    that found something; the end of the row if none did; 0 without calls in vain).
    """
    calls: pd.DataFrame = trace.derive("message_logs")[0]
    return calls


@read_if_stored
def make_messages(trace: Trace) -> pd.DataFrame:
    """Return one row per message of a logged call, as seen by one of its ranks.

    call (row of `message_calls`), rank, received (else sent), communicator, source and destination
    (world ranks, -1 if unknown), tag, number, bytes (-1 if unknown), posted_ns, site_id (of the
    call that posted it), complete (when the call returned), sure (whether the number is certain),
    any_source (whether it was received from any source),
    partner (row of the same message as its other rank sees it, -1 if that is not in the table).
    """
    rows: MessageRows = trace.derive("message_rows")
    return pd.DataFrame(rows.take_columns(COLUMNS), copy=False)


@read_if_stored
def make_intervals(trace: Trace) -> pd.DataFrame:
    """Return one row per logged interval, by rank, thread and time.

    rank, thread, begin_ns, end_ns (of the interval), before_operation, before_site (text),
    before_site_id (the call before; "" and -1 if it is unknown, as at the start), after_operation,
    after_site, after_site_id, and the counters of trace.intervals.Intervals, -1 if unknown.
    """
    columns: dict[str, Any] = vars(trace.derive("message_logs")[2]).copy()
    described = {
        f"{side}_{name}": values
        for side in ("before", "after")
        for name, values in describe_shapes(
            trace, columns.pop(f"{side}_shape"), CALL_COLUMNS
        ).items()
    }
    first = {name: columns.pop(name) for name in ("rank", "thread", "begin_ns", "end_ns")}
    return pd.DataFrame({**first, **described, **columns}, copy=False)


def find_message_rows(trace: Trace) -> MessageRows:
    """Return the messages of logged calls as rows."""
    stored = trace.dataset.read_columns("messages") if trace.dataset is not None else None
    if stored is not None:
        return pack_messages(trace.messages, trace.message_calls)
    rows: MessageRows = trace.derive("message_logs")[1]
    return rows


def read_message_tables(trace: Trace) -> tuple[pd.DataFrame, MessageRows, Intervals]:
    """Return the table of logged calls, their messages, and the intervals: one pass."""
    span = (trace.begin_ns, trace.end_ns) if isinstance(trace, TraceWindow) else (START_NS, END_NS)
    logs, intervals = read_message_logs(trace, trace.ranks_with_messages, span=span)
    calls = _make_calls(trace, logs)
    facts = trace.derive("shape_facts")
    of_shapes = facts["communicator"], facts["peer"], facts["site_id"]
    rows = MessageRows(logs.messages, *of_shapes, logs.rank, logs.enter_ns, logs.exit_ns)
    _mark_sends_after_cancel(rows, calls)
    find_partners(rows.make_struct(trace.ranks), find_local(trace))
    return calls, rows, intervals


def _make_calls(trace: Trace, of: MessageCalls) -> pd.DataFrame:
    columns: dict[str, Any] = {"rank": of.rank, "thread": of.thread}
    columns |= describe_shapes(trace, of.shape)
    columns |= {"enter_ns": of.enter_ns, "exit_ns": of.exit_ns, "messages": of.parts}
    columns |= {"epoch": of.epoch, "lock": of.lock}
    columns |= {"polls": of.polls, "polled_ns": of.polled_ns}
    return pd.DataFrame(columns, copy=False)


def _mark_sends_after_cancel(messages: MessageRows, calls: pd.DataFrame) -> None:
    """Mark messages that a rank sent after one that it tried to cancel, in its class of tags.

    A cancelled message has a number that the receiver does not count. If the recorder did not know
    the request, the numbers of all messages that the rank sends are doubtful.
    """
    cancels = np.flatnonzero(calls["operation"] == "cancel")
    if not len(cancels):
        return
    keys = ["rank", "communicator", "destination", "tag"]
    of = messages.take_columns([*keys, "call", "posted_ns", "received"])
    is_sent, posted = ~of["received"], of["posted_ns"]
    unknown = cancels[calls["messages"].to_numpy()[cancels] == 0]
    doubtful = is_sent & np.isin(of["rank"], calls["rank"].to_numpy()[unknown])
    of["tag"] %= TAG_CLASSES
    frame = pd.DataFrame({name: of[name] for name in keys})
    frame["since"] = np.where(is_sent & np.isin(of["call"], cancels), posted, MAX_NS)
    doubtful |= is_sent & (posted >= frame.groupby(keys)["since"].transform("min"))
    messages.rows["flags"][doubtful] |= DOUBTFUL


def describe_shapes(
    trace: Trace, indices: Any, names: Sequence[str] = SHAPE_COLUMNS
) -> dict[str, Any]:
    """Return columns for shapes. Texts are categories. Index -1 stands for no call: "" and -1."""
    facts: dict[str, Any] = trace.derive("shape_facts")
    return {name: facts[name][indices] for name in names}


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
