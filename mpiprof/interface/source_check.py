"""Comparison of a checkout's C sources with those of which its libraries were built.

The build writes a hash of each source to `sources.sha256` beside the libraries. Every process of a
job makes this comparison. Therefore a process that has found all hashes equal writes the inode
numbers, sizes and times of change of all files to the checkout's `__pycache__`. The next process
compares only these states. No program can set the time of change, so that an edited or replaced
file has another state.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

HASHES = "sources.sha256"
CLOCK_STEP_NS = 2_000_000_000  # of a file system's times, at most


@functools.cache
def find_differing_source(folder: Path, core: Path) -> Path | None:
    """Return a source in `core` that differs from that of the libraries in `folder`, or None."""
    hashes = folder / HASHES
    if not hashes.is_file():  # the libraries are older than this check
        return core / "CMakeLists.txt"
    lines = [line.split("  ", 1) for line in hashes.read_text().splitlines()]
    sources = {core / name: expected for expected, name in lines}
    states = _list_states([hashes, *sources])
    # A checkout may have libraries in several environments.
    name = f"sources-{zlib.crc32(os.fsencode(folder)):08x}.states"
    record = core.parent / "__pycache__" / name
    if states and _read_record(record) == states:
        return None
    for path, expected in sources.items():
        if _hash_file(path) != expected:
            return path.resolve()
    if states:
        _write_record(record, states)
    return None


def _list_states(paths: Sequence[Path]) -> str:
    """Return one line for each file.

    Returns "" if a file is absent, or has changed in the last clock step: a further change would
    have the same time.
    """
    lines = []
    newest_ns = 0
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            return ""
        lines.append(f"{state.st_ino} {state.st_size} {state.st_ctime_ns} {path}")
        newest_ns = max(newest_ns, state.st_ctime_ns)
    return "\n".join(lines) if newest_ns < time.time_ns() - CLOCK_STEP_NS else ""


def _hash_file(path: Path) -> str:
    """Return the hash of a file, or "" if it is absent."""
    import hashlib  # takes longer than the comparison of states

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _read_record(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_record(path: Path, states: str) -> None:
    """Replace a record that other processes may read; skip a folder that cannot be written."""
    written = path.with_name(f"{path.name}.{os.getpid()}.{time.time_ns()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        written.write_text(states)
        written.replace(path)
