"""Findings from the facts of a run (causes/search.py), beside findings about habits.

The same time counts for one finding: the one without which the run ends earliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpiprof.causes.cause import FoundCause
from mpiprof.causes.oversubscription import Oversubscription
from mpiprof.causes.removal import Removal, add_removals, find_saving, find_shared_ns, join_removals
from mpiprof.causes.serial_turns import SerialTurns
from mpiprof.causes.single_event import SingleEvent
from mpiprof.diagnosis.delay_reasons import PREEMPTED
from mpiprof.diagnosis.evidence import Evidence, WorkLocation
from mpiprof.diagnosis.explained_waits import (
    CallsiteWaits,
    choose_callsites,
    choose_waits,
    list_sites,
)
from mpiprof.diagnosis.finding import Finding, WaitSite, make_finding
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.time_order import find_last_rows, order_by_time
from mpiprof.trace.trace import Trace

MAX_SHARED = 0.5  # of the time of a finding, from which it repeats findings that save more
MIN_JOINT_SAVING = 0.1  # of the saving of a finding alone, beside findings that save more
MIN_WORK_SHARE = 0.1  # of the delay of a habit, that is in segments of work
MIN_CLAIMED_SAVING = 0.1  # of the waiting that a habit claims
MIN_REST_SHARE = 0.2  # of the waiting, for a finding about what other findings leave


def join_findings(
    trace: Trace, habits: Sequence[Finding], waiting_ns: float, callsite: int | None = None
) -> list[Finding]:
    """Return the facts of a run and the findings about habits, without repetitions.

    waiting_ns: of all ranks. callsite: of collectives, for the waiting there only; None for that of
    the whole run. A sample shows no facts.
    """
    if trace.sampling_interval > 1:
        return list(habits)
    facts = [_make_finding(trace, one, waiting_ns) for one in trace.derive("facts")]
    if callsite is not None:
        facts = [_take_part(trace, one, callsite) for one in facts if one.share_at(callsite)]
    crowds = [one.fact for one in facts if isinstance(one.fact, Oversubscription)]
    founded = [one for one in habits if _has_work(one) and not _is_in_queues(one, crowds)]
    facts = [fact for fact in facts if not _is_habitual(fact, founded)]
    founded = [one for one in founded if not _are_serial_turns(trace, one, facts)]
    if facts:
        founded = [one for one in founded if _saves_time(trace, one, [*facts, *founded])]
    kept: list[Finding] = []
    order = sorted(
        [*facts, *founded], key=lambda one: (not one.is_first, -one.saved_ns * one.weight)
    )
    for finding in order:
        if finding.removal is None or not _repeats(trace, finding, kept):
            kept.append(finding)
    return [
        finding for one in kept if (finding := _limit_to_rest(one, kept, waiting_ns)).cost_ns > 0
    ]


def _is_habitual(fact: Finding, habits: Sequence[Finding]) -> bool:
    """Return whether a fact is events that return as a habit of the run."""
    event, removal = fact.fact, fact.removal
    if not isinstance(event, SingleEvent) or len(event.times_ns) == 1 or removal is None:
        return False
    removals = [habit.removal for habit in habits if habit.removal is not None]
    shared_ns = [find_shared_ns(removal, of_habit) for of_habit in removals]
    return max(shared_ns, default=0.0) >= MAX_SHARED * removal.total_ns


def _are_serial_turns(trace: Trace, habit: Finding, facts: Sequence[Finding]) -> bool:
    """Return whether a fact explains more of a delay that moves over all ranks: serial work."""
    if habit.removal is None or len(habit.ranks) < trace.ranks:
        return False
    for fact in facts:
        if isinstance(fact.fact, SerialTurns) and fact.removal and fact.saved_ns > habit.saved_ns:
            shared_ns = find_shared_ns(habit.removal, fact.removal)
            return shared_ns >= MAX_SHARED * habit.removal.total_ns
    return False


def _limit_to_rest(finding: Finding, findings: Sequence[Finding], waiting_ns: float) -> Finding:
    """Return a finding without excess work with the waiting that other findings leave."""
    if finding.removal is not None and finding.removal.total_ns > 0:
        return finding
    others = (one for one in findings if one is not finding)
    rest_ns = waiting_ns - sum(one.waiting_ns for one in others)
    if rest_ns >= finding.cost_ns:
        return finding
    is_notable = rest_ns >= MIN_REST_SHARE * waiting_ns
    cost_ns = round(rest_ns) if is_notable else 0
    return replace(finding, cost_ns=cost_ns, share=finding.share * cost_ns / finding.cost_ns)


def _take_part(trace: Trace, fact: Finding, callsite: int) -> Finding:
    """Return a fact with its waiting at a call site only."""
    cost_ns = fact.share_at(callsite) * float(trace.callsites["total_wait_ns"][callsite])
    return replace(fact, cost_ns=round(cost_ns), share=cost_ns / max(trace.process_time_ns, 1))


def _has_work(habit: Finding) -> bool:
    """Return whether a habit's delay is in the work of its ranks, as far as their work is known.

    In a step, work is the time without waits, with slow transfers. These are in no segment of work.
    """
    if habit.removal is None:
        return True
    if any(location.inside for location in habit.evidence.work):
        return True
    is_each_late = habit.cause not in ("moving", "gradient")
    late_ranks = max(len(habit.ranks), 1) if is_each_late else 1
    claimed_ns = habit.habit.late_ns * habit.habit.late_instances * late_ranks
    return bool(habit.removal.total_ns >= MIN_WORK_SHARE * claimed_ns)


def _is_in_queues(habit: Finding, crowds: Sequence[Oversubscription]) -> bool:
    """Return whether a habit may be the waiting for a processor of ranks that all wait for one.

    By chance, a rank waits longer than others. Then counters show no other reason for its work. A
    rank that waits for a processor inside a call looks like a rank that is slow there.
    """
    waiting = {rank for crowd in crowds for rank in crowd.waiting_ranks}
    if not waiting.intersection(habit.ranks or waiting):  # without ranks, it concerns all of them
        return False
    reason = habit.habit.reason
    is_inside = any(location.inside for location in habit.evidence.work[:1])
    return is_inside or reason is None or reason.reason in (None, PREEMPTED)


def _saves_time(trace: Trace, habit: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether a habit costs run time or waiting, alone or beside all other findings.

    Otherwise a fact explains the waiting that the habit claims.
    """
    least_ns = MIN_CLAIMED_SAVING * habit.cost_ns / trace.ranks
    if habit.removal is None or habit.saved_ns >= least_ns:
        return True
    if not fits_in_memory(trace) or len(trace.derive("delays_found").message_time.rank):
        return True  # the replay lacks waits for unrecorded messages
    others = [one for one in findings if one is not habit]
    alone = find_saving(trace, habit.removal)
    rest, whole = (find_saving(trace, _remove_all(of)) for of in (others, [*others, habit]))
    saved_ns = whole.run_ns - rest.run_ns
    waiting_ns = max(alone.waiting_ns, whole.waiting_ns - rest.waiting_ns)
    return saved_ns >= least_ns or waiting_ns >= MIN_CLAIMED_SAVING * habit.cost_ns


def _repeats(trace: Trace, finding: Finding, kept: Sequence[Finding]) -> bool:
    """Return whether findings that save more explain a finding."""
    larger = [one for one in kept if one.removal is not None]
    if not larger or finding.removal is None or not finding.removal.total_ns > 0:
        return False
    # Work takes longer by the time in queues, which is no cause of the work.
    works = [one for one in larger if not isinstance(one.fact, Oversubscription)]
    shared_ns = find_shared_ns(finding.removal, _remove_all(works))
    if shared_ns >= MAX_SHARED * finding.removal.total_ns:
        return True
    if not fits_in_memory(trace):
        return False
    with_it = find_saving(trace, _remove_all([*larger, finding])).run_ns
    more_ns = with_it - find_saving(trace, _remove_all(larger)).run_ns
    return more_ns < MIN_JOINT_SAVING * finding.saved_ns


def _remove_all(findings: Sequence[Finding]) -> Removal:
    """Return the removal of some findings together.

    Time in queues is beside the time that other findings remove from the same segment of work.
    """
    queues, works = (
        [
            one.removal
            for one in findings
            if one.removal is not None and isinstance(one.fact, Oversubscription) == is_queue
        ]
        for is_queue in (True, False)
    )
    return add_removals([join_removals(works), *queues])


def _make_finding(trace: Trace, found: FoundCause, waiting_ns: float) -> Finding:
    cause, removal = found.cause, found.removal
    saving = found.saving
    cost_ns = min(saving.waiting_ns, waiting_ns) + saving.calls_ns + saving.queue_ns
    waits_at = _find_waits_at(trace, removal) if fits_in_memory(trace) else ()
    rank = cause.ranks[0] if cause.ranks else -1
    of_rank = np.isin(removal.rank, cause.ranks)
    work_ns = float(removal.removed_ns[of_rank].sum()) / trace.ranks
    place = cause.places[0]
    # Time in a call or a queue is no work.
    is_work = not (place.inside or saving.queue_ns)
    saved_work_ns = min(work_ns, saving.run_ns) if is_work else 0.0
    work = WorkLocation(place.before, place.after, place.inside, rank=rank)
    return make_finding(
        trace,
        cause.name,
        cost_ns,
        ranks=cause.ranks,
        saved_ns=saving.run_ns,
        evidence=Evidence((work,), saved_work_ns, saving.calls_ns, saving.queue_ns),
        waits_at=waits_at,
        fact=cause,
        removal=removal,
    )


def _find_waits_at(trace: Trace, removal: Removal) -> tuple[WaitSite, ...]:
    """Return the call sites at which ranks wait because of some work."""
    waits = choose_waits(trace)
    intervals = waits.delays.intervals
    if not len(intervals.rank):
        return ()
    # The last interval of the rank that begins before the end of the removed work contains it.
    order, _ = order_by_time(intervals.rank, intervals.begin_ns, trace.ranks)
    columns = intervals.rank[order], intervals.begin_ns[order]
    row = find_last_rows(columns, removal.rank, removal.time_ns)
    chosen = np.zeros(len(intervals.rank), np.bool_)
    chosen[order[row[row >= 0]]] = True
    found = CallsiteWaits(waits)
    callsites = choose_callsites(found.at_ns)
    caused_ns = found.sum_caused(callsites, [chosen])[0]
    return list_sites(callsites, caused_ns, found.at_ns)
