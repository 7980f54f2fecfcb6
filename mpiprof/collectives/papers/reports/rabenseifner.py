"""Rabenseifner and Adamidis 2004: reduce and allreduce.

The five years of profiling of Figure 1 are not published. The profile here is synthetic. It has the
calls of usual solvers: scalar products of 8 and 16 bytes, sums of some KB, and few large vectors,
on the numbers of processes that the paper names as its most used ones.

Figures 6 and 8 to 10 compare with vendors' libraries with unknown algorithms, on machines that
no longer exist. Here reduce and broadcast along binary trees are in their place, as in MPICH 1.
This is another comparison, so that the claims about the libraries are not reproducible. Figure 7
compares with MPICH 1 itself. The model of the Cray X1 is fitted to the bandwidths on 64 processes
(machines.py), and predicts those on 116.

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
from mpiprof.collectives.papers.harness.figures import Lines, Map
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.exhibits import Content, Results, Table, make_series
from mpiprof.collectives.papers.studies.reduction import MPICH_1, PROTOCOLS, make_ratio_map
from mpiprof.collectives.papers.studies.reduction_profile import (
    COLUMNS,
    ProfileEntry,
    compute_benefits,
    model_times,
    plot_savings,
    sum_savings,
)
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_round_size


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


KB, MB = 1 << 10, 1 << 20
BOTH = ("allreduce", "reduce")
T3E, T3E_ALL, X1_BANDWIDTHS = "Cray T3E", "Cray T3E, all algorithms", "Cray X1, 8 MB"
COST_MACHINE = Machine(1000.0, 1.0, 0.5, 1000.0, 1.0)
ONE_WAY_COSTS = (1.0, 0.5)  # f_alpha and f_beta: a full-duplex and a simplex network
COST_COUNTS, COST_BYTES = (8, 13, 16, 24, 100), 8 * 13 * 16 * 24 * 100
EXPONENT_COUNTS = (36, 60, 61, 77, 80, 96, 100, 235, 251)
SIMILAR = 1.001  # ratio of times that are equal


# ---- formulas


def compute_costs(_: bool) -> list[Row]:
    """Return the simulated time and the formula of each protocol that has one."""
    rows: list[Row] = []
    for cost, operation, name, size in product(ONE_WAY_COSTS, BOTH, PROTOCOLS, COST_COUNTS):
        machine = replace(COST_MACHINE, one_way_alpha=cost, one_way_beta=cost)
        with contextlib.suppress(MpiprofError):  # no formula, or not applicable
            formula = paper_time(operation, name, size, COST_BYTES, machine)
            time = simulate_protocol(operation, name, Problem(size, COST_BYTES, unit=8), machine)
            rows.append(
                {"one-way cost": cost, "operation": operation, "algorithm": name}
                | {"processes": size, "time ms": time / 1e6, "formula ms": formula / 1e6}
                | {"time / formula": time / formula}
            )
    return rows


def simulate_protocol(operation: str, name: str, problem: Problem, machine: Machine) -> float:
    """Return the time of a protocol in ns; raises MpiprofError if it does not apply."""
    return simulate(catalogue.find(operation, name), problem, machine).after_last


def compute_exponents(_: bool) -> list[Row]:
    """Return the largest difference of exponents of the paper's numbers of processes."""
    return [{"processes": p, "difference": largest_exponent_gap(p)} for p in EXPONENT_COUNTS]


# ---- fastest protocols

Times = dict[tuple[int, int], dict[str, float]]
Ratios = dict[tuple[int, int], float]  # by processes and bytes


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


def find_benefits(rows: Sequence[Row], excluded: str = "recursive_doubling") -> Ratios:
    """Return the time of MPICH 1 over the fastest protocol, by processes and bytes."""
    benefits = {}
    for key, times in find_times(rows).items():
        candidates = [time for name, time in times.items() if name != excluded]
        benefits[key] = times[MPICH_1] / min(candidates)
    return benefits


def list_benefits(results: Results, run: str, excluded: str = "", **labels: str) -> list[Row]:
    """Return the benefits of a run by processes p and bytes n, without a protocol."""
    ratios = find_benefits(results.select(run, **labels), excluded)
    return [{"p": p, "n": n, "ratio": ratio} for (p, n), ratio in ratios.items()]


# ---- Figure 1: benefit over a profile of applications

CALLS = {  # of each number of processes, by operation and bytes
    "allreduce": {8: 100_000, 16: 40_000, 128: 10_000, 4 * KB: 2_000, 64 * KB: 300, MB: 20},
    "reduce": {8: 2_000, 4 * KB: 1_000, 256 * KB: 100, 4 * MB: 10},
}
PROFILE_COUNTS = (16, 32, 60, 64, 96, 128)
SYNTHETIC = [
    ProfileEntry(operation, processes, size, calls)
    for operation, several in CALLS.items()
    for processes in PROFILE_COUNTS
    for size, calls in several.items()
]


def compute_profile(_: bool) -> list[Row]:
    """Return the benefit of each entry of the synthetic profile on a Cray T3E."""
    return compute_benefits(SYNTHETIC, model_times(machines.CRAY_T3E))


def show_figure_1(results: Results) -> Content:
    """Return the remaining time of each operation, and the entries."""
    rows = results.rows["profile"]
    columns = [name for name in COLUMNS if name != "measured s"]
    table = Table("Calls of the profile, the longest time first", columns, rows)
    return Content([plot_savings(sum_savings(rows))], [table])


def list_savings(results: Results) -> list[Row]:
    """Return the savings over the synthetic profile, which is not the paper's."""
    savings = sum_savings(results.rows["profile"])
    return [{"operation": name, "saving": saving} for name, saving in savings.items()]


# ---- figures


def show_figure_4(results: Results) -> Content:
    """Return the map of the fastest of the paper's protocols, and of all algorithms."""
    runs = {T3E: "the paper's five protocols", T3E_ALL: "all algorithms of mpiprof"}
    maps = [make_protocol_map(f"Fastest of {t}", results.rows[run]) for run, t in runs.items()]
    return Content(maps)


def show_figure_5(results: Results) -> Content:
    """Return the bandwidths with 32 KB over the processes, of the paper's protocols and of all."""
    figures = []
    titles = {T3E: "the paper's protocols", T3E_ALL: "all algorithms"}
    for run, title in titles.items():
        rows: list[Row] = [
            row | {"MB/s": row["bytes"] / row["median ms"] / 1e3}
            for row in results.select(run, bytes=32 * KB)
        ]
        algorithms = dict.fromkeys((*PROTOCOLS, *(row["algorithm"] for row in rows)))
        names = {name: name.replace("_", " ") for name in algorithms}
        series = make_series(rows, "processes", "MB/s", "algorithm", names)
        title = f"Allreduce of 32 KB, {title}"
        figures.append(Lines(title, series, "processes", "MB/s", y_scale="linear"))
    return Content(figures)


def show_placements(results: Results, machine: str) -> Content:
    """Return the ratios of allreduce with one process per CPU, and per node."""
    runs = (f"{machine}, process per CPU", f"{machine}, process per node")
    return Content([make_ratio_map(run, find_benefits(results.rows[run])) for run in runs])


def show_operations(results: Results, run: str, *panels: str) -> Content:
    """Return the ratios of a machine, by titles such as "reduce, sum"."""
    figures = []
    for title in panels:
        operation, operand = title.lower().split(", ")
        rows = results.select(run, operation=operation, operand=operand)
        title_of_map = f"{title}, {run.partition(', ')[0]}"
        figures.append(make_ratio_map(title_of_map, find_benefits(rows, "")))
    return Content(figures)


def show_figure_9(results: Results) -> Content:
    """Return the ratios, and the map of the fastest protocol."""
    (ratios,) = show_operations(results, "Cray X1", "Allreduce, sum").figures
    rows = results.select("Cray X1", operation="allreduce")
    return Content([ratios, make_protocol_map("Fastest protocol", rows)])


def make_protocol_map(title: str, rows: Sequence[Row]) -> Map:
    """Return the map of the fastest protocol by processes and size."""
    fastest = find_fastest(rows)
    sizes, counts = sorted({n for _, n in fastest}), sorted({p for p, _ in fastest})
    cells = [(str(p), [fastest[p, n] for n in sizes]) for p in counts]
    return Map(title, [format_round_size(n).replace(" ", "") for n in sizes], cells)


def find_library_ratios(results: Results, operation: str, operand: str) -> Ratios:
    """Return the library's time over the fastest protocol's, by processes and bytes."""
    cells = find_times(results.select("library here", operation=operation, operand=operand))
    return {
        key: times["native"] / min(ms for name, ms in times.items() if name != "native")
        for key, times in cells.items()
        if "native" in times and len(times) > 1
    }


def show_library(results: Results) -> Content:
    """Return the ratios to the library of this installation."""
    figures = [
        make_ratio_map(f"{operation}, {operand}", cells, "library")
        for operand, operation in product(("sum", "maxloc"), BOTH)
        if (cells := find_library_ratios(results, operation, operand))
    ]
    return Content(figures)


# ---- cases of claims


def list_library_ratios(results: Results) -> list[Row]:
    """Return the ratios of allreduce to the library of this installation.

    "Most vendors are using algorithms that can be improved by a factor of more than 2 for long
    vectors" (Section 1). That is about the libraries of that time. Libraries of today have the
    paper's protocols, at least for powers of two.
    """
    ratios = find_library_ratios(results, "allreduce", "sum")
    return [{"p": p, "n": n, "ratio": ratio} for (p, n), ratio in ratios.items()]


def list_ratios(results: Results, run: str, operation: str, operand: str) -> list[Row]:
    """Return the ratios to the stand-in, which cannot reproduce a claim about the library."""
    excluded = "recursive_doubling" if run.startswith("IBM SP") else ""
    return list_benefits(results, run, excluded, operation=operation, operand=operand)


def list_latencies(results: Results) -> list[Row]:
    """Return the simulated latencies of the protocols; the vendor's use shared memory."""
    times = find_times(results.select("Cray X1", operation="allreduce", bytes=8))
    return [{"p": p, "us": min(several.values()) * 1e3} for (p, _), several in times.items()]


# ---- bandwidths of 8 MB on a Cray X1


X1_BYTES, X1_COUNTS = 8 << 20, (64, 116)


def compute_bandwidths(_: bool) -> list[Row]:
    """Return the bandwidths of 8 MB on the fitted Cray X1, with the protocols of the paper."""
    rows: list[Row] = []
    for operation, processes in product(BOTH, X1_COUNTS):
        name = "binary_blocks" if processes & (processes - 1) else "halving_doubling"
        problem, times = Problem(processes, X1_BYTES, unit=8), {}
        for protocol in PROTOCOLS:
            with contextlib.suppress(MpiprofError):  # only for allreduce
                ns = simulate_protocol(operation, protocol, problem, machines.CRAY_X1)
                times[protocol] = ns
        ns, fastest = times[name], min(times, key=times.__getitem__)
        rows.append(
            {"operation": operation, "processes": processes, "algorithm": name}
            | {"fastest": name if ns <= times[fastest] else fastest}
            | {"time ms": ns / 1e6, "MB/s": 1e3 * X1_BYTES / ns}
        )
    return rows


def list_bandwidths(results: Results) -> list[Row]:
    """Return the paper's times and bandwidths."""
    times = results.values.column("Bandwidths", "time")
    return [{"row": row, "computed": X1_BYTES / ms / 1e3} for row, ms in times.items()]
