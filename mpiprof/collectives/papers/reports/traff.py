"""Träff et al. 2009: a pipelined ring for irregular allgathers.

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
from mpiprof.collectives.papers.reports.schedule_pictures import show_schedules
from mpiprof.collectives.papers.reports.traff_claims import (
    FIGURE_8_CALLS,
    find_curves,
    find_idle_curves,
)
from mpiprof.collectives.problem_spec import assign_nodes
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate
from mpiprof.interface.format_units import format_round_size

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


DISTRIBUTION_NUMBERS = {"broadcast": 2, "spike": 3, "decreasing": 5, "geometric": 6}
# ---- figures


def _plot(rows: Sequence[Row], distribution: str, x: str = "c", title: str = "") -> Lines:
    curves = find_curves(rows, distribution, x)
    series = [Series.of_points(name, points) for name, points in curves.items()]
    ticks: Callable[[float], str] = format_round_size if x == "c" else "{:.0f}".format
    return Lines(title or distribution, series, x, "ms", ticks=ticks)


def show_figure_4(results: Results) -> Content:
    """Return the six plots of the NEC SX-8."""
    runs = [("NEC SX-8", name) for name in DISTRIBUTION_NUMBERS]
    runs += [("NEC SX-8, 8 per node", name) for name in ("broadcast", "spike")]
    panels = []
    for run, name in runs:
        title = f"({DISTRIBUTION_NUMBERS[name]}) {name}{run[8:]}"
        panels.append(_plot(results.rows[run], name, title=title))
    return Content([Panels("Distributions on 30 nodes, B = 1 MB", panels, 2)])


def show_distributions(results: Results, run: str, title: str, *distributions: str) -> Content:
    """Return the times of some distributions over the size (Figures 5 and 6)."""
    panels = [_plot(results.rows[run], name) for name in distributions]
    return Content([Panels(title, panels, 2)])


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
    title = f"{FIGURE_8_CALLS} broadcasts of 1 MB on 16 processes, B = 32 KB"
    return show_schedules(title, rows, 2, receives=True)


def show_figure_9(results: Results) -> Content:
    """Return the times over the size."""
    return Content([_plot(results.rows["SiCortex"], "geometric", title="geometric, B = 32 KB")])


def show_figure_10(results: Results) -> Content:
    """Return the times over size, and over processes."""
    sizes, processes = (results.rows[f"Blue Gene/P, {over}"] for over in ("sizes", "processes"))
    left = _plot(sizes, "geometric", title="65536 processes")
    both = processes + [row for row in sizes if row["c"] == 64]
    right = _plot(both, "geometric", "processes", "c = 64 B")
    return Content([Panels("Geometric, B = 32 KB", [left, right], 2)])
