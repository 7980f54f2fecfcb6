"""Findings from delays as text: who works longer, where, the reason, and where to look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from mpiprof.causes import delay_reasons as reasons
from mpiprof.causes.finding import Finding, HabitEvidence, RestEvidence, WorkLocation
from mpiprof.causes.place import format_call
from mpiprof.facts.operations import call_class
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.site_labels import format_callsite, format_wait_site
from mpiprof.reports.words.ranks_and_steps import (
    MAX_SPANS,
    change_sentence,
    counts_steps,
    join_texts,
    name_ranks,
    rises,
    stay_clause,
    steps_clause,
    takes_plural,
)
from mpiprof.trace import Trace
from mpiprof.trace.sites import label_site

MAIN_SHARE = 0.4  # share of a delay's cost at one pair of call sites, from which it is named
WHOLE_SHARE = 0.95
MIN_THREAD_SHARE = 0.5  # of the processor time of all other threads, for a name
MAX_RATIO = 1.2  # between delays that are reported as one
BLOCKED_TEXT = "sleeping, or waiting for files or locks"
REASONS = {
    reasons.MORE_WORK: "more work on the processor",
    reasons.SLOWER_PROCESSOR: "a slower processor, with the same number of instructions",
    reasons.PREEMPTED: "preemption: ready to run, while other processes have the processor",
    reasons.THROTTLED: "the quota of the control group: throttled",
    reasons.BLOCKED: f"time off the processor: {BLOCKED_TEXT}",
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
# By the records that would show more causes.
REMEDIES = {
    "messages": "Record events, with --messages auto.",
    "instances": "Record a larger part of the calls (--sample).",
}
# By the reason of a delay that is not the work of the program.
PROCESSOR_ADVICE = {
    reasons.PREEMPTED: (
        "Check for other processes on the processors of {ranks}, and give each rank a processor of "
        "its own."
    ),
    reasons.THROTTLED: (
        "Raise the processor quota of the control group of {ranks}, or start fewer ranks in it."
    ),
    reasons.SLOWER_PROCESSOR: (
        "Check the clock frequency of the processors of {ranks}, and for other load on these nodes."
    ),
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
    verb = "spend" if finding.evidence.is_inside else "work"
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


def reason_sentence(trace: Trace, finding: Finding) -> str:
    """Return the reason of a delay, or that it is unknown; "" without counters.

    A rest without a pattern has a reason only if ranks are blocked.
    """
    if isinstance(finding.evidence, RestEvidence) and finding.rest.blocked is not None:
        return f"Ranks are off the processor {finding.rest.blocked}: {BLOCKED_TEXT}."
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


def basis_sentences(trace: Trace, finding: Finding) -> str:
    """Return the definition of a step, and in which steps the delay occurs or changes."""
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


def _location_clause(finding: Finding) -> str:
    location = main_location(finding)
    if location is None and finding.evidence.is_inside:
        return f" inside calls, such as {format_call(finding.evidence.work[0].before)}"
    if location is None:
        return ""
    share = location.share
    mostly = "" if share >= WHOLE_SHARE else f", {format_share(share)} of it"
    return f"{mostly} {location}"


def main_location(finding: Finding) -> WorkLocation | None:
    """Return the pair of call sites with most of a delay, or None without one."""
    work = finding.evidence.work
    return work[0] if work and work[0].share >= MAIN_SHARE else None


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


def delay_advice(finding: Finding) -> str:
    """Return where to look for the reason of a delay. Its clause has named the calls."""
    if isinstance(finding.evidence, RestEvidence):
        return _rest_advice(finding.evidence)
    if finding.cause == "early":
        return f"Give {format_ranks(finding.ranks)} more of the work, or the other ranks less."
    who = name_ranks(finding).removesuffix(" in turn") if finding.ranks else "the late ranks"
    if advice := PROCESSOR_ADVICE.get(main_reason(finding) or ""):
        return advice.format(ranks=who)
    do = "do" if takes_plural(finding) or not finding.ranks else "does"
    location = main_location(finding)
    if finding.evidence.is_inside:
        location = location or finding.evidence.work[0]
        if call_class(location.before["operation"]) != "collective":
            what = "Look at the number and the sizes of these calls"
            return f"{what}, and at what the ranks at their other end do meanwhile."
        before = format_call(location.before)
        return f"Look at the algorithm and the sizes of {before}, and at who else comes late to it."
    if location is None:
        return f"Look at what {who} {do} outside MPI."
    grows = finding.habit.grows
    more = " Look for what grows there." if grows and rises(grows) else ""
    if finding.habit.spared and main_reason(finding) == reasons.BLOCKED:
        return f"Look for a file or a lock that {who} wait for between these calls."
    code = _code_sentence(finding, location)
    return f"Look at what {who} {do} between these calls.{code}{more}"


def _rest_advice(rest: RestEvidence) -> str:
    """Return how to learn the cause of waiting that has no sure one."""
    if rest.missing is not None:
        return REMEDIES[rest.missing]
    if rest.omitted:
        return "Record a part of the run, as with MPI_Pcontrol or --record ring."
    if rest.instances == 1:
        return "Record another run to tell."
    if rest.inside is not None:
        inside = format_call(rest.inside)
        is_collective = call_class(rest.inside["operation"]) == "collective"
        parts = "its algorithm, its sizes" if is_collective else "the sizes of its messages"
        look = f"look at {parts}, and whether each rank has a processor"
        return f"Most of it arises inside {inside}, which keeps different ranks longer: {look}."
    if rest.blocked is not None:
        return "Look for a file or a lock that the ranks share there."
    if rest.common_last is not None:
        return "Record a longer run."
    return "Check for other processes on these nodes, and for work that varies between steps."


def _code_sentence(finding: Finding, location: WorkLocation) -> str:
    """Return the code that was sampled between two calls, or "" without samples."""
    code = location.code
    if code is None:
        return ""
    subject = "it" if len(finding.ranks) == 1 else f"rank {location.rank}"
    place = label_site(code)
    return f" {format_share(code['share'])} of that time {subject} is in {place} (sampled)."
