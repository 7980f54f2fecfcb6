"""Rabenseifner and Adamidis 2004, Section 5: bandwidths of 8 MB on a Cray X1.

The machine no longer exists. Its model is fitted to the bandwidths on 64 processes
(papers/machines.py) and predicts the bandwidths on 116.
"""

from __future__ import annotations

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCED,
    Claim,
    Content,
    Exhibit,
    Results,
    Table,
    Verdict,
    judge_values,
)
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.model import catalogue
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate

BYTES, COUNTS = 8 << 20, (64, 116)


def compute_bandwidths(_: bool) -> list[Row]:
    """Return the bandwidths of 8 MB on the fitted Cray X1, with the protocols of the paper."""
    rows: list[Row] = []
    for operation in ("allreduce", "reduce"):
        for processes in COUNTS:
            power = not processes & (processes - 1)
            name = "halving_doubling" if power else "binary_blocks"
            problem = Problem(processes, BYTES, unit=8)
            algorithm = catalogue.find(operation, name)
            ns = simulate(algorithm, problem, machines.CRAY_X1).after_last
            rows.append(
                {"operation": operation, "processes": processes, "algorithm": name}
                | {"time ms": ns / 1e6, "MB/s": 1e3 * BYTES / ns}
            )
    return rows


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


def state_predictions(results: Results) -> Verdict:
    """Return the predicted bandwidths, which are no measurements of the machine."""
    texts = []
    for row in results.rows["Cray X1, 8 MB"]:
        name = _name_row(row)
        expected = results.values.find("Bandwidths", name, "bandwidth")
        texts.append(f"{name}: {row['MB/s']:.0f} ({expected:.0f})")
    fact = "the machine no longer exists; its model, fitted on 64 processes, gives MB/s (paper): "
    return Verdict(NOT_REPRODUCED, fact + "; ".join(texts))


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
        Claim("They are 1227 to 1792 MB/s for sum.", state_predictions),
    ),
)
