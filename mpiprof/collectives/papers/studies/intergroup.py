"""Allgather between two groups (Kang et al. 2019, Section 5): settings 1 to 8.

Settings 1 to 4 are regular (allgather), 5 to 8 irregular (allgatherv). The limit is the paper's
formula (5), (M + 3 p k_A + 3 q k_B) / M: root gathering as in MPICH over an algorithm that reaches
the bound M. It is 7.0, 4.84, 4.21, 6.68, 7.0, 7.0, 4.84, 4.84 for groups of 25 and 7, if they are
unequal. `mean ms` is the paper's time: the slowest process of each call, averaged over 8 calls.
`time / M` is a time over that of M bytes at the measured beta. `kang_teams` is Algorithm 1 as in
the paper. It is shown if it differs from `kang`, which is when neither group size is a multiple of
the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.figures import Lines, Series
from mpiprof.collectives.papers.harness.intervals import median_interval
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Setup,
    estimate_mean,
    group_results,
    list_columns,
    make_row,
)
from mpiprof.collectives.schedule import Problem
from mpiprof.interface.format_units import format_round_size

TITLE = "Allgather between two groups"
LAPS = 8
SIZES = (8 << 10, 32 << 10, 128 << 10)
CHOICES = (
    "native",
    *(f"root_gathering_{how}" for how in ("sequential", "concurrent", "ring", "best")),
    "kang",
    "kang_teams",
)
OPERATIONS = ("allgather", "allgatherv")  # with algorithms for --only
INTERCOMMUNICATOR = True
LABELS = ("setting", "groups", "bytes")
VARIANTS = ("kang_unsegmented", "kang_two_step")


@dataclass(frozen=True)
class GroupSetting:
    """Share of all processes in group A, relative message sizes of A and B, and their variation."""

    share: float
    first: float
    second: float
    irregular: bool
    rising: bool
    limit: float


EVEN, UNEVEN = 0.5, 25 / 32
SETTINGS = {
    1: GroupSetting(EVEN, 1, 1, False, False, 7.0),
    2: GroupSetting(UNEVEN, 1, 1, False, False, 4.84),
    3: GroupSetting(UNEVEN, 1, 0.25, False, False, 4.21),
    4: GroupSetting(UNEVEN, 0.25, 1, False, False, 6.68),
    5: GroupSetting(EVEN, 1, 1, True, False, 7.0),
    6: GroupSetting(EVEN, 1, 1, True, True, 7.0),
    7: GroupSetting(UNEVEN, 1, 1, True, False, 4.84),
    8: GroupSetting(UNEVEN, 1, 1, True, True, 4.84),
}


def problem_of(number: int, processes: int, largest: int) -> Problem:
    """Return a setting's problem on so many processes, with messages of at most `largest` bytes."""
    s = SETTINGS[number]
    p = min(max(round(processes * s.share), 1), processes - 1)
    q = processes - p
    a, b = int(largest * s.first), int(largest * s.second)
    if not s.irregular:
        return Problem(p, a, remote_size=q, remote_bytes=b)
    counts, remote_counts = _sizes(p, a, s.rising), _sizes(q, b, s.rising)
    return Problem(p, remote_size=q, counts=counts, remote_counts=remote_counts)


def _sizes(members: int, largest: int, rising: bool) -> tuple[int, ...]:
    if not rising or members == 1:
        return (largest,) * members
    return tuple(largest * i // (members - 1) for i in range(members))


def totals(problem: Problem) -> tuple[int, int]:
    """Return the total bytes of each group."""
    local_bytes = sum(problem.counts) or problem.bytes * problem.size
    remote_total = sum(problem.remote_counts) or problem.remote_bytes * problem.remote_size
    return local_bytes, remote_total


def limit(problem: Problem) -> float:
    """Return formula (5)."""
    bound = max(totals(problem))
    return (bound + 3 * sum(totals(problem))) / bound


def make_cases(setup: Setup) -> list[Case]:
    """Return the cases of all settings, sizes and algorithms."""
    options = setup.options
    sizes = options.sizes or (SIZES[-1:] if options.quick else SIZES)
    choices = CHOICES + (VARIANTS if setup.simulated else ())
    cases = []
    for size, number, largest in product(options.processes or (setup.ranks,), SETTINGS, sizes):
        problem = problem_of(number, size, largest)
        operation = "allgatherv" if SETTINGS[number].irregular else "allgather"
        groups = f"{problem.size}+{problem.remote_size}"
        smaller, larger = sorted((problem.size, problem.remote_size))
        for choice in setup.find_choices(operation, choices, inter=True):
            if choice != "kang_teams" or larger % smaller:
                values = (number, groups, largest, choice)
                labels = dict(zip((*LABELS, "algorithm"), values, strict=True))
                cases.append(Case(labels, operation, choice, problem, groups))
    return cases


def make_report(results: Sequence[CaseResult], setup: Setup) -> Report:
    """Return a row for each case, and the improvement over the size for each setting."""
    rows = []
    rivals = {"native": "native", "root gathering": "root_gathering_sequential"}
    old = "root gathering" if setup.simulated else "native"
    curves: dict[int, list[tuple[float, float]]] = {}
    for group in group_results(results, LABELS):
        for r in group:
            row = make_row(r, group, rivals)
            row |= {"mean ms": estimate_mean(r.total / 1e6), "limit": limit(r.case.problem)}
            bound_ns = max(totals(r.case.problem)) * setup.machine.beta
            row["paper's limit"] = SETTINGS[row["setting"]].limit
            median_ns = median_interval(r.total)
            row["time / M"] = np.nan if setup.fault else median_ns.scale(1 / bound_ns)
            rows.append(row)
            if r.case.choice == "kang":
                curves.setdefault(row["setting"], []).append((row["bytes"], row[f"{old} / this"]))
    names = {n: f"setting {n} (limit {SETTINGS[n].limit})" for n in curves}
    series = [Series.of_points(names[n], points) for n, points in curves.items()]
    title, labels = "Improvement (Figure 6)", ("largest message of a process", f"{old} / kang")
    figure = Lines(title, series, *labels, y_scale="linear", ticks=format_round_size)
    return Report(list_columns(rows), rows, [], [figure] if series else [])
