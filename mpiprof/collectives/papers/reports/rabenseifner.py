"""Rabenseifner and Adamidis 2004: reduce and allreduce.

The five years of profiling of Figure 1 are not published. The profile here is synthetic. It has the
calls of usual solvers: scalar products of 8 and 16 bytes, sums of some KB, and few large vectors,
on the numbers of processes that the paper names as its most used ones.

Figures 6 and 8 to 10 compare with vendors' libraries with unknown algorithms, on machines that
no longer exist. Here reduce and broadcast along binary trees are in their place, as in MPICH 1.
This is another comparison, so that the claims about the libraries are not reproducible. Figure 7
compares with MPICH 1 itself. The model of the Cray X1 is fitted to the bandwidths on 64 processes
(machines.py), and predicts those on 116.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import product

from mpiprof.collectives import catalogue
from mpiprof.collectives.papers.harness.figures import Figure, Lines, Map
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.exhibits import (
    Content,
    Results,
    Table,
    make_series,
    make_table,
)
from mpiprof.collectives.papers.reports.rabenseifner_claims import (
    find_benefits,
    find_fastest,
    find_times,
    list_benefits,
)
from mpiprof.collectives.papers.studies.reduction import PROTOCOLS, make_ratio_map
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

KB, MB = 1 << 10, 1 << 20
BOTH = ("allreduce", "reduce")
T3E, T3E_ALL, X1_BANDWIDTHS = "Cray T3E", "Cray T3E, all algorithms", "Cray X1, 8 MB"

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
    titles = {
        T3E: "Fastest of the paper's five protocols",
        T3E_ALL: "Fastest of all algorithms of mpiprof",
    }
    return Content([make_protocol_map(title, results.rows[run]) for run, title in titles.items()])


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
    figures: list[Figure] = []
    for title in panels:
        operation, operand = title.lower().split(", ")
        rows = results.select(run, operation=operation, operand=operand)
        machine = run.partition(", ")[0]
        figures.append(make_ratio_map(f"{title}, {machine}", find_benefits(rows, ())))
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


def find_library_ratios(
    rows: Sequence[Row], operation: str, operand: str
) -> dict[tuple[int, int], float]:
    """Return the library's time over the fastest protocol's, by processes and bytes."""
    labels = {"operation": operation, "operand": operand}
    cells = find_times([row for row in rows if labels.items() <= row.items()])
    return {
        key: times["native"] / min(ms for name, ms in times.items() if name != "native")
        for key, times in cells.items()
        if "native" in times and len(times) > 1
    }


def show_library(results: Results) -> Content:
    """Return the ratios to the library of this installation."""
    rows = results.rows["library here"]
    figures = [
        make_ratio_map(f"{operation}, {operand}", cells, "library")
        for operand in ("sum", "maxloc")
        for operation in BOTH
        if (cells := find_library_ratios(rows, operation, operand))
    ]
    return Content(figures)


# ---- cases of claims


def list_library_ratios(results: Results) -> list[Row]:
    """Return the ratios of allreduce to the library of this installation.

    "Most vendors are using algorithms that can be improved by a factor of more than 2 for long
    vectors" (Section 1). That is about the libraries of that time. Libraries of today have the
    paper's protocols, at least for powers of two.
    """
    ratios = find_library_ratios(results.rows["library here"], "allreduce", "sum")
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
        times = _simulate_protocols(operation, processes)
        ns, fastest = times[name], min(times, key=times.__getitem__)
        rows.append(
            {"operation": operation, "processes": processes, "algorithm": name}
            | {"fastest": name if ns <= times[fastest] else fastest}
            | {"time ms": ns / 1e6, "MB/s": 1e3 * X1_BYTES / ns}
        )
    return rows


def _simulate_protocols(operation: str, processes: int) -> dict[str, float]:
    """Return the times in ns of the paper's protocols for an operation."""
    times = {}
    for name in PROTOCOLS:
        with contextlib.suppress(MpiprofError):  # only for allreduce
            algorithm = catalogue.find(operation, name)
            problem = Problem(processes, X1_BYTES, unit=8)
            times[name] = simulate(algorithm, problem, machines.CRAY_X1).after_last
    return times


def show_bandwidths(results: Results) -> Content:
    """Return the fitted and predicted bandwidths beside the paper's."""
    rows = [
        row | {"paper MB/s": results.values.find("Bandwidths", _name_row(row), "bandwidth")}
        for row in results.rows[X1_BANDWIDTHS]
    ]
    title = "Bandwidths of 8 MB: fitted on 64 processes, predicted on 116"
    return Content(tables=[make_table(title, rows)])


def _name_row(row: Row) -> str:
    return f"{row['operation']}, sum, {row['processes']} processes"


def list_bandwidths(results: Results) -> list[Row]:
    """Return the paper's times and bandwidths."""
    times = results.values.column("Bandwidths", "time")
    return [{"row": row, "computed": X1_BYTES / ms / 1e3} for row, ms in times.items()]
