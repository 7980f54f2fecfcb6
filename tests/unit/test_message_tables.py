"""Reading of messages: calls with their messages, sums, partners across ranks, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.message_traces import MessageTrace, call, part, sums

from mpiprof.trace.messages import COMPLETE, UNKNOWN_PEER, UNSURE, WILDCARD
from mpiprof.trace.types import RECEIVED_PART, SENT_PART
from mpiprof.trace.writer import RECORD_TYPE, RECORDS_PER_CHUNK

UNKNOWN_SHAPE = 999
MINUTE_NS = 60 * 10**9


def test_a_trace_without_messages_has_empty_tables(tmp_path: Path) -> None:
    trace = MessageTrace()
    trace.shape(0, "send", 1)
    opened = trace.write(tmp_path / "t")
    assert len(opened.message_sums) == len(opened.message_calls) == len(opened.messages) == 0


def test_each_message_belongs_to_the_next_call_of_its_thread(tmp_path: Path) -> None:
    trace = MessageTrace(3)
    send, wait = trace.shape(0, "send", 1, 5), trace.shape(0, "waitall", None, 7)
    irecv = trace.shape(0, "irecv", 2, 6)
    # The log has thread 4 first, and the second chunk of thread 0 before the first one.
    trace.add_chunk(0, call(send, 15, 25, part(SENT_PART, send, 8, 3), thread=4), thread=4)
    receives = [part(RECEIVED_PART, irecv, n, 9, 100 + n, 40 + n) for n in range(3)]
    trace.add_chunk(0, call(wait, 50, 90, *receives), serial=1)
    trace.add_chunk(
        0, call(send, 10, 20, part(SENT_PART, send, 7, 2, posted=10)), call(wait, 30, 35)
    )
    recv = trace.shape(2, "recv", 0, 11)
    trace.add_chunk(2, call(recv, 60, 80, part(RECEIVED_PART, recv, 1, -1, -1, 60, 0)))
    opened = trace.write(tmp_path / "t")
    calls = opened.message_calls
    assert calls["rank"].tolist() == [0, 0, 0, 0, 2]
    assert calls["thread"].tolist() == [0, 0, 0, 4, 0]
    assert calls["operation"].tolist() == ["send", "waitall", "waitall", "send", "recv"]
    assert calls["site"].tolist()[:2] == ["app.py:5 main", "app.py:7 main"]
    assert calls["peer"].tolist() == [1, -1, -1, 1, 0]
    assert calls["enter_ns"].tolist() == [10, 30, 50, 15, 60]
    assert calls["exit_ns"].tolist() == [20, 35, 90, 25, 80]
    assert calls["messages"].tolist() == [1, 0, 3, 1, 1]
    messages = opened.messages
    assert messages["call"].tolist() == [0, 2, 2, 2, 3, 4]
    assert messages["rank"].tolist() == [0, 0, 0, 0, 0, 2]
    assert messages["received"].tolist() == [False, True, True, True, False, True]
    assert messages["source"].tolist() == [0, 2, 2, 2, 0, 0]
    assert messages["destination"].tolist() == [1, 0, 0, 0, 1, 2]
    assert messages["tag"].tolist() == [2, 9, 9, 9, 3, -1]
    assert messages["number"].tolist() == [7, 0, 1, 2, 8, 1]
    assert messages["bytes"].tolist() == [4, 100, 101, 102, 4, -1]
    assert messages["posted_ns"].tolist() == [10, 40, 41, 42, 1000, 60]
    assert messages["complete"].tolist() == [True] * 5 + [False]
    labels = [opened.tables.sites[site][0]["line"] for site in messages["site_id"]]
    assert labels == [5, 6, 6, 6, 5, 11]
    assert opened.problems == []


def test_messages_without_a_call_are_dropped(tmp_path: Path) -> None:
    """The last thread's calls do not get the messages of the thread before it."""
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(0, "recv", 1)
    left = [part(SENT_PART, send, 5), part(RECEIVED_PART, recv, 6)]
    trace.add_chunk(0, call(send, 10, 20, part(SENT_PART, send, 1)), *left)
    trace.add_chunk(0, call(recv, 30, 40, part(RECEIVED_PART, recv, 2), thread=1), thread=1)
    trace.add_chunk(0, *left, thread=2)
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["thread"].tolist() == [0, 1]
    assert opened.messages["number"].tolist() == [1, 2]
    assert opened.messages["call"].tolist() == [0, 1]


def test_an_open_call_has_no_end(tmp_path: Path) -> None:
    trace = MessageTrace()
    recv = trace.shape(0, "recv", 1)
    trace.add_chunk(
        0,
        call(recv, 10, 20, part(RECEIVED_PART, recv, 0)),
        call(recv, 30, 0, part(RECEIVED_PART, recv, 1, bytes_=-1, flags=0)),
    )
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["exit_ns"].tolist() == [20, 0]
    assert opened.messages["complete"].tolist() == [True, False]
    assert opened.messages["bytes"].tolist() == [4, -1]
    assert opened.problems == []


def test_times_are_on_the_joint_clock(tmp_path: Path) -> None:
    """The clock of rank 1's node is 5 ms behind."""
    offset = 5_000_000
    trace = MessageTrace(2, nodes=[0, 1], offsets=[0, offset], drifts=[0, 0])
    trace.synthetic.started_ns, trace.synthetic.ended_ns = 10**7, 10**9
    for at in (2 * 10**7, 9 * 10**8):
        trace.synthetic.add_clock(1, 0, at, 100)
    recv = trace.shape(1, "recv", 0)
    trace.add_chunk(
        1,
        call(recv, 10**8, 10**8 + 50, part(RECEIVED_PART, recv, posted=10**8 - 7)),
        call(recv, 2 * 10**8, 0),
    )
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["enter_ns"].tolist() == [10**8 + offset, 2 * 10**8 + offset]
    assert opened.message_calls["exit_ns"].tolist() == [10**8 + 50 + offset, 0]
    assert opened.messages["posted_ns"].tolist() == [10**8 - 7 + offset]


IMPOSSIBLE = {
    "ends before it begins": (200, 100),
    "begins after the process": (10**12 + 2 * MINUTE_NS, 10**12 + 2 * MINUTE_NS),
    "ends after the process": (200, 10**12 + 2 * MINUTE_NS),
    "begins before the process": (-2 * MINUTE_NS, 100),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_calls_are_dropped_and_noted(tmp_path: Path, name: str) -> None:
    trace = MessageTrace()
    send = trace.shape(0, "send", 1)
    trace.add_chunk(
        0,
        call(send, 10, 20, part(SENT_PART, send, 1)),
        call(send, *IMPOSSIBLE[name], part(SENT_PART, send, 2)),
        call(send, 300, 400, part(SENT_PART, send, 3)),
    )
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["enter_ns"].tolist() == [10, 300]
    assert opened.problems == ["rank 0: damaged records of messages are ignored"]
    assert not opened.is_complete


def test_messages_of_an_impossible_call_are_dropped(tmp_path: Path) -> None:
    trace = MessageTrace()
    send = trace.shape(0, "send", 1)
    trace.add_chunk(
        0,
        call(send, 200, 100, part(SENT_PART, send, 2)),
        call(send, 300, 400, part(SENT_PART, send, 3)),
    )
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["messages"].tolist() == [1]
    assert opened.messages["number"].tolist() == [3]


def test_sums_have_bytes_and_longest_call(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1, 5), trace.shape(0, "recv", 1, 6)
    other = trace.shape(1, "sendrecv", 0, 7)
    trace.add_chunk(0, sums(send, 10, 5000, 1 << 40, 0, 900), thread=1)
    trace.add_chunk(0, sums(recv, 3, 700, 0, 12, 300), thread=1, serial=1)
    trace.add_chunk(0, call(send, 10, 20, part(SENT_PART, send)))
    trace.add_chunk(1, sums(other, 1, 50, 4, 8, 50))
    opened = trace.write(tmp_path / "t")
    table = opened.message_sums
    assert table["rank"].tolist() == [0, 0, 1]
    assert table["operation"].tolist() == ["send", "recv", "sendrecv"]
    assert table["site"].tolist() == ["app.py:5 main", "app.py:6 main", "app.py:7 main"]
    assert table["peer"].tolist() == [1, 1, 0]
    assert table["calls"].tolist() == [10, 3, 1]
    assert table["total_ns"].tolist() == [5000, 700, 50]
    assert table["longest_ns"].tolist() == [900, 300, 50]
    assert table["sent"].tolist() == [1 << 40, 0, 4]
    assert table["received"].tolist() == [0, 12, 8]
    assert len(opened.message_calls) == 1
    assert opened.problems == []


def test_sums_that_are_cut_are_ignored(tmp_path: Path) -> None:
    """A chunk ends within a row of sums, or an extension is not written yet."""
    trace = MessageTrace()
    shapes = [trace.shape(0, "send", 1, line) for line in range(4)]
    rows = [sums(shape, 1 + shape, 10, 4, 0, 10) for shape in shapes]
    unwritten = rows[1].copy()
    unwritten["kind"][2] = 0
    empty = np.zeros(RECORDS_PER_CHUNK - 15, RECORD_TYPE)
    trace.add_chunk(0, rows[0], unwritten, rows[2], empty, rows[3][:3])
    opened = trace.write(tmp_path / "t")
    assert opened.message_sums["calls"].tolist() == [1 + shapes[0], 1 + shapes[2]]


def test_a_chunk_with_a_wrong_checksum_is_ignored(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(1, "recv", 0)
    trace.add_chunk(0, call(send, 10, 20, part(SENT_PART, send, 1)))
    trace.add_chunk(0, call(send, 30, 40, part(SENT_PART, send, 2)), serial=1)
    trace.damage_last_chunk(0)
    trace.add_chunk(0, call(send, 50, 60, part(SENT_PART, send, 3)), serial=2)
    trace.add_chunk(1, sums(recv, 1, 10, 0, 4, 10))
    trace.damage_last_chunk(1)
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["enter_ns"].tolist() == [10, 50]
    assert opened.messages["number"].tolist() == [1, 3]
    assert opened.messages["call"].tolist() == [0, 1]
    assert len(opened.message_sums) == 0
    assert opened.problems == ["a chunk of messages has a wrong checksum and is ignored"]
    assert not opened.is_complete


def test_sums_of_unknown_shapes_are_ignored(tmp_path: Path) -> None:
    trace = MessageTrace()
    send = trace.shape(0, "send", 1)
    trace.add_chunk(0, sums(UNKNOWN_SHAPE, 5, 10, 0, 4, 10), sums(send, 6, 10, 0, 4, 10))
    table = trace.write(tmp_path / "t").message_sums
    assert table["calls"].tolist() == [6]
    assert table["operation"].tolist() == ["send"]


def test_calls_and_messages_of_unknown_shapes_are_ignored(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, wait = trace.shape(0, "send", 1), trace.shape(0, "waitall", None)
    trace.add_chunk(
        0,
        call(UNKNOWN_SHAPE, 10, 20, part(SENT_PART, send, 1)),
        call(wait, 30, 40, part(SENT_PART, UNKNOWN_SHAPE, 2), part(SENT_PART, send, 3)),
    )
    opened = trace.write(tmp_path / "t")
    assert opened.message_calls["operation"].tolist() == ["waitall"]
    assert opened.messages["number"].tolist() == [3]


def test_partners_agree_in_all_five_numbers(tmp_path: Path) -> None:
    """Two further communicators: one has the ranks in reverse order, one is unknown elsewhere."""
    trace = MessageTrace(3)
    trace.synthetic.add_communicator("reverse", [2, 1, 0])
    trace.synthetic.add_communicator("unknown", [0, 1, 2], local=True)
    send = trace.shape(0, "send", 1)
    further = trace.shape(0, "send", 2)
    reverse = trace.shape(0, "send", 1, comm="reverse")
    local = trace.shape(0, "send", 1, comm="unknown")
    sent = [(send, 0, 5), (send, 1, 5), (send, 0, 6), (further, 0, 5), (reverse, 0, 5)]
    sent += [(local, 0, 5)]
    trace.add_chunk(
        0,
        *(call(s, 100 + i, 150 + i, part(SENT_PART, s, n, t)) for i, (s, n, t) in enumerate(sent)),
    )
    recv, back = trace.shape(1, "recv", 0), trace.shape(1, "send", 0)
    turned, alone = (
        trace.shape(1, "recv", 2, comm="reverse"),
        trace.shape(1, "recv", 0, 1, "unknown"),
    )
    received = [(turned, 0, 5), (recv, 0, 6), (recv, 0, 5), (alone, 0, 5), (recv, 2, 5)]
    trace.add_chunk(
        1,
        *(call(s, 200, 250, part(RECEIVED_PART, s, n, t)) for s, n, t in received),
        call(back, 300, 350, part(SENT_PART, back, 0, 5)),
    )
    opened = trace.write(tmp_path / "t")
    messages = opened.messages
    assert messages["source"].tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 1]
    assert messages["destination"].tolist() == [1, 1, 1, 2, 1, -1, 1, 1, 1, 1, 1, 0]
    assert messages["partner"].tolist() == [8, -1, 7, -1, 6, -1, 4, 2, 0, -1, -1, -1]


def test_a_probe_and_the_receive_after_it_have_the_same_partner(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, probe, recv = (
        trace.shape(0, "send", 1), trace.shape(1, "probe", 0), trace.shape(1, "recv", 0)
    )  # fmt: skip
    trace.add_chunk(0, call(send, 100, 150, part(SENT_PART, send, 3, 7)))
    trace.add_chunk(
        1,
        call(probe, 110, 160, part(RECEIVED_PART, probe, 3, 7)),
        call(recv, 170, 180, part(RECEIVED_PART, recv, 3, 7)),
    )
    messages = trace.write(tmp_path / "t").messages
    assert messages["partner"].tolist() == [2, 0, 0]


def test_each_row_of_the_sender_has_a_partner(tmp_path: Path) -> None:
    """A synchronous send takes long in the call that posts it, and in the Wait."""
    trace = MessageTrace()
    issend, wait = trace.shape(0, "issend", 1), trace.shape(0, "wait", None)
    recv = trace.shape(1, "recv", 0)
    trace.add_chunk(
        0,
        call(issend, 100, 150, part(SENT_PART, issend, 0, flags=0)),
        call(wait, 160, 250, part(SENT_PART, issend, 0)),
    )
    trace.add_chunk(1, call(recv, 200, 250, part(RECEIVED_PART, recv, 0)))
    messages = trace.write(tmp_path / "t").messages
    assert messages["partner"].tolist()[:2] == [2, 2]


def test_uncertain_messages_have_no_partner(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(1, "recv", 0)
    anywhere = trace.shape(1, "recv", None)
    done = [part(SENT_PART, send, number) for number in range(4)]
    trace.add_chunk(0, *(call(send, 100, 150, sent) for sent in done))
    received = [
        part(RECEIVED_PART, recv, 0, flags=COMPLETE | WILDCARD),
        part(RECEIVED_PART, recv, 1, flags=COMPLETE | UNSURE),
        part(RECEIVED_PART, recv, 2, flags=COMPLETE | WILDCARD | UNSURE | UNKNOWN_PEER),
        part(RECEIVED_PART, anywhere, 3),
    ]
    trace.add_chunk(1, *(call(recv, 200, 250, message) for message in received))
    messages = trace.write(tmp_path / "t").messages
    assert messages["sure"].tolist() == [True] * 4 + [True, False, False, False]
    assert messages["source"].tolist() == [0] * 4 + [0, 0, -1, -1]
    assert messages["partner"].tolist() == [4, -1, -1, -1, 0, -1, -1, -1]
