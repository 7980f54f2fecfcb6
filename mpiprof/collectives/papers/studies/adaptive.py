"""Requirements on `--switch auto`, and measurements: `bench adaptive --cluster 16x100mbit`.

Each case runs 300 instances under auto, probing included. The library's own choice and every fixed
algorithm run before and after, in the same job. Times are sums over the instances of the last exit
minus the last arrival. For a broadcast they are mean scores, because its last arrival bounds
nothing. A choice with fewer instances than auto counts by its mean. A late rank arrives 4 messages
of the all-to-all after the other ranks. If the arrivals change, they do so after half of the
instances, and the fixed choices after them have the new arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.collectives.distributions import broadcast_counts
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.intervals import (
    IntervalEstimate,
    format_time_within,
    median_interval,
)
from mpiprof.collectives.papers.harness.loop import (
    Behaviour,
    Loop,
    LoopTimes,
    Phase,
    score_ns,
    total_ns,
)
from mpiprof.collectives.papers.harness.study import (
    REQUIRED_RANKS,
    Report,
    Requirement,
    Row,
    Setup,
    at_least,
    at_most,
    estimate_mean,
    ratio_interval,
    remove_verdict,
)
from mpiprof.collectives.papers.studies.contest import (
    LEAST_WHOLE,
    PROBES,
    WITHIN,
    Contest,
    contest_loops,
    contests,
    medians_text,
)
from mpiprof.collectives.schedule import Problem
from mpiprof.facts.operations import AUTO
from mpiprof.interface.format_units import format_round_size

TITLE = "What auto must hold"
LAPS = 300
QUICK_LAPS = 60
MIN_LAPS = 300  # the requirements apply to so many instances
MB = 1 << 20
LATE_MESSAGES = 4
MIN_LATE_FACTOR = 1.3
COLUMNS = ("case", "compared", "took", "measured", "95 %", "asked", "holds")


@dataclass(frozen=True)
class CaseType:
    """A case: its title, with the message size as a field, and whether the arrivals change."""

    title: str
    operation: str
    changes: bool = False


CASE_TYPES = {
    "allgatherv": CaseType("allgatherv, {total} at rank 0", "allgatherv"),
    "intergroup": CaseType("allgather between groups, {total} each", "allgather"),
    "late": CaseType("alltoall {message}, one rank late", "alltoall"),
    "moves": CaseType("alltoall {message}, the late rank moves", "alltoall", changes=True),
    "moves_bcast": CaseType("bcast {quarter}, the late rank moves", "bcast", changes=True),
    "ends": CaseType("alltoall {message}, lateness ends", "alltoall", changes=True),
    "late_reduce": CaseType("reduce {message}, one rank late", "reduce"),
    "late_allreduce": CaseType("allreduce {message}, one rank late", "allreduce"),
    "late_ends": CaseType("allreduce {message}, lateness ends", "allreduce", changes=True),
}
PARTS = tuple(CASE_TYPES)  # names for --only


def make_loops(setup: Setup) -> list[Loop]:
    """Return all contests' loops."""
    total = setup.options.sizes[0] if setup.options.sizes else MB
    names = setup.options.only or CASE_TYPES
    return [loop for name in names for loop in _loops(setup, name, total)]


def _loops(setup: Setup, name: str, total: int) -> list[Loop]:
    p, kind = setup.ranks, CASE_TYPES[name]
    message = max(total // p // (2 if name == "late_ends" else 1), 1)
    sizes = {"total": total, "message": message, "quarter": max(total // 4, 1)}
    texts = {k: format_round_size(n) for k, n in sizes.items()}
    labels = {"name": name, "title": kind.title.format(**texts)}
    late_ns = int(LATE_MESSAGES * (setup.machine.alpha + message * setup.machine.beta))

    def alone(rank: int) -> tuple[int, ...]:
        return tuple(late_ns * (r == rank) for r in range(p))

    members, phases = "world", [alone(-1)]
    if name == "allgatherv":
        problem = Problem(p, counts=broadcast_counts(total, p))
    elif name == "intergroup":
        half = p // 2
        each = max(total // half, 1)
        problem = Problem(half, each, remote_size=half, remote_bytes=each)
        members, phases = f"{half}+{half}", [(0,) * p]
    elif name == "moves_bcast":
        problem, phases = Problem(p, sizes["quarter"]), [alone(p - 1), alone(1)]
    else:
        problem = Problem(p, message)
        first, second = alone(p - 1 if name.startswith("late_") else p // 4), alone(3 * p // 4)
        phases = [first]
        if kind.changes:
            phases.append(second if name == "moves" else (0,) * p)
    since = (0, setup.laps // 2)
    late = tuple(Phase(i, by_rank) for i, by_rank in zip(since, phases, strict=False))
    native = Case(labels, kind.operation, "native", problem, members)
    return contest_loops(setup, native, phases=late)


# ---- the table


def _make_row(
    contest: Contest,
    compared: str,
    value: float,
    required: Requirement,
    times: Sequence[IntervalEstimate] = (),
) -> Row:
    """Return the row of a value, or of the ratio of two times."""
    row = {"case": contest.labels["title"], "compared": compared, "measured": value}
    row |= required.judge(value)
    if isinstance(value, IntervalEstimate):
        row["took"] = " / ".join(map(format_time_within, times))
        row["95 %"] = value.interval_text
    return row


def fixed_choice_row(contest: Contest, choice: str, required: Requirement) -> Row:
    """Return the row of a fixed choice's sum over auto's."""
    measure = score_ns if contest.operation == "bcast" else total_ns
    auto = contest.values(AUTO, measure)
    values = (contest.values(choice, measure), auto)
    sums = [estimate_mean(v).scale(len(auto)) for v in values]  # over so many instances
    ratio = contest.against(choice, measure)
    return _make_row(contest, f"{choice} / auto", ratio, required, sums)


def after_probing_row(contest: Contest) -> Row:
    """Return the row of auto's instances under its final choice over the best fixed choice."""
    best = contest.best
    auto, rival = (contest.values(c, score_ns, chosen=True) for c in (AUTO, best))
    chosen = contest.selection.chosen_algorithm(contest.auto.loop.laps) or "auto"
    compared = f"after probing: {chosen} / {best}".replace("block_size=", "")
    times = [median_interval(values) for values in (auto, rival)]
    return _make_row(contest, compared, contest.over_best, at_most(WITHIN), times)


def joining_last_row(contest: Contest) -> Row:
    """Return the row of the best other fixed choice over the one that the late rank joins last."""
    choices = [case.choice for case in contest.after.loop.cases]
    totals = {choice: contest.fixed(choice, total_ns) for choice in choices}
    joins = next(choice for choice in choices if "late=" in choice)
    rivals = [choice for choice in choices if choice != joins]
    best = min(rivals, key=lambda choice: float(np.median(totals[choice])))
    pair = (totals[best], totals[joins])
    ratio, times = ratio_interval(*pair), [*map(median_interval, pair)]
    return _make_row(contest, f"{best} / {joins}", ratio, at_least(MIN_LATE_FACTOR), times)


def probing_row(contest: Contest) -> Row:
    """Return the row of the phase with most probing instances."""
    probes = contest.selection.probes_by_phase()
    text = "probing instances" + (f" ({'+'.join(map(str, probes))})" if len(probes) > 1 else "")
    required = at_most(PROBES, f"at most {PROBES} a phase")
    if not probes:
        return _make_row(contest, text, np.nan, Requirement(required.text))
    return _make_row(contest, text, float(max(probes)), required)


def detection_row(contest: Contest) -> Row:
    """Return the row of the instance at which the change was detected."""
    change = contest.auto.loop.phases[-1].since
    s = contest.selection
    later = [(i, w) for i, w in zip(s.phases, s.windows, strict=True) if i >= change]
    compared = f"change at {change} noticed at"
    required = Requirement("within two windows")
    if not later:
        if s.phases:  # never detected
            required = Requirement(required.text, lambda _: False)
        return _make_row(contest, compared, np.nan, required)
    instance, window = later[0]
    if window:
        last = change + 2 * window
        required = at_most(last, f"by {last}")
    return _make_row(contest, compared, float(instance), required)


def make_rows(contest: Contest, library: str) -> list[Row]:
    """Return all rows of one case."""
    name, openmpi = contest.labels["name"], library == "openmpi"
    minimum = {"allgatherv": 2.5 if openmpi else LEAST_WHOLE, "intergroup": 4.0}
    rows = [fixed_choice_row(contest, "native", at_least(minimum.get(name, LEAST_WHOLE)))]
    if name == "late" and contest.after.case_index("pair") >= 0:
        required = at_least(1.3) if openmpi else Requirement("(Open MPI only)")
        rows.append(fixed_choice_row(contest, "pair", required))
    if name in ("late_reduce", "late_allreduce"):
        rows.append(joining_last_row(contest))
    if CASE_TYPES[name].changes:
        rows.append(detection_row(contest))
    return [*rows, after_probing_row(contest), probing_row(contest)]


def make_report(
    results: Sequence[LoopTimes], selected: Sequence[Behaviour], setup: Setup
) -> Report:
    """Return the table of requirements and measurements."""
    all_contests = contests(results, selected)
    rows = [row for contest in all_contests for row in make_rows(contest, setup.library)]
    if setup.ranks != REQUIRED_RANKS or setup.laps < LAPS or setup.options.sizes:
        for row in rows:
            remove_verdict(row)
    medians = "\n".join(f"{c.labels['title']}: {medians_text(c)}" for c in all_contests)
    return Report(COLUMNS, rows, [f"Median scores (ms):\n{medians}"])
