"""Sentences on the history of a program: changes between its runs, and usual values."""

from __future__ import annotations

from mpiprof.causes.change_points import ALPHA, MIN_RUNS
from mpiprof.interface.format_units import format_count, format_share
from mpiprof.reports.history import History, MetricChange
from mpiprof.reports.words.change_sentences import cause_sentences, place_sentences

COMMIT_LENGTH = 8
LEGEND = (
    "lost: waiting as a share of all ranks' time. parallel = load balance × serialisation × "
    "transfer. slowest call site: where ranks wait most, as a share of all ranks' time."
)
METHOD = (
    f"Changes: rank-sum scan with random permutations; {format_share(ALPHA)} of unchanged "
    "histories show one by chance."
)
HISTORY_PAGE = (
    "Each mark is a run, the newest on the right; lines are medians between changes. A dashed line "
    f"is before the first run after a change, with its commit. {METHOD}"
)


def describe_run(history: History, index: int) -> str:
    """Return the date and the commit of a run."""
    run = history.runs[index]
    commit = f", commit {run.commit[:COMMIT_LENGTH]}" if run.commit else ""
    return f"{run.date}{commit}"


def describe_change(history: History, change: MetricChange) -> str:
    """Return a change as a sentence."""
    point, text = change.point, change.metric.format
    verb = "rose" if point.after > point.before else "fell"
    medians = f"from {text(point.before)} to {text(point.after)}"
    if text(point.before) == text(point.after):
        medians = f"slightly, at {text(point.after)}"
    basis = f"medians of {change.before} and {change.after} runs, p = {point.p:.2g}"
    when = describe_run(history, point.index)
    return f"The {change.metric.title} {verb} {medians} with the run of {when} ({basis})."


def verdict_lines(history: History) -> list[str]:
    """Return the verdict: the changes, the newest first, or the usual values."""
    if history.changes:
        newest, *earlier = [
            describe_change(history, change) for change in reversed(history.changes)
        ]
        places = place_sentences(history.ledgers.places, "Each run since")
        causes = cause_sentences(history.ledgers.causes, "the runs since")
        return [newest, *places, *causes, *earlier]
    usual = [f"{metric.title} {metric.format(value)}" for metric, value in history.medians]
    medians = f" Medians: {', '.join(usual)}." if usual else ""
    count = len(history.runs)
    if count < MIN_RUNS:
        fact = f"{count} run{'s are' if count != 1 else ' is'} too few to detect a change"
        return [f"{fact}: record at least {MIN_RUNS}.{medians}"]
    return [f"No change is visible in {format_count(count)} runs.{medians}"]


def note_left_out(history: History) -> str:
    """Return which runs are left out, or "" if none are."""
    if not history.others:
        return ""
    groups = [f"{program} on {ranks} ranks" for program, ranks in history.others]
    more = f" and {len(groups) - 3} more" if len(groups) > 3 else ""
    count = sum(history.others.values())
    which = f"{', '.join(groups[:3])}{more}"
    fact = f"{format_count(count)} other run{'s are' if count > 1 else ' is'} left out ({which})"
    return f"{fact}: choose with --program and --ranks."
