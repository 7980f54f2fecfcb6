"""The processes of a job that runs on this machine: which are alive, and what they do."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.trace.layout import SPENT
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

if TYPE_CHECKING:
    from mpiprof.trace.records import Records

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOOKS, BETWEEN_S = 6, 0.15


@dataclass(frozen=True)
class Processes:
    """What is known of a job's processes at this moment; empty where they run elsewhere.

    now_ns: on the trace's clock. alive: by rank. busy: ranks that use a processor, or that go from
    call to call; still: those looked at that do neither; stopped: of these those that a debugger or
    a signal has stopped. Of ranks that are gone, as the trace was
    read before: ended: who has reached MPI_Finalize after all; signals: what ended the others.
    """

    now_ns: int | None = None
    alive: dict[int, bool] = field(default_factory=dict)
    busy: frozenset[int] = frozenset()
    still: frozenset[int] = frozenset()
    stopped: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    signals: dict[int, int] = field(default_factory=dict)


def now_ns(trace: Records) -> int | None:
    """Return the present time on the trace's clock, when the job ran on this machine's boot."""
    boot = _boot()
    for rank, node in trace.node_of.items():
        if boot and boot in node.replace("-", ""):
            local = time.monotonic_ns()
            return local + trace.clock_of(rank).offset_at(local)
    return None


def alive(trace: Records) -> dict[int, bool]:
    """Return for each rank on this machine whether its process still exists."""
    boot = _boot()
    return {
        rank: stat(process["pid"]) is not None
        for rank, process in trace.tables.processes.items()
        if boot and process["pid"] and boot in str(process["node"]).replace("-", "")
    }


def _boot() -> str:
    try:
        return BOOT_ID.read_text().strip().replace("-", "")
    except OSError:
        return ""


def stat(pid: int) -> tuple[str, int] | None:
    """Return the state and the processor time (ticks) of a process; None: it is gone, or dead."""
    return _state(Path(f"/proc/{pid}"))


def _state(folder: Path) -> tuple[str, int] | None:
    try:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, used = words[0], int(words[11]) + int(words[12])
    return None if state in "ZX" else (state, used)


def outside(pid: int, inside: Collection[int]) -> tuple[str, int] | None:
    """Return `stat` of a process without its threads that are in MPI: these may poll there."""
    if not inside or stat(pid) is None:
        return stat(pid)
    paths = Path(f"/proc/{pid}/task").glob("[0-9]*")
    found = [_state(path) for path in paths if int(path.name) not in inside]
    threads = [one for one in found if one is not None]
    states = {state for state, _ in threads}
    state = "R" if "R" in states else min(states, default="S")
    return state, sum(used for _, used in threads)


def look(
    trace: Records, ranks: Iterable[int], inside: Mapping[int, Collection[int]] | None = None
) -> Processes:
    """Look for a moment at what ranks on this machine do between their collectives.

    A rank that is in a call without a record (point-to-point, Wait, files) all the time, and in
    the same one, is still, though it may poll; so is one that uses no processor. inside: threads
    of a rank that are in MPI while others are not: what they use tells nothing.
    """
    inside = inside or {}
    time_ns, living = now_ns(trace), alive(trace)
    watched = [rank for rank in ranks if living.get(rank)]
    seen: dict[int, list[tuple[str, int, tuple[int, ...]]]] = {rank: [] for rank in watched}
    for again in range(LOOKS if watched else 0):
        time.sleep(BETWEEN_S if again else 0)
        for rank in watched:
            pid = trace.tables.processes[rank]["pid"]
            state, used = outside(pid, inside.get(rank, ())) or ("S", 0)
            seen[rank].append((state, used, _calls(trace, rank)))
    busy = frozenset(rank for rank, looks in seen.items() if _is_busy(looks))
    still = frozenset(watched) - busy
    stopped = frozenset(r for r in still if all(state in "Tt" for state, _, _ in seen[r]))
    gone = [rank for rank, lives in living.items() if not lives]
    if not gone:
        return Processes(time_ns, living, busy, still, stopped)
    # A rank writes its end twice: before it waits for the others in MPI_Finalize, and after.
    before, ends = trace.tables.ends, read_tables(trace.path, trace.ranks, Problems()).ends
    ended = frozenset(r for r in gone if r in ends and ends[r] != before.get(r))
    signals = {rank: _signal(trace, rank) for rank in gone if rank not in before}
    return Processes(time_ns, living, busy, still, stopped, ended, signals)


def _signal(trace: Records, rank: int) -> int:
    """Return the signal that a rank noted at its end; 0 none."""
    heads = [chunks[-1].log.head(chunks[-1].index) for chunks in trace.threads_of(rank) if chunks]
    return max((head.get("signal", 0) for head in heads), default=0)


def _calls(trace: Records, rank: int) -> tuple[int, ...]:
    """Return what a rank's live windows say: which kind of call it is in, and time in each."""
    windows = [chunks[-1] for chunks in trace.threads_of(rank) if chunks]
    heads = [one.log.head(one.index) for one in windows if not one.is_summed()]
    names = ("inside", "serial", *(f"{name}_ns" for name in SPENT))
    return tuple(head.get(name, 0) for head in heads for name in names)


def _is_busy(looks: list[tuple[str, int, tuple[int, ...]]]) -> bool:
    if len({calls for _, _, calls in looks}) > 1:
        return True
    marks = looks[0][2][::6]
    if marks and min(marks) > 0:  # in one call without a record, all the time
        return False
    ticks = looks[-1][1] - looks[0][1]
    return ticks >= 2 or sum(state == "R" for state, _, _ in looks) >= 2
