"""Records of messages that a running job writes while they are read."""

from __future__ import annotations

import numpy as np
from support.interval_records import counters, interval, pressure
from support.message_traces import call, part

from mpiprof.trace.clock import Clock
from mpiprof.trace.message_decoder import MessageDecoder, count_rows
from mpiprof.trace.types import SENT_PART, Array

TIMES = 0, 1 << 40
REPEATED = 1 << 14  # so many records overwrite the memory behind the tables


def decode(counted: Array, read: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the tables of calls and parts, and of intervals; counted: the records at first."""
    decoder = MessageDecoder(count_rows([counted[None]]))
    decoder.add_rank(0, [[read[None]]], np.zeros(1, np.int64), Clock(), TIMES)
    return decoder.take("calls") | decoder.take("parts"), decoder.take("intervals")


def test_calls_that_appear_meanwhile_are_ignored() -> None:
    first = call(0, 1000, 2000, part(SENT_PART, 0, number=7))
    later = call(0, 3000, 4000, part(SENT_PART, 0, number=8))
    calls, _ = decode(first, np.concatenate([first, *[later] * REPEATED]))
    assert calls["enter_ns"].tolist() == [1000]
    assert calls["messages"]["number"].tolist() == [7]


def test_a_call_without_room_for_its_messages_is_read() -> None:
    """A call can end, and its record appear, after its messages have been counted."""
    first = call(0, 1000, 2000, part(SENT_PART, 0, number=7))
    larger = call(0, 1000, 2000, *[part(SENT_PART, 0, number=7)] * REPEATED)
    calls, _ = decode(first, larger)
    assert calls["enter_ns"].tolist() == [1000]
    assert calls["messages"]["number"].tolist() == [7]


def test_intervals_that_appear_meanwhile_are_ignored() -> None:
    first = interval(0, 0, 1000, 2000)
    later = interval(0, 0, 3000, 4000, *counters(), pressure())
    _, intervals = decode(first, np.concatenate([first, *[later] * REPEATED]))
    assert intervals["begin_ns"].tolist() == [1000]


def test_only_intervals_that_begin_in_the_span_are_read() -> None:
    """The counters of an interval before the span belong to no later interval."""
    records = [
        interval(0, 0, 1000, 2000, *counters()),
        interval(0, 0, 2000, 3000),
        interval(0, 0, 3999, 9000, *counters()),
        interval(0, 0, 4000, 5000),
    ]
    read = np.concatenate(records)
    decoder = MessageDecoder(count_rows([read[None]]), 2000, 4000)
    decoder.add_rank(0, [[read[None]]], np.zeros(1, np.int64), Clock(), TIMES)
    assert decoder.take("intervals")["begin_ns"].tolist() == [2000, 3999]
    assert decoder.take("counters")["row"].tolist() == [1]
