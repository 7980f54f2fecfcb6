"""Finding about a habit of delays, with the figures that its sentences state."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.causes.habits.habit import count_late_instances, find_spans
from mpiprof.causes.habits.work_matrix import find_host
from mpiprof.causes.removal import join_removals
from mpiprof.diagnosis.delay_evidence import WindowEvidence, find_reason, list_locations
from mpiprof.diagnosis.evidence import HabitEvidence
from mpiprof.diagnosis.explained_waits import find_main_callsite
from mpiprof.diagnosis.finding import MAX_CERTAINTY, Finding, WaitSite, make_finding
from mpiprof.diagnosis.habit_details import (
    FoundHabit,
    are_late_by_turns,
    find_last_change,
    find_lateness,
    find_onset,
    find_spared_ranks,
    find_stay,
)
from mpiprof.trace.trace import Trace

MIN_INSIDE_SHARE = 0.5  # of a delay's cost inside a collective, from which it is no work


def make_habit_finding(
    trace: Trace,
    parts: Sequence[FoundHabit],
    found: Sequence[WindowEvidence],
    waits_at: tuple[WaitSite, ...],
    saved: tuple[float, float],
    cost: float,
) -> Finding:
    """Return the finding of a habit.

    parts: the same habit in one or several matrices. found: in each window. saved: as
    join_saved_time. cost: waiting in ns that would vanish.
    """
    matrix, habit = parts[0]
    number = matrix.number[habit.instances]
    of_work = [of.work for of in found]
    work = tuple(list_locations(trace, of_work))
    is_inside = bool(work) and work[0].inside and work[0].share >= MIN_INSIDE_SHARE
    late = (count_late_instances(one, of) * of.count / of.instance_count for of, one in parts)
    # If early ranks take over work, all ranks end earlier by the mean of the waiting.
    saved_ns, saved_work_ns = saved if habit.cause != "early" else (cost / trace.ranks, 0.0)
    evidence = HabitEvidence(
        work=work,
        saved_work_ns=saved_work_ns,
        late_ns=habit.late_ns,
        late_instances=round(sum(late)),
        instances=sum(of.count for of, _ in parts),
        spans=find_spans(number, matrix) if len(number) < matrix.instance_count else (),
        onset_ns=find_onset(trace, matrix, habit),
        offsets=habit.offsets,
        step=habit.step,
        speed=habit.speed,
        reverses=habit.reverses,
        each=habit.each,
        stay=find_stay(habit) if habit.cause == "moving" else None,
        late_by_rank=find_lateness(matrix, habit),
        by_turns=are_late_by_turns(matrix, habit),
        levels=habit.levels,
        grows=habit.grows,
        varies=habit.varies,
        course=None if habit.course is None else habit.course.shape,
        until=find_last_change(matrix, habit),
        unit=matrix.unit,
        sampled=trace.sampling_interval > 1,
        spared=find_spared_ranks(trace, habit),
        all_ranks=len(habit.ranks) == trace.ranks,
        steps_of=tuple(of.callsite for of, _ in parts if of.callsite is not None),
        recorded=(int(matrix.number[0]), int(matrix.number[-1])),
        host=find_host(trace, habit.node),
        reason=find_reason(of_work),
        mainly_at=find_main_callsite(waits_at),
        alone_ns=matrix.alone_ns if habit.cause in ("rank", "periodic") else None,
    )
    return make_finding(
        trace,
        "inside" if is_inside and habit.cause == "rank" else habit.cause,
        cost,
        saved_ns=saved_ns,
        ranks=habit.ranks,
        node=habit.node,
        period=habit.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - habit.p, 0.0), MAX_CERTAINTY),
        evidence=evidence,
        waits_at=waits_at,
        # Early ranks have no excess work that the run could lack.
        removal=None if habit.cause == "early" else join_removals([of.removal for of in found]),
    )
