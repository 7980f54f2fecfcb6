"""Exports of a trace that is read in windows: the events of the export in one piece."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.dataset_traces import messaging
from support.message_traces import MessageTrace, call, part
from support.small_chunks import write_small_chunks

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.analysis_memory import count_message_bytes
from mpiprof.formats import message_windows, perfetto_json
from mpiprof.trace import Trace, memory_limit
from mpiprof.trace.types import RECEIVED_PART, SENT_PART
from unit.test_run_windows import halo, random_messages
from unit.test_window_findings import open_windows

PER_CHUNK, MS = 20, 1_000_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_chunks(monkeypatch)


def late_receives(folder: Path, count: int = 600, lag: int = 300) -> Path:
    """Write messages that are received long after they were sent, in later windows."""
    trace = MessageTrace()
    send, recv = trace.shape(0, "send", 1), trace.shape(1, "recv", 0)
    trace.synthetic.started_ns, trace.synthetic.ended_ns = 0, (count + lag) * MS
    for first in range(0, count, PER_CHUNK):
        numbers, serial = range(first, first + PER_CHUNK), first // PER_CHUNK
        for rank, shape, kind, later in ((0, send, SENT_PART, 0), (1, recv, RECEIVED_PART, lag)):
            times = [(number + later) * MS for number in numbers]
            calls = [
                call(shape, time, time + MS // 2, part(kind, shape, number, posted=time))
                for number, time in zip(numbers, times, strict=True)
            ]
            trace.add_chunk(rank, *calls, serial=serial)
    return trace.write(folder).path


BUILD: dict[str, Callable[[Path], Path]] = {
    "halo": lambda folder: halo().write(folder),
    "random messages": lambda folder: random_messages().write(folder),
    "late receives": late_receives,
    "all forms": messaging,
}


def read_json_events(trace: Trace, path: Path) -> list[str]:
    """Return the events of an export, with both ends of a flow instead of its number."""
    perfetto_json.write(path, trace, {}, lambda _: None)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    flows: dict[Any, list[Any]] = defaultdict(list)
    others = []
    for event in events:
        if event.get("cat") == "message" and event["ph"] in "sf":
            flows[event.pop("id")].append(event)
        else:
            others.append(event)
    assert all(len(ends) == 2 for ends in flows.values())
    return sorted(json.dumps(of, sort_keys=True) for of in (*others, *flows.values()))


@pytest.mark.parametrize("build", BUILD.values(), ids=BUILD.keys())
def test_windows_do_not_change_json(
    build: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(build(tmp_path / "t"))
    known = read_json_events(whole, tmp_path / "whole.json")
    assert sum('"ph": "f"' in event for event in known) > 50
    trace = open_windows(whole.path, monkeypatch)
    assert read_json_events(trace, tmp_path / "windows.json") == known


def test_too_many_waiting_messages_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_windows, "MAX_WAITING", 10)
    trace = open_windows(late_receives(tmp_path / "t"), monkeypatch)
    windows = list(message_windows.iterate_message_windows(trace))
    assert sum(len(of.calls) for of in windows) == len(trace.message_calls)
    assert 0 < sum(len(of.senders) for of in windows) < len(trace.message_calls) / 2
    assert any("no arrow in the export" in problem for problem in trace.problems)


@pytest.mark.parametrize("to", ["parquet", "csv", "otf2", "dataset"])
def test_messages_that_do_not_fit_in_memory_are_refused(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = random_messages().write(tmp_path / "trace")
    needed = count_message_bytes(mpiprof.open(path))
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: needed - 1)
    output = tmp_path / "output"
    assert main(["export", str(path), "--to", to, "-o", str(output)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--to {to} holds all calls on messages in memory" in line
    assert line.endswith("use --to perfetto, or a machine with more memory")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["trace"]
