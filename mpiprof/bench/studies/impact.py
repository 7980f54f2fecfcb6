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

import numpy as np

from mpiprof.bench.harness.case import Case
from mpiprof.bench.harness.figures import Lines, Series
from mpiprof.bench.harness.study import Report, Result, Setup, Values, estimate_mean, group_results
from mpiprof.bench.harness.timing import PATTERNS
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.schedule import Problem

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
        chosen = setup.find_choices(operation, CHOICES[operation])
        if setup.ranks & (setup.ranks - 1):
            chosen = [c for c in chosen if c != "pair"]
        for n in options.sizes or SIZES:
            message = int(setup.machine.alpha + n * setup.machine.beta)
            for most in QUICK if options.quick else MOST:
                for choice in chosen:
                    values = (operation, n, most, choice)
                    labels = dict(zip(COLUMNS, values, strict=False))
                    problem, arrivals = Problem(setup.ranks, n), (most, message)
                    cases.append(Case(labels, operation, choice, problem, arrivals=arrivals))
    return cases


def by_pattern(laps: Values) -> Values:
    """Return the means over the laps of each pattern."""
    return np.array([laps[i::PATTERNS].mean() for i in range(min(PATTERNS, len(laps)))])


def make_report(results: Sequence[Result], setup: Setup) -> Report:
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
    for operation in dict.fromkeys(row["operation"] for row in rows):
        for n in sorted({row["bytes"] for row in rows}):
            lines = []
            for name in CHOICES[operation]:
                key = {"operation": operation, "bytes": n, "algorithm": name}
                mine = [row for row in rows if key.items() <= row.items()]
                if mine:
                    columns = ("MAX_IF", "mean ms", "± ms")
                    lines.append(Series(name, *([row[c] for row in mine] for c in columns)))
            title = f"{operation} of {format_round_size(n)} ({of_paper[operation]})"
            figures.append(Lines(title, lines, "MAX_IF", "ms", ticks="{:.0f}".format))
    patterns = min(PATTERNS, setup.laps)
    calls = setup.laps / patterns
    each = "simulated" if setup.simulated else f"{calls:.3g} call{'s' * (calls > 1)} each"
    note = f"{patterns} patterns, {each}; the paper: 32 patterns of 100 calls"
    return Report(COLUMNS, rows, [note], figures)
