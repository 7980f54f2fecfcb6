"""Loops of calls in vain in traces with a known answer: waits, delays, ledger and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.message_traces import MessageTrace, call, part, record

import mpiprof
from mpiprof.account.ledger import OUTSIDE
from mpiprof.causes.polling import find_polling_delays, sum_delays
from mpiprof.trace.messages import COMPLETE, WILDCARD
from mpiprof.trace.types import POLL, RECEIVED_PART, SENT_PART, Array

US = 1000
PAUSE, STEP = 500, 10_000  # in us
TIMES = 30


def poll(shape: int, begin_us: int, end_us: int, calls: int) -> Array:
    values = {"enter_ns": begin_us * US, "exit_ns": end_us * US, "sequence": calls}
    return record(POLL, shape=shape, **values)


def make_master(sent: list[int], found: list[int], pause: int = PAUSE) -> MessageTrace:
    """Return a trace in which rank 0 polls from the begin of each step until it finds a message.

    sent, found: in us after the begin of the step.
    """
    trace = MessageTrace()
    probe, any_probe, recv = (
        trace.shape(0, "iprobe", 1, 3), trace.shape(0, "iprobe", None, 3),
        trace.shape(0, "recv", 1, 4),
    )  # fmt: skip
    send = trace.shape(1, "send", 0, 9)
    records: list[list[Array]] = [[], []]
    for i, (sent_us, found_us) in enumerate(zip(sent, found, strict=True)):
        begin = (i + 1) * STEP
        flags = COMPLETE | WILDCARD
        at = begin + found_us
        probed = part(RECEIVED_PART, probe, i, posted=at * US, flags=flags)
        received = part(RECEIVED_PART, recv, i, posted=(at + 2) * US, flags=flags)
        records[0] += [
            poll(any_probe, begin, at, found_us // pause),
            call(probe, at * US, (at + 1) * US, probed),
            call(recv, (at + 2) * US, (at + 4) * US, received),
        ]
        at = (begin + sent_us) * US
        records[1] += [call(send, at, at + US, part(SENT_PART, send, i, posted=at))]
    for rank in range(2):
        trace.add_chunk(rank, *records[rank])
    return trace


def test_a_poll_and_the_call_that_ends_it_are_one_row(tmp_path: Path) -> None:
    trace = make_master([1700], [2000]).write(tmp_path / "t")
    calls = trace.message_calls
    row = calls[calls["operation"] == "iprobe"].iloc[0]
    begin = int(row["enter_ns"])
    times = [int(row[name]) - begin for name in ("polled_ns", "exit_ns")]
    assert (times, row["polls"], row["messages"]) == ([2000 * US, 2001 * US], 4, 1)
    assert calls["operation"].tolist() == ["iprobe", "recv", "send"]
    assert trace.messages["call"].tolist() == [0, 1, 2]


def test_a_rank_that_polls_waits_until_the_message_is_sent(tmp_path: Path) -> None:
    trace = make_master([1700, 2600], [2000, 3000]).write(tmp_path / "t")
    waits = trace.message_waits
    assert waits[["rank", "awaited", "state", "wait_ns"]].to_numpy().tolist() == [
        [0, 1, "late_sender", 1700 * US],
        [0, 1, "late_sender", 2600 * US],
    ]


def test_the_pause_after_the_sending_is_a_delay_of_polling(tmp_path: Path) -> None:
    """A delay begins with the loop, at the earliest, and is at most a pause."""
    sent, found = [1700, 2600, 500, -5], [2000, 3000, 3000, 500]
    made = make_master(sent * TIMES, found * TIMES)
    trace = made.write(tmp_path / "t")
    delays = find_polling_delays(trace)
    assert delays["delay_ns"].tolist() == [300 * US, 400 * US, PAUSE * US, PAUSE * US] * TIMES


def test_a_loop_without_pauses_delays_nothing(tmp_path: Path) -> None:
    trace = make_master([1700, 2600], [2000, 3000], pause=1).write(tmp_path / "t")
    assert not len(find_polling_delays(trace)) and not len(sum_delays(trace))


@pytest.mark.parametrize("is_found", [True, False])
def test_the_ledger_has_a_segment_for_a_poll(is_found: bool, tmp_path: Path) -> None:
    made = MessageTrace()
    test = made.shape(0, "test", None, 3)
    end = 2000 * US
    after = (
        [call(test, end, end + US)] if is_found else [call(test, end + 500 * US, end + 501 * US)]
    )
    made.add_chunk(0, poll(test, 1000, 2000, 70), *after)
    trace: Any = made.write(tmp_path / "t")
    (ledger,) = trace.ledgers(0)
    segments = ledger.segments
    names = [
        "outside" if shape == OUTSIDE else trace.tables.shapes[shape].operation
        for shape in segments["shape"].tolist()
    ]
    middle = ["test", "test"] if is_found else ["test", "outside", "test"]
    assert names[1:-1] == middle
    assert segments["polls"][1:-1].tolist() == [70] + [0] * (len(middle) - 1)
    assert int((segments["end_ns"] - segments["begin_ns"])[1]) == 1000 * US
    assert mpiprof.open(tmp_path / "t").message_calls["polls"].tolist() == (
        [70] if is_found else [70, 0]
    )
