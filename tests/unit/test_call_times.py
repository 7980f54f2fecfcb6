"""Long times in calls without a wait: single calls, and bursts of short calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.interval_records import interval
from support.message_traces import MessageTrace, call, part

from mpiprof.account.call_times import find_times_in_calls
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

US = 1000


def at_us(shape: int, enter: int, exit_: int, *parts: Any) -> Any:
    """Return the records of a call with times in us."""
    return call(shape, enter * US, exit_ * US, *parts)


def rows(trace: Trace) -> list[tuple[int, ...]]:
    """Return rank, begin and end in us, and line of each time in calls."""
    rank, begin, end, site = (column.tolist() for column in find_times_in_calls(trace))
    lines = [trace.tables.sites[index][0]["line"] for index in site]
    times = ([time // US for time in column] for column in (begin, end))
    return sorted(zip(rank, *times, lines, strict=True))


def test_short_calls_in_a_row_are_one_time_at_the_costliest_site(tmp_path: Path) -> None:
    trace = MessageTrace()
    lock, put, flush = (
        trace.shape(0, operation, 1, line)
        for line, operation in enumerate(("win_lock", "put", "win_flush"), 1)
    )
    calls = [at_us(lock, 100, 101)]
    for begin in range(101, 601, 50):
        calls += [at_us(put, begin, begin + 45), at_us(flush, begin + 45, begin + 49)]
    trace.add_chunk(0, *calls)
    assert rows(trace.write(tmp_path / "t")) == [(0, 100, 600, 2)]


def test_work_and_messages_end_a_burst(tmp_path: Path) -> None:
    trace = MessageTrace()
    put, send, recv = (
        trace.shape(rank, operation, 1 - rank, line)
        for rank, operation, line in ((0, "put", 1), (0, "send", 2), (1, "recv", 3))
    )
    sent = part(SENT_PART, send, posted=350 * US, bytes_=8)
    work = interval(put, put, 700 * US, 1000 * US)
    calls = [at_us(put, 100, 350), at_us(send, 350, 351, sent), at_us(put, 351, 700), work]
    trace.add_chunk(0, *calls, at_us(put, 1000, 1100), at_us(put, 1301, 1400))
    received = part(RECEIVED_PART, recv, posted=300 * US, bytes_=8)
    trace.add_chunk(1, at_us(recv, 300, 352, received))
    assert rows(trace.write(tmp_path / "t")) == [(0, 100, 350, 1), (0, 351, 700, 1)]


def test_short_calls_with_longer_pauses_are_no_time_in_calls(tmp_path: Path) -> None:
    trace = MessageTrace()
    put = trace.shape(0, "put", 1)
    trace.add_chunk(0, *(at_us(put, begin, begin + 40) for begin in range(0, 1000, 100)))
    assert rows(trace.write(tmp_path / "t")) == []


def test_the_time_in_a_call_begins_after_its_wait(tmp_path: Path) -> None:
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(1, "recv", 0, 2)
    sent = part(SENT_PART, send, posted=500 * US, bytes_=8)
    received = part(RECEIVED_PART, recv, posted=100 * US, bytes_=8)
    trace.add_chunk(0, at_us(send, 500, 501, sent))
    trace.add_chunk(1, at_us(recv, 100, 900, received))
    assert rows(trace.write(tmp_path / "t")) == [(1, 500, 900, 2)]
