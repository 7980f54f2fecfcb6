"""Benefit over a profile of an application (Rabenseifner and Adamidis 2004, Figure 1).

A profile has the calls of allreduce and reduce by processes and bytes. It is read from a trace, or
from a CSV file with the columns of PROFILE_COLUMNS. Each call costs its time by a model, or by a
table that `bench reduction -o NAME` has measured. The benefit compares the library's algorithm with
the fastest of the paper's protocols. The model has no library, so that reduce and broadcast along
binary trees are in its place, as in MPICH 1.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import mpiprof
from mpiprof.collectives import catalogue
from mpiprof.collectives.machine import DEFAULT, Machine, machine_of_table, read
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.conditions import list_conditions, list_table_conditions
from mpiprof.collectives.papers.harness.figures import Bars
from mpiprof.collectives.papers.harness.runner import publish_report
from mpiprof.collectives.papers.harness.study import Report, Row, Setup
from mpiprof.collectives.papers.studies.reduction import MPICH_1, PARTS, PROTOCOLS, UNITS
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.format_units import format_percent
from mpiprof.trace import Trace
from mpiprof.trace.machine import find_fault

TITLE = "Benefit over a profile"
PROFILE_COLUMNS = ("operation", "processes", "bytes", "calls")
LIBRARY = "native"
STAND_IN = "binary trees (in place of a library)"
COLUMNS = (*PROFILE_COLUMNS, "measured s", "baseline s", "fastest", "fastest s", "saving")
Times = Callable[[str, int, int], dict[str, float]]  # ns by algorithm, {} if unknown


@dataclass(frozen=True)
class ProfileEntry:
    """Equal calls of a profile; `seconds` is their measured time, NaN if unknown."""

    operation: str
    processes: int
    bytes: int
    calls: int
    seconds: float = math.nan


# ---- profiles


def parse_profile(path: Path) -> list[ProfileEntry]:
    """Return the profile of a CSV file; raises UsageError."""
    rows = _read_csv("--profile", path)
    try:
        return [
            ProfileEntry(row["operation"], *(int(row[name]) for name in PROFILE_COLUMNS[1:]))
            for row in rows
            if row["operation"] in PARTS and int(row["processes"]) > 1
        ]
    except (KeyError, TypeError, ValueError):
        columns = ", ".join(PROFILE_COLUMNS)
        raise UsageError(f"--profile {path} is no profile: its columns must be {columns}") from None


def _read_csv(option: str, path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read: {error.strerror}") from None


def profile_trace(trace: Trace) -> list[ProfileEntry]:
    """Return the reductions of a trace on more than one process."""
    keys = ["operation", "size", "bytes"]
    if trace.record == "summary":
        table = trace.summary
        table = table[table["operation"].isin(PARTS)].copy()
        table["bytes"] = (table["sent"] / table["calls"].clip(lower=1)).round()
        table["ns"], table["count"] = table["total_ns"], table["calls"]
        groups = table.groupby(keys)[["count", "ns"]].sum()
        groups = groups.div(groups.index.get_level_values("size"), axis=0)
    else:
        table = trace.instances
        table = table[table["operation"].isin(PARTS)].copy()
        table["bytes"], table["ns"] = table["message_bytes"].round(), table["mean_elapsed_ns"]
        groups = table.groupby(keys, observed=True)["ns"].agg(["size", "sum"])
        groups.columns = ["count", "ns"]
    entries = []
    for key, sums in zip(groups.index, groups.to_numpy().tolist(), strict=True):
        operation, processes, size = key
        if processes > 1:
            count, ns = round(sums[0]), sums[1]
            entries.append(ProfileEntry(str(operation), int(processes), int(size), count, ns / 1e9))
    return entries


# ---- times


def model_times(machine: Machine) -> Times:
    """Return the times of the paper's protocols by the model."""

    @cache
    def find(operation: str, processes: int, number: int) -> dict[str, float]:
        unit = UNITS["sum"]
        problem = Problem(processes, max(-(-number // unit), 1) * unit, unit=unit)
        algorithms = {a.name: a for a in catalogue.find_all(operation) if a.name in PROTOCOLS}
        return {n: simulate(a, problem, machine).after_last for n, a in algorithms.items()}

    return find


def read_times(path: Path) -> Times:
    """Return the times of a table of `bench reduction -o NAME`; raises UsageError.

    Times of sizes between two measured ones are interpolated, those of other processes unknown.
    """
    curves: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = {}
    rows = _read_csv("--times", path)
    try:
        for row in rows:
            if row["operand"] == "sum" and row["algorithm"] in (LIBRARY, *PROTOCOLS):
                key = (row["operation"], int(row["processes"]))
                point = (float(row["bytes"]), float(row["median ms"]) * 1e6)
                curves.setdefault(key, {}).setdefault(row["algorithm"], []).append(point)
    except (KeyError, TypeError, ValueError):
        fact = f"--times {path} has no times of reductions"
        raise UsageError(f"{fact}: `bench reduction -o NAME` writes NAME.csv") from None

    def find(operation: str, processes: int, number: int) -> dict[str, float]:
        several = curves.get((operation, processes), {})
        return {name: _interpolate(points, number) for name, points in several.items()}

    return find


def _interpolate(points: Iterable[tuple[float, float]], size: float) -> float:
    """Return the time of a size; beyond the measured sizes, the nearest one's."""
    sizes, times = np.log(np.array(sorted(points))).T
    return float(np.exp(np.interp(np.log(max(size, 1)), sizes, times)))


# ---- benefit


def compute_benefits(profile: Sequence[ProfileEntry], times: Times) -> list[Row]:
    """Return a row for each entry with known times, the longest time first."""
    rows: list[Row] = []
    for entry in profile:
        protocol_times = times(entry.operation, entry.processes, entry.bytes)
        library = protocol_times.get(LIBRARY, protocol_times.get(MPICH_1, math.nan))
        new = {name: ns for name, ns in protocol_times.items() if name != LIBRARY}
        if not new or math.isnan(library):
            continue
        fastest = min(new, key=lambda name: new[name])
        best = min(new[fastest], library)  # a user keeps the library's routine where it is faster
        rows.append(
            dict(zip(PROFILE_COLUMNS, vars(entry).values(), strict=False))
            | {"measured s": entry.seconds, "baseline s": entry.calls * library / 1e9}
            | {"fastest": fastest if new[fastest] <= library else LIBRARY}
            | {"fastest s": entry.calls * best / 1e9, "saving": 1 - best / library}
        )
    return sorted(rows, key=lambda row: -row["baseline s"])


def sum_savings(rows: Sequence[Row]) -> dict[str, float]:
    """Return the share of the library's time that is saved, by operation."""
    savings = {}
    for operation in PARTS:
        operation_rows = [row for row in rows if row["operation"] == operation]
        library = sum(row["baseline s"] for row in operation_rows)
        if library:
            savings[operation] = 1 - sum(row["fastest s"] for row in operation_rows) / library
    return savings


def plot_savings(savings: Mapping[str, float], library: str = STAND_IN) -> Bars:
    """Draw the remaining time of each operation (Figure 1)."""
    series = {
        library: [1.0] * len(savings),
        "fastest protocol": [1 - saving for saving in savings.values()],
    }
    title = "Time in reductions over a profile (Figure 1)"
    return Bars(title, list(savings), series, "share of time", format_percent)


# ---- the command


def run(path: Path, options: Options, table: Path | None) -> None:
    """Print and write the benefit over a profile; `table` has measured times, if given."""
    trace = None if path.suffix == ".csv" else mpiprof.open(path)
    profile = parse_profile(path) if trace is None else profile_trace(trace)
    if not profile:
        raise MpiprofError(f"--profile {path} has no allreduce and no reduce on several processes")
    ranks = max(entry.processes for entry in profile)
    if table is None:
        machine, source = _choose_machine(trace, options)
        setup = Setup(ranks, options, machine, simulated=True, times_source=source)
        times, conditions = model_times(machine), list_conditions(setup)
        library = STAND_IN
    else:
        setup = Setup(ranks, options)
        times, conditions = read_times(table), list_table_conditions(table)
        library = "library"
    rows = compute_benefits(profile, times)
    if not rows:
        fact = f"--times {table} has none of the profile's numbers of processes"
        raise MpiprofError(f"{fact}: measure them with `bench reduction --processes`")
    savings = sum_savings(rows)
    notes = [f"Baseline: {library}."]
    notes += [f"{name}: {format_percent(saving)} saved" for name, saving in savings.items()]
    if len(rows) < len(profile):
        notes.append(f"{len(profile) - len(rows)} of {len(profile)} entries have unknown times.")
    print(f"{TITLE}: {len(profile)} kinds of calls in {path}.")
    report = Report(COLUMNS, rows, ["\n".join(notes)], [plot_savings(savings, library)], conditions)
    publish_report(report, TITLE, setup, show_conditions=True)


def _choose_machine(trace: Trace | None, options: Options) -> tuple[Machine, str]:
    """Return the machine of the model, and the source of its message times in words."""
    if options.machine is not None:
        return read(options.machine, find_fault), f"from {options.machine}"
    if trace is not None and trace.machine:
        return machine_of_table(trace.machine, str(trace.path)), f"of the trace {trace.path}"
    return DEFAULT, "assumed, because the profile has none"
