"""Names of the ranks that a finding blames, of their hosts, and of the steps with a delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mpiprof.causes.finding import Finding, HabitEvidence
from mpiprof.causes.habits.course import LEVEL, LEVELLING, SQUARE
from mpiprof.interface.format_units import (
    MAX_TEXT,
    format_count,
    format_ordinal,
    format_ranks,
    format_runs,
    format_time,
)
from mpiprof.trace import Trace

MAX_SPANS = 3
MIN_REGULAR = 4  # steps at equal distances that are named by their distance
EACH_IN_TURN, MOVING_GROUP = "each rank in turn", "a group of ranks"


def steps_clause(finding: Finding) -> str:
    """Return the steps or repetitions that a finding covers, as the end of a clause."""
    evidence = finding.habit
    spans, unit = evidence.spans, evidence.unit
    if finding.cause == "periodic" and finding.period:
        offsets = evidence.offsets
        if len(offsets) == 1:
            first = offsets[0]
            begin = finding.first_instance or 0
            if begin - evidence.recorded[0] >= finding.period:
                first = begin
            return f", in every {format_ordinal(finding.period)} {unit} from {unit} {first} on"
        return f", in {len(offsets)} of every {finding.period} {unit}s"
    if not spans:
        covered = f"in each {unit}"
        if counts_steps(finding):
            covered = _count_of_steps(evidence.late_instances, evidence)
        return f", {covered}{_change_clause(evidence)}"
    plural = "s" if len(spans) > 1 or spans[0][0] != spans[0][1] else ""
    # Users can count steps, but not the repetitions that are long enough to be recorded.
    onset = evidence.onset_ns if unit == "repetition" else None
    since = "" if onset is None else f" ({format_time(onset)} after MPI_Init)"
    change = _change_clause(evidence)
    if len(spans) <= MAX_SPANS:
        return f", in {unit}{plural} {_list_spans(spans, evidence)}{since}{change}"
    covered = _count_of_steps(sum(last - first + 1 for first, last in spans), evidence)
    return f", {covered}: {_list_spans(spans, evidence)}"


def counts_steps(finding: Finding) -> bool:
    """Return whether the clause on the steps contains the number of steps with the delay."""
    evidence = finding.habit
    if finding.cause in ("periodic", "moving") or evidence.grows or evidence.levels:
        return False
    is_part = evidence.late_instances < evidence.instances
    return is_part if not evidence.spans else len(evidence.spans) > MAX_SPANS


def _count_of_steps(late: int, evidence: HabitEvidence) -> str:
    counts = f"{format_count(late)} of {format_count(evidence.instances)}"
    return f"in {counts} {'recorded ' * evidence.sampled}{evidence.unit}s"


def _list_spans(spans: Sequence[Sequence[int]], evidence: HabitEvidence) -> str:
    """Return runs of steps; of many the distance or, without one, the first ones and the last."""
    end = evidence.recorded[1]
    parts = [
        f"{first}" if first == last else f"{first} to {'the end' if last >= end else last}"
        for first, last in spans
    ]
    if len(spans) <= MAX_SPANS + 1:  # "..." would replace at most one of them
        return join_texts(parts, "and")
    regular = _count_regular(spans)
    if len(spans) - regular <= 1 and regular >= MIN_REGULAR:
        every = f"every {format_ordinal(spans[1][0] - spans[0][0])} from {parts[0]} to"
        return ", and ".join([f"{every} {parts[regular - 1]}", *parts[regular:]])
    return f"{', '.join(parts[:MAX_SPANS])}, ..., {parts[-1]}"


def _count_regular(spans: Iterable[Sequence[int]]) -> int:
    """Return the number of first spans that are single steps at equal distances."""
    firsts, lasts = (np.array(ends) for ends in zip(*spans, strict=True))
    distances = np.diff(firsts)
    is_irregular = firsts != lasts
    is_irregular[1:] |= distances != distances[0]
    return int(is_irregular.argmax()) if is_irregular.any() else len(firsts)


def stay_clause(evidence: HabitEvidence) -> str:
    """Return for how many steps a moving delay stays at a rank, "" if for one."""
    least, most = evidence.stay or (1, 1)
    count = f"{most}" if least == most else f"{least} to {most}"
    return f", {count} {evidence.unit}s each" if most > 1 else ""


def change_sentence(finding: Finding) -> str:
    """Return how a delay changes gradually."""
    evidence, unit = finding.habit, finding.habit.unit
    grows = evidence.grows or (0.0, 0.0)
    first, last = (format_time(time) if time else "nothing" for time in grows)
    change = f"The delay {'grows' if rises(grows) else 'shrinks'}"
    if evidence.until is not None:
        course = "constant" if evidence.course == LEVEL else "nearly constant"
        ends = f"from {first} in {unit} {finding.first_instance} to {last} in {unit}"
        return f"{change} {ends} {evidence.until}, and is {course} then."
    manner = {SQUARE: "faster and faster", LEVELLING: "more and more slowly"}
    return f"{change} {manner.get(evidence.course or '', 'steadily')}, from {first} to {last}."


def rises(grows: Sequence[float]) -> bool:
    """Return whether a delay is longer at the end than at the begin."""
    return grows[1] > grows[0]


def _change_clause(evidence: HabitEvidence) -> str:
    """Return whether a delay grows or shrinks gradually, and until when."""
    if not evidence.grows:
        return ""
    until = "" if evidence.until is None else f" until {evidence.unit} {evidence.until}"
    return f", {'growing' if rises(evidence.grows) else 'shrinking'}{until}"


def join_texts(texts: Sequence[str], word: str) -> str:
    """Return some texts as "a, b and c", with any word for "and"; "" for none."""
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}" if len(texts) > 1 else "".join(texts)


def name_ranks(finding: Finding) -> str:
    """Return "rank 5", "ranks 3, 7", "ranks 0-3 in turn" or "each rank in turn"; "" without ranks.

    A delay that moves through all ranks does not blame all of them at once.
    """
    ranks = format_ranks(finding.ranks)
    if finding.cause != "moving":
        return ranks
    is_all = finding.habit.all_ranks
    if finding.habit.speed:
        return MOVING_GROUP if is_all else ranks
    return EACH_IN_TURN if is_all else f"{ranks} in turn"


def takes_plural(finding: Finding) -> bool:
    """Return whether a verb after `name_ranks` is in the plural."""
    return len(finding.ranks) > 1 and name_ranks(finding) not in (EACH_IN_TURN, MOVING_GROUP)


def accented_ranks(finding: Finding) -> tuple[int, ...]:
    """Return the ranks that a picture accents: none if the delay moves through all ranks."""
    is_all = isinstance(finding.evidence, HabitEvidence) and finding.evidence.all_ranks
    return () if is_all else finding.ranks


def host_of(trace: Trace, rank: int) -> str:
    """Return the host of a rank, "?" if unknown."""
    return str(trace.tables.processes.get(rank, {}).get("host") or "?")


def describe_location(trace: Trace, rank: int) -> str:
    """Return a rank's host and the processors that its affinity allows, as text."""
    processors = trace.tables.processes.get(rank, {}).get("processors") or []
    host, plural = host_of(trace, rank)[:MAX_TEXT], "s" * (len(processors) > 1)
    return f"{host}, processor{plural} {format_runs(processors)}" if processors else host
