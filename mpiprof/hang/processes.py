"""Processes of a job on this machine: which exist, and whether they run."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.records import Records
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SAMPLES, SAMPLE_INTERVAL_S = 6, 0.15


@dataclass(frozen=True)
class JobProcesses:
    """State of a job's processes at one moment; empty if they run elsewhere."""

    now_ns: int | None = None  # on the trace's clock
    alive: dict[int, bool] = field(default_factory=dict)  # by rank
    busy: frozenset[int] = frozenset()  # ranks that use a processor, or move from call to call
    still: frozenset[int] = frozenset()  # other inspected ranks
    stopped: frozenset[int] = frozenset()  # `still` ranks that a debugger or signal stopped
    ended: frozenset[int] = frozenset()  # dead ranks that reached MPI_Finalize since the reading
    signals: dict[int, int] = field(default_factory=dict)  # that ended other dead ranks


def trace_now_ns(trace: Records) -> int | None:
    """Return the present time on the trace's clock, or None if the job ran on another boot."""
    for rank, node in trace.node_ids.items():
        if is_this_node(node):
            local = time.monotonic_ns()
            return local + trace.clock_of(rank).offset_at(local)
    return None


def find_alive(trace: Records) -> dict[int, bool]:
    """Return whether the process of each rank on this machine still exists."""
    return {
        rank: read_stat(process["pid"]) is not None
        for rank, process in trace.tables.processes.items()
        if process["pid"] and is_this_node(str(process["node"]))
    }


def is_this_node(node: str) -> bool:
    """Return whether a trace's name of a node belongs to this machine, on the same boot."""
    boot = _boot_id()
    return bool(boot) and boot in node.replace("-", "")


@cache
def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip().replace("-", "")
    except OSError:
        return ""


def read_stat(pid: int) -> tuple[str, int] | None:
    """Return the state and processor time (ticks) of a process, or None if it is gone or dead."""
    return _read_state(Path(f"/proc/{pid}"))


def _read_state(folder: Path) -> tuple[str, int] | None:
    try:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, used = words[0], int(words[11]) + int(words[12])
    return None if state in "ZX" else (state, used)


def read_stat_without(pid: int, inside: Collection[int]) -> tuple[str, int] | None:
    """Return `stat` without the threads in `inside`: threads in MPI may poll there."""
    if not inside or read_stat(pid) is None:
        return read_stat(pid)
    paths = Path(f"/proc/{pid}/task").glob("[0-9]*")
    stats = [_read_state(path) for path in paths if int(path.name) not in inside]
    threads = [stat for stat in stats if stat is not None]
    states = {state for state, _ in threads}
    state = "R" if "R" in states else min(states, default="S")
    return state, sum(used for _, used in threads)


def sample_processes(
    trace: Records, ranks: Iterable[int], inside: Mapping[int, Collection[int]] | None = None
) -> JobProcesses:
    """Sample for a moment what the ranks on this machine do between their collectives."""
    # A rank that stays in the same unrecorded call (point-to-point, Wait, files) is still, although
    # it may poll. A rank that uses no processor is still, too. Threads in MPI may poll while other
    # threads of the rank are outside, so their processor time is ignored.
    inside = inside or {}
    time_ns, living = trace_now_ns(trace), find_alive(trace)
    watched = [rank for rank in ranks if living.get(rank)]
    samples: dict[int, list[tuple[str, int, tuple[int, ...]]]] = {rank: [] for rank in watched}
    for again in range(SAMPLES if watched else 0):
        time.sleep(SAMPLE_INTERVAL_S if again else 0)
        for rank in watched:
            pid = trace.tables.processes[rank]["pid"]
            state, used = read_stat_without(pid, inside.get(rank, ())) or ("S", 0)
            samples[rank].append((state, used, _call_marks(trace, rank)))
    busy = frozenset(rank for rank, looks in samples.items() if _is_busy(looks))
    still = frozenset(watched) - busy
    stopped = frozenset(r for r in still if all(state in "Tt" for state, _, _ in samples[r]))
    terminated = [rank for rank, lives in living.items() if not lives]
    if not terminated:
        return JobProcesses(time_ns, living, busy, still, stopped)
    # A rank writes its end twice: before it waits for the others in MPI_Finalize, and after.
    before, ends = trace.tables.ends, read_tables(trace.path, trace.ranks, Problems()).ends
    ended = frozenset(r for r in terminated if r in ends and ends[r] != before.get(r))
    signals = {rank: _recorded_signal(trace, rank) for rank in terminated if rank not in before}
    return JobProcesses(time_ns, living, busy, still, stopped, ended, signals)


def _recorded_signal(trace: Records, rank: int) -> int:
    """Return the signal that a rank recorded at its end, or 0 if none."""
    last = [chunks[-1] for chunks in trace.thread_chunks(rank) if chunks]
    heads = (chunk.log.read_header(chunk.index) for chunk in last)
    return max((head.get("signal", 0) for head in heads), default=0)


def _call_marks(trace: Records, rank: int) -> tuple[int, ...]:
    """Return the marks of a rank's live windows: class of the current call, and time per class."""
    windows = [chunks[-1] for chunks in trace.thread_chunks(rank) if chunks]
    heads = [window.log.read_header(window.index) for window in windows if not window.is_summed()]
    names = ("inside", "serial", *(f"{name}_ns" for name in OUTSIDE_CLASSES))
    return tuple(head.get(name, 0) for head in heads for name in names)


def _is_busy(looks: list[tuple[str, int, tuple[int, ...]]]) -> bool:
    if len({calls for _, _, calls in looks}) > 1:
        return True
    marks = looks[0][2][::6]
    if marks and min(marks) > 0:  # in one unrecorded call all the time
        return False
    ticks = looks[-1][1] - looks[0][1]
    return ticks >= 2 or sum(state == "R" for state, _, _ in looks) >= 2
