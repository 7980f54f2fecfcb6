"""The rank of a `run -n` job that ended first, for launchers that then kill the other ranks.

MPICH's launcher ends the other ranks by SIGKILL, which no rank can record. So a process beside the
launcher waits for the first end, and stores the rank if it did not reach MPI_Finalize.

The launcher kills the other ranks as soon as the connection of the first one closes. The kernel
closes a process's files before it reports the end of the process, so ranks that are killed can end
before the first one. Files close in the order newest first: a rank's log, which the recorder has
opened after the connection, closes before the launcher can react. So the order in which the logs
close is the order of the ends. Where ranks share a log, the order of the reported ends remains.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import struct
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Any, TextIO

from mpiprof.interface.output_files import file_mode_in, replace_file
from mpiprof.interface.untrusted_files import MAX_TABLES_BYTES, open_file
from mpiprof.interface.untrusted_text import parse_json

FILE = ".first-end"  # in the trace folder
INTERVAL_S = 0.02  # between checks for ranks that start
STATUS_WAIT_S = 2.0  # until the launcher has waited for the rank that ended first
LAUNCHER = -1
# PIDFD_GET_INFO and PIDFD_INFO_EXIT of linux/pidfd.h, with the first version of its struct.
GET_INFO, INFO_BYTES, INFO_EXIT = 0xC040FF0B, 64, 1 << 3
STATUS_OFFSET = 60
STATUS_INTERVAL_S = 0.02
IN_CLOSE_WRITE = 0x8  # when the last process with an open file closes it
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class FirstEnd:
    """The rank that ended first, without MPI_Finalize.

    sure: False if only the reported ends of processes are known, whose order can differ.
    status: its wait status, None if it is unknown. at_ns: time of its end on the clock of its node,
    None if it is unknown.
    """

    rank: int
    sure: bool = True
    status: int | None = None
    at_ns: int | None = None

    @property
    def signal(self) -> int:
        """The signal that ended the rank, 0 if none or unknown."""
        is_known = self.status is not None and os.WIFSIGNALED(self.status)
        return os.WTERMSIG(self.status or 0) if is_known else 0

    @property
    def is_interrupted(self) -> bool:
        """True if a signal ended the rank that terminals and launchers send to all ranks."""
        return self.signal in (Signals.SIGINT, Signals.SIGHUP, Signals.SIGTERM)


def read_first_end(folder: Path) -> FirstEnd | None:
    """Return the rank that ended first without MPI_Finalize, None if that is unknown."""
    # `run` imports this module in each process of a launcher, and these would import numpy.
    from mpiprof.trace.files import list_files, read_content
    from mpiprof.trace.validation import check_integer, check_object, check_optional

    try:
        (file,) = list_files(folder, FILE)
        stored = check_object(parse_json(read_content(file)))
        known = [check_optional(stored.get(name), check_integer) for name in ("status", "at_ns")]
        return FirstEnd(check_integer(stored["rank"], 0), stored.get("sure") is True, *known)
    except (OSError, ValueError, KeyError):
        return None


def store_first_end(folder: Path, ranks: int, launcher: int) -> None:
    """Wait until the first rank of a launcher's process ends, and store it if it died."""
    with contextlib.closing(_Ends(folder)) as ends:
        first = _find_first(ends, ranks) if ends.add(LAUNCHER, launcher) else None
        at_ns = time.monotonic_ns()
        # A rank writes its end before its process ends.
        if first is None or first.rank in ends.list_finalized() or ends.is_removed():
            return
        first = replace(first, at_ns=at_ns)
        _store(folder, first)
        # The launcher may wait for the rank later. A verdict requires the rank at once.
        status = ends.read_status(first.rank)
        if status is not None and not ends.is_removed():
            _store(folder, replace(first, status=status))


def _store(folder: Path, first: FirstEnd) -> None:
    stored = asdict(first)
    with contextlib.suppress(OSError):
        replace_file(folder / FILE, json.dumps(stored), file_mode_in(folder))


def _find_first(ends: _Ends, ranks: int) -> FirstEnd | None:
    """Return the rank that ends first, or None if that is unknown."""
    processes: dict[int, dict[str, Any]] = {}
    while len(processes) < ranks:
        if LAUNCHER in ends.list_ended(0):
            return None
        time.sleep(INTERVAL_S)
        ends.open_tables()
        processes = {line["rank"]: line["process"] for line in ends.read_tables("process")}
        unseen = [rank for rank, process in processes.items() if not ends.add(rank, process["pid"])]
    if unseen:  # ended before they were known
        return FirstEnd(unseen[0], False) if len(unseen) == 1 and not ends.list_ended(0) else None
    logs = {f"{process['log']}.log": rank for rank, process in processes.items()}
    return ends.find_first(logs if len(logs) == ranks else {})


class _Ends:
    """Waits for the ends of processes, and knows the order in which they closed their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: list[TextIO] = []
        self.epoll = select.epoll()
        self.owners: dict[int, int] = {}  # rank or LAUNCHER, by descriptor
        self.closed_files = ClosedFiles()

    def close(self) -> None:
        for descriptor in self.owners:
            os.close(descriptor)
        self.epoll.close()
        self.closed_files.close()
        self.close_tables()

    def close_tables(self) -> None:
        for file in self.tables:
            file.close()
        self.tables = []

    def open_tables(self) -> None:
        """Open the tables of the trace. They remain readable if a user removes the trace."""
        self.close_tables()
        for path in self.folder.glob("*.tables"):
            with contextlib.suppress(OSError):
                file = open_file(path, MAX_TABLES_BYTES)
                self.tables.append(os.fdopen(file, errors="replace"))

    def read_tables(self, field: str) -> Iterator[dict[str, Any]]:
        """Yield the complete lines of the tables that have a field."""
        for file in self.tables:
            file.seek(0)
            for text in file.read().splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    line = parse_json(text.strip("\0"))
                    if field in line:
                        yield line

    def list_finalized(self) -> set[int]:
        """Return the ranks that have reached MPI_Finalize; they close their logs there."""
        return {line["rank"] for line in self.read_tables("end")}

    def is_removed(self) -> bool:
        """Return whether the trace was removed, perhaps for another one in the same folder."""
        return any(os.fstat(file.fileno()).st_nlink == 0 for file in self.tables)

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
        """Return the processes that have ended, in the order in which the kernel reports them.

        timeout_s: maximum time to wait for the first one; None waits without a limit.
        """
        return [self.owners[descriptor] for descriptor, _ in self.epoll.poll(timeout_s)]

    def read_status(self, rank: int) -> int | None:
        """Return the wait status of a rank that has ended or is about to end; None if unknown."""
        descriptors = [descriptor for descriptor, owner in self.owners.items() if owner == rank]
        return read_exit_status(descriptors[0], STATUS_WAIT_S) if descriptors else None

    def find_first(self, logs: dict[str, int]) -> FirstEnd | None:
        """Wait for the first end; return its rank, or None if the launcher ends first.

        logs: the rank of each log that belongs to one rank.
        """
        self.closed_files.watch(self.folder)
        reported = self.list_ended(None)[0]
        if reported == LAUNCHER:
            return None
        # A rank that has ended without an event left its log open in a child process.
        closed = [logs[name] for name in self.closed_files.read_names() if name in logs]
        finalized = self.list_finalized()
        closed = [rank for rank in closed if rank not in finalized]
        return FirstEnd(closed[0]) if reported in closed else FirstEnd(reported, False)


def read_exit_status(descriptor: int, timeout_s: float) -> int | None:
    """Return the wait status of an ended process, None if the kernel does not provide it.

    descriptor: from os.pidfd_open, opened while the process existed. The kernel provides the status
    when the parent has waited for the process, for which this function waits until timeout_s.
    """
    end = time.monotonic() + timeout_s
    while True:
        info = bytearray(INFO_BYTES)
        struct.pack_into("Q", info, 0, INFO_EXIT)
        try:
            fcntl.ioctl(descriptor, GET_INFO, info)
        except OSError:
            return None
        if struct.unpack_from("Q", info)[0] & INFO_EXIT:
            return int(struct.unpack_from("i", info, STATUS_OFFSET)[0])
        if time.monotonic() > end:
            return None
        time.sleep(STATUS_INTERVAL_S)


class ClosedFiles:
    """Queue of the closed files of a folder; stays empty where the kernel cannot watch it."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """End the collection."""
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def watch(self, folder: Path) -> None:
        """Begin to collect the files that processes on this machine close in a folder."""
        if self.descriptor >= 0:
            self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), IN_CLOSE_WRITE)

    def read_names(self) -> list[str]:
        """Return the names of the files closed since the last call, the first one first."""
        names = []
        while buffer := self._read():
            at = 0
            while at < len(buffer):
                length = EVENT.unpack_from(buffer, at)[-1]
                at += EVENT.size
                names.append(os.fsdecode(buffer[at : at + length].split(b"\0", 1)[0]))
                at += length
        return names

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, BUFFER_BYTES)
        except OSError:  # no further event, or no queue
            return b""
