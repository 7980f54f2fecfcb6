"""Impacts of imbalanced arrivals (Faraj et al. 2008, Section 6; Figures 6 to 10).

All-to-all and broadcast algorithms, of 1 B and 64 KB. Before each call every process waits for the
time of 0 to MAX_IF - 1 messages, at random: 32 patterns, the same for all algorithms. A call's time
is the mean over processes of their time in it, and a pattern's time is the mean over its calls. The
95 % interval is over patterns. The laps cycle through the patterns, so that drift affects all
equally. The paper makes 100 calls of each pattern: 3200 laps, which take hours (`--minutes 300`).
The time limit reduces the calls first, and the patterns only if there is no lap for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.figures import Lines, Series
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Row,
    Setup,
    Values,
    estimate_mean,
    group_results,
)
from mpiprof.collectives.papers.harness.timing import PATTERNS
from mpiprof.collectives.schedule import Problem
from mpiprof.interface.format_units import format_round_size

TITLE = "Impacts of imbalanced arrivals"
LAPS = PATTERNS * 100
QUICK_LAPS = 8
SIZES = (1, 64 << 10)
MOST = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257)
QUICK = (1, 9, 33)
CHOICES = {
    "alltoall": ("native", "simple", "bruck", "pair", "ring"),
    "bcast": ("native", "flat_tree", "binomial", "scatter_allgather_ring"),
}
PARTS = OPERATIONS = tuple(CHOICES)  # names for --only
COLUMNS = ("operation", "bytes", "MAX_IF", "algorithm", "mean ms", "± ms", "fastest")


def make_cases(setup: Setup) -> list[Case]:
    """Return the cases of all operations, sizes, factors and algorithms."""
    options = setup.options
    cases = []
    for operation in options.only or PARTS:
        choices = setup.find_choices(operation, CHOICES[operation])
        if setup.ranks & (setup.ranks - 1):
            choices = [choice for choice in choices if choice != "pair"]
        factors = QUICK if options.quick else MOST
        for n, max_factor, choice in product(options.sizes or SIZES, factors, choices):
            labels = dict(zip(COLUMNS, (operation, n, max_factor, choice), strict=False))
            arrivals = (max_factor, int(setup.machine.alpha + n * setup.machine.beta))
            problem = Problem(setup.ranks, n)
            cases.append(Case(labels, operation, choice, problem, arrivals=arrivals))
    return cases


def by_pattern(laps: Values) -> Values:
    """Return the means over the laps of each pattern."""
    return np.array([laps[i::PATTERNS].mean() for i in range(min(PATTERNS, len(laps)))])


def make_report(results: Sequence[CaseResult], setup: Setup) -> Report:
    """Return a row for each case, and a plot over MAX_IF for each operation and size."""
    rows = []
    for group in group_results(results, ("operation", "bytes", "MAX_IF")):
        fastest = min(group, key=lambda r: float(by_pattern(r.elapsed).mean()))
        for r in group:
            mean = estimate_mean(by_pattern(r.elapsed) / 1e6)
            values = {"mean ms": mean, "± ms": mean.margin}
            rows.append(r.case.labels | values | {"fastest": "*" if r is fastest else ""})
    figures = []
    of_paper = {"alltoall": "Figures 7 and 8", "bcast": "Figures 9 and 10"}
    sizes = sorted({row["bytes"] for row in rows})
    for operation, n in product(dict.fromkeys(row["operation"] for row in rows), sizes):
        chosen = [row for row in rows if (row["operation"], row["bytes"]) == (operation, n)]
        title = f"{operation} of {format_round_size(n)} ({of_paper[operation]})"
        figures.append(plot_times(title, chosen))
    patterns = min(PATTERNS, setup.laps)
    calls = setup.laps / patterns
    each = "simulated" if setup.simulated else f"{calls:.3g} call{'s' * (calls > 1)} each"
    note = f"{patterns} patterns, {each}; the paper: 32 patterns of 100 calls"
    return Report(COLUMNS, rows, [note], figures)


def plot_times(title: str, rows: Sequence[Row]) -> Lines:
    """Plot the time of each algorithm over MAX_IF."""
    lines = []
    for name in dict.fromkeys(row["algorithm"] for row in rows):
        chosen = [row for row in rows if row["algorithm"] == name]
        columns = ([row[c] for row in chosen] for c in ("MAX_IF", "mean ms", "± ms"))
        lines.append(Series(name, *columns))
    return Lines(title, lines, "MAX_IF", "ms", ticks="{:.0f}".format)
