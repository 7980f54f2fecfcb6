"""Rabenseifner and Adamidis 2004, Figure 1: benefit over a profile of applications.

The five years of profiling are not published. The profile here is synthetic. It has the calls of
usual solvers: scalar products of 8 and 16 bytes, sums of some KB, and few large vectors, on the
numbers of processes that the paper names as its most used ones.
"""

from __future__ import annotations

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCIBLE,
    Claim,
    Content,
    Exhibit,
    Results,
    Table,
    Verdict,
)
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.studies.reduction_profile import (
    COLUMNS,
    Entry,
    compute_benefits,
    model_times,
    plot_savings,
    sum_savings,
)
from mpiprof.interface.format_units import format_percent

KB, MB = 1 << 10, 1 << 20
CALLS = {  # of each number of processes, by operation and bytes
    "allreduce": {8: 100_000, 16: 40_000, 128: 10_000, 4 * KB: 2_000, 64 * KB: 300, MB: 20},
    "reduce": {8: 2_000, 4 * KB: 1_000, 256 * KB: 100, 4 * MB: 10},
}
COUNTS = (16, 32, 60, 64, 96, 128)
SYNTHETIC = [
    Entry(operation, processes, size, calls)
    for operation, several in CALLS.items()
    for processes in COUNTS
    for size, calls in several.items()
]


def compute_profile(_: bool) -> list[Row]:
    """Return the benefit of each entry of the synthetic profile on a Cray T3E."""
    return compute_benefits(SYNTHETIC, model_times(machines.CRAY_T3E))


def show_figure_1(results: Results) -> Content:
    """Return the remaining time of each operation, and the entries."""
    rows = results.rows["profile"]
    shown = [name for name in COLUMNS if name != "measured s"]
    table = Table("Calls of the profile, the longest time first", shown, rows)
    return Content([plot_savings(sum_savings(rows))], [table])


def state_savings(results: Results) -> Verdict:
    """Return the savings over the synthetic profile, which is not the paper's."""
    savings = sum_savings(results.rows["profile"])
    texts = ", ".join(f"{name} {format_percent(saving)}" for name, saving in savings.items())
    fact = (
        "the paper's profile and the vendor's library are not available; a synthetic profile, with "
    )
    return Verdict(
        NOT_REPRODUCIBLE, f"{fact}reduce and broadcast along binary trees, saves {texts}"
    )


RUNS: dict[str, Run] = {
    "profile": Computation(compute_profile, f"simulated Cray T3E ({machines.ASSUMED})")
}
EXHIBIT = Exhibit(
    "Figure 1",
    "Section 1",
    "Saving of communication time over a profile. It is synthetic, because the paper's profile is "
    "not published. `bench reduction --profile TRACE` computes it for a trace.",
    ("profile",),
    show_figure_1,
    (Claim("Allreduce takes 20 % less time, reduce 54 %.", state_savings),),
)
