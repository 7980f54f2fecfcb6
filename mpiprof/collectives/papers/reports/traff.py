"""Träff et al. 2009: a pipelined ring for irregular allgathers, its rounds, block sizes and curves.

On nodes with several processes a ring in rank order crosses between nodes once per node on
MPI_COMM_WORLD, but almost at every rank of a permuted communicator (Section 3.1). All processes of
a node share one port to other nodes. The paper's ring is in the order of nodes instead (Section
2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mpiprof.collectives import catalogue
from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.papers.harness.figures import Bars, Lines, Panels, Series
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.exhibits import Content, Results, make_table
from mpiprof.collectives.papers.reports.machines import GIGABIT, INFINIBAND
from mpiprof.collectives.papers.reports.schedule_pictures import show_schedules
from mpiprof.collectives.pipeline_formulas import (
    best_ring_block,
    count_blocks,
    count_skipping_ring_rounds,
    ring_block_size,
    ring_order,
)
from mpiprof.collectives.problem_spec import assign_nodes
from mpiprof.collectives.schedule import Problem, Schedule
from mpiprof.collectives.simulate import simulate
from mpiprof.interface.format_units import format_round_size

# Three processes with three blocks each, and three without data: the numbers of Figure 3.
FIGURE_3, EXAMPLE_BLOCK = (30, 30, 30, 0, 0, 0), 10
PROCESSES, BASE = 24, 1 << 16
LINEAR, PIPELINED = "linear_ring", "pipelined_ring"
SX8, SX8_NODES, SX8_BLOCK = "NEC SX-8", 30, 1 << 20
SMALL_BLOCKS = "InfiniBand, small blocks"
Curve = list[tuple[int, float]]


# ---- rounds


def _count_schedule_rounds(counts: tuple[int, ...], block: int, order: str = "ranks") -> int:
    algorithm = catalogue.find("allgatherv", PIPELINED)
    problem = Problem(len(counts), counts=counts, block_size=block, order=order)
    rounds = 0
    for rank in range(len(counts)):
        with Schedule(algorithm, problem, rank) as schedule:
            rounds = max(rounds, schedule.rounds)
    return rounds


def count_rounds(_: bool) -> list[Row]:
    """Return the rounds of the schedule and of formula (1), by distribution."""
    rows: list[Row] = []
    for name, distribute in DISTRIBUTIONS.items():
        counts = distribute(BASE, PROCESSES)
        block = max(max(counts) // 8, 1)
        formula = count_formula_1(counts, block)
        rounds = _count_schedule_rounds(counts, block)
        rows.append({"distribution": name, "rounds": rounds, "formula (1)": formula})
    example = {"distribution": "Figure 3", "formula (1)": count_formula_1(FIGURE_3, EXAMPLE_BLOCK)}
    spread = [FIGURE_3[rank] for rank in ring_order(FIGURE_3, "spread")]
    return [*rows, example | {"rounds": count_skipping_ring_rounds(spread, EXAMPLE_BLOCK)}]


def count_formula_1(counts: tuple[int, ...], block: int) -> int:
    """Return formula (1)."""
    blocks = [max(1, int(n)) for n in count_blocks(counts, block)]
    return sum(blocks) - min(blocks)


def list_example_rounds(results: Results) -> list[Row]:
    """Return the rounds of the example in Figure 3, by the schedule and by formula (1)."""
    (row,) = results.select("rounds", distribution="Figure 3")
    return [
        {"column": name, "number": row[name], "rounds": row["rounds"], "by (1)": row["formula (1)"]}
        for name in ("rounds", "formula (1)")
    ]


# ---- block size


def compare_block_sizes(_: bool) -> list[Row]:
    """Return the time at the block size of formula (2), at the best, and of the linear ring.

    The paper's (p + z)/2 in (2) must be (p - z)/2: with b - z = m/B + (p - z)/2, the b - z - 1 + z'
    rounds are m/B + (p - z)/2 - 1 + z'. Both sizes are compared.
    """
    rows: list[Row] = []
    pipelined, linear = (catalogue.find("allgatherv", name) for name in (PIPELINED, LINEAR))
    alpha, beta = GIGABIT.alpha, GIGABIT.beta
    for name, distribute in DISTRIBUTIONS.items():
        counts = distribute(BASE, PROCESSES)
        formula = ring_block_size(counts, alpha, beta)
        corrected = ring_block_size(counts, alpha, beta, corrected=True)
        best = best_ring_block(counts, alpha, beta)
        times = [
            simulate(pipelined, Problem(PROCESSES, counts=counts, block_size=b), GIGABIT).after_last
            for b in (formula, corrected, best)
        ]
        ring = simulate(linear, Problem(PROCESSES, counts=counts), GIGABIT).after_last
        rows.append(
            {"distribution": name, "B of (2)": formula, "B with p - z": corrected, "best B": best}
            | {"time of (2) / best": times[0] / times[2]}
            | {"time with p - z / best": times[1] / times[2], "linear ring / best": ring / times[2]}
        )
    return rows


# ---- curves of the rings


def find_curves(rows: Sequence[Row], distribution: str, x: str = "c") -> dict[str, Curve]:
    """Return the least times of each ring over c or the processes.

    A block that is not smaller than the largest contribution makes the pipelined ring the linear
    ring. The study omits these points, so they have the linear ring's time here.
    """
    times: dict[str, dict[int, float]] = {}
    for row in [row for row in rows if row["distribution"] == distribution]:
        times.setdefault(row["algorithm"], {})[row[x]] = row["least ms"]
    linear = times.pop(LINEAR)
    curves = {"linear ring": sorted(linear.items())}
    blocks = {int(name.rpartition("=")[2]): curve for name, curve in times.items()}
    for block, curve in sorted(blocks.items()):
        label = f"pipelined, B = {format_round_size(block)}"
        curves[label] = sorted((linear | curve).items())
    if len(curves) == 1:
        curves["pipelined"] = curves["linear ring"]
    return curves


def list_curves(results: Results, run: str, distribution: str, x: str = "c") -> list[Row]:
    """Return the times of both rings at each block size and x, and whether there are blocks."""
    rows = [row for row in results.rows[run] if row["distribution"] == distribution]
    split = {row[x] for row in rows if row["algorithm"] != LINEAR}
    (_, linear), *pipelined = find_curves(rows, distribution, x).items()
    return [
        {"ring": ring, x: at, "linear": ms, "pipelined": under, "ratio": ms / under}
        | {"split": at in split}
        for ring, points in pipelined
        for (at, ms), (_, under) in zip(linear, points, strict=True)
    ]


def find_idle_curves(rows: Sequence[Row]) -> dict[str, Curve]:
    """Return communication and idle times of each ring over c, such as "linear ring, idle"."""
    curves: dict[str, Curve] = {}
    for part in ("communication", "idle"):
        linear, pipelined = _split_rings(rows, f"{part} ms")
        curves[f"linear ring, {part}"] = sorted(linear.items())
        curves[f"pipelined ring, {part}"] = sorted((linear | pipelined).items())
    return curves


def _split_rings(rows: Sequence[Row], column: str) -> tuple[dict[int, float], dict[int, float]]:
    """Return a column of the linear ring and of the pipelined ring, by c."""
    linear = {row["c"]: row[column] for row in rows if row["algorithm"] == LINEAR}
    return linear, {row["c"]: row[column] for row in rows if row["algorithm"] != LINEAR}


# ---- cases of claims


def compare_distributions(results: Results) -> list[Row]:
    """Return the times for broadcast over those for spike, where both have several blocks.

    The paper gives no number for the pipelined ring, but contrasts it with the linear ring, which
    takes twice as long for broadcast. Times are similar if their ratio is nearer to 1 than to that
    of the linear ring at the largest size.
    """
    names = ("broadcast", "spike")
    over, under = ({r["c"]: r for r in list_curves(results, SX8, name)} for name in names)
    linear = over[max(over)]["linear"] / under[max(under)]["linear"]
    rows: list[Row] = []
    for c in sorted(over.keys() & under.keys()):
        if over[c]["split"] and under[c]["split"]:
            rounds = {d: count_formula_1(DISTRIBUTIONS[d](c, SX8_NODES), SX8_BLOCK) for d in names}
            ratio = over[c]["pipelined"] / under[c]["pipelined"]
            rows.append({"c": c, "linear": linear, "ratio": ratio, **rounds})
    return rows


def compare_small_blocks(results: Results) -> list[Row]:
    """Return at how many sizes blocks of 32 KB, and of 2 KB, are slower for decreasing data."""
    row: Row = {"transfer": INFINIBAND.beta * 32768, "start-up": INFINIBAND.alpha}
    for name, run in (("", "InfiniBand"), ("small_", SMALL_BLOCKS)):
        curves = list_curves(results, run, "decreasing")
        ratios = [curve["ratio"] for curve in curves if curve["ring"] == curves[0]["ring"]]
        row |= {f"{name}slower": sum(r < 1 for r in ratios), f"{name}sizes": len(ratios)}
    return [row]


def list_best_blocks(results: Results) -> list[Row]:
    """Return the block sizes that are the best for some size and distribution."""
    best = set()
    for distribution in ("spike", "decreasing"):
        rows = list_curves(results, "InfiniBand", distribution)
        for c in {row["c"] for row in rows}:
            rivals = [row for row in rows if row["c"] == c]
            best.add(min(rivals, key=lambda row: float(row["pipelined"]))["ring"])
    return [{"ring": name, "blocks": len(best)} for name in sorted(best)]


def list_gains(results: Results) -> list[Row]:
    """Return the gains at the smallest and at the largest c on Gigabit Ethernet."""
    gains = {d: list_curves(results, "Gigabit Ethernet", d) for d in ("spike", "geometric")}
    return [
        {"distribution": d, "first": rows[0]["ratio"], "last": rows[-1]["ratio"]}
        for d, rows in gains.items()
    ]


def list_idle_times(results: Results) -> list[Row]:
    """Return the idle times of broadcast at each c that is split into blocks."""
    rows = results.select("Gigabit Ethernet", distribution="broadcast")
    linear, pipelined = _split_rings(rows, "idle ms")
    return [{"c": c, "linear": linear[c], "pipelined": ms} for c, ms in pipelined.items()]


# ---- Section 3.1: a permuted communicator


NODES, BLOCK = 30, 1 << 20
SIZES, QUICK_SIZES = (1 << 19, 1 << 22, 1 << 25), (1 << 25,)
ORDERS = {"nodes": "order of nodes", "ranks": "order of ranks"}
NAMES = ("broadcast", "spike")


def compare_communicators(quick: bool) -> list[Row]:
    """Return the times of both rings on MPI_COMM_WORLD and on a permuted communicator."""
    rows: list[Row] = []
    for per_node in (1, 8):
        for c in QUICK_SIZES if quick else SIZES:
            rows += [row for name in NAMES for row in _simulate_rings(name, c, per_node)]
    return rows


def _simulate_rings(distribution: str, c: int, per_node: int) -> list[Row]:
    size = NODES * per_node
    counts = DISTRIBUTIONS[distribution](c, size)
    world = np.array(assign_nodes(size, 0, per_node))
    permuted = np.random.default_rng(size).permutation(world)
    # A ring with a block per contribution is the linear ring.
    rings = {"linear ring": max(counts), "pipelined ring": min(BLOCK, max(counts))}
    rows: list[Row] = []
    for ring, block in rings.items():
        for order in ORDERS if per_node > 1 else ("ranks",):
            problem = Problem(size, counts=counts, block_size=block, order=order)
            times = [_simulate_ms(problem, nodes.tolist()) for nodes in (world, permuted)]
            rows.append(
                {"distribution": distribution, "c": c, "processes per node": per_node}
                | {"ring": ring, "order": ORDERS[order], "world ms": times[0]}
                | {"permuted ms": times[1], "permuted / world": times[1] / times[0]}
            )
    return rows


def _simulate_ms(problem: Problem, nodes: list[int]) -> float:
    algorithm = catalogue.find("allgatherv", "pipelined_ring")
    machine = replace(machines.NEC_SX8, node_port=len(set(nodes)) < len(nodes))
    problem = replace(problem, nodes=tuple(nodes))
    return simulate(algorithm, problem, machine, nodes=nodes).after_last / 1e6


def show_communicators(results: Results) -> Content:
    """Return the times of the largest c on 8 processes per node, and the table."""
    rows = results.rows["permuted"]
    largest = max(row["c"] for row in rows)
    panels = []
    for order in ORDERS.values():
        order_rows = [
            row
            for row in rows
            if (row["c"], row["processes per node"], row["order"]) == (largest, 8, order)
        ]
        groups = [f"{row['ring'].partition(' ')[0]},\n{row['distribution']}" for row in order_rows]
        series = {
            "MPI_COMM_WORLD": [row["world ms"] for row in order_rows],
            "permuted": [row["permuted ms"] for row in order_rows],
        }
        panels.append(Bars(f"ring in {order}", groups, series, "ms", "{:g}".format))
    title = f"8 processes per node, c = {format_round_size(largest)}"
    return Content([Panels(title, panels, 2)], [make_table("Times", rows)])


# ---- figures


def _plot(rows: Sequence[Row], distribution: str, x: str = "c", title: str = "") -> Lines:
    curves = find_curves(rows, distribution, x)
    series = [Series.of_points(name, points) for name, points in curves.items()]
    ticks: Callable[[float], str] = format_round_size if x == "c" else "{:.0f}".format
    return Lines(title or distribution, series, x, "ms", ticks=ticks)


def list_points(results: Results, *panels: tuple[str, str, str]) -> list[Row]:
    """Return the points of all curves; a panel has a run, a distribution and a title."""
    return [
        {"panel": title, "ring": ring, "c": c, "ms": ms}
        for run, distribution, title in panels
        for ring, points in find_curves(results.rows[run], distribution).items()
        for c, ms in points
    ]


def show_figure_7(results: Results) -> Content:
    """Return the times over the processes, and communication and idle times of broadcast."""
    rows = results.rows["Gigabit Ethernet, processes"]
    sizes = sorted({row["c"] for row in rows})
    left = []
    for c in sizes:
        size_rows = [row for row in rows if row["c"] == c]
        left.append(_plot(size_rows, "geometric", "processes", f"c = {format_round_size(c)}"))
    parts = find_idle_curves(results.select("Gigabit Ethernet", distribution="broadcast"))
    series = [Series.of_points(name, points) for name, points in parts.items()]
    swept = Lines("broadcast", series, "c", "ms", ticks=format_round_size)
    largest = {name: points[-1][1] for name, points in parts.items()}
    rings = ("linear ring", "pipelined ring")
    kinds = ("communication", "idle")
    bars = {part: [largest[f"{ring}, {part}"] for ring in rings] for part in kinds}
    title = f"broadcast of {format_round_size(parts[f'{rings[0]}, idle'][-1][0])}"
    compared = Bars(title, rings, bars, "ms", "{:g}".format)
    right = Panels("Right: communication and idle time", [compared, swept], 2)
    return Content([Panels("Left: geometric over the processes", left, 2), right])


def show_figure_8(results: Results) -> Content:
    """Return the two rings in space and time."""
    rows = [row for row in results.rows["examples"] if row["panel"].endswith("ring")]
    title = "3 broadcasts of 1 MB on 16 processes, B = 32 KB"
    return show_schedules(title, rows, 2, receives=True)


def show_figure_10(results: Results) -> Content:
    """Return the times over size, and over processes."""
    sizes, processes = (results.rows[f"Blue Gene/P, {over}"] for over in ("sizes", "processes"))
    left = _plot(sizes, "geometric", title="65536 processes")
    both = processes + [row for row in sizes if row["c"] == 64]
    right = _plot(both, "geometric", "processes", "c = 64 B")
    return Content([Panels("Geometric, B = 32 KB", [left, right], 2)])
