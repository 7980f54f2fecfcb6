"""Progress messages of long work, on standard error if it is a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mpiprof.interface.format_units import format_rough_time

DELAY_S = 1.0
UPDATE_INTERVAL_S = 0.2
PROGRESS_VARIABLE = "MPIPROF_PROGRESS"
_bars: list[Progress] = []  # active bars, during which `show_work` is silent
_listener = threading.local()  # note: function of the share done, called by work in this thread


@contextmanager
def show_work(description: str) -> Iterator[None]:
    """Show the current work and its duration after the first second; erased at the end."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def show() -> None:
        while not done.wait(DELAY_S):
            if _bars:
                continue
            sys.stderr.write(f"\r{description}: {time.monotonic() - began:.0f} s")
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if time.monotonic() - began >= DELAY_S:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Progress:
    """A progress bar on standard error after the first second, if it is a terminal.

    `label` precedes the bar. Ranks have no terminal, so the process that starts them sets
    PROGRESS_VARIABLE if it has one.
    """

    def __init__(self, steps: int, shown: bool = True, label: str = "") -> None:
        self.steps, self.done, self.label = max(steps, 1), 0, label
        self.shown = shown and (sys.stderr.isatty() or PROGRESS_VARIABLE in os.environ)
        self.began = self.last = time.monotonic()

    def advance(self, more: int = 1) -> None:
        """Record that so many more steps are done."""
        self.done += more
        if self.done >= self.steps:
            self.erase()
            return
        now = time.monotonic()
        if not self.shown or now - self.began < DELAY_S or now - self.last < UPDATE_INTERVAL_S:
            return
        self.last = now
        part = self.done / self.steps
        remaining_s = (now - self.began) * (1 - part) / max(part, 1e-6)
        marks = "#" * int(30 * part)
        sys.stderr.write(
            f"\r{self.label}[{marks:<30}] {part:4.0%}, {format_rough_time(remaining_s)} left "
        )
        sys.stderr.flush()

    def erase(self) -> None:
        """Erase the bar."""
        if self.last > self.began:
            self.last = self.began
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextmanager
def show_progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of further steps done, of `total`."""
    progress = Progress(total, label=f"{description} ")
    note: Callable[[float], None] | None = getattr(_listener, "note", None)

    def advance(more: int) -> None:
        progress.advance(more)
        if note is not None and total:
            note(min(progress.done / total, 1.0))

    _bars.append(progress)
    try:
        yield advance
    finally:
        _bars.remove(progress)
        progress.erase()


@contextmanager
def listen_to_progress(note: Callable[[float], None]) -> Iterator[None]:
    """Call a function with the share that is done of the work in this thread."""
    _listener.note = note
    try:
        yield
    finally:
        _listener.note = None
