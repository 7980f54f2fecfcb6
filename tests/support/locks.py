"""Locks for resources that only one test at a time may use, although several workers run tests."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_with(thing: str) -> Iterator[None]:
    """Wait until no other test of this user has the resource, and lock it."""
    path = Path(tempfile.gettempdir()) / f"mpiprof-tests-{os.getuid()}-{thing}.lock"
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
