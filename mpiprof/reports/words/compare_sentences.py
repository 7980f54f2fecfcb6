"""Sentences on two groups of runs: the change, its location, its certainty and the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.account.coverage import Coverage
from mpiprof.causes.cause_changes import NO_CHANGES, LedgerChanges
from mpiprof.causes.compare import MIN_RUNS, MIN_STRETCHES
from mpiprof.causes.compare_verdict import (
    INCOMPARABLE,
    ChangedCallsite,
    Difference,
    recommend_repetitions,
)
from mpiprof.causes.run_variation import MAX_REPETITIONS
from mpiprof.causes.time_changes import RunTimeChange, list_unended, measure_run_times
from mpiprof.interface.format_units import (
    capitalise,
    format_change,
    format_count,
    format_percent,
    format_ranks,
    format_time,
    lower_first,
)
from mpiprof.interface.shell_hints import quote_word, switch_value
from mpiprof.reports.site_labels import routine_at, site_pattern
from mpiprof.reports.words.change_sentences import (
    advise_place,
    cause_sentences,
    has_advice,
    place_sentences,
)
from mpiprof.reports.words.finding_sentences import advise, problem_clause
from mpiprof.reports.words.trace_sentences import coverage_time, share_in_words
from mpiprof.trace import Trace

if TYPE_CHECKING:
    from mpiprof.trace import Trace

NOTABLE = 0.1  # share of the time in collectives; a larger difference may be significant
MORE_RUNS = "Record each several times, and `compare A1 A2 ... --to B1 B2 ...`."


def verdict_paragraphs(
    difference: Difference,
    other: Sequence[Trace],
    runs: int = 1,
    name: str = "B",
    before: Sequence[Trace] = (),
    ledgers: LedgerChanges = NO_CHANGES,
) -> list[str]:
    """Return the verdict in paragraphs: the change, its location, its certainty and the advice.

    other: the runs compared with `runs` earlier runs, A. before: the earlier traces; with them, the
    first paragraph is the change of the run time. Runs that cannot be compared have one paragraph.
    ledgers: changes of work, calls and causes, which some paragraphs state.
    """
    if reason := incomparable_sentence(difference, before, other, name):
        return [reason]
    sums = _name_summaries((("A", before), (name, other)), runs)
    lines = [run_time_sentence(before, other, name)] if before else []
    if uneven := _uneven_losses([*before, *other]):
        return [*lines, uneven]
    lines += place_sentences(ledgers.places, name)
    lines += cause_sentences(ledgers.causes, name)
    lines.append(_change_sentence(difference, name))
    lines += _location_sentence(difference, name)
    lines.append(sums or _certainty_sentence(difference, runs, len(other)))
    coverages = [trace.derive("coverage") for trace in (*before, *other)]
    lines.append(_partial_traces([*before, *other], coverages))
    reasons = {None if coverage is None else coverage.reason for coverage in coverages}
    # If the traces lack different parts of their runs, these parts may be slower.
    change = measure_run_times(before, other) if before else None
    contradicts = change and change.is_certain and _contradicts(difference, change)
    is_equal = bool(contradicts) or difference.outcome == "same"
    if has_advice(ledgers.causes) and (is_equal or difference.outcome in ("slower", "mixed")):
        return [line for line in lines if line]
    advice = advise_place(ledgers.places, name) if is_equal else ""
    if is_equal and not advice and any(change.is_certain for change in ledgers.causes):
        advice = f"Keep what was changed in {name}."
    if advice:
        lines.append(advice)
    elif change and contradicts:
        word = "slower" if change.change_ns > 0 else "faster"
        how = "do not differ" if difference.outcome == "same" else f"are {difference.outcome}"
        look = "look at the computing and the messages before them"
        lines.append(f"The run is {word}, but its collectives {how}: {look}.")
    elif not (len(reasons) > 1 and difference.outcome == "faster"):
        lines.append(_advice_sentence(difference, other, runs, name, bool(sums)))
    return [line for line in lines if line]


def _contradicts(difference: Difference, change: RunTimeChange) -> bool:
    """Return whether the collectives differ in the other direction than the run, or not at all."""
    opposite = "faster" if change.change_ns > 0 else "slower"
    return difference.outcome in ("same", opposite)


def run_time_sentence(before: Sequence[Trace], other: Sequence[Trace], name: str = "B") -> str:
    """Return the change of the run time with its interval, or the reason why it is unknown."""
    change = measure_run_times(before, other)
    if change is None:
        names = [trace.path.name for trace in list_unended([*before, *other])]
        listed = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)}"
        return f"{listed} did not end, so run times are not compared."
    amount = f"{format_time(change.before_ns)} → {format_time(change.after_ns)}"
    if change.is_vague and not change.is_certain:
        why = "runs of an unchanged program may differ by more than the whole run time"
        return f"No statement about the run times of A and {name} is possible: {amount}, but {why}."
    amount += f", {format_relative_change(change)}"
    has_assumption = change.is_assumed and not change.is_vague
    assumed = " (95 %, with the usual variation between single runs)" if has_assumption else ""
    if not change.is_certain:
        return f"The run times of A and {name} differ by no more than chance: {amount}{assumed}."
    word = "slower" if change.change_ns > 0 else "faster"
    difference = format_time(abs(change.change_ns))
    return f"{name} is {difference} {word} than A: {amount}{assumed}."


def format_relative_change(change: RunTimeChange) -> str:
    """Return the change of the run time in percent with its interval: "-23 % ± 1 %".

    An interval wider than the run time is left out.
    """
    before = max(change.before_ns, 1.0)
    text = format_change(change.change_ns / before)
    return text if change.is_vague else f"{text} ± {format_percent(change.interval_ns / before)}"


def _name_summaries(sides: Sequence[tuple[str, Sequence[Trace]]], runs: int) -> str:
    """Return which of two single runs are summaries, which permit no test; "" if none is."""
    names = [name for name, of in sides if any(trace.record == "summary" for trace in of)]
    if not names or max(runs, *(len(of) for _, of in sides)) > 1:
        return ""
    subject = f"{' and '.join(names)} {'are summaries' if len(names) > 1 else 'is a summary'}"
    return f"{subject}: sums don't tell by how much instances differ by chance."


def _uneven_losses(traces: Sequence[Trace]) -> str:
    """Return why the collectives cannot be compared if traces lack the calls of different ranks."""
    if len({frozenset(trace.ranks_without_records) for trace in traces}) < 2:
        return ""
    parts = [
        f"{trace.path.name} lacks all calls of {format_ranks(sorted(lost))}"
        for trace in traces
        if (lost := trace.ranks_without_records)
    ]
    advice = "the collectives are not compared. Copy the traces again, or rerun."
    return f"{'; '.join(parts)}, so {advice}"


def _partial_traces(traces: Sequence[Trace], coverages: Sequence[Coverage | None]) -> str:
    """Return which traces are compared only in part, or "" if all are complete."""
    parts = [
        f"{trace.path.name} holds {coverage_time(coverage)} of {format_time(trace.run_ns)} "
        f"({coverage.reason})"
        for trace, coverage in zip(traces, coverages, strict=True)
        if coverage is not None
    ]
    advice = "The rest is not compared, and may differ: record whole runs to tell."
    return f"{'; '.join(parts)}. {advice}" if parts else ""


def _change_sentence(difference: Difference, name: str) -> str:
    before, after = difference.before_ns, difference.after_ns
    if difference.outcome in ("slower", "faster", "mixed"):
        sign = "more" if difference.effect_ns > 0 else "less"
        part = f" ({format_change(difference.effect_ns / before)})" if before > 0 else ""
        time = f"{format_time(abs(difference.effect_ns))} {sign} of all ranks' time"
        amount = f"{time}{part}, over as many instances."
        if difference.outcome == "mixed":
            direction = "slower than A here and faster there; together it takes"
        else:
            direction = f"{difference.outcome} than A: it takes"
        return f"In collectives {name} is {direction} {amount}"
    if difference.outcome == "unknown":
        if not difference.compared:
            return f"A and {name} have no call site in common."
        fact = f"In collectives, too few instances are recorded to compare {name} with A."
        return f"{fact}{_untested_sentence(difference)}"
    together = f"{format_time(after)} instead of {format_time(before)}"
    text = f"In collectives, the times of {name} and A differ by no more than chance: "
    text += f"they together take {together} of all ranks' time."
    for callsite in difference.changed[:1]:
        text += f" But the arrivals do at {routine_at(callsite.row)}."
        text += f" {_difference_clause(callsite)}"
    return text


def _untested_sentence(difference: Difference) -> str:
    """Return the largest difference with too few calls for a test, or "" if there is none."""
    row = difference.untested
    if row is None:
        return ""
    before, after = (format_time(float(row[f"{p}total_elapsed_ns"])) for p in ("", "other_"))
    text = f" {capitalise(routine_at(row))} takes {after} instead of {before} of all ranks' time"
    text += ", and was called too seldom for a test."
    for callsite in difference.changed[:1]:
        text += f" More than by chance differ the arrivals at {routine_at(callsite.row)}."
        text += f" {_difference_clause(callsite)}"
    return text


def _location_sentence(difference: Difference, name: str) -> list[str]:
    chosen = {
        "slower": [difference.worst],
        "faster": [difference.best],
        "mixed": [difference.worst, difference.best],
    }
    lines = []
    for callsite in chosen.get(difference.outcome, []):
        assert callsite is not None
        effects = [changed.effect_ns for changed in difference.changed]
        same_sign = [effect for effect in effects if effect * callsite.effect_ns > 0]
        part = share_in_words(callsite.effect_ns / sum(same_sign)) if len(same_sign) > 1 else "All"
        of = _effect_phrase(callsite) if difference.outcome == "mixed" else "it"
        line = f"{part} of {of}: {routine_at(callsite.row)}. {_difference_clause(callsite)}"
        before, after = callsite.row["algorithm"], callsite.row["other_algorithm"]
        if before != after:
            line += f" {name} ran it on {after} instead of {before}."
        lines.append(line)
    return lines


def _effect_phrase(callsite: ChangedCallsite) -> str:
    return "what was added" if callsite.effect_ns > 0 else "what was saved"


def _difference_clause(callsite: ChangedCallsite) -> str:
    """Return the difference at a call site and its components."""
    before, after = (format_time(float(callsite.row[p + callsite.measure])) for p in ("", "other_"))
    change = format_change(float(callsite.row[f"{callsite.measure}_change"]))
    values = f"{after} instead of {before} ({change})"
    if callsite.measure == "wait_ns":
        return f"All ranks together wait {values} in an instance."
    if callsite.measure == "worst_imbalance_ns":
        return f"The last rank comes {values} after the first."
    waiting_share = "Most of" if callsite.waiting else "Less than half of"
    effect = _effect_phrase(callsite)
    return f"A call takes {values} on average. {waiting_share} {effect} is waiting."


def _certainty_sentence(difference: Difference, runs: int, other_runs: int) -> str:
    several_runs = max(runs, other_runs) > 1
    sites = f"{difference.compared} call site{'s' * (difference.compared != 1)}"
    if difference.outcome == "unknown":
        if not difference.compared:
            return ""
        least = f"{MIN_RUNS} runs of each" if several_runs else f"{MIN_STRETCHES} instances in both"
        text = f"A test needs at least {least}."
        if difference.only > difference.compared:
            text += f" Only {sites} can be compared: {difference.only} are in one of the two."
        return text
    number, s = len(difference.changed) or "none", "s" * (len(difference.changed) < 2)
    text = f"Of {sites} {number} differ{s} by more than chance "
    text += "(95 %, over all of them together)"
    if difference.tested < difference.compared:
        text += f"; {difference.compared - difference.tested} could not be tested"
    if difference.only:
        verb = "are" if difference.only > 1 else "is"
        text += f"; {difference.only} more {verb} only in one of the two"
    sentences = [f"{text}."]
    if several_runs:
        chance = "chance is what these runs differ by among themselves"
        sentences.append(f"Times are means over {runs} and {other_runs} runs, and {chance}.")
    elif difference.tested_ns > 0:
        usual = format_percent(difference.usual_ns / difference.tested_ns)
        sentences.append(f"Two runs of an unchanged program usually differ by up to {usual}.")
    sentences.append(_repetition_sentence(difference, runs, other_runs))
    return " ".join(filter(None, sentences))


def _repetition_sentence(difference: Difference, runs: int, other_runs: int) -> str:
    """Return how many runs are necessary to detect a change, or "" if there are enough."""
    recommended = recommend_repetitions(difference, runs, other_runs)
    if recommended is None or recommended[1] <= min(runs, other_runs):
        return ""
    change, count = recommended
    number = f"more than {MAX_REPETITIONS}" if count > MAX_REPETITIONS else f"{count}"
    command = "" if max(runs, other_runs) > 1 else ", and `compare A1 A2 ... --to B1 B2 ...`"
    return f"To detect a change of {format_percent(change)}, record {number} runs of each{command}."


def _advice_sentence(
    difference: Difference, other_traces: Sequence[Trace], runs: int, name: str, summed: bool
) -> str:
    callsite = difference.worst if difference.outcome in ("slower", "mixed") else None
    if difference.outcome == "faster":
        return f"Keep what was changed in {name}."
    if difference.outcome == "same":
        if abs(difference.after_ns - difference.before_ns) < NOTABLE * difference.before_ns:
            return "There is nothing to do."
        return "More runs of each would tell whether that is a change."
    if difference.outcome == "unknown":
        if not difference.compared or difference.only > difference.compared:
            return "Compare runs of one program: call sites are matched by operation and location."
        if max(runs, len(other_traces)) > 1 or difference.untested is not None:
            return MORE_RUNS
        single = "Record events in both" if summed else "Record longer"
        return f"{single}, or {lower_first(MORE_RUNS)}"
    assert callsite is not None
    row, trace = callsite.row, other_traces[0]
    if callsite.waiting is not False and trace.record != "summary":
        findings = trace.conclusions(int(row["other_callsite"]))
        if findings:
            problem = lower_first(problem_clause(trace, findings[0]))
            run_label = f"{name}1" if len(other_traces) > 1 else name
            return f"In {run_label}, {problem}. {advise(trace, findings[0])}"
    if row["algorithm"] != row["other_algorithm"] and "," not in str(row["algorithm"]):
        rule = switch_value(site_pattern(row["sites"]), row["algorithm"])
        return f"Run it on {row['algorithm']} again: run --switch {quote_word(rule)}"
    advice = "look at the sizes of its messages, at the algorithm and at the network"
    return f"The waiting does not account for it: {advice}."


def incomparable_sentence(
    difference: Difference, before: Sequence[Trace], after: Sequence[Trace], name: str = "B"
) -> str:
    """Return why runs A and other runs cannot be compared, or "" if they can be compared.

    A renamed program has call sites in common with the program before. Call sites that are
    addresses change with each build, so they do not show a different program.
    """
    if not before or not after:
        return ""
    programs, ranks = (
        [_join_names(names) for names in facts] for facts in _list_facts(before, after)
    )
    if programs[0] != programs[1] and not difference.shared:
        if ranks[0] == ranks[1]:
            return _refuse(name, f"A is {programs[0]}, {name} is {programs[1]}")
        first, second = (f"{a} on {b} ranks" for a, b in zip(programs, ranks, strict=True))
        return _refuse(name, f"A is {first}, {name} is {second}")
    if len({trace.ranks for trace in (*before, *after)}) > 1:
        fact = f"A has {ranks[0]} ranks, {name} has {ranks[1]}"
        return f"{_refuse(name, fact)} `compare --scaling` compares numbers of ranks."
    if not difference.shared and all(_has_source_lines(runs[0]) for runs in (before, after)):
        return _refuse(name, "they have no call site in common")
    return ""


def drop_changes(difference: Difference) -> Difference:
    """Return the difference of runs that cannot be compared, which states no change."""
    none = dict.fromkeys(("effect_ns", "certainty", "tested_ns", "added_ns", "usual_ns"), 0.0)
    changes: dict[str, Any] = {"outcome": INCOMPARABLE, "changed": (), "untested": None, **none}
    return replace(difference, **changes)


def _refuse(name: str, fact: str) -> str:
    return f"A and {name} are not comparable: {fact}."


def _list_facts(*sides: Sequence[Trace]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the programs and the numbers of ranks of each side."""
    programs = [sorted({trace.program for trace in side}) for side in sides]
    ranks = [list(map(format_count, sorted({trace.ranks for trace in side}))) for side in sides]
    return programs, ranks


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _has_source_lines(trace: Trace) -> bool:
    """Return whether the trace has a call site of collectives with a source line."""
    table = trace.callsites[trace.callsites["operation"] != "finalize"]
    sites: list[list[Mapping[str, Any]]] = table["sites"].tolist()
    return any(site["line"] for places in sites for site in places)


def find_repeated(paths: Sequence[Path]) -> list[str]:
    """Return a sentence for each trace that is named more than once."""
    sentences: list[str] = []
    number_by_path: dict[Path, int] = {}
    for number, path in enumerate(paths):
        first = number_by_path.setdefault(path.resolve(), number)
        if first != number:
            both = " and ".join(chr(ord("A") + n) for n in (first, number))
            fact = f"{both} are the same trace ({path}), so no difference is possible"
            sentences.append(f"{fact}. Name another trace to compare with.")
    return sentences
