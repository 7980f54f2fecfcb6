"""Rabenseifner and Adamidis 2004: fastest protocols, costs, and checks of the claims."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import log2

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    REFUTED,
    Results,
    Verdict,
    judge_share,
    judge_values,
)
from mpiprof.bench.papers.reduction_formulas import largest_exponent_gap, paper_time
from mpiprof.bench.papers.schedule_pictures import trace_schedule
from mpiprof.bench.studies.reduction import MPICH_1, PROTOCOLS
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_percent, format_round_size
from mpiprof.model import catalogue
from mpiprof.model.machine import Machine
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate

COST_MACHINE = Machine(1000.0, 1.0, 0.5, 1000.0, 1.0)
ONE_WAY_COSTS = (1.0, 0.5)  # f_alpha and f_beta: a full-duplex and a simplex network
COST_COUNTS, COST_BYTES = (8, 13, 16, 24, 100), 8 * 13 * 16 * 24 * 100
EXAMPLE_COUNT, EXAMPLE_BYTES = 13, 64
EXPONENT_COUNTS = (36, 60, 61, 77, 80, 96, 100, 235, 251)
ERROR = 0.02  # of simulated times from the formulas
# Formulas off powers of two that exceed the simulated times if messages one way are cheaper.
BOTH_WAYS = (("allreduce", "recursive_doubling"), ("allreduce", "halving_doubling"))
EXCESS = (
    ". Messages of removed processes go one way, and the formulas charge both ways, although "
    "Section 3.1 distinguishes them"
)
BIG_DIFFERENCE = 1.5  # ratio of times
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
            wanted = paper_time(operation, name, size, COST_BYTES, machine)
            algorithm = catalogue.find(operation, name)
            time = simulate(algorithm, Problem(size, COST_BYTES, unit=8), machine).after_last
            rows.append(
                {"one-way cost": cost, "operation": operation, "algorithm": name}
                | {"processes": size, "time ms": time / 1e6, "formula ms": wanted / 1e6}
                | {"time / formula": time / wanted}
            )
    return rows


def check_costs(results: Results, one_way: float) -> Verdict:
    """Judge the simulated times by the formulas, for one cost of messages one way.

    With a lower cost one way, two of the formulas are judged by `check_both_ways`.
    """
    rows = [row for row in results.rows["costs"] if row["one-way cost"] == one_way]
    return _judge_costs([row for row in rows if one_way == 1 or not _charges_both_ways(row)])


def check_both_ways(results: Results) -> Verdict:
    """Judge the formulas that charge both ways for messages that go one way in Section 3.1."""
    rows = [row for row in results.rows["costs"] if row["one-way cost"] < 1]
    verdict = _judge_costs([row for row in rows if _charges_both_ways(row)])
    state = HOLDS if verdict.state == HOLDS else REFUTED
    return Verdict(state, f"{verdict.reason}{EXCESS}")


def _charges_both_ways(row: Row) -> bool:
    removed = row["processes"] & (row["processes"] - 1)
    return bool(removed) and (row["operation"], row["algorithm"]) in BOTH_WAYS


def _judge_costs(rows: Sequence[Row]) -> Verdict:
    ratios = [row["time / formula"] for row in rows]
    right = sum(abs(ratio - 1) <= ERROR for ratio in ratios)
    span = f"time / formula: {min(ratios):.3g} to {max(ratios):.3g}"
    reason = f"cases are within {format_percent(ERROR)} of their formula ({span})"
    return judge_share(right, len(rows), reason)


def compute_exponents(_: bool) -> list[Row]:
    """Return the largest difference of exponents of the paper's numbers of processes."""
    return [{"processes": p, "difference": largest_exponent_gap(p)} for p in EXPONENT_COUNTS]


def check_exponents(results: Results) -> Verdict:
    """Judge the differences of exponents."""
    expected = results.values.column("Binary blocks", "largest difference of exponents")
    found = {str(row["processes"]): float(row["difference"]) for row in results.rows["exponents"]}
    return judge_values(found, expected, 0.0)


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
        least = min(times.values())
        names = dict.fromkeys((*PROTOCOLS, *times))
        fastest[key] = next(n for n in names if times.get(n, 1e99) <= least * SIMILAR)
    return fastest


def _judge_cells(
    results: Results,
    includes: Callable[[int, int], bool],
    agrees: Callable[[int, int, dict[str, float]], bool],
    reason: str,
) -> Verdict:
    cells = find_times(results.rows["Cray T3E"])
    chosen = [(p, n, times) for (p, n), times in cells.items() if includes(p, n)]
    right = [agrees(*cell) for cell in chosen]
    wrong = [f"{p}" for (p, _, _), ok in zip(chosen, right, strict=True) if not ok]
    exceptions = f"; not on {', '.join(dict.fromkeys(wrong))} processes" if wrong else ""
    return judge_share(sum(right), len(chosen), reason + exceptions)


def _is_fastest(name: str, times: dict[str, float]) -> bool:
    return times[name] <= min(times.values()) * SIMILAR


def check_short(results: Results) -> Verdict:
    """Judge that recursive doubling is the fastest up to 32 B."""
    reason = "numbers of processes and sizes"
    return _judge_cells(
        results,
        lambda _, n: n <= 32,
        lambda _p, _n, times: _is_fastest("recursive_doubling", times),
        reason,
    )


def check_short_doubling(results: Results) -> Verdict:
    """Judge that recursive doubling takes little longer than the fastest from 33 B to 1 KB."""
    cells = find_times(results.rows["Cray T3E"])
    ratios = [
        times["recursive_doubling"] / min(times.values())
        for (_, n), times in cells.items()
        if 32 < n <= 1024
    ]
    right = sum(ratio <= BIG_DIFFERENCE for ratio in ratios)
    within = f"cells are within {format_percent(BIG_DIFFERENCE - 1)} of the fastest"
    reason = f"{within}; up to {max(ratios):.3g} times"
    return judge_share(right, len(ratios), reason)


def check_short_tree(results: Results) -> Verdict:
    """Judge that no protocol is faster than the binary tree from 33 B to 1 KB off powers of two.

    If messages one way cost half as much, recursive doubling takes the same time.
    """
    return _judge_cells(
        results,
        lambda p, n: 32 < n <= 1024 and bool(p & (p - 1)),
        lambda _p, _n, times: _is_fastest(MPICH_1, times),
        "cells have no faster protocol",
    )


def check_33(results: Results) -> Verdict:
    """Judge halving and doubling on 33 processes below 32 KB, from 16 KB on as in the rule."""
    return _judge_cells(
        results,
        lambda p, n: p == 33 and 16384 <= n < 32768,
        lambda _p, _n, times: _is_fastest("halving_doubling", times),
        "sizes",
    )


def check_powers(results: Results) -> Verdict:
    """Judge that binary blocks are halving and doubling on powers of two."""
    return _judge_cells(
        results,
        lambda p, _: not p & (p - 1),
        lambda _p, _n, times: times["binary_blocks"] == times["halving_doubling"],
        "cells have equal times",
    )


def check_dependence(results: Results) -> Verdict:
    """Judge that binary blocks are the faster at 32 KB, the smaller the difference is."""
    cells = find_times(results.rows["Cray T3E"])
    times: dict[int, list[float]] = {}
    for (p, n), by_name in cells.items():
        if n == 32768 and p > 32 and p & (p - 1):
            times.setdefault(largest_exponent_gap(p), []).append(by_name["binary_blocks"])
    pairs = [
        (one, other)
        for small, several in times.items()
        for large, others in times.items()
        if large >= small + 2
        for one, other in product(several, others)
    ]
    reason = "pairs of numbers whose differences are 2 or more apart have this order"
    return judge_share(sum(one < other for one, other in pairs), len(pairs), reason)


def check_rule(results: Results) -> Verdict:
    """Judge the rule for binary blocks by the difference of exponents."""

    def agrees(p: int, n: int, times: dict[str, float]) -> bool:
        blocks = largest_exponent_gap(p) < log2(n) / 2 - 2.5
        first, second = ("binary_blocks", "halving_doubling")[:: 1 if blocks else -1]
        return times[first] <= times[second] * SIMILAR

    def includes(p: int, n: int) -> bool:
        return p > 32 and n >= 16384 and bool(p & (p - 1))

    return _judge_cells(results, includes, agrees, "cells of the map follow the rule")


def check_ring_of_15(results: Results) -> Verdict:
    """Judge the ring on 15 processes above 64 KB."""
    return _judge_cells(
        results,
        lambda p, n: p == 15 and n > 65536,
        lambda _p, _n, times: _is_fastest("ring", times),
        "sizes",
    )


def check_largest(results: Results) -> Verdict:
    """Judge halving and doubling on powers of two, at the largest size."""
    largest = max(row["bytes"] for row in results.rows["Cray T3E"])
    return _judge_cells(
        results,
        lambda p, n: n == largest and not p & (p - 1),
        lambda _p, _n, times: _is_fastest("halving_doubling", times),
        "powers of two",
    )


def check_tree(results: Results) -> Verdict:
    """Judge that a new protocol is faster than the binary tree at 32 KB."""
    return _judge_cells(
        results,
        lambda _, n: n == 32768,
        lambda _p, _n, times: min(t for a, t in times.items() if a != MPICH_1) < times[MPICH_1],
        "numbers of processes",
    )


def _find_counts(results: Results, begin: str) -> set[int]:
    columns = results.values.column("Figure 5", "processes")
    return {int(value) for row, value in columns.items() if row.startswith(begin)}


def check_ring_counts(results: Results) -> Verdict:
    """Judge on which numbers of processes the ring is the fastest at 32 KB."""
    wanted = _find_counts(results, "ring fastest")
    return _judge_cells(
        results,
        lambda p, n: p in wanted and n == 32768,
        lambda _p, _n, times: _is_fastest("ring", times),
        "numbers of processes",
    )


def check_halving_ahead(results: Results) -> Verdict:
    """Judge halving and doubling by binary blocks at 32 KB."""
    wanted = _find_counts(results, "halving and doubling ahead")
    return _judge_cells(
        results,
        lambda p, n: p in wanted and n == 32768,
        lambda _p, _n, times: times["halving_doubling"] <= times["binary_blocks"] * SIMILAR,
        "numbers of processes",
    )


# ---- benefit over MPICH 1


def find_benefits(
    rows: Sequence[Row], excluded: Sequence[str] = ("recursive_doubling",)
) -> dict[tuple[int, int], float]:
    """Return the time of MPICH 1 over the fastest protocol, by processes and bytes."""
    benefits = {}
    for key, times in find_times(rows).items():
        others = [time for name, time in times.items() if name not in excluded]
        benefits[key] = times[MPICH_1] / min(others)
    return benefits


def check_benefit(results: Results, model: str) -> Verdict:
    """Judge the benefit with the largest buffers, by the paper's range."""
    benefits = find_benefits(results.rows[f"Myrinet, {model}"])
    largest = max(n for _, n in benefits)
    found = [ratio for (_, n), ratio in benefits.items() if n == largest]
    numbers = results.values.column("Figure 7", "benefit")
    key = "one process per CPU" if model == "process per CPU" else "one process per node"
    low, high = numbers[f"{key}, least"], numbers[f"{key}, most"]
    inside = sum(low <= ratio <= high for ratio in found)
    state = HOLDS if inside == len(found) else IN_PART if inside else FAILS
    text = f"{inside} of {len(found)} numbers of processes are within {low:g} to {high:g}"
    at = format_round_size(largest)
    return Verdict(state, f"{text}; from {min(found):.3g} to {max(found):.3g} at {at}")
