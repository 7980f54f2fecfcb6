"""Waiting of a whole run: in collectives and for messages, in one definition for all reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.jobs import run_verb
from support.message_traces import call, part, sums
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

US = 1000
RUN_US = 1000  # of each of the 2 ranks
MESSAGE_US, BARRIER_US = 300, 100  # rank 0 waits for a message, and in a barrier


def write(folder: Path, *, barrier: bool = True, logged: bool = True, **options: Any) -> Path:
    """Write 2 ranks: rank 0 waits for a message of rank 1, and then for rank 1 in a barrier."""
    made = Synthetic(2)
    made.meta["options"] = options
    made.started_ns, made.ended_ns = 0, RUN_US * US
    send = made.add_shape(1, "send", "world", site="app.py:20:main", peer=0)
    recv = made.add_shape(0, "recv", "world", site="app.py:10:main", peer=1)
    begin, until = 50 * US, (50 + MESSAGE_US) * US
    if logged:
        sent = part(SENT_PART, send, posted=until)
        made.add_messages(1, call(send, until, until + 30 * US, sent))
        received = part(RECEIVED_PART, recv, posted=begin)
        made.add_messages(0, call(recv, begin, until + 5 * US, received))
    for rank, shape in ((1, send), (0, recv)):
        longest = 30 * US if rank else until + 5 * US - begin
        made.add_message_sums(rank, sums(shape, 1, longest, 4 * rank, 4 - 4 * rank, longest))
    if barrier:
        last = (600 + BARRIER_US) * US
        made.add_collective("barrier", [[600 * US, last]], [[last, last]], site="app.py:30:main")
    return made.write(folder)


def report(folder: Path, *words: str) -> dict[str, Any]:
    """Return the report as data."""
    code, text, _ = run_verb("report", folder, "--json", *words)
    assert code == 0
    data: dict[str, Any] = json.loads(text)
    return data


def test_the_total_has_both_kinds_of_waiting(tmp_path: Path) -> None:
    folder = write(tmp_path / "t")
    data = report(folder)
    assert data["collective_wait_ns"] == BARRIER_US * US
    assert data["message_wait_ns"] == MESSAGE_US * US
    total = (MESSAGE_US + BARRIER_US) * US
    assert data["total_wait_ns"] == data["total_wait_low_ns"] == data["total_wait_high_ns"] == total
    assert data["wait_share"] == (MESSAGE_US + BARRIER_US) / (2 * RUN_US)
    trace = mpiprof.open(folder)
    verdict = make_verdict(trace, trace.findings())
    assert verdict.waiting == data["wait_share"]
    assert data["verdict"]["text"][0].startswith("20 % of all ranks' time is waiting,")
    first, second = data["times"]
    assert (first["collective_wait_ns"], first["message_wait_ns"]) == (100 * US, 300 * US)
    assert second["collective_wait_ns"] == second["message_wait_ns"] == 0


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("run.wait_share > 19% and run.total_wait > 399us", 3),
        ("run.wait_share > 21%", 0),
        ("run.message_wait > 299us and run.collective_wait < 101us", 3),
    ],
)
def test_conditions_count_both_kinds_of_waiting(condition: str, code: int, tmp_path: Path) -> None:
    assert run_verb("report", write(tmp_path / "t"), "--fail-on", condition)[0] == code


def test_compare_counts_both_kinds_of_waiting(tmp_path: Path) -> None:
    folders = write(tmp_path / "a"), write(tmp_path / "b")
    condition = "run.other_total_wait_ns > 399us and run.message_wait_ns_change == 0"
    code, text, _ = run_verb("compare", *folders, "--fail-on", condition)
    assert code == 3
    assert text.count("100 µs 5 %  400 µs 20 %") == 2, text


def test_unrecorded_waiting_for_messages_is_unknown(tmp_path: Path) -> None:
    """With sums of messages, only the waiting in collectives is known."""
    data = report(write(tmp_path / "t", logged=False, messages="sums"))
    assert data["message_wait_ns"] is None and data["times"][0]["message_wait_ns"] is None
    assert data["total_wait_ns"] == data["collective_wait_ns"] == BARRIER_US * US


def test_waiting_for_messages_without_collectives(tmp_path: Path) -> None:
    data = report(write(tmp_path / "t", barrier=False))
    assert data["collective_wait_ns"] == data["collective_ns"] == 0
    assert data["total_wait_ns"] == MESSAGE_US * US
