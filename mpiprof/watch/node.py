"""The processes of a job on this node: which there are, what they use, and the end of them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mpiprof.launch import job
from mpiprof.trace.processes import BOOT_ID, stat
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

MOST_RANKS = 1 << 22
TICK = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 5.0  # from SIGTERM to SIGKILL


@dataclass(frozen=True)
class Use:
    """What a process has had of the processors, and for how long it was ready and had none."""

    ticks: int = 0
    waited_ns: int = 0


@dataclass
class Node:
    """The ranks of this node, by their processes; it grows until all have told of themselves.

    leader: the process that has started us, a rank or a script around one. nodes: of all ranks that
    are known; logs: what those of this node write to; size: how many there are, 0 unknown.
    """

    leader: job.Process
    ranks: dict[int, job.Process] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    size: int = 0
    length: int = -1
    logs: dict[str, None] = field(default_factory=dict)  # in order

    def refresh(self, folder: Path) -> None:
        """Look who has told of itself since the last time, while some have not."""
        if self.size and len(self.nodes) >= self.size:
            return
        length = sum(path.stat().st_size for path in folder.glob("*.tables"))
        if length == self.length:
            return
        boot = BOOT_ID.read_text().strip().replace("-", "")
        tables = read_tables(folder, MOST_RANKS, Problems())
        self.length = -1 if tables.cut else length  # else a line may come without more length
        for rank, process in tables.processes.items():
            self.size = max(self.size, process["size"])
            self.nodes[rank] = str(process["node"])
            here = boot in self.nodes[rank].replace("-", "")
            found = job.process(process["pid"]) if here and rank not in self.ranks else None
            if found is not None:
                self.ranks[rank] = found
                self.logs[process["log"] or f"rank-{rank:06d}"] = None

    @property
    def name(self) -> str:
        """The node as the trace calls it; empty until a rank has told."""
        return next((self.nodes[rank] for rank in self.ranks), "")

    def is_alive(self) -> bool:
        """Return whether a process of the job is left here."""
        return is_alive(self.leader) or any(map(is_alive, self.ranks.values()))

    def is_left(self, folder: Path) -> bool:
        """Return whether a process of the job is left here, having looked who has told of itself.

        The leader may die before we have heard of any rank, and the others hang without it.
        """
        self.refresh(folder)
        return self.is_alive()

    def used(self) -> dict[int, Use]:
        """Return what each rank that is alive has had."""
        found = {rank: (stat(one.pid), one.pid) for rank, one in self.ranks.items()}
        return {
            rank: Use(state[1], waited_ns(pid))
            for rank, (state, pid) in found.items()
            if state is not None
        }

    def is_stopped(self) -> bool:
        """Return whether the ranks are, by a person or the scheduler, or one by a debugger.

        One that alone was stopped by a signal is what the others wait for.
        """
        found = [stat(one.pid) for one in self.ranks.values()]
        states = [state[0] for state in found if state is not None]
        return "t" in states or (bool(states) and set(states) == {"T"})

    def shares(self, before: Mapping[int, Use], seconds: float) -> dict[int, float]:
        """Return what share of a processor each rank has used since `used` gave `before`."""
        return {
            rank: (now.ticks - before.get(rank, now).ticks) / TICK / max(seconds, 1e-3)
            for rank, now in self.used().items()
        }

    def longest_wait_s(self, before: Mapping[int, Use]) -> float:
        """Return for how long a rank was ready and had no processor since `used` gave `before`."""
        waits = [
            now.waited_ns - before.get(rank, now).waited_ns for rank, now in self.used().items()
        ]
        return max(waits, default=0) / 1e9

    def end(self) -> None:
        """End the job's processes here, as a launcher does: SIGTERM, and SIGKILL to who stays."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            _signal(self.ranks.values(), number)
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and any(map(is_alive, self.ranks.values())):
                time.sleep(0.05)

    def errors(self, wanted: tuple[int, int]) -> int | None:
        """Return a descriptor of the job's standard error, None where no process has one.

        wanted: the file that it was when the leader was started: the program may have closed it,
        and another process's is as good.
        """
        for one in [self.leader, *self.ranks.values()]:
            if not is_alive(one):
                continue
            try:
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                descriptor = os.open(f"/proc/{one.pid}/fd/2", flags)
            except OSError:
                continue
            status = os.fstat(descriptor)
            if one.pid != self.leader.pid or (status.st_dev, status.st_ino) == wanted:
                return descriptor
            os.close(descriptor)
        return None


def waited_ns(pid: int) -> int:
    """Return for how long a process's first thread was ready and had no processor; 0: unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # the kernel may be built without
        return 0


def is_alive(one: job.Process) -> bool:
    """Return whether a process is there still, and not another with its number, or dead."""
    now = job.process(one.pid)
    return now is not None and now.started == one.started and stat(one.pid) is not None


def _signal(processes: Iterable[job.Process], number: signal.Signals) -> None:
    for one in processes:
        if is_alive(one):
            with contextlib.suppress(OSError):
                os.kill(one.pid, number)
