"""Träff et al. 2009, Section 3.1: the rings on a randomly permuted communicator.

On nodes with several processes a ring in rank order crosses between nodes once per node on
MPI_COMM_WORLD, but almost at every rank of a permuted communicator. All processes of a node share
one port to other nodes. The paper's ring is in the order of nodes instead (Section 2.2).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpiprof.bench.harness.figures import Bars, Panels
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import Content, Results, Table, Verdict, judge_share
from mpiprof.bench.papers.machines import NEC_SX8
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.interface.format_units import format_round_size
from mpiprof.model import catalogue
from mpiprof.model.distributions import DISTRIBUTIONS
from mpiprof.model.problem_spec import assign_nodes
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate

NODES, BLOCK = 30, 1 << 20
SIZES, QUICK_SIZES = (1 << 19, 1 << 22, 1 << 25), (1 << 25,)
ORDERS = {"nodes": "order of nodes", "ranks": "order of ranks"}
NAMES = ("broadcast", "spike")
SIMILAR = 0.1  # relative difference of times that the paper calls almost identical


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
    machine = replace(NEC_SX8, node_port=len(set(nodes)) < len(nodes))
    problem = replace(problem, nodes=tuple(nodes))
    return simulate(algorithm, problem, machine, nodes=nodes).after_last / 1e6


def show_communicators(results: Results) -> Content:
    """Return the times of the largest c on 8 processes per node, and the table."""
    rows = results.rows["permuted"]
    largest = max(row["c"] for row in rows)
    panels = []
    for order in ORDERS.values():
        shown = [
            row
            for row in rows
            if (row["c"], row["processes per node"], row["order"]) == (largest, 8, order)
        ]
        groups = [f"{row['ring'].partition(' ')[0]},\n{row['distribution']}" for row in shown]
        series = {
            "MPI_COMM_WORLD": [row["world ms"] for row in shown],
            "permuted": [row["permuted ms"] for row in shown],
        }
        panels.append(Bars(f"ring in {order}", groups, series, "ms", "{:g}".format))
    title = f"8 processes per node, c = {format_round_size(largest)}"
    return Content([Panels(title, panels, 2)], [Table("Times", tuple(rows[0]), rows)])


def check_permutation(results: Results) -> Verdict:
    """Judge the rings in the order of nodes, and with one process per node."""
    rows = results.rows["permuted"]
    reordered = [r for r in rows if r["order"] == ORDERS["nodes"] or r["processes per node"] == 1]
    plain = [r["permuted / world"] for r in rows if r not in reordered]
    right = sum(abs(row["permuted / world"] - 1) <= SIMILAR for row in reordered)
    reason = (
        "rings take equally long within 10 % in the order of nodes. In the order of ranks a "
        f"permutation takes {min(plain):.3g} to {max(plain):.3g} times as long"
    )
    return judge_share(right, len(reordered), reason)


PERMUTED_RUNS: dict[str, Run] = {
    "permuted": Computation(
        compare_communicators, "simulated; 30 nodes of the NEC SX-8 with one port each", 90, 30
    )
}
