"""Work on items in several processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from support.small_chunks import write_small_chunks
from support.wait_until import wait_for_file, wait_until

import mpiprof
from mpiprof.interface.processes import map_in_processes
from unit.test_run_windows import halo, open_in_windows


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    factor = 3
    results = map_in_processes(lambda item: (item * factor, os.getpid()), range(7), processes)
    values, pids = zip(*results, strict=True)
    assert values == (0, 3, 6, 9, 12, 15, 18)
    assert (os.getpid() in pids) == (processes == 1)


def test_this_process_does_the_work_of_a_killed_child() -> None:
    parent = os.getpid()

    def work(item: int) -> int:
        if item == 3 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert list(map_in_processes(work, range(6), 2)) == [0, 1, 4, 9, 16, 25]


def test_this_process_does_the_work_if_no_child_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    assert list(map_in_processes(lambda item: item + 1, range(4), 2)) == [1, 2, 3, 4]


def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    parent = os.fork()
    if parent == 0:

        def wait(item: int) -> None:
            (tmp_path / str(item)).write_text(str(os.getpid()))
            time.sleep(600)

        list(map_in_processes(wait, range(2), 2))
        os._exit(0)
    children = [int(wait_for_file(tmp_path / str(item))) for item in range(2)]
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    wait_until(lambda: not any(map(is_running, children)), "the children have ended")


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_error_of_a_child_is_raised() -> None:
    def work(item: int) -> int:
        return 1 // item

    with pytest.raises(ZeroDivisionError):
        list(map_in_processes(work, range(-3, 3), 2))


def test_windows_have_the_same_findings_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_chunks(monkeypatch)
    whole = mpiprof.open(halo().write(tmp_path / "t"))
    found = []
    for processes in (1, 2):
        trace = open_in_windows(whole, monkeypatch, 4)
        trace.parallel = processes
        found.append(trace.findings())
    assert found[0] == found[1] != []
