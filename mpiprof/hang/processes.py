"""Processes of a job on this machine: which exist, and whether they run."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.records import Records
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import SENDER_UNIT, Problems

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SAMPLES, SAMPLE_INTERVAL_S = 6, 0.15
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# Minimum number of samples in state D, and of bytes between the first and the last sample; mapped
# files are included.
MIN_DISK_STATES, MIN_IO_BYTES = 2, 1 << 14
IO_FIELDS = ("rchar", "wchar", "read_bytes", "write_bytes")
MARKS_PER_WINDOW = 2 + len(OUTSIDE_CLASSES)
FILES_MARK = 1 + OUTSIDE_CLASSES.index("files")


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
    senders: dict[int, int] = field(default_factory=dict)  # of these signals
    in_files: frozenset[int] = frozenset()  # ranks that read or write files


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


def read_user_ticks(pid: int) -> int:
    """Return the processor time of a process in user mode, in ticks; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
    except OSError:
        return 0


def read_io(pid: int) -> int:
    """Return the bytes that a process has read and written; 0 if the kernel refuses."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        fields = dict(line.split(": ") for line in lines)
        return sum(int(fields[name]) for name in IO_FIELDS)
    except (OSError, ValueError, KeyError):
        return 0


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


@dataclass(frozen=True)
class _Sample:
    """One look at a process: its state, processor time, bytes read and written, and call marks."""

    state: str = "S"
    ticks: int = 0
    user_ticks: int = 0
    io_bytes: int = 0
    marks: tuple[int, ...] = ()


def sample_processes(
    trace: Records, ranks: Iterable[int], inside: Mapping[int, Collection[int]] | None = None
) -> JobProcesses:
    """Sample for a moment what the ranks on this machine do between their collectives."""
    # A rank that stays in the same unrecorded call (point-to-point, Wait) is still, although it may
    # poll. A rank that uses no processor is still, too. Threads in MPI may poll while other threads
    # of the rank are outside, so their processor time is ignored.
    inside = inside or {}
    time_ns, living = trace_now_ns(trace), find_alive(trace)
    watched = [rank for rank in ranks if living.get(rank)]
    samples: dict[int, list[_Sample]] = {rank: [] for rank in watched}
    for again in range(SAMPLES if watched else 0):
        time.sleep(SAMPLE_INTERVAL_S if again else 0)
        for rank in watched:
            pid = trace.tables.processes[rank]["pid"]
            state, used = read_stat_without(pid, inside.get(rank, ())) or ("S", 0)
            marks = _call_marks(trace, rank)
            samples[rank].append(_Sample(state, used, read_user_ticks(pid), read_io(pid), marks))
    if watched:  # a process that ended meanwhile has no activity
        living = find_alive(trace)
        samples = {rank: looks for rank, looks in samples.items() if living.get(rank)}
    in_files = frozenset(rank for rank, looks in samples.items() if _is_in_files(looks))
    busy = frozenset(rank for rank, looks in samples.items() if _is_busy(looks)) - in_files
    still = frozenset(samples) - busy - in_files
    stopped = frozenset(r for r in still if all(look.state in "Tt" for look in samples[r]))
    sampled = JobProcesses(time_ns, living, busy, still, stopped, in_files=in_files)
    terminated = [rank for rank, lives in living.items() if not lives]
    if not terminated:
        return sampled
    # A rank writes its end twice: before it waits for the others in MPI_Finalize, and after.
    before, ends = trace.tables.ends, read_tables(trace.path, trace.ranks, Problems()).ends
    ended = frozenset(r for r in terminated if r in ends and ends[r] != before.get(r))
    recorded = {rank: _recorded_signal(trace, rank) for rank in terminated if rank not in before}
    return replace(
        sampled,
        ended=ended,
        signals={rank: signal for rank, (_, signal) in recorded.items()},
        senders={rank: sender for rank, (sender, _) in recorded.items()},
    )


def _recorded_signal(trace: Records, rank: int) -> tuple[int, int]:
    """Return the sender and the number of the signal that ended a rank; the number is 0 if none."""
    last = [chunks[-1] for chunks in trace.thread_chunks(rank) if chunks]
    heads = (chunk.log.read_header(chunk.index) for chunk in last)
    return divmod(max((head.get("signal", 0) for head in heads), default=0), SENDER_UNIT)


def _call_marks(trace: Records, rank: int) -> tuple[int, ...]:
    """Return the marks of a rank's live windows: class of the current call, and time per class."""
    windows = [chunks[-1] for chunks in trace.thread_chunks(rank) if chunks]
    heads = [window.log.read_header(window.index) for window in windows if not window.is_summed()]
    names = ("inside", "serial", *(f"{name}_ns" for name in OUTSIDE_CLASSES))
    return tuple(head.get(name, 0) for head in heads for name in names)


def _is_busy(looks: Sequence[_Sample]) -> bool:
    if len({look.marks for look in looks}) > 1:
        return True
    marks = looks[0].marks[::MARKS_PER_WINDOW]
    if marks and min(marks) > 0:  # in one unrecorded call all the time
        return False
    ticks = looks[-1].ticks - looks[0].ticks
    return ticks >= 2 or sum(look.state == "R" for look in looks) >= 2


def _is_in_files(looks: Sequence[_Sample]) -> bool:
    """Return whether a process waits for a disk, or reads and writes more than it computes."""
    marks = looks[0].marks[::MARKS_PER_WINDOW]
    in_message_call = marks and min(marks) > 0 and FILES_MARK not in marks
    if len({look.marks for look in looks}) > 1 or in_message_call:
        return False
    if sum(look.state == "D" for look in looks) >= MIN_DISK_STATES:
        return True
    moved = looks[-1].io_bytes - looks[0].io_bytes
    computed = looks[-1].user_ticks - looks[0].user_ticks
    sampled_ticks = SAMPLES * SAMPLE_INTERVAL_S * CLOCK_TICKS
    return moved >= MIN_IO_BYTES and computed < sampled_ticks / 2
