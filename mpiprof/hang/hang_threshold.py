"""Hang threshold: the time after which a pending instance counts as hung, and ranks to inspect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Pending, Position
from mpiprof.hang.wait_graph import WAITS_FOR_MESSAGES, has_waiting_rank


@dataclass(frozen=True)
class HangThreshold:
    """Time for which an instance is pending before it counts as more than late.

    Both limits must be exceeded: `ns`, and `times` times its usual duration at that call site.
    """

    ns: int = 10 * 10**9
    times: int = 10


DEFAULT_THRESHOLD = HangThreshold()


def find_suspects(
    positions: Sequence[Position],
    pending: Sequence[Pending],
    now_ns: int | None,
    threshold: HangThreshold = DEFAULT_THRESHOLD,
) -> list[int]:
    """Return the ranks to inspect, because long-pending instances wait for them."""
    if now_ns is None:
        return []
    if any(
        _is_long(one, positions, now_ns, threshold)
        for one in pending
        if has_waiting_rank(one, positions)
    ):
        # A rank with a free thread is included only if its threads in MPI are known.
        return [
            p.rank for p in positions if not p.finished and (not p.open or (p.free and p.tasks))
        ]
    unfinished = [p for p in positions if not p.finished]
    last = max((_last_exit_ns(p) for p in unfinished), default=now_ns)
    if all(p.between in WAITS_FOR_MESSAGES for p in unfinished) and now_ns - last > threshold.ns:
        return [p.rank for p in unfinished]
    return []


def _last_exit_ns(position: Position) -> int:
    call = position.current
    return 0 if call is None else call.exit_ns or call.enter_ns


def _is_long(
    one: Pending, positions: Sequence[Position], now_ns: int, threshold: HangThreshold
) -> bool:
    """Return whether an instance is pending so long that it hangs or is very slow."""
    took = [
        call.exit_ns - call.enter_ns
        for rank in one.arrived
        for call in positions[rank].recent
        if call.exit_ns and call.operation in one.operations and call.site in one.sites
    ]
    usual = median(took) if took else 0
    return now_ns - one.since_ns >= max(threshold.ns, threshold.times * usual)


def select_lasting(
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: JobProcesses,
    threshold: HangThreshold,
    ended: bool,
) -> list[Pending]:
    """Return the instances that have long blocked ranks; in an ended job, that blocked any rank."""
    now_ns = processes.now_ns
    return [
        one for one in pending
        if has_waiting_rank(one, positions)
        and (ended or (now_ns and _is_long(one, positions, now_ns, threshold)))
    ]  # fmt: skip
