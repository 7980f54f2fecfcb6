"""One clock for all ranks of a study: the machine's clock if they share it, else synchronised."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np

ROUND_TRIPS = 20
MONOTONIC, ABSOLUTE = 1, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class RankClock:
    """Rank 0's monotonic clock; on another machine, its offset is from the fastest round trip."""

    def __init__(self, world: Any) -> None:
        self.offset_ns = 0
        self.error_ns = 0  # bound on the error of the offset
        self._world = world
        self._sleep = ctypes.CDLL(None).clock_nanosleep
        self.shared = len(set(world.allgather(clock_identity()))) == 1

    def now_ns(self) -> int:
        """Return the joint time in ns."""
        return time.monotonic_ns() + self.offset_ns

    def wait_until(self, joint_ns: int) -> None:
        """Sleep until a joint time; no spinning, because ranks may outnumber the processors."""
        seconds, nanoseconds = divmod(joint_ns - self.offset_ns, 10**9)
        end = _Timespec(seconds, nanoseconds)
        self._sleep(MONOTONIC, ABSOLUTE, ctypes.byref(end), None)

    def synchronise(self) -> None:
        """Measure the offsets again; collective over all ranks."""
        if self.shared:
            return
        for rank in range(1, self._world.size):
            if self._world.rank == 0:
                self._answer_rank(rank)
            elif self._world.rank == rank:
                self.offset_ns = self._measure_offset()
            self._world.Barrier()

    def _answer_rank(self, rank: int) -> None:
        now_ns = np.zeros(1, np.int64)
        for _ in range(ROUND_TRIPS):
            self._world.Recv(now_ns, rank)
            now_ns[0] = time.monotonic_ns()
            self._world.Send(now_ns, rank)

    def _measure_offset(self) -> int:
        remote_ns = np.zeros(1, np.int64)
        best, offset = 1 << 62, 0
        for _ in range(ROUND_TRIPS):
            began = time.monotonic_ns()
            self._world.Send(remote_ns, 0)
            self._world.Recv(remote_ns, 0)
            ended = time.monotonic_ns()
            if ended - began < best:
                best, offset = ended - began, int(remote_ns[0]) - (began + ended) // 2
        self.error_ns = best // 2
        return offset


def clock_identity() -> str:
    """Return an identity that is equal on ranks that share a monotonic clock."""
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/time")
    boot_text = boot.read_text().strip() if boot.exists() else ""
    return boot_text + (space.readlink().as_posix() if space.is_symlink() else "")
