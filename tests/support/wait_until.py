"""Waits for a condition on a running program, with one time limit for all tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

import pytest

# A program that needs longer hangs. Correct programs need a hundredth of it, so the limit also
# holds on a machine with many other programs.
HANG_S = 600.0
BARE_HANG_S = 60.0  # before a restart of a program that sometimes also hangs without mpiprof
PAUSE_S = 0.02
Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found], what: str, job: subprocess.Popen[Any] | None = None
) -> Found:
    """Return the first true value of a condition.

    The test fails after HANG_S seconds, or as soon as `job` has ended and the condition is false.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + HANG_S
    while True:
        # Before the condition is checked for the last time.
        ended = job is not None and job.poll() is not None
        value = condition()
        if value:
            return value
        if ended:
            assert job is not None
            pytest.fail(f"the job ended with {job.returncode} before {what}")
        if time.monotonic() > deadline:
            pytest.fail(f"not within {HANG_S:g} s: {what}")
        time.sleep(PAUSE_S)


def wait_for_file(path: Path, job: subprocess.Popen[Any] | None = None) -> str:
    """Return the text of a file, once the file exists and is not empty."""
    __tracebackhide__ = True
    return wait_until(
        lambda: path.read_text() if path.exists() else "", f"{path.name} has a text", job
    )


def wait_for_line(job: subprocess.Popen[str], begin: str) -> str:
    """Return the first line with this beginning that a job writes to its standard error.

    The test fails after HANG_S seconds, or if standard error ends before.
    """
    __tracebackhide__ = True
    lines: Queue[str | None] = Queue()

    def read() -> None:
        assert job.stderr is not None
        for line in job.stderr:
            lines.put(line)
        lines.put(None)

    Thread(target=read, daemon=True).start()
    deadline, before = time.monotonic() + HANG_S, ""
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            pytest.fail(f"no line {begin!r} within {HANG_S:g} s\n{before}")
        if line is None:
            pytest.fail(f"standard error ended without a line {begin!r}\n{before}")
        if line.startswith(begin):
            return line
        before += line
