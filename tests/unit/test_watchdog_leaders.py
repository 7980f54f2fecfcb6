"""Messages between the leaders of several nodes, and detection of writes to a log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic
from support.wait_until import wait_until

from mpiprof.hang.agent import Activity
from mpiprof.hang.agent import _HangWatch as Watch
from mpiprof.hang.detector import LATE_S, RECHECK_S, STALE_S, HangDetector, HangRequest
from mpiprof.hang.node_processes import Node, ProcessorUse, read_waited_ns
from mpiprof.hang.spawn import JobStart
from mpiprof.launch import job


def leader_of(folder: Path, name: str, speaks: bool) -> HangDetector:
    """Return one of two leaders of a job, of rank 0 on node a or rank 1 on node b."""
    mine = job.read_process(os.getpid())
    assert mine is not None
    ranks = {0: mine} if name == "a" else {1: mine}
    node = Node(mine, ranks, {0: "a", 1: "b"}, 2)
    return HangDetector(HangRequest(10.0), folder, node, speaks)


def test_the_first_leader_hears_of_the_ranks_of_others(tmp_path: Path) -> None:
    first, second = leader_of(tmp_path, "a", True), leader_of(tmp_path, "b", False)
    assert first._read_other_shares(10.0) is None  # no report yet
    assert second.check_silence(time.monotonic() - 11.0, {1: ProcessorUse()}) == []
    received = first._read_other_shares(11.0)
    assert received is not None and list(received) == [1] and received[1] > 0
    assert second.check_silence(time.monotonic() - 9.0, {1: ProcessorUse()}) == []


def test_what_is_old_is_not_gone_by(tmp_path: Path) -> None:
    first, second = leader_of(tmp_path, "a", True), leader_of(tmp_path, "b", False)
    second.check_silence(time.monotonic() - 11.0, {})
    path = second._shares_file("b")
    reported = json.loads(path.read_text())
    path.write_text(json.dumps(reported | {"at": time.time() - STALE_S - 1}))
    assert first._read_other_shares(11.0) is None
    assert first._read_other_shares(10.0 + LATE_S) == {}
    for wrong in ("", "[]", "{}", '{"at": "x"}', '{"at": 1e300, "shares": [1]}'):
        path.write_text(wrong)
        assert first._read_other_shares(11.0) is None


@pytest.mark.heavy
def test_who_had_no_processor_was_not_slow(tmp_path: Path) -> None:
    """The observed process waits for a processor on which two other processes compute, too."""
    words = [sys.executable, "-c", "import time; time.sleep(0.2)\nwhile True: pass"]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        crowd = [subprocess.Popen(words) for _ in range(3)]
    finally:
        os.sched_setaffinity(0, allowed)
    try:
        one = job.read_process(crowd[0].pid)
        assert one is not None
        node = Node(one, {0: one}, {0: "a"}, 1)
        hangs = HangDetector(HangRequest(1.0), tmp_path, node, True)
        before = node.read_use()
        wait_until(lambda: node.longest_wait_s(before) >= 1.0, "it has waited for a processor")
        assert hangs._is_crowded(time.monotonic() - 1.5, before)
        crowd[0].send_signal(signal.SIGSTOP)  # a stopped process does not wait for a processor
        wait_until(node.is_stopped, "the process has stopped")
        assert not hangs._is_crowded(time.monotonic() - 1.5, node.read_use())
    finally:
        for process in crowd:
            process.kill()
            process.wait()
    assert read_waited_ns(crowd[0].pid) == 0


@pytest.mark.heavy
def test_a_look_that_waits_for_a_processor_does_not_delay_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = job.read_process(os.getpid())
    assert mine is not None
    hangs = HangDetector(HangRequest(1.0), tmp_path, Node(mine, {0: mine}, {0: "a"}, 1), True)

    def sleeps(*_: object) -> list[str]:
        time.sleep(1.5)
        return []

    monkeypatch.setattr(hangs, "_report_hang", sleeps)
    assert hangs.check_silence(time.monotonic() - 2.0, {0: ProcessorUse()}) == []
    # A check used hardly any processor time, so the next one follows after the usual interval.
    assert hangs.next_s - time.monotonic() < RECHECK_S + 1


@pytest.mark.parametrize(
    ("states", "stopped"),
    [("TTT", True), ("SST", False), ("StS", True), ("SS", False), ("", False)],
)
def test_a_job_with_one_stopped_rank_is_stopped(
    states: str, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is stopped does not hang, nor does a job in a debugger."""
    mine = job.read_process(os.getpid())
    assert mine is not None
    found = [(state, 0) for state in states] + [None]  # one process has ended
    node = Node(mine, dict.fromkeys(range(len(found)), mine), {}, 4)
    monkeypatch.setattr("mpiprof.hang.node_processes.read_stat", lambda _: found.pop(0))
    assert node.is_stopped() == stopped


@pytest.mark.parametrize("reported", [False, True])
def test_a_debugger_in_a_reported_hang_causes_no_new_report(
    reported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the gdb of --on-hang would cause another report, and be started again and again."""
    mine = job.read_process(os.getpid())
    assert mine is not None
    started = JobStart(mine, tmp_path, tmp_path, "j", (0, 0), reports=True)
    watch = Watch(started, HangRequest(1.0), tmp_path, Node(mine, {0: mine}, {0: "a"}, 1))
    watch.since -= 3600
    watch.hangs.told = reported
    monkeypatch.setattr("mpiprof.hang.node_processes.read_stat", lambda _: ("t", 0))
    watch.check_calls()
    assert watch.hangs.told == reported
    assert (time.monotonic() - watch.since < 1800) == (not reported)


@pytest.mark.parametrize("name", ["../x", "a b", "node;rm", "-"])
def test_a_node_may_have_any_name(name: str, tmp_path: Path) -> None:
    assert leader_of(tmp_path, "a", True)._shares_file(name).parent == tmp_path


def test_a_check_detects_written_data(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    for i in range(3):
        at = 1_000 * i + np.array([10, 20])
        synthetic.add_collective("barrier", at, at + 5)
    synthetic.write(tmp_path / "t")
    logs = [tmp_path / "t" / name for name in ("rank-000000.log", "rank-000001.log")]
    seen = Activity()
    assert seen.has_changed(logs)
    assert not seen.has_changed(logs)
    with logs[1].open("ab") as file:
        file.write(bytes(1 << 16))
    assert seen.has_changed(logs)
    assert not seen.has_changed(logs)
    assert not seen.has_changed([*logs, tmp_path / "none.log"])
