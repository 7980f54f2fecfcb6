"""Reading of intervals: calls at both ends, counters, node pressure, and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from support.interval_records import (
    COUNTERS,
    PRESSURE,
    UNKNOWN_PROCESSOR,
    UNKNOWN_US,
    counters,
    interval,
    pressure,
)
from support.message_traces import MessageTrace, call, part
from support.program_log import NO_SHAPE

import mpiprof
from mpiprof.formats import pack_writer
from mpiprof.trace.types import SENT_PART

UNKNOWN_SHAPE = 999


def values_of(trace: mpiprof.Trace, row: int, names: dict[str, Any]) -> dict[str, int]:
    """Return some values of a row of the table of intervals."""
    return {name: int(trace.intervals[name][row]) for name in names}


def test_a_trace_without_intervals_has_an_empty_table(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    made.add_chunk(0, call(send, 10, 20, part(SENT_PART, send)))
    trace = made.write(tmp_path / "t")
    assert len(trace.intervals) == 0
    assert trace.missing_counters == {}
    assert {"rank", "begin_ns", "before_site", "queue_ns"} <= set(trace.intervals.columns)


def test_counters_belong_to_the_next_interval(tmp_path: Path) -> None:
    made = MessageTrace(3)
    send, wait = made.shape(2, "send", 1, 5), made.shape(2, "wait", None, 7)
    made.add_chunk(
        2,
        interval(NO_SHAPE, send, 10, 20),
        interval(send, wait, 30, 100, *counters(), outside_ns=7),
        call(wait, 100, 110),
        interval(wait, send, 120, 200, pressure(), *counters()),
        interval(wait, send, 210, 300, pressure()),
    )
    trace = made.write(tmp_path / "t")
    assert trace.problems == []
    table = trace.intervals
    assert table["rank"].tolist() == [2] * 4
    assert table["begin_ns"].tolist() == [10, 30, 120, 210]
    assert table["end_ns"].tolist() == [20, 100, 200, 300]
    assert table["before_operation"].tolist() == ["", "send", "wait", "wait"]
    assert table["before_site"].tolist()[:2] == ["", "app.py:5 main"]
    assert table["before_site_id"].tolist()[0] == -1
    assert table["after_site"].tolist()[1] == "app.py:7 main"
    assert table["gap_ns"].tolist() == [-1, 7, 0, -1]
    unknown = dict.fromkeys(COUNTERS | PRESSURE, -1)
    assert values_of(trace, 0, unknown) == unknown
    assert values_of(trace, 1, unknown) == unknown | COUNTERS
    assert values_of(trace, 2, unknown) == COUNTERS | PRESSURE
    assert values_of(trace, 3, unknown) == unknown | PRESSURE
    assert len(trace.message_calls) == 1


def test_unknown_counters_are_negative(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    times, counts = counters(threads=False)
    times["exit_ns"], times["outside_ns"] = -1, UNKNOWN_US
    counts["enter_ns"] = counts["exit_ns"] = -1
    counts["outside_ns"], counts["thread"] = UNKNOWN_US, UNKNOWN_PROCESSOR
    made.add_chunk(0, interval(send, send, 10, 20, times, counts))
    trace = made.write(tmp_path / "t")
    names = ("queue_ns", "untracked_ns", "instructions", "cycles", "gc_ns", "last_processor")
    expected = dict.fromkeys((*names, "other_threads_ns"), -1)
    assert values_of(trace, 0, expected) == expected


def test_other_threads_without_a_record_did_not_run(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    times, counts = counters(threads=False)
    times["choice"] = 1  # their time was read
    made.add_chunk(0, interval(send, send, 10, 20, times, counts))
    assert made.write(tmp_path / "t").intervals["other_threads_ns"].tolist() == [0]


def test_damaged_intervals_are_ignored_and_noted(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    times, counts = counters(threads=False)
    times["enter_ns"] = -70
    made.add_chunk(
        0,
        interval(send, send, 20, 10),
        interval(UNKNOWN_SHAPE, send, 20, 30),
        interval(send, UNKNOWN_SHAPE, 20, 30),
        interval(send, send, 20, 30, times, counts),
        interval(send, send, 40, 50),
    )
    trace = made.write(tmp_path / "t")
    assert trace.intervals["begin_ns"].tolist() == [40]
    assert trace.problems == ["rank 0: damaged records of intervals are ignored"]
    assert not trace.is_complete


def test_a_damaged_chunk_is_ignored(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    made.add_chunk(0, interval(send, send, 10, 20))
    made.add_chunk(0, interval(send, send, 30, 40), serial=1)
    made.damage_last_chunk(0)
    trace = made.write(tmp_path / "t")
    assert trace.intervals["begin_ns"].tolist() == [10]
    assert len(trace.problems) == 1


def test_packing_keeps_intervals(tmp_path: Path) -> None:
    made = MessageTrace()
    send = made.shape(0, "send", 1)
    random = np.random.default_rng(1)
    records = []
    for number in range(300):
        times, counts = counters(threads=False)
        times["enter_ns"], counts["enter_ns"] = random.integers(1, 1 << 61, 2)
        times["exit_ns"] = times["enter_ns"] - 1  # a duration of -1
        begin = number * 1000
        records.append(interval(send, send, begin, begin + 500, times, counts))
    made.add_chunk(0, *records)
    before = made.write(tmp_path / "t").intervals.copy()
    assert len(before) == 300
    files = pack_writer.find_files(tmp_path / "t")
    pack_writer.write(tmp_path / "t", files, 1, lambda _: None)
    pack_writer.remove(files)
    assert list((tmp_path / "t").glob("*.log")) == []
    assert mpiprof.open(tmp_path / "t").intervals.equals(before)
