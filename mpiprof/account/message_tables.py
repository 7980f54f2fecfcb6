"""Tables of messages: sums by call site and peer, long calls, their messages, and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.account.tables import label_sites
from mpiprof.facts.operations import MESSAGE_OPERATIONS
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.intervals import Intervals
from mpiprof.trace.message_counts import TAG_CLASSES, MessageCounts
from mpiprof.trace.message_decoder import MESSAGE
from mpiprof.trace.messages import (
    ANY_SOURCE,
    COMPLETE,
    DOUBTFUL,
    IN_ORDER,
    RECEIVED_FLAG,
    UNKNOWN_PEER,
    UNSURE,
    MessageCalls,
    read_message_logs,
    read_sums,
)
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS, Array, Bool, Int

SUMS = ("calls", "total_ns", "longest_ns", "sent", "received")
Make: TypeAlias = Callable[[Trace], pd.DataFrame]
SUMS_TABLES = ("message_sums", "local_sums")  # have plain texts, the other tables have categories
TEXTS = {"operation", "site"}
MAX_NS = np.iinfo(np.int64).max
CALL_COLUMNS = ("operation", "site", "site_id")  # of the calls before and after an interval
SHAPE_COLUMNS = ("operation", "site", "site_id", "communicator", "peer")
# The fields of the struct in core/python_api/messages.h.
TABLE = {
    **dict.fromkeys(("count", "ranks"), int),
    "messages": MESSAGE,
    **dict.fromkeys(("communicators", "peers", "rank"), np.int32),
    **dict.fromkeys(("enter_ns", "exit_ns"), np.int64),
}
MESSAGE_COLUMNS = (
    *("call", "rank", "received", "communicator", "source", "destination", "tag", "number"),
    *("bytes", "posted_ns", "site_id", "complete", "sure", "any_source", "partner"),
)
IDENTITY = ("communicator", "source", "destination", "tag", "number")
OF_SHAPE = {"communicator": "communicators", "site_id": "sites"}
FLAGS = {"received": RECEIVED_FLAG, "complete": COMPLETE, "any_source": ANY_SOURCE}
WIDE = ("call", "number", "partner")  # of 64 bits in tables


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
                fact = text.rpartition("_")[2]
                if fact in TEXTS:
                    columns[text] = pd.Categorical(columns[text], facts[fact].categories)
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
    described = {
        name: np.asarray(column) for name, column in describe_shapes(trace, shapes).items()
    }
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
    return pd.DataFrame(rows.take_columns(MESSAGE_COLUMNS), copy=False)


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
    span = (START_NS, END_NS, 0)
    if isinstance(trace, TraceWindow):
        span = (trace.begin_ns, trace.end_ns, trace.margin_ns)
    logs, intervals = read_message_logs(trace, trace.ranks_with_messages, span=span)
    calls = _make_calls(trace, logs)
    facts = trace.derive("shape_facts")
    of_shapes = facts["communicator"], facts["peer"], facts["site_id"]
    rows = MessageRows(logs.messages, *of_shapes, logs.rank, logs.enter_ns, logs.exit_ns)
    _mark_sends_after_cancel(rows, calls)
    match_messages(trace, rows)
    return calls, rows, intervals


def _make_calls(trace: Trace, calls: MessageCalls) -> pd.DataFrame:
    columns: dict[str, Any] = {"rank": calls.rank, "thread": calls.thread}
    columns |= describe_shapes(trace, calls.shape)
    columns |= {"enter_ns": calls.enter_ns, "exit_ns": calls.exit_ns, "messages": calls.parts}
    columns |= {"epoch": calls.epoch, "lock": calls.lock}
    columns |= {"polls": calls.polls, "polled_ns": calls.polled_ns}
    return pd.DataFrame(columns, copy=False)


def match_messages(trace: Trace, messages: MessageRows) -> None:
    """Set the partner of each message as find_partners.

    A receive with any tag may be numbered among all messages of its source. That is the number of
    the sender as well if all its messages to the receiver have one tag.
    """
    rows, numbered = messages.rows, RECEIVED_FLAG | COMPLETE | IN_ORDER
    index = np.flatnonzero((rows["flags"] & (numbered | UNSURE)) == numbered)
    peer = messages.get_peers(rows[index])
    index = index[(peer >= 0) & (peer < trace.ranks)]
    tags = _find_only_tags(trace, messages, index)
    recorded_tags = rows["tag"][index]
    is_usable = (tags >= 0) & ((recorded_tags < 0) | (recorded_tags == tags))
    index, tags, recorded_tags = index[is_usable], tags[is_usable], recorded_tags[is_usable]
    rows["tag"][index] = tags
    rows["flags"][index] &= ~np.uint8(IN_ORDER)
    find_partners(messages.make_struct(trace.ranks), find_local(trace))
    is_alone = rows["partner"][index] < 0
    rows["tag"][index[is_alone]] = recorded_tags[is_alone]
    rows["flags"][index[is_alone]] |= IN_ORDER


def _find_only_tags(trace: Trace, messages: MessageRows, index: Int) -> Int:
    """Return the only tag with which the source of each message sends to its receiver, or -1."""
    if not len(index):
        return np.zeros(0, np.int64)
    counts: MessageCounts = trace.derive("message_counts")
    shape, call = messages.rows["shape"][index], messages.rows["call"][index]
    communicator = messages.communicators[shape].astype(np.int64)
    pair = messages.peers[shape].astype(np.int64) * trace.ranks + messages.rank[call]
    channels, number = np.unique(communicator * trace.ranks**2 + pair, return_inverse=True)
    communicators, pairs = np.divmod(channels, trace.ranks**2)
    ranks = np.divmod(pairs, trace.ranks)
    channel_columns = (column.tolist() for column in (communicators, *ranks))
    tags = [counts.find_only_tag(*channel) for channel in zip(*channel_columns, strict=True)]
    return np.array(tags, np.int64)[number]


def _mark_sends_after_cancel(messages: MessageRows, calls: pd.DataFrame) -> None:
    """Mark messages that a rank sent after one that it tried to cancel, in its class of tags.

    A cancelled message has a number that the receiver does not count. If the recorder did not know
    the request, the numbers of all messages that the rank sends are doubtful.
    """
    cancels = np.flatnonzero(calls["operation"] == "cancel")
    if not len(cancels):
        return
    keys = ["rank", "communicator", "destination", "tag"]
    facts = messages.take_columns([*keys, "call", "posted_ns", "received"])
    is_sent, posted = ~facts["received"], facts["posted_ns"]
    unknown = cancels[calls["messages"].to_numpy()[cancels] == 0]
    doubtful = is_sent & np.isin(facts["rank"], calls["rank"].to_numpy()[unknown])
    facts["tag"] %= TAG_CLASSES
    frame = pd.DataFrame({name: facts[name] for name in keys})
    frame["since"] = np.where(is_sent & np.isin(facts["call"], cancels), posted, MAX_NS)
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


@dataclass(frozen=True)
class MessageRows:
    """Messages in the order of their calls.

    rows: of MESSAGE. communicators, peers, sites: of each shape. rank, enter_ns, exit_ns: of each
    call.
    """

    rows: Array
    communicators: Array
    peers: Array
    sites: Array
    rank: Array
    enter_ns: Int
    exit_ns: Int

    def make_struct(self, ranks: int) -> Struct:
        """Return the struct in C."""
        values = {name: getattr(self, name) for name in TABLE if hasattr(self, name)}
        counts = {"count": len(self.rows), "ranks": ranks}
        return Struct(TABLE, values | counts | {"messages": self.rows})

    def have_flag(self, flag: int) -> Bool:
        """Return which messages have a flag."""
        return (self.rows["flags"] & flag) > 0

    def get_peers(self, rows: Array) -> Array:
        """Return the other rank of some messages, -1 if it is unknown."""
        unknown = (rows["flags"] & UNKNOWN_PEER) > 0
        return np.where(unknown, np.int32(-1), self.peers[rows["shape"]])

    def take_columns(self, names: Sequence[str], rows: Array | None = None) -> dict[str, Array]:
        """Return columns of `Trace.messages`; rows: some of the rows."""
        return {
            name: self._take_column(name, self.rows if rows is None else rows) for name in names
        }

    def _take_column(self, name: str, rows: Array) -> Array:
        if name in OF_SHAPE:
            column: Array = getattr(self, OF_SHAPE[name])[rows["shape"]]
        elif name in FLAGS:
            column = (rows["flags"] & FLAGS[name]) > 0
        elif name == "rank":
            column = self.rank[rows["call"]]
        elif name in ("source", "destination"):
            is_peer = ((rows["flags"] & RECEIVED_FLAG) > 0) == (name == "source")
            column = np.where(is_peer, self.get_peers(rows), self.rank[rows["call"]])
        elif name == "sure":
            column = (rows["flags"] & (UNSURE | DOUBTFUL)) == 0
            column &= self.get_peers(rows) >= 0
        else:
            column = rows[name].astype(np.int64 if name in WIDE else rows[name].dtype)
        return column


def pack_messages(table: pd.DataFrame, calls: pd.DataFrame) -> MessageRows:
    """Return the rows of the tables `Trace.messages` and `Trace.message_calls`."""
    facts_of_messages: dict[str, Any] = {
        str(name): column.to_numpy() for name, column in table.items()
    }
    rows = np.zeros(len(table), MESSAGE)
    for name in ("posted_ns", "bytes", "call", "partner", "number", "tag"):
        rows[name] = facts_of_messages[name]
    rows["flags"] = (
        RECEIVED_FLAG * facts_of_messages["received"]
        + COMPLETE * facts_of_messages["complete"]
        + UNSURE * ~facts_of_messages["sure"]
    )
    if "any_source" in facts_of_messages:  # data sets of earlier versions lack it
        rows["flags"] |= (ANY_SOURCE * facts_of_messages["any_source"]).astype(np.uint8)
    peer = np.where(
        facts_of_messages["received"], facts_of_messages["source"], facts_of_messages["destination"]
    )
    facts = [facts_of_messages["communicator"], peer, facts_of_messages["site_id"]]
    sizes = [int(fact.max(initial=-1)) + 2 for fact in facts]  # unknown facts are -1
    code = np.ravel_multi_index([fact.astype(np.int64) + 1 for fact in facts], sizes)
    codes, rows["shape"] = np.unique(code, return_inverse=True)
    communicators, peers, sites = np.unravel_index(codes, sizes)
    rank, enter_ns, exit_ns = (calls[name].to_numpy() for name in ("rank", "enter_ns", "exit_ns"))
    return MessageRows(rows, communicators - 1, peers - 1, sites - 1, rank, enter_ns, exit_ns)


def find_local(trace: Trace) -> Bool:
    """Return whether the numbers of messages of each communicator identify nothing.

    Those of unknown communicators are local to a rank. The last element is for no communicator.
    """
    return np.array([c.is_local for c in trace.tables.communicators] + [True], np.bool_)


def find_partners(messages: Struct, is_local: Bool) -> None:
    """Set the partner of each message: the last row in which its other rank sees it, or -1.

    The receiver of a message does not know its bytes if the program ignores the status. Then these
    become those of the partner. messages: of TABLE. is_local: of each communicator,
    whether the numbers of its messages identify nothing.
    """
    ranks, count = int(messages.fields[1]), int(messages.fields[0])
    first, rows = np.zeros((2, ranks + 1), np.int64), np.empty(count, np.int32)
    next_ = np.zeros((2, ranks), np.int64)
    call_library("message_match_group", messages, is_local, first, next_, rows)
    of_sent, of_received = np.diff(first)
    table = np.empty((1 << (2 * int(of_sent.max(initial=0))).bit_length(), 2), np.int64)
    for rank in np.flatnonzero((of_sent > 0) & (of_received > 0)).tolist():
        sent, received = (rows[first_row[rank] : first_row[rank + 1]] for first_row in first)
        size = 1 << (2 * len(sent)).bit_length()
        sides = sent, len(sent), received, len(received)
        call_library("message_match_rank", messages, *sides, table, size)
    call_library("message_match_sizes", messages)
