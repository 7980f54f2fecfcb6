"""Findings from the facts of a run (causes/search.py), beside findings about habits.

The same time counts for one finding: the one without which the run ends earliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.row_order import find_last_rows, order_by_time
from mpiprof.causes.cause import (
    FoundCause,
    Removal,
    add_removals,
    find_saving,
    find_shared_ns,
    join_removals,
)
from mpiprof.causes.delay_reasons import PREEMPTED, THROTTLED
from mpiprof.causes.explained_waits import CallsiteWaits, choose_callsites, choose_waits, list_sites
from mpiprof.causes.finding import Evidence, Finding, WaitSite, WorkLocation, make_finding
from mpiprof.causes.oversubscription import Oversubscription, find_crowded_nodes
from mpiprof.causes.processor_quota import ProcessorQuota
from mpiprof.causes.serial_turns import SerialTurns
from mpiprof.causes.single_event import SingleEvent
from mpiprof.facts.operations import call_class
from mpiprof.trace.trace import Trace

IN_QUEUES = Oversubscription, ProcessorQuota  # causes whose time is beside that of work
WAITING_CLASSES = "collective", "point_to_point", "completion"  # of calls that wait for other ranks
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
    facts = [_make_finding(trace, fact, waiting_ns) for fact in trace.derive("facts")]
    if callsite is not None:
        facts = [_take_part(trace, fact, callsite) for fact in facts if fact.share_at(callsite)]
    causes = [fact.fact for fact in facts if isinstance(fact.fact, IN_QUEUES)]
    crowded_ranks = set(find_crowded_nodes(trace))
    founded = [
        habit
        for habit in habits
        if _has_work(habit)
        and not _is_in_queues(habit, causes)
        and not _may_be_queued(habit, crowded_ranks)
    ]
    facts = [fact for fact in facts if not _is_habitual(fact, founded)]
    founded = [habit for habit in founded if not _are_serial_turns(trace, habit, facts)]
    if facts:
        founded = [habit for habit in founded if _saves_time(trace, habit, [*facts, *founded])]
    distinct: list[Finding] = []
    order = sorted(
        [*facts, *founded],
        key=lambda finding: (not finding.is_first, -finding.saved_ns * finding.weight),
    )
    for finding in order:
        if finding.removal is None or not _repeats(trace, finding, distinct):
            distinct.append(finding)
    return [
        finding
        for candidate in distinct
        if (finding := _limit_to_rest(candidate, distinct, waiting_ns)).cost_ns > 0
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
    other_findings = (candidate for candidate in findings if candidate is not finding)
    rest_ns = waiting_ns - sum(other_finding.waiting_ns for other_finding in other_findings)
    if rest_ns >= finding.cost_ns:
        return finding
    is_notable = rest_ns >= MIN_REST_SHARE * waiting_ns
    cost_ns = round(rest_ns) if is_notable else 0
    return replace(finding, cost_ns=cost_ns, share=finding.share * cost_ns / finding.cost_ns)


def _take_part(trace: Trace, fact: Finding, callsite: int) -> Finding:
    """Return a fact with its waiting at a call site only, without its time in calls and queues."""
    cost_ns = fact.share_at(callsite) * float(trace.callsites["total_wait_ns"][callsite])
    share, evidence = cost_ns / max(trace.process_time_ns, 1), fact.evidence
    evidence = replace(evidence, calls_ns=0.0, queue_ns=0.0)
    return replace(fact, cost_ns=round(cost_ns), share=share, evidence=evidence)


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


def _is_in_queues(habit: Finding, causes: Sequence[Oversubscription | ProcessorQuota]) -> bool:
    """Return whether a habit may be the waiting for a processor of ranks that all wait for one.

    By chance, a rank waits longer than others. Then counters show no other reason for its work. A
    rank that waits for a processor inside a call looks like a rank that is slow there. Ranks that a
    quota stops wait, too.
    """
    waiting = {rank for cause in causes for rank in cause.waiting_ranks}
    if not waiting.intersection(habit.ranks or waiting):  # without ranks, it concerns all of them
        return False
    reason = habit.habit.reason
    is_inside = any(location.inside for location in habit.evidence.work[:1])
    return is_inside or reason is None or reason.reason in (None, PREEMPTED, THROTTLED)


def _may_be_queued(habit: Finding, crowded_ranks: set[int]) -> bool:
    """Return whether ranks that share too few processors may wait for one inside their calls.

    No counters show this. A call that waits for no rank, such as MPI_Put, is too short to wait for
    a processor often.
    """
    location = habit.evidence.work[0] if habit.evidence.work else None
    if location is None or not habit.evidence.is_inside:
        return False
    may_wait = call_class(location.before["operation"]) in WAITING_CLASSES
    return may_wait and not crowded_ranks.isdisjoint(habit.ranks)


def _saves_time(trace: Trace, habit: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether a habit costs run time or waiting, alone or beside all other findings.

    Otherwise a fact explains the waiting that the habit claims.
    """
    least_ns = MIN_CLAIMED_SAVING * habit.cost_ns / trace.ranks
    if habit.removal is None or habit.saved_ns >= least_ns:
        return True
    if not fits_in_memory(trace) or len(trace.derive("delays_found").message_time.rank):
        return True  # the replay lacks waits for unrecorded messages
    other_findings = [finding for finding in findings if finding is not habit]
    alone = find_saving(trace, habit.removal)
    without_habit, with_habit = (
        find_saving(trace, _remove_all(removed_findings))
        for removed_findings in (other_findings, [*other_findings, habit])
    )
    saved_ns = with_habit.run_ns - without_habit.run_ns
    waiting_ns = max(alone.waiting_ns, with_habit.waiting_ns - without_habit.waiting_ns)
    return saved_ns >= least_ns or waiting_ns >= MIN_CLAIMED_SAVING * habit.cost_ns


def _repeats(trace: Trace, finding: Finding, larger_findings: Sequence[Finding]) -> bool:
    """Return whether findings that save more explain a finding."""
    larger = [candidate for candidate in larger_findings if candidate.removal is not None]
    if not larger or finding.removal is None or not finding.removal.total_ns > 0:
        return False
    # Work takes longer by the time in queues, which is no cause of the work.
    works = [candidate for candidate in larger if not isinstance(candidate.fact, IN_QUEUES)]
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
            finding.removal
            for finding in findings
            if finding.removal is not None and isinstance(finding.fact, IN_QUEUES) == is_queue
        ]
        for is_queue in (True, False)
    )
    return add_removals([join_removals(works), join_removals(queues)])


def _make_finding(trace: Trace, fact: FoundCause, waiting_ns: float) -> Finding:
    cause, removal = fact.cause, fact.removal
    saving = fact.saving
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
    callsite_waits = CallsiteWaits(waits)
    callsites = choose_callsites(callsite_waits.at_ns)
    caused_ns = callsite_waits.sum_caused(callsites, [chosen])[0]
    return list_sites(callsites, caused_ns, callsite_waits.at_ns)
