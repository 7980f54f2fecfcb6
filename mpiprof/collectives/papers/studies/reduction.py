"""Reductions (Rabenseifner and Adamidis 2004): protocols, sizes, processes, sum and maxloc.

Below the table is the map of mpiprof's fastest algorithm (Figure 4), with the library's time over
its time. A plot shows these ratios over processes and sizes (Figures 6 to 10), and another one over
process counts the bandwidth of each algorithm (Figure 5). A simulation has no library. Reduce and
broadcast along binary trees are in its place, as in MPICH 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from mpiprof.collectives.catalogue import find_all
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.figures import Figure, Lines, Map, RatioMap, make_curves
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Setup,
    format_cell,
    group_results,
    list_columns,
    make_row,
)
from mpiprof.collectives.schedule import Problem
from mpiprof.interface.format_units import format_round_size

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
        algorithms = ["native", *(a.name for a in find_all(operation))]
        choices = setup.find_choices(operation, algorithms)
        for operand, size, total, choice in product(UNITS, sizes, totals, choices):
            cases.append(make_case(operation, operand, size, total, choice, setup.ranks))
    return cases


def make_report(results: Sequence[CaseResult], _: Setup) -> Report:
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
    head = "the fastest of ours by processes and size"
    maps = {
        f"{operation}, {operand}: {head}": cells for (operation, operand), cells in best.items()
    }
    notes = [_map_text(title, cells) for title, cells in maps.items()]
    figures: list[Figure] = [_map(title, cells) for title, cells in maps.items()]
    figures += [*_plot_ratios(results), *_plot_bandwidths(results)]
    return Report(list_columns(rows), rows, notes, figures)


def _plot_ratios(results: Sequence[CaseResult]) -> list[RatioMap]:
    """Draw the time of the library, or of MPICH 1, over the fastest algorithm's (Figures 6-10)."""
    maps: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    rival = "native" if any(r.case.choice == "native" for r in results) else MPICH_1
    for group in group_results(results, LABELS):
        times = {r.case.choice: r.median_ms for r in group}
        labels = group[0].case.labels
        protocols = [time for choice, time in times.items() if choice != "native"]
        if rival in times and len(times) > 1 and protocols:
            cells = maps.setdefault((labels["operation"], labels["operand"]), {})
            cells[labels["processes"], labels["bytes"]] = times[rival] / min(protocols)
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


def _plot_bandwidths(results: Sequence[CaseResult]) -> list[Lines]:
    """Draw the vector's bytes over the time, by processes, for each algorithm (Figure 5)."""
    curves: dict[str, list[tuple[str, float, float]]] = {}
    for r in results:
        labels = r.case.labels
        title = f"{labels['operation']}, {labels['operand']}, {format_round_size(labels['bytes'])}"
        point = (r.case.choice, labels["processes"], labels["bytes"] / r.median_ms / 1e3)
        curves.setdefault(f"{title} (as Figure 5)", []).append(point)
    figures = []
    for title, points in curves.items():
        series = make_curves(points)
        if max(len(line.x) for line in series) >= FEWEST_PROCESSES:
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
