"""Typical jobs that hang or have ended, for the snapshot of sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.hang import first_end, hang_pictures, hang_threshold, job_verdict, rank_state, status
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.words import verdict_text
from mpiprof.trace.types import LOCAL_CALL
from support.hang_traces import HERE, SECOND, THERE, call, drop, job, now
from support.jobs import run_verb
from support.message_hangs import MessageHang
from support.message_traces import record
from support.synthetic import Synthetic

FRAME = {"file": "/home/a/solve.py", "line": 88, "function": "step"}
LATER = 100  # s after the last call


def conclude(
    make: Callable[[], Synthetic | MessageHang],
    processes: JobProcesses,
    folder: Path,
    finished: Any = False,
    change: Callable[[Path], None] | None = None,
) -> Iterator[Callable[[], object]]:
    """Write the trace of a job, and yield the reports on it; change: of the written folder."""
    made = make()
    path = folder / "t"
    if isinstance(made, MessageHang):
        made.write(folder, finished)
    else:
        for rank in range(made.ranks):
            made.add(rank, 0, 0, 0, 0, kind=0)
        made.write(path, finished=finished)
    if change is not None:
        change(path)
    trace = mpiprof.open(path)
    positions, pending = rank_state.find(trace)
    verdict = job_verdict.conclude(trace, positions, pending, processes)

    def report() -> None:
        verdict_text.format_verdict(trace, positions, verdict, processes.now_ns)
        verdict_text.describe_fault(trace, verdict, positions)
        status.status_text(trace, positions, pending, verdict, whole=True)
        hang_pictures.draw_hang(trace, positions, pending, verdict)
        hang_pictures.draw_moments(trace, positions, verdict)

    yield report
    yield partial(run_verb, "status", path)


def gone(ranks: int) -> JobProcesses:
    """Return the state of processes that have ended."""
    return JobProcesses(10_000 + 20 * SECOND, dict.fromkeys(range(ranks), False))


def enter(ranks: int, *steps: tuple[int, str, dict[str, Any]]) -> Synthetic:
    """Return a job in which some ranks have entered a call."""
    synthetic = job(ranks)
    for rank, operation, fields in steps:
        call(synthetic, rank, operation, **fields)
    return synthetic


def lack_rank(operation: str = "barrier", ranks: int = 3, **values: Any) -> Synthetic:
    """Return a job whose last rank does not enter a collective; values: attributes of it."""
    synthetic = enter(ranks, *((rank, operation, {"site": HERE}) for rank in range(ranks - 1)))
    for name, value in values.items():
        setattr(synthetic, name, value)
    return synthetic


def disagree(operation: str, first: dict[str, Any], second: dict[str, Any]) -> Synthetic:
    """Return a job in which one rank calls with other arguments."""
    steps = [(rank, operation, {"site": HERE} | first) for rank in range(4)]
    return enter(5, *steps, (4, second.pop("operation", operation), {"site": THERE} | second))


def diverge() -> Synthetic:
    """Return a job in which a rank leaves a loop one step early."""
    synthetic = job(4)
    most = [("allreduce", 10), ("allreduce", 10), ("allreduce", 10), ("bcast", 20), ("reduce", 30)]
    early = [*most[1:], ("barrier", 40)]
    for rank in range(4):
        for i, (operation, line) in enumerate(early if rank == 2 else most):
            ends = 0 if i == 4 else 9_100
            site = f"app.py:{line}:main"
            call(synthetic, rank, operation, sequence=3 + i, site=site, ends=ends, sent=8)
    return synthetic


def cross() -> Synthetic:
    """Return a job in which two ranks wait for each other on two communicators."""
    synthetic = job(2)
    for name in ("first", "second"):
        synthetic.add_communicator(name, [0, 1])
    for rank, name in enumerate(("first", "second")):
        site = (HERE, THERE)[rank]
        call(synthetic, rank, "barrier", communicator=name, sequence=0, site=site)
    return synthetic


def raise_in(**fields: Any) -> Synthetic:
    """Return a job in which a rank raised an exception and the other ranks wait."""
    synthetic = enter(3, (0, "alltoall", {"site": HERE}), (2, "alltoall", {"site": HERE}))
    call(synthetic, 1, "finalize", site="at exit (mpi4py):0:")
    raised = {"at_ns": 9_500, "how": "uncaught", "type": "ValueError", "message": "bad shape"}
    exception = {**raised, "frames": [FRAME], **fields}
    synthetic.lines[1].append({"rank": 1, "exception": exception})
    return synthetic


def exchange(*blocks: tuple[int, str, int, int], ranks: int = 3, barrier: Any = ()) -> MessageHang:
    """Return a job whose ranks are in calls: rank, operation, peer and tag of each."""
    hang = MessageHang(ranks)
    for line, (rank, operation, peer, tag) in enumerate(blocks, 11):
        hang.block(rank, operation, peer, tag, line=line)
    hang.enter_barrier(*barrier)
    return hang


def lock_window() -> MessageHang:
    """Return a job in which a rank is in a call on a window."""
    hang = exchange(barrier=(0, 1))
    shape = hang.shape(2, "win_lock", None, 30, "world")
    hang.open[2].append(record(LOCAL_CALL, shape=shape, enter_ns=9_000))
    return hang


def wait_for_all() -> MessageHang:
    """Return a job in which ranks wait for one rank in calls of every class."""
    hang = exchange((2, "recv", 1, 7), (4, "probe", 1, -1), ranks=6, barrier=(0,))
    hang.wait(3, "waitall", hang.message(3, "irecv", 1, 8, line=13), line=14)
    hang.wait(5, "waitany", hang.message(5, "irecv", 1, 9), hang.message(5, "irecv", 1, 10))
    return hang


def store_exit(path: Path) -> None:
    """Store that rank 2 ended first, with an exit code."""
    path.joinpath(first_end.FILE).write_text(json.dumps({"rank": 2, "sure": True, "status": 768}))


def store_limit(path: Path) -> None:
    """Store that the watchdog has reported the job."""
    hang_threshold.store_limit(path, 0.5)


def alive(ranks: int, **states: Any) -> JobProcesses:
    """Return the state of living processes, and of single ones: still, stopped, busy, in_files."""
    sets = {name: frozenset(chosen) for name, chosen in states.items()}
    return now(*range(ranks), after=LATER, **sets)


SITUATIONS: dict[str, Callable[[Path], Iterator[Callable[[], object]]]] = {
    "different operations": partial(
        conclude, partial(disagree, "allreduce", {}, {"operation": "barrier"}), alive(5)
    ),
    "different roots": partial(
        conclude, partial(disagree, "bcast", {"root": 0}, {"root": 1}), alive(5)
    ),
    "different sizes": partial(
        conclude, partial(disagree, "allreduce", {"sent": 8}, {"sent": 80}), alive(5)
    ),
    "different numbers of calls": partial(conclude, diverge, alive(4)),
    "crossed communicators": partial(conclude, cross, alive(2)),
    "missing rank that sleeps": partial(conclude, lack_rank, alive(3, still=[2])),
    "missing rank that computes": partial(conclude, lack_rank, alive(3, busy=[2])),
    "missing rank that is stopped": partial(conclude, lack_rank, alive(3, still=[2], stopped=[2])),
    "missing rank in files": partial(conclude, lack_rank, alive(3, in_files=[2])),
    "missing rank in an unlogged call": partial(
        conclude, partial(lack_rank, inside=[0, 0, 5]), alive(3, still=[2])
    ),
    "missing rank in a message call": partial(
        conclude, partial(lack_rank, inside=[0, 0, 1]), alive(3, still=[2])
    ),
    "finished rank": partial(conclude, lack_rank, alive(3), finished=[2]),
    "all arrived": partial(
        conclude,
        partial(enter, 2, (0, "barrier", {"site": HERE}), (1, "barrier", {"site": HERE})),
        alive(2, still=[0, 1]),
    ),
    "dead rank": partial(conclude, partial(lack_rank, signal=[0, 0, 11]), gone(3)),
    "ended without a signal": partial(conclude, partial(lack_rank, signal=[15, 15, 0]), gone(3)),
    "rank that exits": partial(conclude, lack_rank, gone(3), change=store_exit),
    "killed job": partial(conclude, lack_rank, gone(3)),
    "job ended by a signal": partial(
        conclude, partial(lack_rank, signal=[15] * 3, signal_ns=9_000 + SECOND), gone(3)
    ),
    "reported hang that was ended": partial(
        conclude,
        partial(lack_rank, signal=[15] * 3, signal_ns=9_000 + SECOND),
        gone(3),
        change=store_limit,
    ),
    "lost records": partial(conclude, partial(job, 3), gone(3), change=partial(drop, rank=1)),
    "exception": partial(conclude, raise_in, alive(3)),
    "exception in a thread": partial(conclude, partial(raise_in, how="thread"), alive(3)),
    "exception and abort": partial(conclude, partial(raise_in, how="abort"), alive(3)),
    "failed test": partial(conclude, partial(raise_in, how="test"), alive(3)),
    "interrupt": partial(
        conclude, partial(raise_in, type="KeyboardInterrupt", message=""), alive(3)
    ),
    "circle of receives": partial(
        conclude, partial(exchange, (0, "recv", 1, 1), (1, "recv", 0, 2), ranks=2), alive(2)
    ),
    "circle of sends": partial(
        conclude, partial(exchange, (0, "send", 1, 1), (1, "send", 0, 2), ranks=2), alive(2)
    ),
    "circle with a collective": partial(
        conclude, partial(exchange, (1, "recv", 0, 1), ranks=2, barrier=(0,)), alive(2)
    ),
    "message of a computing rank": partial(
        conclude, partial(exchange, (0, "recv", 1, 7), ranks=3, barrier=(2,)), alive(3, busy=[1])
    ),
    "message of a finished rank": partial(conclude, wait_for_all, alive(6), finished=[1]),
    "rank that waits for a lock of a window": partial(conclude, lock_window, alive(3, still=[2])),
    "missing rank in a message call of an ended job": partial(
        conclude, partial(lack_rank, inside=[0, 0, 1], signal=[15, 15, 0]), gone(3)
    ),
    "receive from a finished rank": partial(
        conclude, partial(exchange, (0, "recv", 1, 7), ranks=2), alive(2), finished=[1]
    ),
    "messages of a dead rank": partial(conclude, wait_for_all, gone(6)),
}
