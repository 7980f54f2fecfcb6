"""Findings from delays as text: who works longer, where, and the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from mpiprof.diagnosis import delay_reasons as reasons
from mpiprof.diagnosis.evidence import HabitEvidence, RestEvidence, WorkLocation
from mpiprof.diagnosis.finding import MIN_CERTAINTY, Finding
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.blamed_ranks import name_ranks, takes_plural
from mpiprof.reports.delay_steps import (
    MAX_SPANS,
    change_sentence,
    counts_steps,
    join_texts,
    stay_clause,
    steps_clause,
)
from mpiprof.reports.savings import divide_saving
from mpiprof.reports.site_labels import format_callsite, format_wait_site
from mpiprof.trace import Trace

MAIN_SHARE = 0.4  # share of a delay's cost at one pair of call sites, from which it is named
WHOLE_SHARE = 0.95
MIN_THREAD_SHARE = 0.5  # of the processor time of all other threads, for a name
MAX_RATIO = 1.2  # between delays that are reported as one
MIN_SAVED_SHARE = 0.005  # of the run time

BLOCKED = "sleeping, or waiting for files or locks"
REASONS = {
    reasons.MORE_WORK: "more work on the processor",
    reasons.SLOWER_PROCESSOR: "a slower processor, with the same number of instructions",
    reasons.PREEMPTED: "preemption: ready to run, while other processes have the processor",
    reasons.THROTTLED: "the quota of the control group: throttled",
    reasons.BLOCKED: f"time off the processor: {BLOCKED}",
    reasons.OTHER_THREADS: "the work of another thread, for which the calling thread waits",
    reasons.PAGE_FAULTS: "page faults",
    reasons.MOVED: "moves between processors",
    reasons.GARBAGE_COLLECTION: "garbage collection",
    reasons.UNTRACKED_CALLS: "one-sided, file and other calls of MPI",
}

# By the records that would show more causes.
MISSING = {
    "messages": "single calls on messages are not recorded",
    "instances": "too few consecutive calls are in the sample",
}


def delay_clause(trace: Trace, finding: Finding) -> str:
    """Return who works longer, when and where, as a clause."""
    if finding.cause in ("noise", "early"):
        is_rest = finding.cause == "noise"
        callsite = finding.rest.mainly_at if is_rest else finding.habit.mainly_at
        most = "; most of it is" if is_rest else ", most"
        place = "" if callsite is None else f"{most} at {format_wait_site(trace, callsite)}"
        return f"{CLAUSES[finding.cause](finding)}{place}"
    if not finding.ranks and finding.cause not in ("noise", "gradient", "moving"):
        return f"the work of the ranks differs by {_format_late(finding)}{_where_and_when(finding)}"
    return CLAUSES.get(finding.cause, _longer_clause)(finding)


def _noise_clause(finding: Finding) -> str:
    # This finding may come before the others, if it costs far more.
    besides = " that other findings do not explain" if finding.rest.besides else ""
    missing = finding.rest.missing
    if missing is not None:
        return f"the records do not show the cause of the waiting{besides}: {MISSING[missing]}"
    if omitted := finding.rest.omitted:
        places = join_texts([str(place) for place in omitted], "and")
        too_many = f"the work {places} has too many intervals to be compared"
        return f"the cause of the waiting{besides} is not known, because {too_many}"
    if finding.rest.instances == 1:
        return f"no single rank causes the waiting{besides}"
    if often := finding.rest.common_last:
        steps = f"{format_count(often['count'])} {often['unit']}s"
        return f"one rank works longest more often than the others, which may be chance in {steps}"
    return f"no rank consistently causes the waiting{besides}"


def _gradient_clause(finding: Finding) -> str:
    evidence, ranks = finding.habit, format_ranks(finding.ranks)
    most = f"up to {_format_late(finding)} per {evidence.unit} at {ranks}"
    steps = steps_clause(finding) if evidence.spans else ""
    return f"work grows along the ranks{_location_clause(finding)}, {most}{steps}"


def _moving_clause(finding: Finding) -> str:
    """Return how a delay moves from rank to rank."""
    evidence, unit = finding.habit, finding.habit.unit
    who = f"{name_ranks(finding)} work{'' if takes_plural(finding) else 's'}"
    late, location = _format_late(finding), _location_clause(finding)
    if evidence.speed:
        moves = f", and this moves by {abs(evidence.speed):.2g} ranks per {unit}"
        return f"{who} up to {late} longer than the other ranks{location}{moves}"
    moves = stay_clause(evidence)
    if finding.period:
        moves += f", the same rank again after {finding.period} {unit}s"
    elif evidence.reverses:
        moves += ", to and fro"
    elif evidence.step:
        moves += f", {evidence.step} further each time"
    # Short tables cut the end off, which is the location therefore.
    comma = "," if moves and location.startswith(" ") else ""
    return f"{who} {late} longer than the other ranks{moves}{comma}{location}"


def _early_clause(finding: Finding) -> str:
    subject, s = format_ranks(finding.ranks), _verb_ending(finding)
    less = f"{_format_late(finding)} less than the other ranks{steps_clause(finding)}"
    return f"{subject} work{s} {less}, and wait{s} for them"


def _rank_clause(finding: Finding) -> str:
    late_by_rank = finding.habit.late_by_rank
    if not finding.habit.each and _differ(late_by_rank):
        delays = _list_delays(late_by_rank, _format_spared(finding))
        location = main_location(finding)
        where = "" if location is None else f"; rank {location.rank} {location}"
        return f"{delays}{steps_clause(finding)}{where}"
    return _longer_clause(finding)


def _node_clause(finding: Finding) -> str:
    host = finding.habit.host or format_ranks(finding.ranks)
    return _longer_clause(finding, f"the ranks on {host}")


def _longer_clause(finding: Finding, ranks_of_node: str = "") -> str:
    """Return which ranks work longer by the same delay, or by a delay of their own each."""
    late, where_and_when = _format_late(finding), _where_and_when(finding)
    evidence = finding.habit
    if evidence.grows or evidence.levels:
        late = f"up to {late}"
    if evidence.varies:
        mean, most = map(format_time, evidence.varies)
        late = f"on average {mean} and at most {most}"
    if finding.habit.each:
        longest = f"rank {finding.ranks[0]} works longest, {late} beyond the median of all ranks"
        return f"the work differs from rank to rank, and {longest}{where_and_when}"
    verb = "spend" if _is_inside(finding) else "work"
    who = f"{format_ranks(finding.ranks)} {verb}{_verb_ending(finding)}"
    if evidence.by_turns:
        who = f"one of {format_ranks(finding.ranks)} {verb}s"
    if ranks_of_node:
        who = f"{ranks_of_node} {verb}"
    if finding.habit.alone_ns is not None:
        return f"{who} alone for {format_time(finding.habit.alone_ns)}{where_and_when}"
    return f"{who} {late} longer than {_format_spared(finding)}{where_and_when}"


# By cause; all other causes have `_longer_clause`.
CLAUSES: dict[str, Callable[[Finding], str]] = {
    "noise": _noise_clause,
    "gradient": _gradient_clause,
    "moving": _moving_clause,
    "early": _early_clause,
    "rank": _rank_clause,
    "node": _node_clause,
}


def _format_late(finding: Finding) -> str:
    """Return the delay, or the largest one if it changes."""
    evidence = finding.habit
    levels = [late_ns for _, _, late_ns in evidence.levels]
    return format_time(max([evidence.late_ns, *(evidence.grows or ()), *levels]))


def _format_spared(finding: Finding) -> str:
    """Return the ranks with which late ranks are compared; they are named if they are few."""
    spared = finding.habit.spared
    return format_ranks(spared) if spared else "the other ranks"


def _verb_ending(finding: Finding) -> str:
    return "" if len(finding.ranks) > 1 else "s"


def _where_and_when(finding: Finding) -> str:
    return f"{_location_clause(finding)}{steps_clause(finding)}"


def _differ(late_by_rank: Sequence[tuple[int, float]]) -> bool:
    """Return whether a few ranks have delays of different size."""
    delays = [late_ns for _, late_ns in late_by_rank]
    return 1 < len(delays) <= MAX_SPANS and delays[0] > MAX_RATIO * delays[-1]


def _list_delays(late_by_rank: Sequence[tuple[int, float]], rest: str) -> str:
    """Return the delay of each rank: "rank 33 works 5.00 ms, rank 10 works 3.00 ms longer ..."."""
    parts = [f"rank {rank} works {format_time(late_ns)}" for rank, late_ns in late_by_rank]
    return f"{', '.join(parts)} longer than {rest}"


def delay_evidence(trace: Trace, finding: Finding) -> str:
    """Return the reason of a delay, what its removal would save, and the evidence."""
    basis = _basis_sentences(trace, finding)
    parts = reason_sentence(trace, finding), saving_sentence(trace, finding), basis
    return " ".join(part for part in parts if part)


def reason_sentence(trace: Trace, finding: Finding) -> str:
    """Return the reason of a delay, or that it is unknown; "" without counters.

    A rest without a pattern has a reason only if ranks are blocked.
    """
    if isinstance(finding.evidence, RestEvidence) and finding.rest.blocked is not None:
        return f"Ranks are off the processor {finding.rest.blocked}: {BLOCKED}."
    found = finding.evidence.reason if isinstance(finding.evidence, HabitEvidence) else None
    if found is None:
        return ""
    if found.reason is None:
        return "The counters do not show why."
    share = found.shares[found.reason]
    amount = "" if share >= WHOLE_SHARE else f"{format_share(share)} of it is "
    threads = (
        name_busy_threads(trace, finding.ranks) if found.reason == reasons.OTHER_THREADS else ""
    )
    return capitalise(f"{amount}{REASONS[found.reason]}{threads}.")


def name_busy_threads(trace: Trace, ranks: Sequence[int]) -> str:
    """Return the threads of the first rank that computed most, in brackets, or "" if unknown."""
    rank = next((rank for rank in ranks if rank in trace.tables.threads), None)
    if rank is None:
        return ""
    threads = trace.tables.threads[rank]
    whole = sum(named.ns for named in threads)
    table = trace.intervals
    counted_ns = table["other_threads_ns"][table["rank"] == rank].clip(lower=0).sum()
    if whole < MIN_THREAD_SHARE * counted_ns:
        return " (threads that end before the next call of MPI, so their names are unknown)"
    if not whole or threads[0].ns < MIN_THREAD_SHARE * whole:
        return ""
    first, plural = threads[0], "s" * (threads[0].count > 1)
    return f" ({first.count} thread{plural} named {first.name})"


def main_reason(finding: Finding) -> str | None:
    """Return the reason of a delay, an entry of REASONS, or None if it is unknown."""
    if not isinstance(finding.evidence, HabitEvidence) or finding.evidence.reason is None:
        return None
    return finding.evidence.reason.reason


def _basis_sentences(trace: Trace, finding: Finding) -> str:
    if finding.cause == "noise":
        return ""
    evidence = finding.habit
    unit = evidence.unit
    places = [format_callsite(trace, callsite) for callsite in evidence.steps_of]
    meaning = f"A step ends when all ranks meet in {_join_or(places) or 'a collective'}"
    if unit != "step":
        meaning = "The ranks are compared at equal repetitions of this work"
    # Programs and people count from 0 or 1.
    meaning += f"; {unit} 0 is the first." if evidence.spans or finding.period else "."
    if evidence.grows:
        return f"{change_sentence(finding)} {meaning}"
    if evidence.levels:
        levels = evidence.levels[:MAX_SPANS]
        if any(after[0] <= before[1] for before, after in pairwise(levels)):
            ends = [format_time(bound([ns for *_, ns in levels])) for bound in (min, max)]
            return f"The delay changes between {' and '.join(ends)}. {meaning}"
        parts = [f"{format_time(ns)} in {unit}s {first} to {last}" for first, last, ns in levels]
        return f"The delay is {', then '.join(parts)}. {meaning}"
    if finding.cause in ("rank", "periodic", "moving") and not counts_steps(finding):
        late, all_ = format_count(evidence.late_instances), format_count(evidence.instances)
        recorded = "recorded " * evidence.sampled
        return f"This holds in {late} of {all_} {recorded}{unit}s. {meaning}"
    return meaning


def _join_or(texts: Sequence[str]) -> str:
    """Return some texts as "a, b or c", "" for none or too many."""
    return "" if len(texts) > MAX_SPANS else join_texts(texts, "or")


def saving_sentence(trace: Trace, finding: Finding) -> str:
    """Return the run time after a repair, or "" if it is nearly the same or uncertain.

    Delays are replayed; other figures are means over the ranks, or scaled from a sample.
    """
    # Nothing is known of the calls that a ring has lost, or that follow a limit.
    is_part = trace.derive("coverage") is not None
    run_ns, saved = float(trace.duration_ns if is_part else trace.run_ns), finding.saved_ns
    if saved < MIN_SAVED_SHARE * run_ns or finding.certainty < MIN_CERTAINTY:
        return ""
    with_it = _name_repair(finding)
    is_replayed = finding.is_delay and finding.cause != "early" and trace.sampling_interval == 1
    about = "" if is_replayed else "about "
    without, today = format_time(run_ns - saved), format_time(run_ns)
    run = "the run" if trace.is_finalised else "the run up to the last record"
    run = "the recorded part" if is_part else run
    parts = [f"{format_time(ns)} of {name}" for name, ns in divide_saving(finding)]
    divided = f", saving {join_texts(parts, 'and')}" if parts and not about else ""
    return f"{with_it}, {run} would take {about}{without} instead of {today}{divided}."


def _name_repair(finding: Finding) -> str:
    """Return the repair whose run time the replay states, as the begin of a sentence."""
    if finding.fact is not None:
        return finding.fact.repair
    if isinstance(finding.evidence, HabitEvidence) and finding.cause != "early":
        is_shared_by_all = finding.cause == "gradient" or finding.habit.each
        return "With at most the median work on each rank" if is_shared_by_all else "Without that"
    return {"algorithm": "With it", "early": "With equal work"}.get(finding.cause, "Without that")


def _location_clause(finding: Finding) -> str:
    location = main_location(finding)
    if location is None:
        return ""
    share = location.share
    mostly = "" if share >= WHOLE_SHARE else f", {format_share(share)} of it"
    return f"{mostly} {location}"


def main_location(finding: Finding) -> WorkLocation | None:
    """Return the pair of call sites with most of a delay, or None without one."""
    work = finding.evidence.work
    return work[0] if work and work[0].share >= MAIN_SHARE else None


def _is_inside(finding: Finding) -> bool:
    """Return whether a delay arises inside a collective."""
    location = main_location(finding)
    return location is not None and location.inside


def delay_title(finding: Finding) -> str:
    """Return the heading of a finding from delays."""
    host = finding.evidence.host if isinstance(finding.evidence, HabitEvidence) else None
    who = f"Node {host}" if host else capitalise(format_ranks(finding.ranks))
    if finding.cause == "noise":
        return "Delays without a pattern"
    if finding.cause == "moving":
        return "The delay moves from rank to rank"
    if finding.cause == "gradient":
        return "Work grows along the ranks"
    if finding.cause == "early":
        return f"{who} waited for the other ranks"
    return f"{who or 'Ranks'} delayed the other ranks"
