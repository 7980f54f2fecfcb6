"""Robustness of `auto`: Figure 11's micro-benchmark, Tables 9, 10, Figures 12, 13 of Faraj 2008.

All ranks begin together, compute for equally long, then each for the time of 0 to MAX_IF - 1
messages more, and call. The paper has all-to-all and its library. This study adds broadcast,
allgatherv (shares that decrease linearly) and allreduce. Every fixed algorithm is a candidate for
the oracle, including the library's algorithms that mpiprof lacks. `native ms`, `auto ms` and `best
ms` are mean times in the call as in the paper, auto's after probing. `auto / best` compares medians
of scores, which exclude waiting for late ranks. `whole run` is the sum of native's scores over
auto's, probing included. With `--only alltoall`, the paper's routine `--switch robust` also runs,
as in Table 9. `auto / robust` compares the medians of the scores of both, each relative to native
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mpiprof.collectives.distributions import decreasing_counts
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.figures import Lines, Series
from mpiprof.collectives.papers.harness.intervals import estimate_quotient, median_interval
from mpiprof.collectives.papers.harness.loop import (
    Behaviour,
    Loop,
    LoopTimes,
    Phase,
    elapsed_ns,
    lateness_pattern,
)
from mpiprof.collectives.papers.harness.study import (
    Report,
    Row,
    Setup,
    estimate_mean,
    format_cell,
    list_columns,
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
from mpiprof.facts.operations import AUTO, ROBUST
from mpiprof.interface.format_units import format_round_size

TITLE = "Robustness of auto"
LAPS = 300
QUICK_LAPS = 60
MIN_LAPS = 60  # 40 may be probes
ASKED_LAPS = 300
LABELS = ("operation", "bytes", "computation ms", "MAX_IF")
PARTS = ("alltoall", "bcast", "allgatherv", "allreduce")  # operations; names for --only
SIZES = (1, 16 << 10, 64 << 10)
FULL_SIZES = (1, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
TABLE_SIZE = 64 << 10  # of Tables 9 and 10
NETWORK_BYTES = 16 << 10  # from this size on, the network is the bound
BALANCED_MS = (50, 100, 200, 400)
MAX_IMBALANCES = (10, 50, 100)
QUICK_SHAPES = [(10, 1), (10, 10), (10, 100)]  # ms of computation and MAX_IF


class Setting(NamedTuple):
    """One row of the tables."""

    operation: str
    bytes: int
    computation_ms: int
    most: int


def make_settings(setup: Setup) -> list[Setting]:
    """Return the settings of the grid: usual, `quick` or `full`."""
    o = setup.options
    operations = o.only or PARTS
    balanced, imbalanced = [(ms, 1) for ms in BALANCED_MS], [(200, n) for n in MAX_IMBALANCES]
    shapes = [(50, 1), (50, 10)]
    sizes: Sequence[int] = SIZES
    if o.full:
        shapes, sizes = balanced + imbalanced, FULL_SIZES
    elif o.quick:
        shapes, sizes = QUICK_SHAPES, SIZES[1:2]
    cells = product(operations, o.sizes or sizes, shapes)
    settings = [Setting(operation, size, *shape) for operation, size, shape in cells]
    if "alltoall" in operations and TABLE_SIZE in (o.sizes or sizes) and not (o.full or o.quick):
        shapes = balanced[1:] + [(50, n) for n in MAX_IMBALANCES[1:]]
        settings += [Setting("alltoall", TABLE_SIZE, *shape) for shape in shapes]
    return settings


def make_problem(operation: str, size: int, number: int) -> Problem:
    """Return a problem with messages of so many bytes."""
    if operation == "allgatherv":
        return Problem(size, counts=decreasing_counts(max(number, 1), size))
    if operation == "allreduce":
        return Problem(size, max(number // 8, 1) * 8, unit=8)
    return Problem(size, number)


def make_loops(setup: Setup) -> list[Loop]:
    """Return all contests' loops."""
    loops = []
    for s in make_settings(setup):
        message_ns = int(setup.machine.alpha + s.bytes * setup.machine.beta)
        lateness = lateness_pattern(s.most, message_ns, setup.ranks)
        problem = make_problem(s.operation, setup.ranks, s.bytes)
        labels = dict(zip(LABELS, s, strict=True))
        loops += contest_loops(
            setup,
            Case(labels, s.operation, "native", problem),
            computation_ns=s.computation_ms * 1_000_000,
            phases=(Phase(0, lateness),),
            from_library=True,
            robust=setup.options.only == ("alltoall",),
        )
    return loops


def make_row(contest: Contest) -> Row:
    """Return a contest's row."""
    native, auto, best = (
        estimate_mean(contest.values(choice, elapsed_ns, chosen=True) / 1e6)
        for choice in ("native", AUTO, contest.best)
    )
    ratio, whole_ratio = contest.over_best, contest.whole_run
    probes, laps = contest.selection.probes_by_phase(), contest.auto.loop.laps
    verdict = judge_row(contest.labels["bytes"], ratio, ratio.low, whole_ratio, probes, laps)
    row: Row = {"native ms": native, "native ±": native.margin}
    row |= {
        "auto ms": auto,
        "auto ±": auto.margin,
        "native / auto": estimate_quotient(native, auto),
    }
    row |= {"algorithm": contest.selection.chosen_algorithm(laps)}
    row |= {"best": contest.best.replace("block_size=", ""), "best ms": best}
    row |= {"auto / best": ratio, "95 %": ratio.interval_text}
    row |= {"whole run": whole_ratio, "whole 95 %": whole_ratio.interval_text}
    row |= {"probes": "+".join(map(str, probes)) or "unknown", "holds": verdict}
    return dict(contest.labels) | row | robust_columns(contest)


def robust_columns(contest: Contest) -> Row:
    """Return the columns of the paper's routine, none if it did not run."""
    if contest.robust is None:
        return {}
    robust, native = (
        estimate_mean(contest.robust_values(name, elapsed_ns) / 1e6) for name in (ROBUST, "native")
    )
    ratio, laps = contest.over_robust, contest.robust.loop.laps
    over, selection = estimate_quotient(native, robust), contest.robust_selection
    row: Row = {"robust ms": robust, "robust ±": robust.margin}
    row |= {"native / robust": over, "native / robust 95 %": over.interval_text}
    row |= {"robust algorithm": selection.chosen_algorithm(laps)}
    row |= {"robust probes": selection.choices.count("probe") or "unknown"}
    return row | {"auto / robust": ratio, "robust 95 %": ratio.interval_text}


def judge_row(
    number: int, ratio: float, low: float, whole_ratio: float, probes: Sequence[int], laps: int
) -> str:
    """Return `yes`, or the missed requirements."""
    missed = []
    # With small messages, auto misses the best choice only if it is significantly slower.
    if ratio > WITHIN if number >= NETWORK_BYTES else low > 1:
        missed.append("best")
    if max(probes, default=0) > PROBES:
        missed.append("probes")
    if laps >= ASKED_LAPS and whole_ratio < LEAST_WHOLE:
        missed.append("native")
    return f"NO: {', '.join(missed)}" if missed else "yes"


def make_report(
    results: Sequence[LoopTimes], selected: Sequence[Behaviour], setup: Setup
) -> Report:
    """Return a row for each setting, all medians, and a plot over sizes for each imbalance."""
    all_contests = contests(results, selected)
    rows = [make_row(c) for c in all_contests]
    ran = f"{setup.laps} instances under auto"
    if setup.laps < ASKED_LAPS:
        ran += f"; whole runs are judged from {ASKED_LAPS} on (--repetitions {ASKED_LAPS})"
    lines = ["Median scores (ms):"]
    for c in all_contests:
        size = format_round_size(c.labels["bytes"])
        lines.append(f"{_format_title(c.labels)}, {size}: {medians_text(c)}")
    notes = [ran, *overall_rows(all_contests), "\n".join(lines)]
    return Report(list_columns(rows), rows, notes, _figures(rows))


def overall_rows(all_contests: Sequence[Contest]) -> list[str]:
    """Return the requirements on all settings together, each with the measurement."""
    ratios = [contest.over_best for contest in all_contests]
    near = sum(ratio <= WITHIN for ratio in ratios)
    surely = sum(ratio.low > WITHIN for ratio in ratios)
    probes = [max(p) for contest in all_contests if (p := contest.selection.probes_by_phase())]
    whole_ratios = [contest.whole_run for contest in all_contests]
    slowest = min(whole_ratios)
    good = sum(w >= LEAST_WHOLE for w in whole_ratios)
    lines = [
        f"after probing at most {WITHIN:g} of the best: {near} of {len(all_contests)} settings, "
        f"surely not {surely}; median {format_cell(median_interval(np.array(ratios)))}",
        f"whole run at least {LEAST_WHOLE:g} of native: {good} of {len(all_contests)}; "
        f"the least {format_cell(slowest)}, 95 % {slowest.interval_text or 'unknown'}",
    ]
    if probes:
        median = float(np.median(probes))
        judged = "yes" if median <= PROBES else "NO"
        lines.append(f"probing instances, median: {median:g}, asked {PROBES}: {judged}")
    return lines


def _format_title(labels: dict[str, Any]) -> str:
    computed = f"{labels['computation ms']} ms of computation"
    return f"{labels['operation']}, {computed}, MAX_IF {labels['MAX_IF']}"


def _figures(rows: Sequence[Row]) -> list[Lines]:
    figures = []
    ordered = sorted(rows, key=lambda row: int(row["bytes"]))
    for title in dict.fromkeys(map(_format_title, rows)):
        chosen = [row for row in ordered if _format_title(row) == title]
        if len(chosen) < 2:
            continue
        names = [name for name in ("native", AUTO, ROBUST) if f"{name} ms" in chosen[0]]
        lines = {name: ("bytes", f"{name} ms", f"{name} ±") for name in names}
        columns = {**lines, "best fixed": ("bytes", "best ms")}
        series = [
            Series(name, *([row[c] for row in chosen] for c in columns[name])) for name in columns
        ]
        figure = "Figure 12" if chosen[0]["MAX_IF"] == 1 else "Figure 13"
        figures.append(
            Lines(f"{title} (as {figure})", series, "bytes", "ms", ticks=format_round_size)
        )
    return figures
