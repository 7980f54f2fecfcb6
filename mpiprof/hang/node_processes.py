"""The processes of a job on this node: their list, processor use and termination."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mpiprof.hang.processes import is_this_node, read_stat
from mpiprof.launch import job
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

MAX_RANKS = 1 << 22
TICK = os.sysconf("SC_CLK_TCK")
KILL_DELAY_S = 5.0  # from SIGTERM to SIGKILL


@dataclass(frozen=True)
class ProcessorUse:
    """Processor time of a process, and the time in which it was ready without a processor."""

    ticks: int = 0
    waited_ns: int = 0


@dataclass
class Node:
    """The ranks of this node and their processes; grows until all have written their process."""

    leader: job.Process  # the process that started the agent, a rank or a script around one
    ranks: dict[int, job.Process] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)  # node of each known rank
    size: int = 0  # number of ranks, 0 if unknown
    length: int = -1  # of the tables when they were last read, or -1 to read them again
    logs: dict[str, None] = field(default_factory=dict)  # logs of this node's ranks, in order

    def refresh(self, folder: Path) -> None:
        """Read the processes that were written since the last call, until all ranks have one."""
        if self.size and len(self.nodes) >= self.size:
            return
        length = sum(path.stat().st_size for path in folder.glob("*.tables"))
        if length == self.length:
            return
        tables = read_tables(folder, MAX_RANKS, Problems())
        # The length may stay the same when a truncated line is completed.
        self.length = -1 if tables.truncated else length
        for rank, process in tables.processes.items():
            self.size = max(self.size, process["size"])
            self.nodes[rank] = str(process["node"])
            is_new_local = is_this_node(self.nodes[rank]) and rank not in self.ranks
            local_process = job.read_process(process["pid"]) if is_new_local else None
            if local_process is not None:
                self.ranks[rank] = local_process
                self.logs[process["log"] or f"rank-{rank:06d}"] = None

    @property
    def name(self) -> str:
        """The node's name in the trace; "" until one of its ranks has written it."""
        return next((self.nodes[rank] for rank in self.ranks), "")

    def is_alive(self) -> bool:
        """Return whether a process of the job is left on this node."""
        return is_alive(self.leader) or any(map(is_alive, self.ranks.values()))

    def has_processes(self, folder: Path) -> bool:
        """Read new processes, and return whether a process of the job is left on this node."""
        # The leader may die before any rank is known, and the other ranks then hang without it.
        self.refresh(folder)
        return self.is_alive()

    def read_use(self) -> dict[int, ProcessorUse]:
        """Return the use of each rank that is alive."""
        return {
            rank: ProcessorUse(state[1], read_waited_ns(process.pid))
            for rank, process in self.ranks.items()
            if (state := read_stat(process.pid)) is not None
        }

    def is_stopped(self) -> bool:
        """Return whether the user or scheduler stopped all ranks, or a debugger one of them."""
        stats = [read_stat(process.pid) for process in self.ranks.values()]
        states = [state[0] for state in stats if state is not None]
        # A rank that a signal stopped alone does not count: the other ranks wait for it.
        return "t" in states or (bool(states) and set(states) == {"T"})

    def processor_shares(
        self, before: Mapping[int, ProcessorUse], seconds: float
    ) -> dict[int, float]:
        """Return each rank's share of a processor since `used` returned `before`."""
        return {
            rank: (now.ticks - before.get(rank, now).ticks) / TICK / max(seconds, 1e-3)
            for rank, now in self.read_use().items()
        }

    def longest_wait_s(self, before: Mapping[int, ProcessorUse]) -> float:
        """Return the longest time that a rank was ready without a processor since `before`."""
        use = self.read_use().items()
        waits = (now.waited_ns - before.get(rank, now).waited_ns for rank, now in use)
        return max(waits, default=0) / 1e9

    def kill_processes(self) -> None:
        """End the job's processes on this node, as launchers do: SIGTERM, then SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in filter(is_alive, self.ranks.values()):
                with contextlib.suppress(OSError):
                    os.kill(process.pid, number)
            deadline = time.monotonic() + KILL_DELAY_S
            while time.monotonic() < deadline and any(map(is_alive, self.ranks.values())):
                time.sleep(0.05)

    def open_standard_error(self, device_and_inode: tuple[int, int]) -> int | None:
        """Return a descriptor of the job's standard error, or None if no process has one."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        for process in filter(is_alive, [self.leader, *self.ranks.values()]):
            try:
                descriptor = os.open(f"/proc/{process.pid}/fd/2", flags)
            except OSError:
                continue
            status = os.fstat(descriptor)
            # The leader may have replaced its standard error. Other processes are not checked.
            if process.pid != self.leader.pid or (status.st_dev, status.st_ino) == device_and_inode:
                return descriptor
            os.close(descriptor)
        return None


def read_waited_ns(pid: int) -> int:
    """Return how long a process's first thread was ready without a processor; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # the kernel may lack schedstat
        return 0


def is_alive(process: job.Process) -> bool:
    """Return whether a process still exists, is not dead, and has not lost its pid to another."""
    now = job.read_process(process.pid)
    return (
        now is not None
        and now.start_ticks == process.start_ticks
        and read_stat(process.pid) is not None
    )
