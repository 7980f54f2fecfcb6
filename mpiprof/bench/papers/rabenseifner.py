"""Rabenseifner and Adamidis 2004: reduce and allreduce."""

from __future__ import annotations

from mpiprof.bench.harness.figures import Lines
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import (
    machines,
    rabenseifner_bandwidths,
    rabenseifner_profile,
    rabenseifner_ratios,
)
from mpiprof.bench.papers.exhibits import (
    Claim,
    Content,
    Exhibit,
    Paper,
    Results,
    Table,
    make_series,
)
from mpiprof.bench.papers.rabenseifner_claims import (
    check_33,
    check_both_ways,
    check_costs,
    check_dependence,
    check_exponents,
    check_halving_ahead,
    check_largest,
    check_powers,
    check_ring_counts,
    check_ring_of_15,
    check_rule,
    check_short,
    check_short_doubling,
    check_short_tree,
    check_tree,
    compute_costs,
    compute_exponents,
    find_fastest,
    trace_examples,
)
from mpiprof.bench.papers.runs import Computation, Run, Simulation
from mpiprof.bench.papers.schedule_pictures import show_schedules
from mpiprof.bench.studies.reduction import MPICH_1, PROTOCOLS

KB, MB = 1 << 10, 1 << 20
SMALL_COUNTS = tuple(range(2, 33))
LARGE_COUNTS = (
    *(33, 36, 48, 60, 61, 64, 65, 66, 77, 80, 96, 97, 100, 128, 129, 130, 131, 192, 235, 251, 256),
    *(384, 512),
)
SIZES = (8, 32, 128, KB, 4 * KB, 16 * KB, 32 * KB, 64 * KB, 256 * KB, MB, 4 * MB)
QUICK_SIZES = (8, 32, KB, 16 * KB, 32 * KB, 256 * KB)
SUM = (("operand", "sum"),)

RUNS: dict[str, Run] = {
    "examples": Computation(trace_examples, "simulated, 1 time unit per byte"),
    "costs": Computation(compute_costs, "simulated beside the formulas"),
    "exponents": Computation(compute_exponents, "computed"),
    "Cray T3E": Simulation(
        "reduction",
        512,
        Options(SIZES, processes=SMALL_COUNTS + LARGE_COUNTS, only=("allreduce",)),
        Options(QUICK_SIZES, processes=SMALL_COUNTS + LARGE_COUNTS[:-2], only=("allreduce",)),
        machines.CRAY_T3E,
        PROTOCOLS,
        machines.ASSUMED,
        SUM,
    ),
    "Cray T3E, all algorithms": Simulation(
        "reduction",
        512,
        Options(SIZES, processes=SMALL_COUNTS + LARGE_COUNTS, only=("allreduce",)),
        Options(QUICK_SIZES, processes=SMALL_COUNTS + LARGE_COUNTS[:-2], only=("allreduce",)),
        machines.CRAY_T3E,
        note=machines.ASSUMED,
        labels=SUM,
    ),
    **rabenseifner_ratios.RUNS,
    **rabenseifner_bandwidths.RUNS,
    **rabenseifner_profile.RUNS,
}


# ---- figures


def show_figure_4(results: Results) -> Content:
    """Return the map of the fastest of the paper's protocols, and of all algorithms."""
    titles = {
        "Cray T3E": "Fastest of the paper's five protocols",
        "Cray T3E, all algorithms": "Fastest of all algorithms of mpiprof",
    }
    return Content(
        [
            rabenseifner_ratios.make_protocol_map(title, find_fastest(results.rows[run]))
            for run, title in titles.items()
        ]
    )


def show_figure_5(results: Results) -> Content:
    """Return the bandwidths with 32 KB over the processes, of the paper's protocols and of all."""
    figures = []
    titles = {"Cray T3E": "the paper's protocols", "Cray T3E, all algorithms": "all algorithms"}
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


def _show_table(run: str, title: str, results: Results) -> Content:
    rows = results.rows[run]
    return Content(tables=[Table(title, tuple(rows[0]), rows)])


EXHIBITS = (
    rabenseifner_profile.EXHIBIT,
    Exhibit(
        "Costs",
        "Sections 3.3 to 3.7",
        f"Simulated time over the formula, for {MPICH_1} and the other protocols, with f_alpha and "
        "f_beta of a full-duplex network (1) and of a simplex network (0.5).",
        ("costs",),
        lambda r: _show_table("costs", "Simulated time and formula", r),
        (
            Claim(
                "The formulas describe the protocols, with one-way costs as two-way costs.",
                lambda r: check_costs(r, 1.0),
            ),
            Claim(
                "With one-way costs of a half, too: all but the formulas of the next claim.",
                lambda r: check_costs(r, 0.5),
            ),
            Claim(
                "Also recursive doubling, and halving and doubling, off powers of two.",
                check_both_ways,
            ),
        ),
    ),
    Exhibit(
        "Figure 2",
        "Section 3.5",
        "Halving and doubling on 13 processes.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="halving_doubling")),
    ),
    Exhibit(
        "Figure 3",
        "Section 3.6",
        "Binary blocks on 13 processes.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="binary_blocks")),
    ),
    Exhibit(
        "Binary blocks",
        "Section 3.6",
        "Largest difference of successive exponents of numbers of processes.",
        ("exponents", "Cray T3E"),
        lambda r: _show_table("exponents", "Differences of exponents", r),
        (
            Claim("The paper's nine numbers of processes have these differences.", check_exponents),
            Claim("On powers of two they are halving and doubling.", check_powers),
        ),
    ),
    Exhibit(
        "Figure 4",
        "Section 4",
        "Fastest of the paper's five protocols, allreduce of doubles. The vendor's protocol is "
        "not among them. A second map has all algorithms of mpiprof.",
        ("Cray T3E", "Cray T3E, all algorithms"),
        show_figure_4,
        (
            Claim("Up to 32 B recursive doubling is the fastest.", check_short),
            Claim("Up to 1 KB the binary tree is the fastest off powers of two.", check_short_tree),
            Claim(
                "Up to 1 KB recursive doubling takes little longer than the fastest.",
                check_short_doubling,
            ),
            Claim("From 16 KB and 33 processes on, the rule selects the faster.", check_rule),
            Claim("On 33 processes halving is the fastest below 32 KB.", check_33),
            Claim("On 15 processes the ring is the fastest above 64 KB.", check_ring_of_15),
            Claim("For large buffers on powers of two, halving is the fastest.", check_largest),
        ),
    ),
    Exhibit(
        "Figure 5",
        "Section 4",
        "Bandwidth of allreduce of 32 KB over the processes: the paper's protocols, and all.",
        ("Cray T3E", "Cray T3E, all algorithms"),
        show_figure_5,
        (
            Claim("Binary blocks depend on the difference of exponents.", check_dependence),
            Claim("The new protocols are faster than the binary tree everywhere.", check_tree),
            Claim("The ring is the fastest on 3, 5, 7, 9 to 11 and 17.", check_ring_counts),
            Claim(
                "Halving and doubling is at least as fast as binary blocks on 33, 65, 66, 97 and "
                "128 to 131.",
                check_halving_ahead,
            ),
        ),
    ),
    *rabenseifner_ratios.EXHIBITS,
    rabenseifner_bandwidths.EXHIBIT,
)
CITATION = "Rabenseifner and Adamidis 2004"
PAPER = Paper("rabenseifner", CITATION, "https://www.cug.org", RUNS, EXHIBITS)
