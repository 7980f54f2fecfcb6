"""Wait states of messages: who waits for whom until when, by Scalasca's definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.interval_records import interval
from support.message_traces import MessageTrace, call, part

import mpiprof
from mpiprof.account import analysis_memory, run_windows
from mpiprof.account.message_waits import KNOWN, NEVER, UNKNOWN
from mpiprof.account.segments import read_calls_without_waits
from mpiprof.trace.messages import COMPLETE
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

US = 1000
LARGE = 1 << 20


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Return rank, awaited rank, state, begin and end of each wait in us."""
    table = trace.message_waits
    begin, until = table["begin_ns"] / US, table["until_ns"] / US
    columns = (table["rank"], table["awaited"], table["state"], begin, until)
    assert (table["wait_ns"] == table["until_ns"] - table["begin_ns"]).all()
    return list(zip(*(column.tolist() for column in columns), strict=True))


def at_us(shape: int, enter: int, exit_: int, *parts: Any) -> Any:
    """Return the records of a call with times in us."""
    return call(shape, enter * US, exit_ * US, *parts)


@pytest.mark.parametrize("posted", [20, 60, 90])
def test_a_receive_waits_until_the_send_is_posted(posted: int, tmp_path: Path) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(1, "recv", 0)
    sent, received = (
        part(kind, shape, posted=time * US, bytes_=LARGE)
        for kind, shape, time in ((SENT_PART, send, posted), (RECEIVED_PART, recv, 40))
    )
    trace.add_chunk(0, at_us(send, posted, 95, sent))
    trace.add_chunk(1, at_us(recv, 40, 92, received))
    expected: list[Any] = [(1, 0, "late_sender", 40, posted)]
    if posted == 20:  # the sender was early and waited itself
        expected = [(0, 1, "late_receiver", 20, 40)]
    assert rows(trace.write(tmp_path / "t")) == expected


@pytest.mark.parametrize(("operation", "bytes_"), [("send", 8), ("ssend", 8), ("send", LARGE)])
def test_a_send_waits_for_the_receive_if_it_is_synchronous_or_large(
    operation: str, bytes_: int, tmp_path: Path
) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, operation, 1), trace.shape(1, "recv", 0)
    sent = part(SENT_PART, send, posted=10 * US, bytes_=bytes_)
    trace.add_chunk(0, at_us(send, 10, 80, sent))
    received = part(RECEIVED_PART, recv, posted=70 * US, bytes_=bytes_)
    trace.add_chunk(1, at_us(recv, 70, 91, received))
    waits = [(0, 1, "late_receiver", 10, 70)] if operation == "ssend" or bytes_ == LARGE else []
    assert rows(trace.write(tmp_path / "t")) == waits


@pytest.mark.parametrize("operation", ["issend", "ssend_init"])
def test_a_wait_for_a_short_synchronous_send_is_for_its_receive(
    operation: str, tmp_path: Path
) -> None:
    """The call that completes the message has the operation `wait`."""
    trace = MessageTrace()
    posting, recv = trace.shape(0, operation, 1, line=2), trace.shape(1, "recv", 0)
    wait, isend = trace.shape(0, "wait", None, line=3), trace.shape(0, "isend", 1, line=4)
    sent = part(SENT_PART, posting, posted=10 * US, bytes_=8)
    standard = part(SENT_PART, isend, 1, posted=100 * US, bytes_=8)
    trace.add_chunk(0, at_us(wait, 12, 80, sent), at_us(wait, 101, 190, standard))
    received = [part(RECEIVED_PART, recv, i, posted=at * US) for i, at in enumerate((70, 180))]
    calls = [at_us(recv, at, at + 15, of) for at, of in zip((70, 180), received, strict=True)]
    trace.add_chunk(1, *calls)
    assert rows(trace.write(tmp_path / "t")) == [(0, 1, "late_receiver", 12, 70)]


def test_a_synchronous_send_depends_on_its_receive_beside_larger_sends_that_do_not(
    tmp_path: Path,
) -> None:
    trace = MessageTrace()
    send, ssend = trace.shape(0, "send", 1, line=2), trace.shape(0, "ssend", 1, line=3)
    recv = trace.shape(1, "recv", 0)
    eager = part(SENT_PART, send, posted=10 * US, bytes_=8192)
    synchronous = part(SENT_PART, ssend, 1, posted=50 * US, bytes_=8192)
    trace.add_chunk(0, at_us(send, 10, 35, eager), at_us(ssend, 50, 120, synchronous))
    received = [part(RECEIVED_PART, recv, i, posted=at * US) for i, at in enumerate((60, 90))]
    calls = [at_us(recv, at, at + 25, of) for at, of in zip((60, 90), received, strict=True)]
    trace.add_chunk(1, *calls)
    state = trace.write(tmp_path / "t").derive("postings").state
    assert state.tolist()[:2] == [NEVER, KNOWN]


def test_a_wait_for_several_messages_is_for_the_last_one_posted(tmp_path: Path) -> None:
    trace = MessageTrace(3)
    irecv = [trace.shape(0, "irecv", peer, 5 + peer) for peer in (1, 2)]
    wait = trace.shape(0, "waitall", None, 9)
    parts = [part(RECEIVED_PART, shape, posted=10 * US) for shape in irecv]
    trace.add_chunk(0, at_us(wait, 12, 100, *parts))
    for rank, posted in ((1, 90), (2, 50)):
        send = trace.shape(rank, "send", 0)
        trace.add_chunk(
            rank, at_us(send, posted, posted + 30, part(SENT_PART, send, posted=posted * US))
        )
    assert rows(trace.write(tmp_path / "t")) == [(0, 1, "late_sender", 12, 90)]


def test_a_message_that_was_sent_earlier_and_received_later_is_in_the_wrong_order(
    tmp_path: Path,
) -> None:
    trace = MessageTrace(3)
    from_1, from_2 = (trace.shape(0, "recv", peer, 5) for peer in (1, 2))
    trace.add_chunk(
        0,
        at_us(from_1, 10, 62, part(RECEIVED_PART, from_1, posted=10 * US)),
        at_us(from_2, 65, 95, part(RECEIVED_PART, from_2, posted=65 * US)),
    )
    for rank, posted in ((1, 60), (2, 30)):
        send = trace.shape(rank, "send", 0)
        trace.add_chunk(
            rank, at_us(send, posted, posted + 30, part(SENT_PART, send, posted=posted * US))
        )
    assert rows(trace.write(tmp_path / "t")) == [(0, 1, "wrong_order", 10, 60)]


def test_a_message_whose_sender_has_no_record_causes_no_wait(tmp_path: Path) -> None:
    """The time of the send is unknown, and nothing replaces it."""
    trace = MessageTrace(3)
    recv = trace.shape(0, "recv", 1)
    trace.add_chunk(0, at_us(recv, 10, 80, part(RECEIVED_PART, recv, posted=10 * US)))
    other = trace.shape(1, "recv", 2)
    first = at_us(other, 20, 70, part(RECEIVED_PART, other, 0, posted=20 * US))
    trace.add_chunk(1, first)
    folder = trace.write(tmp_path / "t")
    assert rows(folder) == []
    assert (folder.derive("postings").state == UNKNOWN).tolist() == [True, True]


def make_tests(operation: str, times: list[tuple[int, int]], done: int = 0) -> MessageTrace:
    """Return a trace in which rank 1 posts and tests a receive; the last `done` tests complete it.

    The sender's calls are too short to be recorded.
    """
    trace = MessageTrace()
    irecv, test = trace.shape(1, "irecv", 0, 3), trace.shape(1, operation, None, 4)
    parts = [
        part(RECEIVED_PART, irecv, posted=3 * US, flags=COMPLETE * (i >= len(times) - done))
        for i in range(len(times))
    ]
    posted = part(RECEIVED_PART, irecv, posted=3 * US, flags=0)
    calls = [at_us(test, *times_us, tested) for times_us, tested in zip(times, parts, strict=True)]
    trace.add_chunk(1, at_us(irecv, 3, 9, posted), *calls)
    return trace


@pytest.mark.parametrize("operation", ["test", "testsome", "testall", "request_get_status"])
def test_a_rank_that_tests_in_vain_waits_from_the_first_test_to_the_last_one(
    operation: str, tmp_path: Path
) -> None:
    """The test that completes the message is too short to be recorded."""
    trace = make_tests(operation, [(10, 60), (100, 150), (200, 260)])
    assert rows(trace.write(tmp_path / "t")) == [(1, 0, "late_sender", 10, 260)]


def test_a_wait_in_tests_ends_after_the_last_test_in_vain(tmp_path: Path) -> None:
    trace = make_tests("testsome", [(10, 60), (100, 150), (200, 260)], done=1)
    send = trace.shape(0, "send", 1)
    trace.add_chunk(0, at_us(send, 140, 170, part(SENT_PART, send, posted=140 * US)))
    assert rows(trace.write(tmp_path / "t")) == [(1, 0, "late_sender", 10, 150)]


def test_a_wait_in_tests_ends_with_the_last_test_before_the_receive_is_cancelled(
    tmp_path: Path,
) -> None:
    trace = make_tests("test", [(10, 60), (100, 150)])
    irecv, cancel = trace.shape(1, "irecv", 0, 3), trace.shape(1, "cancel", None, 5)
    posted = part(RECEIVED_PART, irecv, posted=3 * US, flags=0)
    trace.add_chunk(1, at_us(cancel, 160, 170, posted), serial=1)
    assert rows(trace.write(tmp_path / "t")) == [(1, 0, "late_sender", 10, 150)]


@pytest.mark.parametrize("pause", [201, 150])
def test_a_rank_that_computes_between_tests_does_not_wait_there(pause: int, tmp_path: Path) -> None:
    """The pause is an interval of work, or much longer than the tests."""
    length = 60 if pause > 200 else 30
    times = [(i * (length + pause), i * (length + pause) + length) for i in range(1, 5)]
    assert rows(make_tests("test", times).write(tmp_path / "t")) == []


def test_waits_in_tests_for_several_messages_do_not_overlap(tmp_path: Path) -> None:
    """The message of rank 1 arrives at 100, and that of rank 2 after 200."""
    trace = MessageTrace(3)
    irecv = [trace.shape(0, "irecv", peer, 5 + peer) for peer in (1, 2)]
    test, send = trace.shape(0, "testsome", None, 9), trace.shape(1, "send", 0)
    first, second = (part(RECEIVED_PART, of, posted=9 * US, flags=0) for of in irecv)
    done = part(RECEIVED_PART, irecv[0], posted=9 * US)
    calls = [at_us(test, 10, 80, first, second), at_us(test, 90, 120, done, second)]
    trace.add_chunk(0, *calls, at_us(test, 140, 170, second), at_us(test, 180, 210, second))
    trace.add_chunk(1, at_us(send, 100, 125, part(SENT_PART, send, posted=100 * US)))
    expected = [(0, 1, "late_sender", 10, 100), (0, 2, "late_sender", 140, 210)]
    assert rows(trace.write(tmp_path / "t")) == expected


def test_calls_without_waits_lack_the_wait_in_tests_before_them(tmp_path: Path) -> None:
    """The message is sent in the second of three tests, and the third one receives it."""
    trace = make_tests("test", [(10, 60), (100, 150), (200, 260)], done=1)
    send = trace.shape(0, "send", 1)
    trace.add_chunk(0, at_us(send, 140, 170, part(SENT_PART, send, posted=140 * US)))
    rank, begin, exit_, _ = read_calls_without_waits(trace.write(tmp_path / "t"))
    times = [(times / US).tolist() for times in (begin[rank == 1], exit_[rank == 1])]
    assert times == [[3, 60, 150, 200], [9, 60, 150, 260]]


@pytest.mark.parametrize("operation", ["irecv", "imrecv", "start", "isendrecv"])
@pytest.mark.parametrize(("sent", "waits"), [(60, [(1, 0, "late_sender", 15, 60)]), (5, [])])
def test_a_call_that_posts_a_receive_is_no_test_of_it(
    operation: str, sent: int, waits: list[Any], tmp_path: Path
) -> None:
    """The wait begins in the Wait after it, and a message that was sent earlier causes none."""
    trace = MessageTrace()
    send, post = trace.shape(0, "send", 1), trace.shape(1, operation, 0, 3)
    wait = trace.shape(1, "wait", None, 4)
    posted, received = (
        part(RECEIVED_PART, post, posted=10 * US, flags=flags) for flags in (0, COMPLETE)
    )
    trace.add_chunk(0, at_us(send, sent, sent + 3, part(SENT_PART, send, posted=sent * US)))
    trace.add_chunk(1, at_us(post, 10, 14, posted), at_us(wait, 15, 92, received))
    assert rows(trace.write(tmp_path / "t")) == waits


def test_a_single_test_in_vain_after_the_receive_is_posted_is_no_wait(tmp_path: Path) -> None:
    """The rank goes on without the message."""
    assert rows(make_tests("test", [(10, 60)]).write(tmp_path / "t")) == []


def test_messages_to_itself_and_open_calls_cause_no_wait(tmp_path: Path) -> None:
    trace = MessageTrace()
    itself, recv = trace.shape(0, "recv", 0), trace.shape(0, "recv", 1)
    trace.add_chunk(
        0,
        at_us(itself, 10, 40, part(RECEIVED_PART, itself, posted=10 * US)),
        at_us(recv, 50, 0, part(RECEIVED_PART, recv, posted=50 * US, flags=0)),
    )
    assert rows(trace.write(tmp_path / "t")) == []


def test_single_waits_are_not_listed_if_the_memory_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MessageTrace()
    send, recv = made.shape(0, "send", 1), made.shape(1, "recv", 0)
    made.add_chunk(0, at_us(send, 60, 95, part(SENT_PART, send, posted=60 * US)))
    made.add_chunk(1, at_us(recv, 40, 92, part(RECEIVED_PART, recv, posted=40 * US)))
    known = made.write(tmp_path / "t")
    wait, findings = known.run_times.message_wait_ns, known.findings()
    assert len(known.message_waits) == 1 and wait > 0 and known.problems == []
    monkeypatch.setattr(analysis_memory, "MAX_MEMORY_SHARE", 1e-9)
    monkeypatch.setattr(run_windows, "count_windows", lambda _: 1)
    trace = mpiprof.open(tmp_path / "t")
    assert len(trace.message_waits) == 0 and trace.findings() == findings
    assert trace.run_times.message_wait_ns == wait
    assert trace.problems[0].startswith("the trace is too large to be analysed at once")


@pytest.mark.parametrize(
    ("bytes_", "left", "waits"),
    [
        (LARGE, 1000, [(0, 1, "late_receiver", 20, 990)]),
        (LARGE, 1080, [(0, 1, "late_receiver", 20, 990)]),
        (LARGE, 1200, []),  # it ends long after the work, so it waits for something else
        (LARGE, 900, []),  # it ends before
        (8, 1000, []),
    ],
)
def test_a_wait_for_a_large_send_ends_with_the_work_after_its_receive_is_posted(
    bytes_: int, left: int, waits: list[Any], tmp_path: Path
) -> None:
    """The receiver posts the receive, works, and calls the library again."""
    trace = MessageTrace()
    isend, wait = trace.shape(0, "isend", 1), trace.shape(0, "wait", None, 2)
    irecv, waitall = trace.shape(1, "irecv", 0), trace.shape(1, "waitall", None, 2)
    sent = part(SENT_PART, isend, posted=10 * US, bytes_=bytes_)
    received = part(RECEIVED_PART, irecv, posted=15 * US, bytes_=bytes_)
    trace.add_chunk(0, at_us(isend, 10, 11), at_us(wait, 20, left, sent))
    work = interval(irecv, waitall, 16 * US, 990 * US)
    trace.add_chunk(1, at_us(irecv, 15, 16), work, at_us(waitall, 990, 995, received))
    assert rows(trace.write(tmp_path / "t")) == waits


def test_a_receive_of_a_large_message_ends_with_the_work_after_its_send_is_posted(
    tmp_path: Path,
) -> None:
    trace = MessageTrace()
    recv, isend = trace.shape(0, "recv", 1), trace.shape(1, "isend", 0)
    wait = trace.shape(1, "wait", None, 2)
    received = part(RECEIVED_PART, recv, posted=10 * US, bytes_=LARGE)
    sent = part(SENT_PART, isend, posted=15 * US, bytes_=LARGE)
    trace.add_chunk(0, at_us(recv, 10, 1000, received))
    work = interval(isend, wait, 16 * US, 990 * US)
    trace.add_chunk(1, at_us(isend, 15, 16), work, at_us(wait, 990, 1001, sent))
    assert rows(trace.write(tmp_path / "t"))[0] == (0, 1, "late_sender", 10, 990)
