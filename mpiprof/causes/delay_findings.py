"""Findings from delays: who works longer, between which calls, and the waiting that it causes.

The waiting in messages and collectives is followed to intervals of work (delay_graph.py). Habits
are sought in this work (delay_matrix.py), not in arrivals, because a rank that waits for a late
rank arrives late as well.

Windows of a large run are analysed one after the other, three times: to add up the waits and find
the steps, to add up the cells of the matrices, and to collect the evidence of the habits. If this
divides a habit, the evidence is collected once more. The habits are sought in the whole run. A run
that fits in memory is one window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.delay_evidence import (
    WindowEvidence,
    WorkEvidence,
    collect_evidence,
    describe_habit_work,
    find_blocked_place,
    find_cost,
    group_ranks_by_place,
    is_blocked,
    join_saved_time,
)
from mpiprof.causes.delay_matrix import DelayMatrix, FoundHabit, sum_gains
from mpiprof.causes.delay_summary import (
    DelaySummary,
    WindowSummary,
    join_summaries,
    summarise_waits,
)
from mpiprof.causes.explained_waits import (
    Callsite,
    ChosenWaits,
    choose_callsites,
    choose_waits,
    choose_window_waits,
    count_most_calls,
    find_main_callsite,
    list_sites,
)
from mpiprof.causes.fact_findings import MIN_REST_SHARE, join_findings
from mpiprof.causes.finding import Finding, RestEvidence, make_finding
from mpiprof.causes.habit_finding import divide_habit, join_matrices, make_habit_finding
from mpiprof.causes.habits.habit import Habit, count_late_instances, join_habits
from mpiprof.causes.habits.search import find_habits
from mpiprof.causes.habits.steady_delay import add_variation
from mpiprof.causes.place import Pair, describe_call, find_place
from mpiprof.causes.repeated_stops import RepeatedStops
from mpiprof.causes.repetition_matrix import (
    PairIntervals,
    RepetitionMatrix,
    continue_habits,
    drop_divided_work,
    find_longest,
    list_same_work,
    select_pair_intervals,
    sum_pair_work,
)
from mpiprof.causes.run_steps import (
    StepCells,
    StepColumns,
    StepMatrix,
    Steps,
    choose_step_columns,
    group_steps,
    sum_step_cells,
)
from mpiprof.causes.search import apply_beside_search
from mpiprof.causes.single_event import SingleEvent
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

Result = TypeVar("Result")
# Applies a function to the waits of each window of a run.
Apply = Callable[[Callable[[ChosenWaits], Result]], list[Result]]

MIN_BESIDE_SHARE = 0.01  # of the waiting, from which another finding explains a part of it
MAX_FEW = 100  # steps or repetitions, that may be too few to show a habit
MIN_SECOND_SHARE = 0.1  # minimum cost of a habit, over that of the costliest one
MIN_INSIDE_SHARE = 0.5  # of all cost, from which most of the waiting arises inside calls
MAX_PAIRS = 3  # of call sites that are examined
MIN_PAIR_SHARE = 0.05  # of the cost of all delays, from which a pair is examined
MAX_PAIR_INTERVALS = 1 << 24  # of a pair of call sites that is examined; these need 0.5 GB
MAX_PAIR_FACTOR = 2.0  # by which pairs may explain more than steps
MIN_EXPLAINED_SHARE = 0.8  # of the cost, from which habits in steps are sufficient
MIN_WORK_SHARE = 0.5  # of early ranks' delay, by which they work less between the same calls


def find_delay_findings(trace: Trace, callsite: int | None = None) -> list[Finding]:
    """Return the findings for all waits of the run, or those at one call site of collectives.

    If the run does not fit in memory, the findings at a call site are those of the run that
    concern it.
    """
    if fits_in_memory(trace):
        waits = choose_waits(trace, callsite)
        summary = summarise_waits(waits)
        return _find(trace, [summary], lambda function: [function(waits)], callsite)

    def apply(function: Callable[[ChosenWaits], Result]) -> list[Result]:
        applied = partial(apply_to_window, numbers=trace.aggregate[1], function=function)
        return apply_beside_search(trace, applied)

    findings = _find(trace, [of.summary for of in trace.derive("window_delays")], apply)
    return [one for one in findings if callsite is None or callsite in one.callsites]


def apply_to_window(
    window: Trace, numbers: dict[CallsiteKey, int], function: Callable[[ChosenWaits], Result]
) -> Result:
    """Return the result of a function for the waits of a window of the run."""
    return function(choose_window_waits(window, numbers))


def _find(
    trace: Trace, windows: Sequence[WindowSummary], apply: Apply[Any], callsite: int | None = None
) -> list[Finding]:
    """Return the findings of a run from its windows.

    callsite: of collectives, whose waits the windows have; None for all waits.
    """
    has_all_waits = callsite is None
    sums, steps = join_summaries(trace, windows)
    if not sums.waiting_ns > 0:
        return []
    found, omitted, searched = _find_habits(trace, sums, steps, apply)
    count = max((matrix.count for matrix in searched), default=sums.meetings)
    joined = join_matrices(found)
    # The removal of a large delay leaves small remains, which are not delays themselves.
    least = MIN_SECOND_SHARE * max(map(sum_gains, joined), default=0.0)
    kept = [parts for parts in joined if sum_gains(parts) >= least]
    callsites = choose_callsites(sums.at_ns)
    kept, of_habits, other_work = _collect_evidence(kept, callsites, apply)
    findings = []
    for parts, found_evidence in zip(kept, of_habits, strict=True):
        caused_ns = np.sum([of.caused_ns for of in found_evidence], 0)
        waits_at = list_sites(callsites, caused_ns, sums.at_ns)
        waiting_ns = sums.waiting_ns if has_all_waits else np.inf
        saved = join_saved_time(trace, parts, found_evidence, waiting_ns=waiting_ns)
        is_only = has_all_waits and len(kept) == 1 and not trace.ranks_without_records
        cost = min(find_cost(parts, found_evidence, is_only=is_only), waiting_ns)
        findings.append(make_habit_finding(trace, parts, found_evidence, waits_at, saved, cost))
    findings = join_findings(trace, findings, sums.waiting_ns, callsite)
    explained = [sum(one.find_wait_ns(at) for one in findings) for at in callsites]
    rest_at_ns = np.array([sums.at_ns[at] for at in callsites], np.float64) - np.array(explained)
    rest_at = list_sites(callsites, np.maximum(rest_at_ns, 0.0), sums.at_ns)
    rest = sums.waiting_ns - sum(finding.waiting_ns for finding in findings)
    if sums.waiting_ns > 0 and (not findings or rest >= MIN_REST_SHARE * sums.waiting_ns):
        # A run without meetings is one step, in which ranks may wait many times.
        count = max(count, count_most_calls(trace, [at.callsite for at in rest_at]))
        # The other work contains the stops that facts state.
        has_stops = any(isinstance(one.fact, SingleEvent | RepeatedStops) for one in findings)
        evidence = RestEvidence(
            instances=count,
            besides=any(one.cost_ns >= MIN_BESIDE_SHARE * sums.waiting_ns for one in findings),
            missing=_find_missing_records(trace, sums) if sums.is_hidden else None,
            inside=_find_call_inside(trace, sums),
            omitted=tuple(find_place(trace, pair) for pair in omitted),
            common_last=None if findings else _describe_common_last(searched),
            mainly_at=None if findings else find_main_callsite(rest_at),
            blocked=None if has_stops else find_blocked_place(trace, other_work),
        )
        # Without the costliest finding, the run has only this time left.
        left_ns = float(trace.run_ns) - max((finding.saved_ns for finding in findings), default=0.0)
        saved_ns = max(min(rest / trace.ranks, left_ns), 0.0)
        fields = {"evidence": evidence, "waits_at": rest_at, "saved_ns": saved_ns}
        findings.append(make_finding(trace, "noise", rest, certainty=0.0, **fields))
    return findings


def _collect_evidence(
    habits: list[list[FoundHabit]], callsites: Sequence[Callsite], apply: Apply[Any]
) -> tuple[list[list[FoundHabit]], list[list[WindowEvidence]], list[WorkEvidence]]:
    """Return the habits, the evidence of each in all windows, and that of all other work.

    A habit whose ranks work longer at different places is several causes.
    """

    def collect(
        habits: list[list[FoundHabit]],
    ) -> tuple[list[list[WindowEvidence]], list[WorkEvidence]]:
        windows: list[tuple[list[WindowEvidence], WorkEvidence]] = apply(
            partial(collect_evidence, habits=habits, callsites=callsites)
        )
        of_habits, other_work = zip(*windows, strict=True)
        return [list(of) for of in zip(*of_habits, strict=True)], list(other_work)

    of_habits, other_work = collect(habits)
    divided: list[list[FoundHabit]] = []
    for parts, evidence in zip(habits, of_habits, strict=True):
        groups = group_ranks_by_place([of.work for of in evidence])
        divided += divide_habit(parts, groups)
    if len(divided) > len(habits):
        of_habits, other_work = collect(divided)
    return divided, of_habits, other_work


def _find_call_inside(trace: Trace, sums: DelaySummary) -> dict[str, Any] | None:
    """Return the call inside which most of the waiting arises, or None."""
    inside = [pair for pair in sums.pairs if pair[1] == INSIDE]
    inside_ns = sum(sums.pair_ns[pair] for pair in inside)
    if not inside_ns >= MIN_INSIDE_SHARE * sums.interval_ns > 0:
        return None
    return describe_call(trace, inside[0][0])


def _describe_common_last(searched: Sequence[DelayMatrix]) -> dict[str, Any] | None:
    """Return the unit and number of the first columns, if one rank often works longest in them.

    The search has found no habit, so they do not prove that this rank is the cause. A longer record
    would, if they are few.
    """
    if not searched or searched[0].count > MAX_FEW or not searched[0].has_common_last():
        return None
    return {"unit": searched[0].unit, "count": searched[0].count}


def _find_missing_records(trace: Trace, sums: DelaySummary) -> str | None:
    """Return which records would show more causes: "messages", "instances" or None."""
    if sums.has_message_time:
        return "messages"
    return "instances" if trace.sampling_interval > 1 else None


def _find_habits(
    trace: Trace, sums: DelaySummary, steps: Steps | None, apply: Apply[Any]
) -> tuple[list[FoundHabit], list[Pair], list[DelayMatrix]]:
    """Return the habits in the run's steps or, if these explain little, in pairs of call sites.

    Also returns the pairs with too many intervals, and the matrices searched, steps first.

    In a step, the work between all calls adds up. A delay between two of them may be hidden by the
    noise of the others, and two delays may cancel. With noise, pairs explain more in any case: all
    waiting that a delay causes, where steps count only what would vanish without it.
    """

    def search(matrices: Iterable[DelayMatrix]) -> list[FoundHabit]:
        habits = (
            (matrix, _blame_blocked_ranks(matrix, one, apply))
            for matrix in matrices
            for one in add_variation(matrix, join_habits(find_habits(matrix)))
        )
        return [
            (matrix, one)
            for matrix, one in habits
            if _is_by_work(sums, one, apply) and count_late_instances(one, matrix)
        ]

    chosen: list[StepColumns] = []
    if steps is not None:
        chosen = [choose_step_columns(trace, steps, of) for of in group_steps(steps)]
    # If a step has one interval of work, pairs of call sites show nothing else.
    has_pairs = steps is None or steps.is_divided
    pairs, omitted = _choose_pairs(trace, sums) if has_pairs else ([], [])
    same_work = list_same_work(pairs, sums.pair_ns)
    cells = apply(partial(_read_matrices, chosen=chosen, pairs=[*pairs, *same_work]))
    steps_cells, pair_intervals, pair_work = zip(*cells, strict=True)
    of_steps = zip(chosen, zip(*steps_cells, strict=True), strict=True)
    matrices = [StepMatrix(trace, of, parts) for of, parts in of_steps]
    by_step = search(matrices)
    if not has_pairs or sum_gains(by_step) >= MIN_EXPLAINED_SHARE * sums.interval_ns:
        return by_step, [], [*matrices]

    def find_longest_work(ends_ns: Any) -> Float:
        return np.asarray(np.max(apply(partial(find_longest, ends_ns=ends_ns)), 0))

    of_pairs = zip(*pair_intervals, strict=True)
    repetitions = [
        RepetitionMatrix(trace, pair, parts, sums.pair_counts, find_longest_work)
        for pair, parts in zip([*pairs, *same_work], of_pairs, strict=True)
    ]
    by_pair = search(repetitions[: len(pairs)])
    by_pair = drop_divided_work(by_pair, pair_work)
    if steps is not None:
        # Periods without a rank are periods of the step.
        by_pair = [(matrix, one) for matrix, one in by_pair if one.ranks]
    by_pair += continue_habits(by_pair, repetitions)
    is_by_step = MAX_PAIR_FACTOR * sum_gains(by_step) >= sum_gains(by_pair)
    searched = [*matrices, *repetitions[: len(pairs)]]
    return (by_step if is_by_step else by_pair), omitted, searched


def _choose_pairs(trace: Trace, sums: DelaySummary) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs of call sites with much cost, and those of them with too many intervals."""
    least = MIN_PAIR_SHARE * sums.interval_ns
    pairs = [pair for pair in sums.pairs[:MAX_PAIRS] if sums.pair_ns[pair] >= least > 0]
    most = np.inf if fits_in_memory(trace) else MAX_PAIR_INTERVALS
    omitted = [pair for pair in pairs if sums.pair_counts[pair] > most]
    return [pair for pair in pairs if pair not in omitted], omitted


def _read_matrices(
    waits: ChosenWaits, chosen: Sequence[StepColumns], pairs: Sequence[Pair]
) -> tuple[list[StepCells], list[PairIntervals], dict[Pair, Float]]:
    """Return the contents of the matrices from a window of the run, and the work by pair."""
    intervals = select_pair_intervals(waits, pairs)
    return sum_step_cells(waits, chosen), intervals, sum_pair_work(waits) if pairs else {}


def _blame_blocked_ranks(matrix: DelayMatrix, habit: Habit, apply: Apply[Any]) -> Habit:
    """Return a habit of early ranks as one of the other ranks, if these are blocked."""
    others = tuple(np.setdiff1d(matrix.ranks, habit.ranks).tolist())
    if habit.cause != "early" or not others:
        return habit
    is_early = np.isin(matrix.ranks, habit.ranks)
    shift_ns = np.where(is_early[:, None], 0.0, -habit.shift_ns[is_early].mean(0))
    late = replace(habit, cause="rank", ranks=others, shift_ns=shift_ns)
    found = apply(partial(describe_habit_work, matrix=matrix, habit=late))
    return late if is_blocked(found) else habit


def _is_by_work(sums: DelaySummary, habit: Habit, apply: Apply[Any]) -> bool:
    """Return whether a habit is about work: early ranks may wait by their role.

    Examples of such roles are the root of a reduction, and a receiver in a pipeline. In a
    synchronising collective all ranks have the same role, and so have ranks that work between the
    same calls for a shorter time.
    """
    if habit.cause != "early":
        return True
    mine = list(habit.ranks)
    if sums.meeting_ns[mine].sum() >= sums.rank_ns[mine].sum() / 2:
        return True
    pair = sums.pairs[0]
    if sums.pair_counts[pair] > MAX_PAIR_INTERVALS:
        return False
    parts: list[PairIntervals] = [
        of for (of,) in apply(partial(select_pair_intervals, pairs=[pair]))
    ]
    is_early = np.isin(np.concatenate([of.rank for of in parts]), mine)
    length = np.concatenate([of.end_ns - of.begin_ns for of in parts])
    if not is_early.any() or is_early.all():
        return False
    less = float(np.median(length[~is_early]) - np.median(length[is_early]))
    return less >= MIN_WORK_SHARE * habit.late_ns
