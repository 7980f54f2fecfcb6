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
from mpiprof.hang.first_failure import first_dead, names
from mpiprof.hang.hang_threshold import USUAL, Patience, lasting
from mpiprof.hang.processes import Processes
from mpiprof.hang.rank_state import Pending, Position, calls_by_instance
from mpiprof.hang.wait_cycle import Link
from mpiprof.hang.wait_graph import (
    WAITS_FOR_MESSAGES,
    leaves,
    started_only,
    took_part,
    unattended,
    waits_for_messages,
)
from mpiprof.metrics import disagreement
from mpiprof.metrics.disagreement import Disagreement
from mpiprof.trace.call import Key

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
    through: bool = False
    why: str = ""
    unnoted: tuple[int, ...] = ()
    spare: tuple[int, ...] = ()
    also: tuple[Verdict, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Return whether there is or may be a fault."""
        return self.kind != "none"


WELL = Verdict("none")


def conclude(
    trace: Trace,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: Processes,
    patience: Patience = USUAL,
) -> Verdict:
    """Return the verdict on a job; class `none` if there is no sign of a fault."""
    one = _conclude(trace, positions, pending, processes, patience)
    return replace(one, also=_also(trace, one, positions, pending, processes, patience))


def _also(
    trace: Trace,
    one: Verdict,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: Processes,
    patience: Patience,
) -> tuple[Verdict, ...]:
    """Return further verdicts, on instances that wait for ranks unrelated to verdict `one`.

    After a death, or an end without a record, the state of the remaining ranks is unknown: returns
    ().
    """
    noted = any((trace.logs.signals | processes.signals).values())
    ends = one.kind in ("none", "dead") or one.through or (one.ended and not noted)
    if ends or any(position.blind for position in positions):
        return ()
    known = {*one.odd_ranks, *one.spare, *(link.rank for link in one.cycle)}
    for side in one.disagreement.sides if one.disagreement else ():
        known.update(side.ranks)
    also: list[Verdict] = []
    long = lasting(positions, pending, processes, patience, one.ended)
    for other in long:
        absent, _ = wait_graph.ends(other, positions, pending, {each.key for each in long})
        mine = other is one.pending or any(r in known or leaves(positions[r]) for r in absent)
        known.update(absent)
        if absent and not mine:
            also.append(_absent(other, absent, positions, processes, one.ended))
    return tuple(also)


def _conclude(
    trace: Trace,
    positions: Sequence[Position],
    pending: Sequence[Pending],
    processes: Processes,
    patience: Patience,
) -> Verdict:
    left = [p.rank for p in positions if not p.finished and p.rank not in processes.ended]
    noted = trace.logs.signals | processes.signals
    signals = {rank: noted[rank] for rank in left if noted.get(rank)}
    gone = [rank for rank in left if rank in signals or processes.alive.get(rank) is False]
    aborted = [r for r, end in trace.tables.ends.items() if end["reason"] == "abort"]
    ended = bool(left) and (bool(aborted) or len(gone) == len(left))
    wrong = disagreement.first(calls_by_instance(positions), trace.tables.communicators)
    if wrong is not None:
        return disagree(wrong, ended, not left)
    blind = bool(left) and any(position.blind for position in positions)
    pending = [] if blind else pending
    sure = _finished(positions, pending, ended) or _order(trace, positions, pending, set(), ended)
    if sure is not None:  # this verdict needs no process state, and no death can cause it
        return sure
    if aborted:
        return _gone(sorted(aborted), positions, pending, ended, "abort")
    if blind:
        return _blindly(trace, positions, left, signals, ended)
    dead, perhaps = first_dead(left, gone, signals, positions, pending)
    if dead:
        return _gone(dead, positions, pending, ended, names(dead, signals))
    long = lasting(positions, pending, processes, patience, ended)
    silent = ended and not signals  # as after SIGKILL: a missing rank may have died or hung
    hangs = (
        _order(trace, positions, pending, {one.key for one in long}, ended)
        or _lacking(positions, pending, long, processes, ended, silent)
        or (None if silent else _left_alone(positions, long, processes, ended))
        or _messages(positions, processes, ended)
    )
    if hangs is not None:
        return replace(hangs, unnoted=tuple(perhaps))
    if perhaps and not positions[perhaps[0]].unlogged:
        return _gone(perhaps, positions, pending, ended)
    unclear = _unclear([one for one in long if not started_only(one, positions)], ended)
    return replace(unclear, unnoted=tuple(perhaps)) if unclear else WELL


def _blindly(
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
    fatal, _ = first_dead(left, list(signals), signals, positions, [])
    if fatal:
        return _gone(fatal, positions, [], ended, names(fatal, signals))
    if ended and trace.unwritten:
        return Verdict("undecided", ended=True, why="unwritten")
    return _unclear([], ended) or WELL


def disagree(wrong: Disagreement, ended: bool, through: bool) -> Verdict:
    """Return the verdict on a job with ranks that make different calls."""
    odd = disagreement.odd(wrong.sides)
    sides = sorted(wrong.sides, key=lambda side: not set(side.ranks) & set(odd))
    sites = tuple(dict.fromkeys(site for side in sides for site in side.sites[:1]))
    return Verdict(wrong.kind, odd, sites, disagreement=wrong, ended=ended, through=through)


def _sites(
    positions: Sequence[Position], odd: Sequence[int], one: Pending | None
) -> tuple[int, ...]:
    """Return the current or last call sites of the odd ranks, and where other ranks wait."""
    communicator = None if one is None else one.communicator
    calls = [call for rank in odd if (call := positions[rank].seen(communicator)) is not None]
    others = one.sites if one is not None else []
    return tuple(dict.fromkeys([*(call.site for call in calls[:4]), *others]))


def _gone(
    ranks: Sequence[int],
    positions: Sequence[Position],
    pending: Sequence[Pending],
    ended: bool,
    why: str = "",
) -> Verdict:
    one = next((p for p in pending if set(p.missing) & set(ranks)), None)
    sites = _sites(positions, ranks, one)
    return Verdict("dead", tuple(ranks), sites, pending=one, ended=ended, why=why)


def _finished(
    positions: Sequence[Position], pending: Sequence[Pending], ended: bool
) -> Verdict | None:
    """Detect an operation that waits for ranks that have called MPI_Finalize."""
    for one in pending:
        waiting = [
            rank for rank in one.arrived
            if any(c.key == one.key and c.operation != "finalize" for c in positions[rank].open)
        ]  # fmt: skip
        gone = [rank for rank in (*one.missing, *one.arrived) if leaves(positions[rank])]
        gone = [rank for rank in gone if not took_part(positions[rank], one)]
        if not waiting or not gone:
            continue
        members = len(one.arrived) + len(one.missing)
        odd = tuple(sorted(gone if 2 * len(gone) <= members else waiting))
        sites = _sites(positions, odd, one)
        if odd != tuple(sorted(gone)):
            sites = tuple(dict.fromkeys([*sites, *_sites(positions, gone[:1], None)]))
        return Verdict("missing", odd, sites, pending=one, ended=ended, why="finished")
    return None


def _order(
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


def _lacking(
    positions: Sequence[Position],
    pending: Sequence[Pending],
    long: Sequence[Pending],
    processes: Processes,
    ended: bool,
    silent: bool,
) -> Verdict | None:
    """Detect an instance that has long waited for ranks that themselves wait for no rank."""
    for one in long:
        absent, spare = wait_graph.ends(one, positions, pending, {other.key for other in long})
        if not absent and not spare:
            continue
        if silent:
            sites = _sites(positions, absent or one.missing, one)
            return Verdict("undecided", (), sites, pending=one, ended=True)
        if not absent:
            return _circle_to_open(one, positions, spare, processes, ended)
        return _absent(one, absent, positions, processes, ended)
    return None


def _absent(
    one: Pending,
    absent: Sequence[int],
    positions: Sequence[Position],
    processes: Processes,
    ended: bool,
) -> Verdict:
    """Return the verdict on missing ranks that wait for no rank, by their activity."""
    unlogged = [r for r in absent if positions[r].between == "collective"]
    if len(unlogged) == len(absent):  # each of these ranks may be waiting for other ranks
        sites = _sites(positions, absent, one)
        return Verdict("undecided", (), sites, pending=one, ended=ended, why="unlogged")
    absent = [rank for rank in absent if rank not in unlogged]
    busy = [rank for rank in absent if rank in processes.busy]
    talking = [r for r in absent if positions[r].between in WAITS_FOR_MESSAGES and r not in busy]
    if busy:
        kind, odd, why = "stalled", busy, "busy"
    elif len(talking) == len(absent):
        kind, odd, why = "point_to_point", talking, positions[talking[0]].between
    else:
        odd = [rank for rank in absent if rank not in talking]
        kind, why = "missing", _idle(odd, processes)
    sites = _sites(positions, odd, one)
    return Verdict(kind, tuple(odd), sites, pending=one, ended=ended, why=why)


def _circle_to_open(
    one: Pending,
    positions: Sequence[Position],
    spare: Sequence[int],
    processes: Processes,
    ended: bool,
) -> Verdict:
    """Return the verdict on a cycle that a thread outside all collectives may still open.

    Which of these ranks should arrive is unknown. A rank that computes may still arrive.
    """
    busy = tuple(rank for rank in spare if rank in processes.busy)
    sites = _sites(positions, busy or spare, one)
    if busy:
        return Verdict("stalled", busy, sites, pending=one, ended=ended, why="busy")
    why = "resting" if set(spare) <= processes.still else "threads"
    return Verdict("undecided", (), sites, pending=one, ended=ended, why=why, spare=tuple(spare))


def _left_alone(
    positions: Sequence[Position], long: Sequence[Pending], processes: Processes, ended: bool
) -> Verdict | None:
    """Detect an operation that all ranks started, while some wait and some are outside MPI.

    This is evidence only if no rank moves. A rank may do other work for long between start and
    wait, and the arrival of other ranks at their Wait is unknown.
    """
    resting = {p.rank for p in positions if not p.finished and not p.open}
    for one in long:
        late = unattended(one, positions)
        if late and not one.missing and not resting & processes.busy:
            sites, why = _sites(positions, late, one), _idle(late, processes)
            return Verdict("missing", tuple(late), sites, pending=one, ended=ended, why=why)
    return None


def _idle(odd: Sequence[int], processes: Processes) -> str:
    """Return the state of ranks that do not compute: "stopped", "still", or "" if unknown."""
    if set(odd) <= processes.stopped:
        return "stopped"
    return "still" if set(odd) <= processes.still else ""


def _messages(positions: Sequence[Position], processes: Processes, ended: bool) -> Verdict | None:
    """Detect that no collective waits, but all remaining ranks wait in point-to-point calls."""
    left = [p for p in positions if not p.finished]
    waiting = tuple(p.rank for p in left if waits_for_messages(p))
    if not waiting or len(waiting) < len(left):
        return None
    if not ended and not set(waiting) <= processes.still:
        return None
    why = positions[waiting[0]].between
    return Verdict(
        "point_to_point", waiting, _sites(positions, waiting, None), ended=ended, why=why
    )


def _unclear(long: Sequence[Pending], ended: bool) -> Verdict | None:
    """Return the verdict for a fault of unknown cause."""
    if ended:
        return Verdict("dead", (), ended=True, pending=long[0] if long else None)
    for one in long:
        if not one.missing:
            return Verdict("undecided", (), tuple(one.sites), pending=one)
    return None
