"""Rabenseifner and Adamidis 2004: reduce and allreduce."""

from __future__ import annotations

from mpiprof.bench.harness.figures import Lines, Map, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import (
    Claim,
    Content,
    Exhibit,
    Paper,
    Results,
    Table,
    Verdict,
    make_series,
)
from mpiprof.bench.papers.rabenseifner_claims import (
    MPICH_1,
    PROTOCOLS,
    check_benefit,
    check_costs,
    check_exponents,
    check_halving_ahead,
    check_largest,
    check_ring_counts,
    check_ring_of_15,
    check_rule,
    check_short,
    check_tree,
    compute_costs,
    compute_exponents,
    find_benefits,
    find_fastest,
    trace_examples,
)
from mpiprof.bench.papers.runs import Computation, Run, Simulation
from mpiprof.bench.papers.schedule_pictures import show_schedules
from mpiprof.interface.format_units import format_round_size

KB, MB = 1 << 10, 1 << 20
SMALL_COUNTS = tuple(range(2, 33))
LARGE_COUNTS = (
    *(33, 36, 48, 60, 61, 64, 65, 66, 77, 80, 96, 97, 100, 128, 129, 130, 131, 192, 235, 251, 256),
    *(384, 512),
)
SIZES = (8, 32, 128, KB, 4 * KB, 16 * KB, 32 * KB, 64 * KB, 256 * KB, MB, 4 * MB)
QUICK_SIZES = (8, 32, KB, 16 * KB, 32 * KB, 256 * KB)
CLUSTER_COUNTS = (2, 3, 4, 8, 12, 16, 31, 32, 64, 96, 128, 256)
CLUSTER_SIZES = tuple(KB << i for i in range(0, 13, 2))
SUM = (("operand", "sum"),)
GONE = "needs the vendor's library, whose algorithm is unknown, and a machine that no longer exists"


def _simulate_cluster(per_node: int) -> Simulation:
    options = Options(
        CLUSTER_SIZES, processes=CLUSTER_COUNTS, only=("allreduce",), per_node=per_node
    )
    note, machine = machines.ASSUMED, machines.MYRINET
    return Simulation("reduction", 256, options, None, machine, PROTOCOLS, note, SUM)


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
    "Myrinet, process per CPU": _simulate_cluster(2),
    "Myrinet, process per node": _simulate_cluster(1),
}


# ---- figures


def show_figure_4(results: Results) -> Content:
    """Return the map of the fastest of the paper's protocols."""
    fastest = find_fastest(results.rows["Cray T3E"])
    sizes, counts = sorted({n for _, n in fastest}), sorted({p for p, _ in fastest})
    rows = [(str(p), [fastest[p, n] for n in sizes]) for p in counts]
    return Content([Map("Fastest protocol, by processes and size", [*map(_format, sizes)], rows)])


def _format(size: int) -> str:
    return format_round_size(size).replace(" ", "")


def show_figure_5(results: Results) -> Content:
    """Return the bandwidths with 32 KB over the processes."""
    rows: list[Row] = [
        row | {"MB/s": row["bytes"] / row["median ms"] / 1e3}
        for row in results.select("Cray T3E", bytes=32 * KB)
    ]
    names = {name: name.replace("_", " ") for name in PROTOCOLS}
    series = make_series(rows, "processes", "MB/s", "algorithm", names)
    return Content([Lines("Allreduce of 32 KB", series, "processes", "MB/s", y_scale="linear")])


def show_figure_7(results: Results) -> Content:
    """Return the benefit over MPICH 1 by size, for some numbers of processes."""
    panels = []
    for run in ("Myrinet, process per CPU", "Myrinet, process per node"):
        benefits = find_benefits(results.rows[run])
        lines = [
            Series.of_points(f"p = {p}", sorted((n, r) for (q, n), r in benefits.items() if q == p))
            for p in sorted({p for p, _ in benefits})
        ]
        axes = ("buffer", "ratio of bandwidths")
        panels.append(Lines(run, lines, *axes, y_scale="linear", ticks=format_round_size))
    return Content([Panels("Fastest protocol over reduce and broadcast of MPICH 1", panels, 2)])


def _show_table(run: str, title: str, results: Results) -> Content:
    rows = results.rows[run]
    return Content(tables=[Table(title, tuple(rows[0]), rows)])


def _missing(number: str, shows: str, claim: str, why: str = GONE) -> Exhibit:
    return Exhibit(number, "Section 5", shows, claims=(Claim(claim, _check_nothing),), missing=why)


def _check_nothing(_: Results) -> Verdict:
    raise AssertionError("a missing exhibit has no results")


EXHIBITS = (
    Exhibit(
        "Figure 1",
        "Section 1",
        "Saving of communication time over a profile of five years.",
        claims=(Claim("Allreduce takes 20 % less time, reduce 54 %.", _check_nothing),),
        missing="the profile is not published; a study of a trace in its place does not exist yet",
    ),
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
                "The formulas describe the protocols, with one-way costs of a half.",
                lambda r: check_costs(r, 0.5),
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
        ("exponents",),
        lambda r: _show_table("exponents", "Differences of exponents", r),
        (Claim("The paper's nine numbers of processes have these differences.", check_exponents),),
    ),
    Exhibit(
        "Figure 4",
        "Section 4",
        "Fastest of the paper's five protocols, allreduce of doubles. The vendor's protocol is "
        "not among them.",
        ("Cray T3E",),
        show_figure_4,
        (
            Claim("Up to 32 B recursive doubling is the fastest.", check_short),
            Claim("From 16 KB and 33 processes on, the rule selects the faster.", check_rule),
            Claim("On 15 processes the ring is the fastest above 64 KB.", check_ring_of_15),
            Claim("For large buffers on powers of two, halving is the fastest.", check_largest),
        ),
    ),
    Exhibit(
        "Figure 5",
        "Section 4",
        "Bandwidth of allreduce of 32 KB over the processes.",
        ("Cray T3E",),
        show_figure_5,
        (
            Claim("The new protocols are faster than the binary tree everywhere.", check_tree),
            Claim("The ring is the fastest on 3, 5, 7, 9 to 11 and 17.", check_ring_counts),
            Claim(
                "Halving and doubling is at least as fast as binary blocks on 33, 65, 66, 97 and "
                "128 to 131.",
                check_halving_ahead,
            ),
        ),
    ),
    _missing("Figure 6", "Benefit on an IBM SP.", "It is 1.5 to 5 above 8 KB."),
    Exhibit(
        "Figure 7",
        "Section 5",
        "Benefit over MPICH 1, whose allreduce is a reduce and a broadcast along binary trees, on "
        "a Myrinet cluster with two CPUs per node. Without recursive doubling.",
        ("Myrinet, process per CPU", "Myrinet, process per node"),
        show_figure_7,
        (
            Claim(
                "It is 3 to 7 with one process per CPU.",
                lambda r: check_benefit(r, "process per CPU"),
            ),
            Claim(
                "It is 2 to 5 with one process per node.",
                lambda r: check_benefit(r, "process per node"),
            ),
        ),
    ),
    _missing("Figure 8", "Benefit on a Cray T3E, sum and maxloc.", "It is 3 to 5, and up to 100."),
    _missing("Figure 9", "Benefit of allreduce on a Cray X1.", "It is 4 to 10 from 256 KB on."),
    _missing("Figure 10", "Benefit of reduce on a Cray X1.", "It is 1.14 to 2.01 from 2 MB on."),
    _missing("Bandwidths", "Bandwidths of 8 MB on a Cray X1.", "They are 719 to 1792 MB/s."),
)
CITATION = "Rabenseifner and Adamidis 2004"
PAPER = Paper("rabenseifner", CITATION, "https://www.cug.org", RUNS, EXHIBITS)
