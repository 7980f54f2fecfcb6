"""Verdict on a job that hangs, died or runs incorrectly.

It is derived from the position of each rank (hang/rank_state.py) and the state of its process
(hang/processes.py). A verdict requires something that no correct program does, or that lasts. A
rank that is merely late gives no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mpiprof.hang import wait_cycle, wait_graph
from mpiprof.hang.first_failure import find_first_dead, signal_names
from mpiprof.hang.hang_threshold import DEFAULT_THRESHOLD, HangThreshold, select_lasting
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.rank_state import Pending, Position, group_by_instance
from mpiprof.hang.wait_cycle import Link
from mpiprof.hang.wait_graph import (
    WAITS_FOR_MESSAGES,
    has_left,
    is_started_only,
    started_and_outside,
    took_part,
    waits_for_messages,
)
from mpiprof.metrics import disagreement
from mpiprof.metrics.disagreement import Disagreement
from mpiprof.trace.metadata import Key

if TYPE_CHECKING:
    from mpiprof.trace import Trace


@dataclass(frozen=True)
class Verdict:
    """Verdict on a job: its class in `status --json`, the ranks concerned, and the reason.

    - odd_ranks, sites: the ranks that the verdict names, and the call sites concerned.
    - sides: groups of ranks that disagree, the largest first.
    - cycle: wait-for cycle.
    - pending: the waiting instance.
    - ended: no process of the job is left, and some did not end in MPI_Finalize.
    - through: all ranks finished.
    - why: subclass, which is finished, busy, still, stopped, abort, unwritten, unlogged or names of
      signals.
    - unnoted: ranks that died or were ended by the launcher. No record distinguishes the two.
    - spare: in a cycle, ranks with a thread that may still arrive.
    - also: further verdicts, on instances that wait for ranks unrelated to this verdict.
    """

    kind: str
    odd_ranks: tuple[int, ...] = ()
    sites: tuple[int, ...] = ()
    disagreement: Disagreement | None = None
    cycle: tuple[Link, ...] = ()
    pending: Pending | None = None
    ended: bool = False
    wait_rule: bool = False
    reason: str = ""
    without_end_note: tuple[int, ...] = ()
    may_still_arrive: tuple[int, ...] = ()
    further: tuple[Verdict, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Return whether there is or may be a fault."""
        return self.kind != "none"


NO_FAULT = Verdict("none")


def conclude(
    trace: Trace,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: JobProcesses,
    threshold: HangThreshold = DEFAULT_THRESHOLD,
) -> Verdict:
    """Return the verdict on a job; class `none` if there is no sign of a fault."""
    one = _find_verdict(trace, positions, pending, processes, threshold)
    return replace(one, further=_find_further(trace, one, positions, pending, processes, threshold))


def _find_further(
    trace: Trace,
    one: Verdict,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: JobProcesses,
    threshold: HangThreshold,
) -> tuple[Verdict, ...]:
    """Return further verdicts, on instances that wait for ranks unrelated to verdict `one`.

    After a death, or an end without a record, the state of the remaining ranks is unknown: returns
    ().
    """
    noted = any((trace.logs.signals | processes.signals).values())
    ends = one.kind in ("none", "dead") or one.wait_rule or (one.ended and not noted)
    if ends or any(position.is_unknown for position in positions):
        return ()
    known = {*one.odd_ranks, *one.may_still_arrive, *(link.rank for link in one.cycle)}
    for side in one.disagreement.sides if one.disagreement else ():
        known.update(side.ranks)
    also: list[Verdict] = []
    long = select_lasting(positions, pending, processes, threshold, one.ended)
    for other in long:
        absent, _ = wait_graph.follow_missing(
            other, positions, pending, {each.key for each in long}
        )
        mine = other is one.pending or any(r in known or has_left(positions[r]) for r in absent)
        known.update(absent)
        if absent and not mine:
            also.append(_missing_verdict(other, absent, positions, processes, one.ended))
    return tuple(also)


def _find_verdict(
    trace: Trace,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: JobProcesses,
    threshold: HangThreshold,
) -> Verdict:
    left = [p.rank for p in positions if not p.finished and p.rank not in processes.ended]
    noted = trace.logs.signals | processes.signals
    signals = {rank: noted[rank] for rank in left if noted.get(rank)}
    gone = [rank for rank in left if rank in signals or processes.alive.get(rank) is False]
    aborted = [r for r, end in trace.tables.ends.items() if end["reason"] == "abort"]
    ended = bool(left) and (bool(aborted) or len(gone) == len(left))
    wrong = disagreement.find_first(group_by_instance(positions), trace.tables.communicators)
    if wrong is not None:
        return disagreement_verdict(wrong, ended, not left)
    blind = bool(left) and any(position.is_unknown for position in positions)
    pending = [] if blind else pending
    sure = _find_finalized(positions, pending, ended) or _find_wrong_order(
        trace, positions, pending, set(), ended
    )
    if sure is not None:  # this verdict needs no process state, and no death can cause it
        return sure
    if aborted:
        return _gone_verdict(sorted(aborted), positions, pending, ended, "abort")
    if blind:
        return _verdict_without_positions(trace, positions, left, signals, ended)
    dead, perhaps = find_first_dead(left, gone, signals, positions, pending)
    if dead:
        return _gone_verdict(dead, positions, pending, ended, signal_names(dead, signals))
    long = select_lasting(positions, pending, processes, threshold, ended)
    silent = ended and not signals  # as after SIGKILL: a missing rank may have died or hung
    hangs = (
        _find_wrong_order(trace, positions, pending, {one.key for one in long}, ended)
        or _find_missing(positions, pending, long, processes, ended, silent)
        or (None if silent else _find_started_only(positions, long, processes, ended))
        or _find_message_wait(positions, processes, ended)
    )
    if hangs is not None:
        return replace(hangs, without_end_note=tuple(perhaps))
    if perhaps and not positions[perhaps[0]].unlogged:
        return _gone_verdict(perhaps, positions, pending, ended)
    unclear = _unclear_verdict([one for one in long if not is_started_only(one, positions)], ended)
    return replace(unclear, without_end_note=tuple(perhaps)) if unclear else NO_FAULT


def _verdict_without_positions(
    trace: Trace,
    positions: Sequence[Position],
    left: list[int],
    signals: dict[int, int],
    ended: bool,
) -> Verdict:
    """Return the verdict on how the job ended, when positions of ranks are unknown.

    If records could not be written, a missing end record means nothing, because it had no space
    either.
    """
    fatal, _ = find_first_dead(left, list(signals), signals, positions, [])
    if fatal:
        return _gone_verdict(fatal, positions, [], ended, signal_names(fatal, signals))
    if ended and trace.unwritten_ranks:
        return Verdict("undecided", ended=True, reason="unwritten")
    return _unclear_verdict([], ended) or NO_FAULT


def disagreement_verdict(wrong: Disagreement, ended: bool, through: bool) -> Verdict:
    """Return the verdict on a job with ranks that make different calls."""
    odd = disagreement.odd_ranks(wrong.sides)
    sides = sorted(wrong.sides, key=lambda side: not set(side.ranks) & set(odd))
    sites = tuple(dict.fromkeys(site for side in sides for site in side.sites[:1]))
    return Verdict(wrong.kind, odd, sites, disagreement=wrong, ended=ended, wait_rule=through)


def _verdict_sites(
    positions: Sequence[Position], odd: Sequence[int], one: Pending | None
) -> tuple[int, ...]:
    """Return the current or last call sites of the odd ranks, and where other ranks wait."""
    communicator = None if one is None else one.communicator
    calls = [call for rank in odd if (call := positions[rank].last_seen(communicator)) is not None]
    others = one.sites if one is not None else []
    return tuple(dict.fromkeys([*(call.site for call in calls[:4]), *others]))


def _gone_verdict(
    ranks: Sequence[int],
    positions: Sequence[Position],
    pending: Sequence[Pending],
    ended: bool,
    why: str = "",
) -> Verdict:
    one = next((p for p in pending if set(p.missing) & set(ranks)), None)
    sites = _verdict_sites(positions, ranks, one)
    return Verdict("dead", tuple(ranks), sites, pending=one, ended=ended, reason=why)


def _find_finalized(
    positions: Sequence[Position], pending: Sequence[Pending], ended: bool
) -> Verdict | None:
    """Detect an operation that waits for ranks that have called MPI_Finalize."""
    for one in pending:
        waiting = [
            rank for rank in one.arrived
            if any(c.key == one.key and c.operation != "finalize" for c in positions[rank].open)
        ]  # fmt: skip
        gone = [rank for rank in (*one.missing, *one.arrived) if has_left(positions[rank])]
        gone = [rank for rank in gone if not took_part(positions[rank], one)]
        if not waiting or not gone:
            continue
        members = len(one.arrived) + len(one.missing)
        odd = tuple(sorted(gone if 2 * len(gone) <= members else waiting))
        sites = _verdict_sites(positions, odd, one)
        if odd != tuple(sorted(gone)):
            sites = tuple(dict.fromkeys([*sites, *_verdict_sites(positions, gone[:1], None)]))
        return Verdict("missing", odd, sites, pending=one, ended=ended, reason="finished")
    return None


def _find_wrong_order(
    trace: Trace,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    long: set[Key],
    ended: bool,
) -> Verdict | None:
    """Detect operations on several communicators, each waiting for a rank in another one."""
    cycle, odd = wait_cycle.find(trace, positions, pending, long)
    if not cycle:
        return None
    calls = sorted(cycle, key=lambda link: link.rank not in odd)
    sites = tuple(dict.fromkeys(link.call.site for link in calls))
    return Verdict("order", odd, sites, cycle=cycle, ended=ended)


# ---- missing ranks


def _find_missing(
    positions: Sequence[Position],
    pending: Sequence[Pending],
    long: Sequence[Pending],
    processes: JobProcesses,
    ended: bool,
    silent: bool,
) -> Verdict | None:
    """Detect an instance that has long waited for ranks that themselves wait for no rank."""
    for one in long:
        absent, spare = wait_graph.follow_missing(
            one, positions, pending, {other.key for other in long}
        )
        if not absent and not spare:
            continue
        if silent:
            sites = _verdict_sites(positions, absent or one.missing, one)
            return Verdict("undecided", (), sites, pending=one, ended=True)
        if not absent:
            return _open_cycle_verdict(one, positions, spare, processes, ended)
        return _missing_verdict(one, absent, positions, processes, ended)
    return None


def _missing_verdict(
    one: Pending,
    absent: Sequence[int],
    positions: Sequence[Position],
    processes: JobProcesses,
    ended: bool,
) -> Verdict:
    """Return the verdict on missing ranks that wait for no rank, by their activity."""
    unlogged = [r for r in absent if positions[r].between == "collective"]
    if len(unlogged) == len(absent):  # each of these ranks may be waiting for other ranks
        sites = _verdict_sites(positions, absent, one)
        return Verdict("undecided", (), sites, pending=one, ended=ended, reason="unlogged")
    absent = [rank for rank in absent if rank not in unlogged]
    busy = [rank for rank in absent if rank in processes.busy]
    talking = [r for r in absent if positions[r].between in WAITS_FOR_MESSAGES and r not in busy]
    if busy:
        kind, odd, why = "stalled", busy, "busy"
    elif len(talking) == len(absent):
        kind, odd, why = "point_to_point", talking, positions[talking[0]].between
    else:
        odd = [rank for rank in absent if rank not in talking]
        kind, why = "missing", _describe_idle(odd, processes)
    sites = _verdict_sites(positions, odd, one)
    return Verdict(kind, tuple(odd), sites, pending=one, ended=ended, reason=why)


def _open_cycle_verdict(
    one: Pending,
    positions: Sequence[Position],
    spare: Sequence[int],
    processes: JobProcesses,
    ended: bool,
) -> Verdict:
    """Return the verdict on a cycle that a thread outside all collectives may still open.

    Which of these ranks should arrive is unknown. A rank that computes may still arrive.
    """
    busy = tuple(rank for rank in spare if rank in processes.busy)
    sites = _verdict_sites(positions, busy or spare, one)
    if busy:
        return Verdict("stalled", busy, sites, pending=one, ended=ended, reason="busy")
    why = "resting" if set(spare) <= processes.still else "threads"
    return Verdict(
        "undecided", (), sites, pending=one, ended=ended, reason=why, may_still_arrive=tuple(spare)
    )


def _find_started_only(
    positions: Sequence[Position], long: Sequence[Pending], processes: JobProcesses, ended: bool
) -> Verdict | None:
    """Detect an operation that all ranks started, while some wait and some are outside MPI.

    This is evidence only if no rank moves. A rank may do other work for long between start and
    wait, and the arrival of other ranks at their Wait is unknown.
    """
    resting = {p.rank for p in positions if not p.finished and not p.open}
    for one in long:
        late = started_and_outside(one, positions)
        if late and not one.missing and not resting & processes.busy:
            sites, why = _verdict_sites(positions, late, one), _describe_idle(late, processes)
            return Verdict("missing", tuple(late), sites, pending=one, ended=ended, reason=why)
    return None


def _describe_idle(odd: Sequence[int], processes: JobProcesses) -> str:
    """Return the state of ranks that do not compute: "stopped", "still", or "" if unknown."""
    if set(odd) <= processes.stopped:
        return "stopped"
    return "still" if set(odd) <= processes.still else ""


def _find_message_wait(
    positions: Sequence[Position], processes: JobProcesses, ended: bool
) -> Verdict | None:
    """Detect that no collective waits, but all remaining ranks wait in point-to-point calls."""
    left = [p for p in positions if not p.finished]
    waiting = tuple(p.rank for p in left if waits_for_messages(p))
    if not waiting or len(waiting) < len(left):
        return None
    if not ended and not set(waiting) <= processes.still:
        return None
    why = positions[waiting[0]].between
    return Verdict(
        "point_to_point", waiting, _verdict_sites(positions, waiting, None), ended=ended, reason=why
    )


def _unclear_verdict(long: Sequence[Pending], ended: bool) -> Verdict | None:
    """Return the verdict for a fault of unknown cause."""
    if ended:
        return Verdict("dead", (), ended=True, pending=long[0] if long else None)
    for one in long:
        if not one.missing:
            return Verdict("undecided", (), tuple(one.sites), pending=one)
    return None
