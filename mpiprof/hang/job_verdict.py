"""Verdict on a job that hangs, died or runs incorrectly.

It is derived from the position of each rank (hang/rank_state.py) and the state of its process
(hang/processes.py). A verdict requires something that no correct program does, or that lasts. A
rank that is merely late gives no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mpiprof.account import disagreement
from mpiprof.account.disagreement import Disagreement
from mpiprof.hang import job_verdict, rank_state, wait_graph
from mpiprof.hang.blocked_ranks import find_message_verdict, find_waiting_ranks, find_waits_for
from mpiprof.hang.first_divergence import find_first_divergence
from mpiprof.hang.first_failure import find_first_dead, signal_names
from mpiprof.hang.hang_threshold import (
    DEFAULT_THRESHOLD,
    HangThreshold,
    find_suspects,
    read_threshold,
)
from mpiprof.hang.processes import JobProcesses, sample_processes, trace_now_ns
from mpiprof.hang.rank_state import Instances, Pending, Positions, group_by_instance
from mpiprof.hang.verdict import NO_FAULT, HangVerdict, Job, describe_end
from mpiprof.hang.wait_graph import WAITS_FOR_MESSAGES, has_left, is_started_only, took_part
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Call

MAX_RANKS = 1 << 16


def conclude(
    trace: Trace,
    positions: Positions,
    pending: Instances,
    processes: JobProcesses,
    threshold: HangThreshold = DEFAULT_THRESHOLD,
) -> HangVerdict:
    """Return the verdict on a job; class `none` if there is no sign of a fault."""
    job = Job(trace, positions, pending, processes, threshold)
    verdict = _explain_by_divergence(job, _find_verdict(job))
    gone = _list_gone(job, verdict)
    waits = find_waiting_ranks(job, gone) if gone else ()
    return replace(verdict, waits=waits, processes=processes, further=_find_further(job, verdict))


def _explain_by_divergence(job: Job, verdict: HangVerdict) -> HangVerdict:
    """Return the verdict that ranks made more or fewer calls, if the fault is a consequence."""
    if verdict.kind in ("none", "dead", "stalled"):
        return verdict
    links = (*verdict.cycle, *verdict.chain)
    keys = [link.call.key for link in links if isinstance(link.call, Call)]
    keys += [item.key for item in (verdict.disagreement, verdict.pending) if item is not None]
    found = find_first_divergence(job.trace, job.positions)
    if found is None or not any(
        key[0] == found.communicator and key[1] >= found.sequence for key in keys
    ):
        return verdict
    sites = tuple(dict.fromkeys([found.calls[0].site, found.next_call.site]))
    return HangVerdict("calls", found.odd_ranks, sites, divergence=found, ended=job.ended)


def _list_gone(job: Job, verdict: HangVerdict) -> list[int]:
    """Return the dead or finished ranks of a verdict, for which other ranks wait."""
    if verdict.reason != "finished":
        return list(verdict.odd_ranks) if verdict.kind == "dead" else []
    # The odd ranks are the waiting ones if most ranks have finished.
    named = {*verdict.odd_ranks}
    if verdict.pending is not None:
        named = {*verdict.pending.missing, *verdict.pending.arrived}
    return [rank for rank in sorted(named) if has_left(job.positions[rank])]


def _find_further(job: Job, verdict: HangVerdict) -> tuple[HangVerdict, ...]:
    """Return further verdicts, on instances that wait for ranks unrelated to `verdict`."""
    # After a death, or an end without a record, the state of the remaining ranks is unknown.
    noted = any((job.trace.logs.signals | job.processes.signals).values())
    # Ranks that made other numbers of calls wait in several operations as a consequence.
    ends = (
        verdict.kind in ("none", "dead", "calls")
        or verdict.all_finished
        or (verdict.ended and not noted)
    )
    if ends or any(position.is_unknown for position in job.positions):
        return ()
    named_ranks = {*verdict.odd_ranks, *verdict.may_still_arrive}
    named_ranks.update(link.rank for link in (*verdict.cycle, *verdict.chain))
    for side in verdict.disagreement.sides if verdict.disagreement else ():
        named_ranks.update(side.ranks)
    further: list[HangVerdict] = []
    for instance in job.long:
        absent, _ = _follow_missing(job, instance)
        related = any(r in named_ranks or has_left(job.positions[r]) for r in absent)
        named_ranks.update(absent)
        if absent and not related and instance is not verdict.pending:
            further.append(_missing_verdict(job, instance, absent))
    return tuple(further)


def _find_verdict(job: Job) -> HangVerdict:
    groups = group_by_instance(job.positions)
    wrong = disagreement.find_first(groups, job.trace.tables.communicators)
    if wrong is not None:
        return disagreement_verdict(wrong, job.ended, not job.left)
    sure = _find_finalized(job) or _find_wrong_order(job, [])
    if sure is not None:  # this verdict needs no process state, and no death can cause it
        return sure
    if job.aborted:
        return job.gone_verdict(job.aborted, "abort")
    if job.blind:
        return _verdict_without_positions(job)
    dead, perhaps = find_first_dead(
        job.left, job.gone, job.fatal_signals, job.positions, job.pending
    )
    if dead:
        return _dead_verdict(job, dead)
    # A missing rank may have died or hung, for example after SIGKILL.
    silent = job.ended and not job.signals
    hangs = (
        _find_wrong_order(job, job.long)
        or find_message_verdict(job, silent)
        or _find_missing(job, silent)
        or (None if silent else _find_started_only(job))
        or _find_message_wait(job)
        or _find_blocked(job)
    )
    may_have_died = bool(perhaps) and not job.positions[perhaps[0]].unlogged
    if hangs is None and may_have_died and job.fatal_signals.came_from_launcher:
        return job.gone_verdict(perhaps)
    verdict = hangs or _unclear_verdict(job)
    return replace(verdict, without_end_note=tuple(perhaps)) if verdict else NO_FAULT


def _dead_verdict(job: Job, dead: Sequence[int]) -> HangVerdict:
    """Return the verdict that ranks died, with a rank that waits for one of them."""
    verdict = job.gone_verdict(dead, signal_names(dead, job.signals))
    if verdict.pending is not None or verdict.odd_ranks != tuple(dead):
        return verdict
    return replace(verdict, chain=find_waits_for(job, dead))


def _verdict_without_positions(job: Job) -> HangVerdict:
    """Return the verdict on how the job ended, when positions of ranks are unknown."""
    ended = job.fatal_signals
    fatal, _ = find_first_dead(job.left, list(ended.numbers), ended, job.positions, [])
    if fatal:
        return _dead_verdict(job, fatal)
    # If records could not be written, there was no space for an end record either.
    if job.ended and job.trace.unwritten_ranks:
        return HangVerdict("undecided", ended=True, reason="unwritten")
    return _unclear_verdict(job) or NO_FAULT


def disagreement_verdict(wrong: Disagreement, ended: bool, all_finished: bool) -> HangVerdict:
    """Return the verdict on a job with ranks that make different calls."""
    odd = disagreement.odd_ranks(wrong.sides)
    sides = sorted(wrong.sides, key=lambda side: not set(side.ranks) & set(odd))
    sites = tuple(dict.fromkeys(site for side in sides for site in side.sites[:1]))
    return HangVerdict(
        wrong.kind, odd, sites, disagreement=wrong, ended=ended, all_finished=all_finished
    )


def _find_finalized(job: Job) -> HangVerdict | None:
    """Detect an operation that waits for ranks that have called MPI_Finalize."""
    positions = job.positions
    for instance in job.pending:
        waiting = [r for r in instance.arrived if wait_graph.open_calls(positions[r], instance)]
        finalized = [
            rank for rank in (*instance.missing, *instance.arrived)
            if has_left(positions[rank]) and not took_part(positions[rank], instance)
        ]  # fmt: skip
        if not waiting or not finalized:
            continue
        few_finalized = 2 * len(finalized) <= len(instance.arrived) + len(instance.missing)
        odd = sorted(finalized if few_finalized else waiting)
        verdict = job.verdict("missing", odd, instance, "finished")
        if odd == sorted(finalized):
            return verdict
        sites = dict.fromkeys([*verdict.sites, *job.sites(finalized[:1], None)])
        return replace(verdict, sites=tuple(sites))
    return None


def _find_wrong_order(job: Job, long: Instances) -> HangVerdict | None:
    """Detect operations on several communicators, each waiting for a rank in another one."""
    keys = {instance.key for instance in long}
    cycle, odd = wait_graph.find_cycle(job.trace, job.positions, job.pending, keys)
    if not cycle:
        return None
    calls = sorted(cycle, key=lambda link: link.rank not in odd)
    sites = tuple(dict.fromkeys(link.call.site for link in calls))
    return HangVerdict("order", odd, sites, cycle=cycle, ended=job.ended)


# ---- missing ranks


def _follow_missing(job: Job, instance: Pending) -> tuple[list[int], list[int]]:
    keys = {lasting.key for lasting in job.long}
    return wait_graph.follow_missing(instance, job.positions, job.pending, keys)


def _find_missing(job: Job, silent: bool) -> HangVerdict | None:
    """Detect an instance that has long waited for ranks that themselves wait for no rank."""
    for instance in job.long:
        absent, spare = _follow_missing(job, instance)
        if not absent and not spare:
            continue
        if silent:
            return job.undecided(absent or instance.missing, instance)
        if not absent:
            return _open_cycle_verdict(job, instance, spare)
        return _missing_verdict(job, instance, absent)
    return None


def _missing_verdict(job: Job, instance: Pending, absent: Sequence[int]) -> HangVerdict:
    """Return the verdict on missing ranks that wait for no rank, by their activity."""
    between = {rank: job.positions[rank].between for rank in absent}
    logged = [
        rank for rank in absent
        if between[rank] != "collective" or job.positions[rank].local_calls
    ]  # fmt: skip
    if not logged:  # each of these ranks may be waiting for other ranks
        return job.undecided(absent, instance, "unlogged")
    kind, ranks, reason = job.describe_outside(logged)
    blocked = [rank for rank in logged if job.positions[rank].local_calls]
    if blocked and reason != "files":  # a process may poll while it waits in a call
        return job.verdict("blocked", blocked, instance)
    if kind == "stalled":
        return job.verdict(kind, ranks, instance, reason)
    idle = [rank for rank in logged if between[rank] not in WAITS_FOR_MESSAGES]
    if not idle:
        return job.verdict("point_to_point", logged, instance, between[logged[0]])
    kind, ranks, reason = job.describe_outside(idle)
    return job.verdict(kind, ranks, instance, reason)


def _open_cycle_verdict(job: Job, instance: Pending, spare: Sequence[int]) -> HangVerdict:
    """Return the verdict on a cycle that a thread outside all collectives may still open."""
    kind, ranks, reason = job.describe_outside(spare)
    if kind == "stalled":
        return job.verdict(kind, ranks, instance, reason)
    reason = "resting" if set(spare) <= job.processes.still else "threads"
    return replace(job.undecided(spare, instance, reason), may_still_arrive=tuple(spare))


def _find_started_only(job: Job) -> HangVerdict | None:
    """Detect an operation that all ranks started, while some wait and some are outside MPI."""
    resting = {p.rank for p in job.positions if not p.finished and not p.open}
    for instance in job.long:
        late = wait_graph.started_and_outside(instance, job.positions)
        # This is evidence only if no rank moves. A rank may do other work for long between start
        # and wait, and the arrival of other ranks at their Wait is unknown.
        if late and not instance.missing and job.describe_outside(sorted(resting))[0] == "missing":
            kind, ranks, reason = job.describe_outside(late)
            return job.verdict(kind, ranks, instance, reason)
    return None


def _find_message_wait(job: Job) -> HangVerdict | None:
    """Detect that no collective waits, but all remaining ranks wait in point-to-point calls."""
    unfinished = [p for p in job.positions if not p.finished]
    waiting = [p.rank for p in unfinished if wait_graph.waits_for_messages(p)]
    if not waiting or len(waiting) < len(unfinished):
        return None
    if not job.ended and not set(waiting) <= job.processes.still:
        return None
    calls = [call for p in unfinished if (call := p.current) is not None]
    last_ns = max((call.exit_ns or call.enter_ns for call in calls), default=job.trace.run_start_ns)
    if job.ended and not job.is_lasting(last_ns):
        return None
    return job.verdict("point_to_point", waiting, reason=job.positions[waiting[0]].between)


def _find_blocked(job: Job) -> HangVerdict | None:
    """Detect ranks that have long been in calls which are recorded by call site only."""
    blocked = [
        p.rank for p in job.positions
        if not p.finished and any(job.is_lasting(call.enter_ns) for call in p.local_calls)
    ]  # fmt: skip
    return job.verdict("blocked", blocked) if blocked else None


def _unclear_verdict(job: Job) -> HangVerdict | None:
    """Return the verdict for a fault of unknown cause."""
    long = [instance for instance in job.long if not is_started_only(instance, job.positions)]
    if job.ended:
        signals = signal_names(sorted(job.signals), job.signals)
        first = job.fatal_signals.first_end
        if not signals and first is not None and first.is_interrupted:
            signals = signal_names([0], {0: first.signal})
        end = describe_end(job.trace, job.positions, job.until_ns, signals)
        waiting = long or [p for p in job.pending if end.after_ns is None and p.missing]
        return HangVerdict("dead", ended=True, pending=waiting[0] if waiting else None, end=end)
    complete = next((instance for instance in long if not instance.missing), None)
    if complete is None:
        return None
    return HangVerdict("undecided", (), tuple(complete.sites), pending=complete)


def find_verdict(
    trace: Trace, positions: Positions, pending: Instances, threshold: HangThreshold | None = None
) -> HangVerdict:
    """Return the verdict on a job after inspecting its processes now."""
    # By default the limit of `--watch` applies if it has reported a hang.
    threshold = threshold or read_threshold(trace.path)
    watched = find_suspects(positions, pending, trace_now_ns(trace), threshold)
    inside = {position.rank: position.tasks for position in positions if position.tasks}
    processes = sample_processes(trace, watched, inside)
    return job_verdict.conclude(trace, positions, pending, processes, threshold)


def status_verdict(trace: Trace, positions: Positions, pending: Instances) -> HangVerdict:
    """Return the verdict for `status`; for a job that ended normally, the verdict of `report`."""
    # The verdict of `report` checks all calls of the run, not only the newest of each rank.
    if trace.is_finalised and all(position.finished for position in positions) and trace.wrong:
        return job_verdict.disagreement_verdict(trace.wrong[0], ended=False, all_finished=True)
    return find_verdict(trace, positions, pending)


def observe_job(trace: Trace) -> tuple[HangVerdict, Positions, Instances]:
    """Return the verdict on a trace's job, and its ranks and instances if it has not ended.

    Above MAX_RANKS ranks, no fault is found.
    """
    # If the job ended normally, the whole run is checked: a wrong call may have completed.
    faultless = not trace.wrong if trace.is_finalised else trace.ranks > MAX_RANKS
    if faultless:
        return NO_FAULT, [], []
    positions: Positions = []
    pending: Instances = []
    if not trace.is_finalised:
        positions, pending = rank_state.find(trace)
    return status_verdict(trace, positions, pending), positions, pending
