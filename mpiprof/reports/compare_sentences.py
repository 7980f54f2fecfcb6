"""The verdict on a comparison as text: the change, its location, its certainty and the advice."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.diagnosis.compare import MIN_RUNS, MIN_STRETCHES, ChangedCallsite, Difference
from mpiprof.interface.format_units import capitalise, format_change, format_time, lower_first
from mpiprof.interface.shell_hints import quote_word, switch_value
from mpiprof.metrics.coverage import Coverage
from mpiprof.reports.advice import advise
from mpiprof.reports.conclusion import share_in_words
from mpiprof.reports.sentences import problem_clause
from mpiprof.reports.site_labels import routine_at, site_pattern
from mpiprof.reports.text import coverage_time
from mpiprof.trace import Trace

NOTABLE = 0.1  # share of the time in collectives; a larger difference may be significant
MORE_RUNS = "Record each several times, and `compare A1 A2 ... --to B1 B2 ...`."


def verdict_paragraphs(
    found: Difference,
    other: Sequence[Trace],
    runs: int = 1,
    name: str = "B",
    before: Sequence[Trace] = (),
) -> list[str]:
    """Return the verdict in paragraphs: the change, its location, its certainty and the advice.

    other: the runs compared with `runs` earlier runs, A. before: the earlier traces, if available.
    """
    sums = _name_summaries((("A", before), (name, other)), runs)
    lines = [_change_sentence(found, name), *_location_sentence(found, name)]
    lines.append(sums or _certainty_sentence(found, runs, len(other)))
    coverages = [trace.derive("held") for trace in (*before, *other)]
    lines.append(_partial_traces([*before, *other], coverages))
    reasons_differ = len({None if one is None else one.reason for one in coverages}) > 1
    # If the traces lack different parts of their runs, these parts may be slower.
    if not (reasons_differ and found.outcome == "faster"):
        lines.append(_advice_sentence(found, other, runs, name, bool(sums)))
    return [line for line in lines if line]


def _name_summaries(sides: Sequence[tuple[str, Sequence[Trace]]], runs: int) -> str:
    """Return which of two single runs are summaries, which permit no test; "" if none is."""
    names = [name for name, of in sides if any(trace.record == "summary" for trace in of)]
    if not names or max(runs, *(len(of) for _, of in sides)) > 1:
        return ""
    which = f"{' and '.join(names)} {'are summaries' if len(names) > 1 else 'is a summary'}"
    return f"{which}: sums don't tell by how much instances differ by chance."


def _partial_traces(traces: Sequence[Trace], coverages: Sequence[Coverage | None]) -> str:
    """Return which traces are compared only in part, or "" if all are complete."""
    parts = [
        f"{trace.path.name} holds {coverage_time(one)} of {format_time(trace.run_ns)} "
        f"({one.reason})"
        for trace, one in zip(traces, coverages, strict=True)
        if one is not None
    ]
    advice = "The rest is not compared, and may differ: record whole runs to tell."
    return f"{'; '.join(parts)}. {advice}" if parts else ""


def _change_sentence(found: Difference, name: str) -> str:
    before, after = found.before_ns, found.after_ns
    if found.outcome in ("slower", "faster", "mixed"):
        more = "more" if found.effect_ns > 0 else "less"
        part = f" ({format_change(found.effect_ns / before)})" if before > 0 else ""
        time = f"{format_time(abs(found.effect_ns))} {more} of all ranks' time in collectives"
        amount = f"{time}{part}, over as many instances."
        if found.outcome == "mixed":
            return f"{name} is slower than A here and faster there; together it takes {amount}"
        return f"{name} is {found.outcome} than A: it takes {amount}"
    if found.outcome == "unknown":
        if not found.compared:
            return f"A and {name} have no call site in common."
        return f"There is too little to tell {name} from A.{_untested_sentence(found)}"
    together = f"{format_time(after)} instead of {format_time(before)}"
    text = f"The times of {name} and A differ by no more than chance: "
    text += f"all collectives together take {together} of all ranks' time."
    for one in found.changed[:1]:
        text += f" But the arrivals do at {routine_at(one.row)}. {_difference_clause(one)}"
    return text


def _untested_sentence(found: Difference) -> str:
    """Return the largest difference with too few calls for a test, or "" if there is none."""
    row = found.untested
    if row is None:
        return ""
    before, after = (format_time(float(row[f"{one}total_elapsed_ns"])) for one in ("", "other_"))
    text = f" {capitalise(routine_at(row))} takes {after} instead of {before} of all ranks' time"
    text += ", and was called too seldom for a test."
    for one in found.changed[:1]:
        site = routine_at(one.row)
        text += f" More than by chance differ the arrivals at {site}. {_difference_clause(one)}"
    return text


def _location_sentence(found: Difference, name: str) -> list[str]:
    chosen = {"slower": [found.worst], "faster": [found.best], "mixed": [found.worst, found.best]}
    lines = []
    for one in chosen.get(found.outcome, []):
        assert one is not None
        mine = [c.effect_ns for c in found.changed if c.effect_ns * one.effect_ns > 0]
        part = share_in_words(one.effect_ns / sum(mine)) if len(mine) > 1 else "All"
        of = _side_callsite(one) if found.outcome == "mixed" else "it"
        line = f"{part} of {of}: {routine_at(one.row)}. {_difference_clause(one)}"
        before, after = one.row["algorithm"], one.row["other_algorithm"]
        if before != after:
            line += f" {name} ran it on {after} instead of {before}."
        lines.append(line)
    return lines


def _side_callsite(one: ChangedCallsite) -> str:
    return "what was added" if one.effect_ns > 0 else "what was saved"


def _difference_clause(one: ChangedCallsite) -> str:
    """Return the difference at a call site and its components."""
    before, after = (format_time(float(one.row[p + one.measure])) for p in ("", "other_"))
    change = format_change(float(one.row[f"{one.measure}_change"]))
    values = f"{after} instead of {before} ({change})"
    if one.measure == "wait_ns":
        return f"All ranks together wait {values} in an instance."
    if one.measure == "worst_imbalance_ns":
        return f"The last rank comes {values} after the first."
    most = "Most of" if one.waiting else "Less than half of"
    return f"A call takes {values} on average. {most} {_side_callsite(one)} is waiting."


def _certainty_sentence(found: Difference, runs: int, others: int) -> str:
    many = max(runs, others) > 1
    sites = f"{found.compared} call site{'s' * (found.compared != 1)}"
    if found.outcome == "unknown":
        if not found.compared:
            return ""
        least = f"{MIN_RUNS} runs of each" if many else f"{MIN_STRETCHES} instances in both"
        text = f"A test needs at least {least}."
        if found.only > found.compared:
            text += f" Only {sites} can be compared: {found.only} are in one of the two."
        return text
    number, s = len(found.changed) or "none", "s" * (len(found.changed) < 2)
    text = f"Of {sites} {number} differ{s} by more than chance "
    text += "(95 %, over all of them together)"
    if found.tested < found.compared:
        text += f"; {found.compared - found.tested} could not be tested"
    if found.only:
        text += f"; {found.only} more {'are' if found.only > 1 else 'is'} only in one of the two"
    if many:
        chance = "chance is what these runs differ by among themselves"
        return f"{text}. Times are means over {runs} and {others} runs, and {chance}."
    unknown = "how much runs differ among themselves is not known"
    return f"{text}. Only chance within each run is counted: {unknown}. {MORE_RUNS}"


def _advice_sentence(
    found: Difference, other: Sequence[Trace], runs: int, name: str, summed: bool
) -> str:
    one = found.worst if found.outcome in ("slower", "mixed") else None
    if found.outcome == "faster":
        return f"Keep what was changed in {name}."
    if found.outcome == "same":
        if abs(found.after_ns - found.before_ns) < NOTABLE * found.before_ns:
            return "There is nothing to do."
        return "More runs of each would tell whether that is a change."
    if found.outcome == "unknown" and (not found.compared or found.only > found.compared):
        return "Compare recordings of one program: call sites are told by operation and place."
    if found.outcome == "unknown":
        if max(runs, len(other)) > 1 or found.untested is not None:
            return MORE_RUNS
        single = "Record events in both" if summed else "Record longer"
        return f"{single}, or {lower_first(MORE_RUNS)}"
    assert one is not None
    row, trace = one.row, other[0]
    if one.waiting is not False and trace.record != "summary":
        known = trace.conclusions(int(row["other_callsite"]))
        if known:
            advice = lower_first(problem_clause(trace, known[0]))
            which = f"{name}1" if len(other) > 1 else name
            return f"In {which}, {advice}. {advise(trace, known[0])}"
    if row["algorithm"] != row["other_algorithm"] and "," not in str(row["algorithm"]):
        rule = switch_value(site_pattern(row["sites"]), row["algorithm"])
        return f"Run it on {row['algorithm']} again: run --switch {quote_word(rule)}"
    return (
        "The waiting does not account for it: look at the sizes of its messages, at the algorithm "
        "and at the network."
    )
