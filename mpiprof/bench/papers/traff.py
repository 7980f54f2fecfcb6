"""Träff et al. 2009: a pipelined ring for irregular allgathers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mpiprof.bench.harness.figures import Bars, Lines, Panels, Series
from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import machines
from mpiprof.bench.papers.exhibits import Claim, Content, Exhibit, Paper, Results
from mpiprof.bench.papers.runs import Run, Simulation
from mpiprof.bench.papers.schedule_pictures import show_schedules
from mpiprof.bench.papers.traff_claims import (
    SMALL_BLOCKS,
    check_best_block,
    check_decreasing,
    check_gain_of_broadcast,
    check_growth,
    check_idle,
    check_outperforms,
    check_similar_rings,
    check_small_blocks,
    check_spike,
    check_twice,
    find_curves,
    find_idle_curves,
)
from mpiprof.bench.papers.traff_formulas import (
    FIGURE_8_CALLS,
    FORMULA_RUNS,
    check_figure_3,
    check_formula_1,
    check_formula_2,
    check_never_worse,
    show_block_sizes,
    show_rounds,
)
from mpiprof.bench.papers.traff_permuted import PERMUTED_RUNS, check_permutation, show_communicators
from mpiprof.interface.format_units import format_round_size
from mpiprof.model.machine import Machine

KB, MB = 1 << 10, 1 << 20
INFINIBAND_BLOCKS = (32 * KB, 64 * KB, 128 * KB, 512 * KB, MB)
DISTRIBUTION_NUMBERS = {"broadcast": 2, "spike": 3, "decreasing": 5, "geometric": 6}


def _simulate(
    processes: int,
    machine: Machine,
    only: str,
    sizes: Sequence[int],
    quick: Sequence[int],
    blocks: Sequence[int] = (32 * KB,),
    per_node: int = 1,
    counts: Sequence[int] = (),
) -> Simulation:
    """Return a simulation of the linear ring, and of the pipelined ring at these block sizes."""

    def make_options(selected: Sequence[int]) -> Options:
        words, numbers = tuple(only.split()), tuple(counts)
        blocks_of_run = tuple(blocks)
        return Options(tuple(selected), blocks_of_run, numbers, only=words, per_node=per_node)

    note = machines.MEASURED if machine == machines.GIGABIT else machines.ASSUMED
    choices = ("linear_ring", *(f"pipelined_ring:block_size={b}" for b in blocks))
    full, short = make_options(sizes), make_options(quick)
    return Simulation("allgatherv", processes, full, short, machine, choices, note)


SX8_SIZES = tuple(64 * KB << i for i in range(10))  # to 32 MB
SMALL_SIZES = tuple(KB << i for i in range(0, 14, 2))
SICORTEX_SIZES = tuple(64 << i for i in range(0, 11, 2))
RUNS: dict[str, Run] = {
    **FORMULA_RUNS,
    **PERMUTED_RUNS,
    "NEC SX-8": _simulate(
        30, machines.NEC_SX8, "regular broadcast spike half_full decreasing geometric",
        SX8_SIZES, SX8_SIZES[::3], (MB,),
    ),
    "NEC SX-8, 8 per node": _simulate(
        240, machines.NEC_SX8, "broadcast spike", SX8_SIZES, SX8_SIZES[::3], (MB,), 8
    ),
    "InfiniBand": _simulate(
        32, machines.INFINIBAND, "regular spike decreasing", SX8_SIZES[:8], SX8_SIZES[:8:3],
        INFINIBAND_BLOCKS, 2,
    ),
    # Smaller blocks than the paper's: see check_decreasing.
    SMALL_BLOCKS: _simulate(
        32, machines.INFINIBAND, "decreasing", SX8_SIZES[:4:3], SX8_SIZES[:4:3], (2 * KB,), 2
    ),
    "Gigabit Ethernet": _simulate(
        96, machines.GIGABIT, "broadcast spike geometric", SMALL_SIZES, SMALL_SIZES[::2],
        per_node=4,
    ),
    "Gigabit Ethernet, processes": _simulate(
        96, machines.GIGABIT, "geometric", SMALL_SIZES, SMALL_SIZES[::2], per_node=4,
        counts=(4, 8, 16, 32, 48, 64, 96),
    ),
    "SiCortex": _simulate(
        5772, machines.SICORTEX, "geometric", SICORTEX_SIZES, (1024, 16 * KB)
    ),
    "Blue Gene/P, sizes": _simulate(
        65536, machines.BLUE_GENE_P, "geometric", (8, 64, 512, 4096), (8, 64, 512, 4096)
    ),
    "Blue Gene/P, processes": _simulate(
        65536, machines.BLUE_GENE_P, "geometric", (64,), (64,),
        counts=(1024, 2048, 4096, 8192, 16384, 32768),
    ),
}  # fmt: skip


# ---- figures


def _plot(results: Results, run: str, distribution: str, x: str = "c", title: str = "") -> Lines:
    return _plot_rows(results.rows[run], distribution, x, title)


def _plot_rows(rows: Sequence[Row], distribution: str, x: str, title: str) -> Lines:
    curves = find_curves(rows, distribution, x)
    series = [Series.of_points(name, points) for name, points in curves.items()]
    ticks: Callable[[float], str] = format_round_size if x == "c" else "{:.0f}".format
    return Lines(title or distribution, series, x, "ms", ticks=ticks)


def show_figure_4(results: Results) -> Content:
    """Return the six plots of the NEC SX-8."""
    runs = [("NEC SX-8", name) for name in DISTRIBUTION_NUMBERS]
    runs += [("NEC SX-8, 8 per node", name) for name in ("broadcast", "spike")]
    panels = [
        _plot(results, run, name, title=f"({DISTRIBUTION_NUMBERS[name]}) {name}{run[8:]}")
        for run, name in runs
    ]
    return Content([Panels("Distributions on 30 nodes, B = 1 MB", panels, 2)])


def show_figure_5(results: Results) -> Content:
    """Return the times at several block sizes."""
    panels = [_plot(results, "InfiniBand", name) for name in ("spike", "decreasing")]
    return Content([Panels("32 processes on 16 nodes, by block size", panels, 2)])


def show_figure_6(results: Results) -> Content:
    """Return the times of spike and geometric."""
    panels = [_plot(results, "Gigabit Ethernet", name) for name in ("spike", "geometric")]
    return Content([Panels("96 processes, B = 32 KB", panels, 2)])


def show_figure_7(results: Results) -> Content:
    """Return the times over the processes, and communication and idle times of broadcast."""
    rows = results.rows["Gigabit Ethernet, processes"]
    sizes = sorted({row["c"] for row in rows})
    left = [
        _plot_rows(
            [row for row in rows if row["c"] == c], "geometric", "processes",
            f"c = {format_round_size(c)}",
        )
        for c in sizes
    ]  # fmt: skip
    parts = find_idle_curves(results.select("Gigabit Ethernet", distribution="broadcast"))
    series = [Series.of_points(name, points) for name, points in parts.items()]
    swept = Lines("broadcast", series, "c", "ms", ticks=format_round_size)
    largest = {name: points[-1][1] for name, points in parts.items()}
    rings = ("linear ring", "pipelined ring")
    bars = {
        part: [largest[f"{ring}, {part}"] for ring in rings] for part in ("communication", "idle")
    }
    title = f"broadcast of {format_round_size(parts[f'{rings[0]}, idle'][-1][0])}"
    compared = Bars(title, rings, bars, "ms", "{:g}".format)
    return Content(
        [
            Panels("Left: geometric over the processes", left, 2),
            Panels("Right: communication and idle time", [compared, swept], 2),
        ]
    )


def show_figure_8(results: Results) -> Content:
    """Return the two rings in space and time."""
    rows = [row for row in results.rows["examples"] if row["panel"].endswith("ring")]
    title = f"{FIGURE_8_CALLS} broadcasts of 1 MB on 16 processes, B = 32 KB"
    return show_schedules(title, rows, 2, receives=True)


def show_figure_10(results: Results) -> Content:
    """Return the times over size, and over processes."""
    left = _plot(results, "Blue Gene/P, sizes", "geometric", title="65536 processes")
    both: list[Row] = results.rows["Blue Gene/P, processes"] + [
        row for row in results.rows["Blue Gene/P, sizes"] if row["c"] == 64
    ]
    joined = Results({"both": both}, results.values)
    right = _plot(joined, "both", "geometric", "processes", "c = 64 B")
    return Content([Panels("Geometric, B = 32 KB", [left, right], 2)])


def _similar_rings(distribution: str) -> Claim:
    text = f"Both rings take as long for {distribution.replace('_', ' ')} data."
    return Claim(text, partial(check_similar_rings, distribution=distribution))


EXHIBITS = (
    Exhibit(
        "Figure 1",
        "Section 2.2",
        "Ring on nodes of 1, 5, 2, 1, 1 and 1 processes, in the order of nodes.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="Figure 1")),
    ),
    Exhibit(
        "Formula (1)",
        "Section 2.2",
        "Rounds of the pipelined ring: all blocks but the fewest of a process.",
        ("rounds",),
        show_rounds,
        (Claim("The ring ends after r rounds.", check_formula_1),),
    ),
    Exhibit(
        "Figure 2",
        "Section 2.2",
        "Pipelined ring on 6 processes with 40, 10, 25, 5, 10 and 20 bytes, in blocks of 10.",
        ("examples",),
        lambda r: show_schedules("", r.select("examples", panel="Figure 2")),
    ),
    Exhibit(
        "Figure 3",
        "Section 2.3",
        "Rounds with empty processes between others. The text gives no example: here three "
        "processes have three blocks each, and three have none.",
        ("rounds",),
        show_rounds,
        (Claim("The example takes 9 rounds, and 11 by (1).", check_figure_3),),
    ),
    Exhibit(
        "Formula (2)",
        "Section 2.4",
        "Block size of least time, beside the best by the exact number of rounds.",
        ("block sizes",),
        show_block_sizes,
        (
            Claim("(2) approximates the best block size.", check_formula_2),
            Claim("With the right block size the ring is never slower.", check_never_worse),
        ),
    ),
    Exhibit(
        "Figure 4",
        "Section 3.1",
        "Linear and pipelined ring over c on the NEC SX-8.",
        ("NEC SX-8", "NEC SX-8, 8 per node"),
        show_figure_4,
        (
            Claim("Broadcast of 32 MB is more than 10 times as fast.", check_gain_of_broadcast),
            Claim("The linear ring takes twice as long for broadcast as for spike.", check_twice),
            Claim("The pipelined ring takes similar times for broadcast and spike.", check_spike),
            _similar_rings("regular"),
            _similar_rings("half_full"),
        ),
    ),
    Exhibit(
        "Permuted communicator",
        "Section 3.1",
        "Both rings on MPI_COMM_WORLD and on a randomly permuted communicator, with 1 and 8 "
        "processes per node.",
        ("permuted",),
        show_communicators,
        (Claim("A permutation changes almost nothing.", check_permutation),),
    ),
    Exhibit(
        "Figure 5",
        "Section 3.2",
        "Spike and decreasing on 16 nodes of 2 processes, at five block sizes.",
        ("InfiniBand", SMALL_BLOCKS),
        show_figure_5,
        (
            Claim("For spike, all block sizes are faster.", check_small_blocks),
            Claim("For decreasing, a too small block is slower.", check_decreasing),
            Claim("The best block size depends on size and distribution.", check_best_block),
        ),
    ),
    Exhibit(
        "Figure 6",
        "Section 3.3",
        "Spike and geometric on 96 processes, 4 per node.",
        ("Gigabit Ethernet",),
        show_figure_6,
        (Claim("The difference grows with the size.", check_growth),),
    ),
    Exhibit(
        "Figure 7",
        "Section 3.3",
        "Left: geometric over the processes, for the constants c of Figure 6 (the text gives no "
        "c). Right: mean time in which a port must be busy, and the rest of the time in the call.",
        ("Gigabit Ethernet", "Gigabit Ethernet, processes"),
        show_figure_7,
        (Claim("Processes idle longer in the linear ring.", check_idle),),
    ),
    Exhibit(
        "Figure 8",
        "Section 3.3",
        "Linear and pipelined ring in space and time, several calls. Dark: sending or receiving; "
        "light: idle.",
        ("examples",),
        show_figure_8,
    ),
    Exhibit(
        "Figure 9",
        "Section 3.4",
        "Geometric on 5772 processes over c.",
        ("SiCortex",),
        lambda r: Content([_plot(r, "SiCortex", "geometric", title="geometric, B = 32 KB")]),
        (Claim("The pipelined ring is faster.", lambda r: check_outperforms(r, "SiCortex")),),
    ),
    Exhibit(
        "Figure 10",
        "Section 3.5",
        "Geometric on 65536 processes over c, and over the processes at c = 64 B.",
        ("Blue Gene/P, sizes", "Blue Gene/P, processes"),
        show_figure_10,
        (
            Claim(
                "The pipelined ring outperforms the linear ring at 65536 processes.",
                lambda r: check_outperforms(r, "Blue Gene/P, sizes"),
            ),
            Claim(
                "It does so over the numbers of processes.",
                lambda r: check_outperforms(r, "Blue Gene/P, processes", "processes"),
            ),
        ),
    ),
)  # fmt: skip
PAPER = Paper(
    "traff", "Träff et al. 2009", "https://doi.org/10.1177/1094342009359013", RUNS, EXHIBITS
)
