"""Rabenseifner and Adamidis 2004, Section 5: benefit over other libraries, and bandwidths.

Figures 6 and 8 to 10 compare with vendors' libraries with unknown algorithms, on machines that
no longer exist. Here reduce and broadcast along binary trees are in their place, as in MPICH 1.
This is another comparison, so that the claims about the libraries are not reproducible. Figure 7
compares with MPICH 1 itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mpiprof.bench.harness.figures import Map
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCIBLE,
    Claim,
    Content,
    Exhibit,
    Results,
    Verdict,
)
from mpiprof.bench.papers.rabenseifner_claims import (
    check_benefit,
    find_benefits,
    find_fastest,
    find_times,
)
from mpiprof.bench.papers.runs import CLUSTER, Measurement, Run, Simulation
from mpiprof.bench.studies.reduction import PROTOCOLS, make_ratio_map
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import Machine

KB, MB = 1 << 10, 1 << 20
COUNTS = (2, 3, 4, 8, 12, 16, 24, 31, 32, 48, 64, 96, 128, 256)
SIZES = (8, 128, KB, 4 * KB, 8 * KB, 32 * KB, 64 * KB, 256 * KB, MB, 2 * MB, 8 * MB)
QUICK_SIZES = (8, KB, 8 * KB, 32 * KB, 256 * KB, 2 * MB, 8 * MB)
CLUSTER_COUNTS = (2, 3, 4, 8, 12, 16, 31, 32, 64, 96, 128, 256)
CLUSTER_SIZES = tuple(KB << i for i in range(0, 13, 2))
SUM = (("operand", "sum"),)
X1_MOST = 128  # processes
LONG_BYTES = 256 * KB
RECURSIVE = ("recursive_doubling",)
STAND_IN = (
    "the vendor's library is unknown and the machine no longer exists; in the library's place, "
    "reduce and broadcast along binary trees take"
)
IN_PLACE = "Reduce and broadcast along binary trees are in the place of the vendor's library."
Includes = Callable[[int, int], bool]  # of processes and bytes


def _simulate_ratios(
    machine: Machine,
    operations: tuple[str, ...] = ("allreduce",),
    per_node: int = 1,
    note: str = machines.ASSUMED,
    labels: tuple[tuple[str, str], ...] = SUM,
) -> Simulation:
    options = Options(SIZES, processes=COUNTS, only=operations, per_node=per_node)
    quick = Options(QUICK_SIZES, processes=COUNTS, only=operations, per_node=per_node)
    run = partial(Simulation, "reduction", max(COUNTS), options, quick)
    return run(machine, PROTOCOLS, note, labels)


def _simulate_cluster(per_node: int) -> Simulation:
    counts = CLUSTER_COUNTS
    options = Options(CLUSTER_SIZES, processes=counts, only=("allreduce",), per_node=per_node)
    note, machine = machines.ASSUMED, machines.MYRINET
    return Simulation("reduction", max(counts), options, None, machine, PROTOCOLS, note, SUM)


BOTH = ("allreduce", "reduce")
LIBRARY_WORDS = (
    *("reduction", *CLUSTER, "--processes", "9,12,15,16"),
    *("--sizes", "8K,256K,1M", "--only", ",".join((*BOTH, "native", *PROTOCOLS))),
)
# A number off powers of two, and a power of two, for which libraries have the paper's protocols.
QUICK_LIBRARY_WORDS = (
    *("reduction", "--cluster", "8x100mbit", "--processes", "7,8", "--sizes", "256K,1M"),
    *("--only", "allreduce,native,halving_doubling,binary_blocks,ring"),
)
RUNS: dict[str, Run] = {
    "IBM SP, process per CPU": _simulate_ratios(machines.IBM_SP, per_node=8),
    "IBM SP, process per node": _simulate_ratios(machines.IBM_SP),
    "Myrinet, process per CPU": _simulate_cluster(2),
    "Myrinet, process per node": _simulate_cluster(1),
    "Cray T3E, sum and maxloc": _simulate_ratios(machines.CRAY_T3E, BOTH, labels=()),
    "Cray X1": _simulate_ratios(machines.CRAY_X1, BOTH, note=machines.FITTED_X1),
    "library here": Measurement(LIBRARY_WORDS, 900, QUICK_LIBRARY_WORDS, 45),
}


# ---- figures


def _show_ratios(
    titles: Mapping[str, tuple[str, Mapping[str, str]]], excluded: Sequence[str], results: Results
) -> Content:
    """Return a plot for each title: rows of a run with these labels."""
    figures = []
    for title, (run, labels) in titles.items():
        figures.append(make_ratio_map(title, _find_ratios(results, run, labels, excluded)))
    return Content(figures)


def _find_ratios(
    results: Results, run: str, labels: Mapping[str, str], excluded: Sequence[str]
) -> dict[tuple[int, int], float]:
    return find_benefits(results.select(run, **labels), excluded)


def show_figure_9(results: Results) -> Content:
    """Return the ratios, and the map of the fastest protocol."""
    rows = results.select("Cray X1", operation="allreduce")
    fastest = find_fastest(rows)
    return Content(
        [
            make_ratio_map("Allreduce, sum, Cray X1", find_benefits(rows, ())),
            make_protocol_map("Fastest protocol", fastest),
        ]
    )


def make_protocol_map(title: str, fastest: Mapping[tuple[int, int], str]) -> Map:
    """Return the map of the fastest protocol by processes and size."""
    sizes, counts = sorted({n for _, n in fastest}), sorted({p for p, _ in fastest})
    rows = [(str(p), [fastest[p, n] for n in sizes]) for p in counts]
    return Map(title, [format_round_size(n).replace(" ", "") for n in sizes], rows)


def find_library_ratios(
    rows: Sequence[Row], operation: str, operand: str
) -> dict[tuple[int, int], float]:
    """Return the library's time over the fastest protocol's, by processes and bytes."""
    wanted = {"operation": operation, "operand": operand}
    cells = find_times([row for row in rows if wanted.items() <= row.items()])
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


# ---- claims


def state_library(results: Results) -> Verdict:
    """Return the ratios of long vectors to the library of this installation.

    "Most vendors are using algorithms that can be improved by a factor of more than 2 for long
    vectors" (Section 1). That is about the libraries of that time. Libraries of today have the
    paper's protocols, at least for powers of two.
    """
    ratios = find_library_ratios(results.rows["library here"], "allreduce", "sum")
    cells = ", ".join(
        f"{ratio:.3g} ({format_round_size(n)} on {p})"
        for (p, n), ratio in ratios.items()
        if n >= LONG_BYTES
    )
    fact = "the vendors' libraries of that time no longer exist"
    return Verdict(NOT_REPRODUCIBLE, f"{fact}; the library here over the fastest protocol: {cells}")


def state_ratios(
    run: str,
    labels: Mapping[str, str],
    excluded: Sequence[str],
    includes: Includes,
    where: str,
    results: Results,
) -> Verdict:
    """Return the ratios to the stand-in, which cannot reproduce a claim about the library."""
    ratios = _find_ratios(results, run, labels, excluded)
    found = [ratio for (p, n), ratio in ratios.items() if includes(p, n)]
    times = f"{min(found):.3g} to {max(found):.3g} times as long as the fastest protocol {where}"
    return Verdict(NOT_REPRODUCIBLE, f"{STAND_IN} {times}")


def _claim(
    text: str, run: str, includes: Includes, where: str, excluded: Sequence[str] = (), **labels: str
) -> Claim:
    check = partial(state_ratios, run, labels, excluded, includes, where)
    return Claim(text, check)


def state_latencies(results: Results) -> Verdict:
    """Return the simulated latencies of the protocols; the vendor's use shared memory."""
    rows = results.select("Cray X1", operation="allreduce", bytes=8)
    times = find_times([row for row in rows if row["processes"] <= X1_MOST])
    best = [min(several.values()) * 1e3 for several in times.values()]
    paper = results.values.column("Figure 9", "latency")
    fact = "the vendor's routine and the machine no longer exist; 8 B take the protocols here"
    found = f"{min(best):.3g} to {max(best):.3g} us"
    limits = f"{paper['one double, new, least']:g} to {paper['one double, new, most']:g} us"
    return Verdict(
        NOT_REPRODUCIBLE, f"{fact} {found} on 2 to {X1_MOST} processes (paper: {limits})"
    )


# ---- exhibits


def _compare_placements(
    name: str, caption: str, machine: str, claims: tuple[Claim, ...]
) -> Exhibit:
    """Return the figure of a machine with one process per processor, and one per node."""
    runs = (f"{machine}, process per CPU", f"{machine}, process per node")
    show = partial(_show_ratios, {run: (run, {}) for run in runs}, RECURSIVE)
    return Exhibit(name, "Section 5", f"{caption} Without recursive doubling.", runs, show, claims)


EXHIBITS = (
    _compare_placements(
        "Figure 6",
        f"Benefit on an IBM SP with 8 processes per node, and with one. {IN_PLACE}",
        "IBM SP",
        (
            _claim(
                "With one process per CPU it is about 1.5 from 8 to 64 KB.",
                "IBM SP, process per CPU",
                lambda _, n: 8 * KB <= n <= 64 * KB,
                "from 8 to 64 KB",
                RECURSIVE,
            ),
            _claim(
                "With one process per CPU it is 2 to 5 above 64 KB.",
                "IBM SP, process per CPU",
                lambda _, n: n > 64 * KB,
                "above 64 KB",
                RECURSIVE,
            ),
            _claim(
                "With one process per node it is 1.5 to 3 from 4 to 128 KB on more than 4 nodes.",
                "IBM SP, process per node",
                lambda p, n: p > 4 and 4 * KB <= n <= 128 * KB,
                "from 4 to 128 KB on more than 4 nodes",
                RECURSIVE,
            ),
        ),
    ),
    _compare_placements(
        "Figure 7",
        "Benefit over MPICH 1, whose allreduce is a reduce and a broadcast along binary trees, on "
        "a Myrinet cluster with two CPUs per node.",
        "Myrinet",
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
    Exhibit(
        "Figure 8",
        "Section 5",
        f"Benefit on a Cray T3E, allreduce and reduce, sum and maxloc. {IN_PLACE}",
        ("Cray T3E, sum and maxloc",),
        partial(
            _show_ratios,
            {
                f"{operation}, {operand}, Cray T3E": (
                    "Cray T3E, sum and maxloc",
                    {"operation": operation, "operand": operand},
                )
                for operand in ("sum", "maxloc")
                for operation in BOTH
            },
            (),
        ),
        (
            _claim(
                "With sum it is 3 to 5 in many cases.",
                "Cray T3E, sum and maxloc",
                lambda _, n: n >= 64 * KB,
                "from 64 KB on",
                operand="sum",
                operation="allreduce",
            ),
            _claim(
                "With maxloc it is up to 100, because the library's derived types are slow.",
                "Cray T3E, sum and maxloc",
                lambda _, n: n >= 64 * KB,
                "from 64 KB on, without slow types",
                operand="maxloc",
                operation="allreduce",
            ),
        ),
    ),
    Exhibit(
        "Figure 9",
        "Section 5",
        f"Benefit of allreduce on a Cray X1, and the fastest protocol. {IN_PLACE}",
        ("Cray X1",),
        show_figure_9,
        (
            Claim("The vendor's latency is up to 14 times shorter.", state_latencies),
            _claim(
                "On 96 and more processes it is at least 1.35 from 32 KB on.",
                "Cray X1",
                lambda p, n: p >= 96 and n >= 32 * KB,
                "on 96 and more processes from 32 KB on",
                operation="allreduce",
            ),
            _claim(
                "On 96 and more processes it is 4 to 10 from 256 KB on.",
                "Cray X1",
                lambda p, n: p >= 96 and n >= 256 * KB,
                "on 96 and more processes from 256 KB on",
                operation="allreduce",
            ),
        ),
    ),
    Exhibit(
        "Figure 10",
        "Section 5",
        f"Benefit of reduce on a Cray X1. {IN_PLACE}",
        ("Cray X1",),
        partial(_show_ratios, {"Reduce, sum, Cray X1": ("Cray X1", {"operation": "reduce"})}, ()),
        (
            _claim(
                "On more than 8 processes it is 1.14 to 2.01 from 2 MB on.",
                "Cray X1",
                lambda p, n: p > 8 and n >= 2 * MB,
                "on more than 8 processes from 2 MB on",
                operation="reduce",
            ),
        ),
    ),
    Exhibit(
        "Library here",
        "Sections 1 and 5",
        "Time of this installation's MPI library over the fastest protocol, measured on an "
        "emulated cluster. The paper has no such figure.",
        ("library here",),
        show_library,
        (Claim("Long vectors can be more than twice as fast.", state_library),),
    ),
)
