"""Reductions (Rabenseifner and Adamidis 2004): protocols, sizes, processes, sum and maxloc.

Below the table is the map of mpiprof's fastest algorithm (Figure 4), with the library's time over
its time; above 1, mpiprof's is faster. A plot shows these ratios over processes and sizes (Figures
6 to 10). A simulation has no library. Reduce and broadcast along binary trees are in its place, as
in MPICH 1. Over process counts, a plot shows the bandwidth of each algorithm. With `--processes
2-32 --sizes 32K` that is Figure 5. `--only` selects operations and algorithms, such as the paper's
protocols. `--profile TRACE` computes the benefit over a program's calls (Figure 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from mpiprof.bench.harness.case import Case
from mpiprof.bench.harness.figures import Figure, Lines, Map, RatioMap, Series
from mpiprof.bench.harness.study import (
    Report,
    Result,
    Setup,
    format_cell,
    group_results,
    list_columns,
    make_row,
)
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.catalogue import find_all
from mpiprof.model.schedule import Problem

TITLE = "Reductions"
LAPS = 7
SIZES = (2 << 10, 32 << 10, 256 << 10, 1 << 20)
PARTS = OPERATIONS = ("allreduce", "reduce")  # names for --only
FEWEST_PROCESSES = 3  # minimum number of process counts for a plot
LABELS = ("operation", "operand", "processes", "bytes")
MPICH_1 = "binary_tree"  # in place of a library: reduce and broadcast
PROTOCOLS = (MPICH_1, "recursive_doubling", "halving_doubling", "binary_blocks", "ring")
UNITS = {"sum": 8, "maxloc": 12}


def process_counts(ranks: int) -> tuple[int, ...]:
    """Return a power of two, one less, and two between that distinguish binary blocks."""
    top = 1 << ranks.bit_length() - 1
    several = {ranks, top, top - 1, top * 3 // 4, top // 2 + 1}
    return tuple(sorted((p for p in several if 2 <= p <= ranks), reverse=True))


def make_case(operation: str, operand: str, size: int, total: int, choice: str, world: int) -> Case:
    """Return one case on the first `size` processes."""
    unit = UNITS[operand]
    values = (operation, operand, size, total, choice)
    labels = dict(zip((*LABELS, "algorithm"), values, strict=True))
    problem = Problem(size, max(total // unit, 1) * unit, unit=unit)
    members = "world" if size == world else str(size)
    return Case(labels, operation, choice, problem, members, maxloc=operand == "maxloc")


def make_cases(setup: Setup) -> list[Case]:
    """Return the cases of all operations, operands, sizes and process counts."""
    options = setup.options
    totals = options.sizes or (SIZES[1::2] if options.quick else SIZES)
    usual_sizes = (setup.ranks,) if setup.simulated else process_counts(setup.ranks)
    sizes = options.processes or usual_sizes
    cases = []
    for operation in options.only or (PARTS[:1] if options.quick else PARTS):
        wanted = ["native", *(a.name for a in find_all(operation))]
        choices = setup.find_choices(operation, wanted)
        cases += [
            make_case(operation, operand, size, total, choice, setup.ranks)
            for operand, size, total, choice in product(UNITS, sizes, totals, choices)
        ]
    return cases


def make_report(results: Sequence[Result], _: Setup) -> Report:
    """Return a row for each case, and the maps."""
    rows = []
    best: dict[tuple[str, str], dict[tuple[int, int], tuple[str, float]]] = {}
    for group in group_results(results, LABELS):
        ours = [r for r in group if r.case.choice != "native"]
        fastest = min(ours, key=lambda r: r.median_ms, default=None)
        for r in group:
            row = make_row(r, group, {"native": "native"})
            rows.append(row | {"fastest": "*" if r is fastest else ""})
            if r is fastest:
                cells = best.setdefault((row["operation"], row["operand"]), {})
                cells[row["processes"], row["bytes"]] = (r.case.choice, row["native / this"])
    notes: list[str] = []
    figures: list[Figure] = []
    for (operation, operand), cells in best.items():
        title = f"{operation}, {operand}: the fastest of ours by processes and size"
        notes.append(_map_text(title, cells))
        figures.append(_map(title, cells))
    figures += _plot_ratios(results)
    return Report(list_columns(rows), rows, notes, [*figures, *_plot_bandwidths(results)])


def _plot_ratios(results: Sequence[Result]) -> list[RatioMap]:
    """Draw the time of the library, or of MPICH 1, over the fastest algorithm's (Figures 6-10)."""
    maps: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    rival = "native" if any(r.case.choice == "native" for r in results) else MPICH_1
    for group in group_results(results, LABELS):
        times = {r.case.choice: r.median_ms for r in group}
        labels = group[0].case.labels
        others = [time for choice, time in times.items() if choice != "native"]
        if rival in times and len(times) > 1 and others:
            cells = maps.setdefault((labels["operation"], labels["operand"]), {})
            cells[labels["processes"], labels["bytes"]] = times[rival] / min(others)
    name = "library" if rival == "native" else rival.replace("_", " ")
    return [
        make_ratio_map(f"{operation}, {operand} (as Figures 6 to 10)", cells, name)
        for (operation, operand), cells in maps.items()
    ]


def make_ratio_map(
    title: str, cells: Mapping[tuple[int, int], float], rival: str = "binary tree"
) -> RatioMap:
    """Return the plot of a rival's times over the fastest, by processes and bytes."""
    sizes, totals = _map_edges(cells)
    rows = [(f"p = {p}", [cells.get((p, n), np.nan) for n in totals]) for p in sizes]
    columns = [format_round_size(n) for n in totals]
    return RatioMap(title, columns, rows, f"time of {rival} over the fastest")


def _plot_bandwidths(results: Sequence[Result]) -> list[Lines]:
    """Draw the vector's bytes over the time, by processes, for each algorithm (Figure 5)."""
    curves: dict[tuple[str, str, int], dict[str, list[tuple[float, float]]]] = {}
    for r in results:
        labels = r.case.labels
        key = (labels["operation"], labels["operand"], labels["bytes"])
        point = (labels["processes"], labels["bytes"] / r.median_ms / 1e3)
        curves.setdefault(key, {}).setdefault(r.case.choice, []).append(point)
    figures = []
    for (operation, operand, total), lines in curves.items():
        if max(map(len, lines.values())) >= FEWEST_PROCESSES:
            series = [Series.of_points(choice, sorted(points)) for choice, points in lines.items()]
            title = f"{operation}, {operand}, {format_round_size(total)} (as Figure 5)"
            figures.append(Lines(title, series, "processes", "MB/s", x_scale="linear"))
    return figures


def _map_edges(cells: Mapping[tuple[int, int], Any]) -> tuple[list[int], list[int]]:
    return sorted({p for p, _ in cells}), sorted({n for _, n in cells})


def _map_text(title: str, cells: dict[tuple[int, int], tuple[str, float]]) -> str:
    sizes, totals = _map_edges(cells)
    lines = [title, "    p" + "".join(f"{format_round_size(n):>26}" for n in totals)]
    for p in sizes:
        row_cells = [cells.get((p, n), ("", np.nan)) for n in totals]
        texts = [f"{name} {format_cell(gain)}".rstrip() for name, gain in row_cells]
        lines.append(f"{p:5}" + "".join(f"{text:>26}" for text in texts))
    return "\n".join(lines)


def _map(title: str, cells: dict[tuple[int, int], tuple[str, float]]) -> Map:
    sizes, totals = _map_edges(cells)
    rows = [(f"p = {p}", [cells.get((p, n), ("-", 0.0))[0] for n in totals]) for p in sizes]
    return Map(title, [format_round_size(n) for n in totals], rows)
