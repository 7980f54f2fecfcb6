"""Rabenseifner and Adamidis 2004, Section 5: bandwidths of 8 MB on a Cray X1.

The machine no longer exists. Its model is fitted to the bandwidths on 64 processes
(papers/machines.py) and predicts the bandwidths on 116.
"""

from __future__ import annotations

import contextlib

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import (
    Claim,
    Content,
    Exhibit,
    Results,
    Table,
    Verdict,
    judge_share,
    judge_values,
)
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.studies.reduction import PROTOCOLS
from mpiprof.errors import MpiprofError
from mpiprof.model import catalogue
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate

BYTES, COUNTS = 8 << 20, (64, 116)
FITTED_COUNT = 64  # processes
PREDICTION_ERROR = 0.05  # as of Table 1 of Faraj et al.


def compute_bandwidths(_: bool) -> list[Row]:
    """Return the bandwidths of 8 MB on the fitted Cray X1, with the protocols of the paper."""
    rows: list[Row] = []
    for operation in ("allreduce", "reduce"):
        for processes in COUNTS:
            power = not processes & (processes - 1)
            name = "halving_doubling" if power else "binary_blocks"
            times = _simulate_protocols(operation, processes)
            ns = times[name]
            rows.append(
                {"operation": operation, "processes": processes, "algorithm": name}
                | {
                    "fastest": name
                    if ns <= min(times.values())
                    else min(times, key=times.__getitem__)
                }
                | {"time ms": ns / 1e6, "MB/s": 1e3 * BYTES / ns}
            )
    return rows


def _simulate_protocols(operation: str, processes: int) -> dict[str, float]:
    """Return the times in ns of the paper's protocols for an operation."""
    times = {}
    for name in PROTOCOLS:
        with contextlib.suppress(MpiprofError):  # only for allreduce
            algorithm = catalogue.find(operation, name)
            problem = Problem(processes, BYTES, unit=8)
            times[name] = simulate(algorithm, problem, machines.CRAY_X1).after_last
    return times


def show_bandwidths(results: Results) -> Content:
    """Return the fitted and predicted bandwidths beside the paper's."""
    rows = [
        row | {"paper MB/s": results.values.find("Bandwidths", _name_row(row), "bandwidth")}
        for row in results.rows["Cray X1, 8 MB"]
    ]
    title = "Bandwidths of 8 MB: fitted on 64 processes, predicted on 116"
    return Content(tables=[Table(title, tuple(rows[0]), rows)])


def _name_row(row: Row) -> str:
    return f"{row['operation']}, sum, {row['processes']} processes"


def check_quotients(results: Results) -> Verdict:
    """Judge that the paper's bandwidths are the bytes over its times."""
    times = results.values.column("Bandwidths", "time")
    bandwidths = results.values.column("Bandwidths", "bandwidth")
    computed = {row: BYTES / ms / 1e3 for row, ms in times.items()}
    return judge_values(computed, bandwidths, 0.01)


def check_predictions(results: Results) -> Verdict:
    """Judge the bandwidths on 116 processes, to which the model is not fitted."""
    rows = [row for row in results.rows["Cray X1, 8 MB"] if row["processes"] != FITTED_COUNT]
    paper = results.values.column("Bandwidths", "bandwidth")
    verdict = judge_values({_name_row(row): row["MB/s"] for row in rows}, paper, PREDICTION_ERROR)
    return Verdict(verdict.state, f"{verdict.reason}; predicted by a model fitted on 64 processes")


def check_protocols(results: Results) -> Verdict:
    """Judge which protocol is the fastest on each number of processes."""
    rows = results.rows["Cray X1, 8 MB"]
    right = sum(row["fastest"] == row["algorithm"] for row in rows)
    return judge_share(right, len(rows), "operations and numbers of processes")


RUNS: dict[str, Run] = {
    "Cray X1, 8 MB": Computation(compute_bandwidths, f"simulated; times {machines.FITTED_X1}")
}
EXHIBIT = Exhibit(
    "Bandwidths",
    "Section 5",
    "Bandwidths of 8 MB on a Cray X1, whose model is fitted to those on 64 processes.",
    ("Cray X1, 8 MB",),
    show_bandwidths,
    (
        Claim("The bandwidths are the bytes over the times.", check_quotients),
        Claim(
            "Binary blocks are the fastest on 116 processes, halving and doubling on 64.",
            check_protocols,
        ),
        Claim("On 116 processes they are 1227 and 1664 MB/s for sum.", check_predictions),
    ),
)
