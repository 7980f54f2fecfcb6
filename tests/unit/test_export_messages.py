"""Messages and intervals in Perfetto's formats: slices, and an arrow for each message."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.dataset_traces import messaging
from support.export_trace import export
from support.interval_records import COUNTERS, PRESSURE

import mpiprof
from mpiprof.formats.message_windows import make_arrows
from mpiprof.trace import Trace

pytestmark = pytest.mark.heavy
Call = tuple[int, str, int, int]  # track, name, begin and end in ns


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return mpiprof.open(messaging(tmp_path_factory.mktemp("messages") / "trace"))


def known_calls(trace: Trace) -> list[Call]:
    """Return the logged calls on messages; tracks are ranks, from 1."""
    start = trace.calls_start_ns
    return [
        (rank + 1, operation, enter - start, left - start)
        for rank, operation, enter, left in trace.message_calls[
            ["rank", "operation", "enter_ns", "exit_ns"]
        ].itertuples(index=False, name=None)
    ]


def known_arrows(trace: Trace) -> list[tuple[Call, Call]]:
    """Return the calls at both ends of each message, found without the code under test."""
    calls, messages = known_calls(trace), trace.messages
    sides: dict[Any, dict[bool, int]] = defaultdict(dict)
    names = ["communicator", "source", "destination", "tag", "number"]
    for *identity, received, call in messages[[*names, "received", "call"]].itertuples(
        index=False, name=None
    ):
        sides[tuple(identity)][received] = call
    return sorted((calls[s[False]], calls[s[True]]) for s in sides.values() if len(s) == 2)


def test_each_message_has_one_arrow(trace: Trace) -> None:
    arrows = make_arrows(trace.messages, trace.message_calls)
    assert len(arrows.sent) == len(known_arrows(trace)) > 50
    assert len(set(arrows.sent.tolist())) == len(set(arrows.received.tolist())) == len(arrows.sent)
    messages = trace.messages
    assert messages["received"].to_numpy()[arrows.received].all()
    assert not messages["received"].to_numpy()[arrows.sent].any()


def known_intervals(trace: Trace) -> list[tuple[int, int, int, dict[str, int]]]:
    """Return track, begin, end and known counters of each interval."""
    start = trace.calls_start_ns
    names = [name for name in (*COUNTERS, *PRESSURE) if name != "pressure_since_ns"]
    return [
        (row["rank"] + 1, row["begin_ns"] - start, row["end_ns"] - start,
         {name: row[name] for name in names if row[name] >= 0})
        for row in trace.intervals.to_dict("records")
    ]  # fmt: skip


def test_json_has_intervals_with_counters(trace: Trace, tmp_path: Path) -> None:
    done = export(trace.path, "--to", "perfetto", "-o", tmp_path / "t.json")
    assert (done.returncode, done.stderr) == (0, "")
    found = [
        (e["tid"], round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000), e["args"])
        for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        if e.get("cat") == "interval"
    ]
    assert sorted(found, key=by_time) == sorted(known_intervals(trace), key=by_time)
    assert sum(bool(counters) for *_, counters in found) == 12


def by_time(interval: tuple[int, int, int, dict[str, int]]) -> tuple[int, int]:
    return interval[:2]


def test_json_has_calls_and_arrows(trace: Trace, tmp_path: Path) -> None:
    done = export(trace.path, "--to", "perfetto", "-o", tmp_path / "t.json")
    assert (done.returncode, done.stderr) == (0, "")
    events = [
        e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        if e.get("cat") == "message"
    ]  # fmt: skip
    calls: dict[Call, dict[str, Any]] = {}
    for e in events:
        if e["ph"] == "X":
            begin = round(e["ts"] * 1000)
            calls[e["tid"], e["name"], begin, begin + round(e["dur"] * 1000)] = e["args"]
    assert sorted(calls) == sorted(known_calls(trace))
    rows = trace.message_calls.to_dict("records")
    for call, row in zip(known_calls(trace), rows, strict=True):
        assert calls[call]["site"] == row["site"]
        assert calls[call]["messages"] == row["messages"]
        assert calls[call].get("peer", -1) == row["peer"]
    ends: dict[int, dict[str, Call]] = defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            time = round(e["ts"] * 1000)
            (enclosing,) = (c for c in calls if c[0] == e["tid"] and c[2] <= time < c[3])
            ends[e["id"]][e["ph"]] = enclosing
            assert e["ph"] == "s" or e["bp"] == "e"
    assert sorted((e["s"], e["f"]) for e in ends.values()) == known_arrows(trace)
