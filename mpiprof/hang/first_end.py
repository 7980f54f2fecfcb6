"""The rank of a `run -n` job that ended first, for launchers that then kill the other ranks.

MPICH's launcher ends the other ranks by SIGKILL, which no rank can record. So a process beside the
launcher waits for the first end, and stores the rank if it did not reach MPI_Finalize.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpiprof.interface.output_files import file_mode_in, replace_file

FILE = ".first-end"  # in the trace folder
INTERVAL_S = 0.02  # between checks for ranks that start
LAUNCHER = -1


def read_first_end(folder: Path) -> int | None:
    """Return the rank that ended first without MPI_Finalize, None if that is unknown."""
    # `run` imports this module in each process of a launcher, and these would import numpy.
    from mpiprof.trace.files import list_files, read_content

    try:
        (file,) = list_files(folder, FILE)
        return int(json.loads(read_content(file))["rank"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_first_end(folder: Path, ranks: int, launcher: int) -> None:
    """Wait until the first rank of a launcher's process ends, and store it if it died."""
    with contextlib.closing(_Ends()) as ends:
        first = _find_first(ends, folder, ranks) if ends.add(LAUNCHER, launcher) else LAUNCHER
    # A rank writes its end before its process ends.
    if first != LAUNCHER and first not in {line["rank"] for line in _read(folder, "end")}:
        with contextlib.suppress(OSError):
            replace_file(folder / FILE, json.dumps({"rank": first}), file_mode_in(folder))


def _find_first(ends: _Ends, folder: Path, ranks: int) -> int:
    """Return the rank that ends first, or LAUNCHER if that is unknown."""
    pids: dict[int, int] = {}
    while len(pids) < ranks:
        if LAUNCHER in ends.list_ended(0):
            return LAUNCHER
        time.sleep(INTERVAL_S)
        pids = {line["rank"]: line["process"]["pid"] for line in _read(folder, "process")}
        unseen = [rank for rank, pid in pids.items() if not ends.add(rank, pid)]
    if unseen:  # ended before they were known
        return unseen[0] if len(unseen) == 1 and not ends.list_ended(0) else LAUNCHER
    return ends.list_ended(None)[0]


def _read(folder: Path, field: str) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of the tables that have a field."""
    for path in folder.glob("*.tables"):
        with contextlib.suppress(OSError):
            for text in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    line = json.loads(text.strip("\0"))
                    if field in line:
                        yield line


class _Ends:
    """Waits for the ends of processes. The kernel lists them in the order in which they ended."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.owners: dict[int, int] = {}  # rank or LAUNCHER, by descriptor

    def close(self) -> None:
        for descriptor in self.owners:
            os.close(descriptor)
        self.epoll.close()

    def add(self, owner: int, pid: int) -> bool:
        """Add the process of a rank, once; returns False if it has ended or cannot be watched."""
        if owner in self.owners.values():
            return True
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):
            return False
        self.owners[descriptor] = owner
        self.epoll.register(descriptor, select.EPOLLIN)
        return True

    def list_ended(self, timeout_s: float | None) -> list[int]:
        """Return the processes that have ended, the first one first.

        timeout_s: maximum time to wait for the first one; None waits without a limit.
        """
        return [self.owners[descriptor] for descriptor, _ in self.epoll.poll(timeout_s)]
