"""A sign of life for long work: on a terminal only, on standard error only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0


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
