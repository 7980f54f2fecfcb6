"""A sign of life for long work: on a terminal only, on standard error only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0
BAR_EVERY_S = 0.2


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being done and for how long, from the first second on; wiped at the end."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def show() -> None:
        while not done.wait(PATIENCE_S):
            sys.stderr.write(f"\r{what}: {time.monotonic() - began:.0f} s")
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if time.monotonic() - began >= PATIENCE_S:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give what is to be told how many of `total` more are done; a bar from the first second on."""
    began = shown = time.monotonic()
    done, lines = 0, sys.stderr.isatty()

    def step(more: int) -> None:
        nonlocal done, shown
        done += more
        now = time.monotonic()
        if not lines or now - began < PATIENCE_S or now - shown < BAR_EVERY_S:
            return
        shown = now
        part = min(done / max(total, 1), 1.0)
        left = (now - began) * (1 - part) / max(part, 1e-6)
        sys.stderr.write(f"\r{what} [{'#' * int(30 * part):<30}] {part:4.0%}, {left:.0f} s left ")
        sys.stderr.flush()

    try:
        yield step
    finally:
        if shown > began:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
