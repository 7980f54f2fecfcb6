"""Rabenseifner and Adamidis 2004: fastest protocols, costs, and cases of the claims.

The scan's formulas of Section 3 lack their minus signs. Each restored formula is the sum of the
costs of the protocol's steps, as the text states them. As p grows, halving and doubling off a power
of two must tend to the paper's rounded forms: (3 + 2 floor(lg p)) alpha + 4 n beta + 3/2 n gamma
for allreduce, and (2 + 2 floor(lg p)) alpha + 3 n beta + 3/2 n gamma for reduce.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import log2

from mpiprof.collectives import catalogue
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import Results
from mpiprof.collectives.papers.reports.schedule_pictures import trace_schedule
from mpiprof.collectives.papers.studies.reduction import MPICH_1, PROTOCOLS
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate
from mpiprof.errors import MpiprofError


def largest_exponent_gap(size: int) -> int:
    """Return delta_expo,max: the largest gap between exponents of the binary form of `size`."""
    exponents = [e for e in range(size.bit_length()) if size >> e & 1]
    return max((b - a for a, b in pairwise(exponents)), default=0)


def paper_time(operation: str, name: str, size: int, n: int, m: Machine) -> float:
    """Return T of Section 3 for n bytes; raises MpiprofError if the paper has no formula."""
    if size == 1:
        return 0.0
    power = not size & (size - 1)
    lower = 1 << size.bit_length() - 1
    doublings = (size - 1).bit_length()
    a, b, c = m.alpha, n * m.beta, n * m.gamma
    a1, b1 = m.one_way_alpha * a, m.one_way_beta * b
    everyone = operation == "allreduce"
    if name == "binary_blocks" and power:
        name = "halving_doubling"
    if name == "binary_tree":
        return doublings * (2 * a1 + 2 * b1 + c if everyone else a1 + b1 + c)
    if name == "recursive_doubling" and everyone:
        return doublings * (a + b + c) + (0.0 if power else a1 + b1)
    if name == "ring":
        returned = (a, b) if everyone else (a1, b1)
        return (size - 1) * (a + returned[0]) + (b + returned[1] + c) * (1 - 1 / size)
    if name == "halving_doubling":
        steps = lower.bit_length() - 1
        returned = (a, b) if everyone else (a1, b1)
        time = steps * (a + returned[0]) + (b + returned[1] + c) * (1 - 1 / lower)
        if not power:
            time += a + a1 + (b + b1) / 2 + c / 2 + (a + b if everyone else 0.0)
        return time
    raise MpiprofError(f"the paper has no formula for {operation} {name} on {size} processes")


T3E = "Cray T3E"
COST_MACHINE = Machine(1000.0, 1.0, 0.5, 1000.0, 1.0)
ONE_WAY_COSTS = (1.0, 0.5)  # f_alpha and f_beta: a full-duplex and a simplex network
COST_COUNTS, COST_BYTES = (8, 13, 16, 24, 100), 8 * 13 * 16 * 24 * 100
EXAMPLE_COUNT, EXAMPLE_BYTES = 13, 64
EXPONENT_COUNTS = (36, 60, 61, 77, 80, 96, 100, 235, 251)
SIMILAR = 1.001  # ratio of times that are equal


def trace_examples(_: bool) -> list[Row]:
    """Return the messages of Figures 2 and 3."""
    rows = []
    machine = Machine(0.0, 1.0, 0.0, 0.0, 1.0)
    problem = Problem(EXAMPLE_COUNT, EXAMPLE_BYTES, unit=8)
    for name in ("halving_doubling", "binary_blocks"):
        rows += trace_schedule(name, "allreduce", name, problem, machine)
    return rows


# ---- formulas


def compute_costs(_: bool) -> list[Row]:
    """Return the simulated time and the formula of each protocol that has one."""
    rows: list[Row] = []
    operations = ("allreduce", "reduce")
    for cost, operation, name, size in product(ONE_WAY_COSTS, operations, PROTOCOLS, COST_COUNTS):
        machine = replace(COST_MACHINE, one_way_alpha=cost, one_way_beta=cost)
        with contextlib.suppress(MpiprofError):  # no formula, or not applicable
            formula = paper_time(operation, name, size, COST_BYTES, machine)
            algorithm = catalogue.find(operation, name)
            time = simulate(algorithm, Problem(size, COST_BYTES, unit=8), machine).after_last
            rows.append(
                {"one-way cost": cost, "operation": operation, "algorithm": name}
                | {"processes": size, "time ms": time / 1e6, "formula ms": formula / 1e6}
                | {"time / formula": time / formula}
            )
    return rows


def compute_exponents(_: bool) -> list[Row]:
    """Return the largest difference of exponents of the paper's numbers of processes."""
    return [{"processes": p, "difference": largest_exponent_gap(p)} for p in EXPONENT_COUNTS]


# ---- fastest protocols

Times = dict[tuple[int, int], dict[str, float]]


def find_times(rows: Sequence[Row]) -> Times:
    """Return the times of all algorithms by processes and bytes."""
    times: Times = {}
    for row in rows:
        key = (row["processes"], row["bytes"])
        times.setdefault(key, {})[row["algorithm"]] = row["median ms"]
    return times


def find_fastest(rows: Sequence[Row]) -> dict[tuple[int, int], str]:
    """Return the fastest protocol by processes and bytes; of equal ones, the simplest."""
    fastest = {}
    for key, times in find_times(rows).items():
        shortest = min(times.values())
        names = dict.fromkeys((*PROTOCOLS, *times))
        fastest[key] = next(n for n in names if times.get(n, 1e99) <= shortest * SIMILAR)
    return fastest


def tabulate_cells(results: Results, name: str = "") -> list[Row]:
    """Return a row for each number of processes p and of bytes n, with the protocols' times.

    listed: whether the paper names this number of processes in a row of Figure 5 that begins with
    `name`. near: time that counts as the best. by_rule, other: times of the protocol that the rule
    by the difference of exponents selects, and of the other one. Off powers of two, recursive
    doubling takes as long as the binary tree if messages one way cost half as much. On 33 processes
    halving is judged from 16 KB on, as in the rule.
    """
    numbers = results.values.column("Figure 5", "processes")
    listed = {int(value) for row, value in numbers.items() if row.startswith(name)}
    cells = []
    for (p, n), times in find_times(results.rows[T3E]).items():
        best = min(times.values())
        pair = [times.get(name, 0.0) for name in ("halving_doubling", "binary_blocks")]
        if largest_exponent_gap(p) < log2(n) / 2 - 2.5:
            pair.reverse()
        cell: Row = {"p": p, "n": n, "power": not p & (p - 1), "listed": p in listed}
        cell |= {"best": best, "near": best * SIMILAR, "by_rule": pair[0], "other": pair[1]}
        cells.append(cell | times)
    return cells


def pair_blocks(results: Results) -> list[Row]:
    """Return pairs of times of binary blocks at 32 KB, whose differences are 2 or more apart."""
    times: dict[int, list[float]] = {}
    for (p, n), by_name in find_times(results.rows[T3E]).items():
        if n == 32768 and p > 32 and p & (p - 1):
            times.setdefault(largest_exponent_gap(p), []).append(by_name["binary_blocks"])
    return [
        {"small": small_ms, "large": large_ms}
        for small, large in product(times, times)
        if large >= small + 2
        for small_ms, large_ms in product(times[small], times[large])
    ]


# ---- benefit over MPICH 1


def find_benefits(
    rows: Sequence[Row], excluded: Sequence[str] = ("recursive_doubling",)
) -> dict[tuple[int, int], float]:
    """Return the time of MPICH 1 over the fastest protocol, by processes and bytes."""
    benefits = {}
    for key, times in find_times(rows).items():
        candidates = [time for name, time in times.items() if name not in excluded]
        benefits[key] = times[MPICH_1] / min(candidates)
    return benefits


def list_benefits(results: Results, run: str, excluded: str = "", **labels: str) -> list[Row]:
    """Return the benefits of a run by processes p and bytes n, without a protocol."""
    ratios = find_benefits(results.select(run, **labels), (excluded,))
    return [{"p": p, "n": n, "ratio": ratio} for (p, n), ratio in ratios.items()]
