"""Träff et al. 2009: rounds and block sizes of the pipelined ring, and its examples."""

from __future__ import annotations

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import Content, Results, Table, Verdict, judge_share
from mpiprof.bench.papers.machines import GIGABIT
from mpiprof.bench.papers.runs import Computation, Run
from mpiprof.bench.papers.schedule_pictures import trace_schedule
from mpiprof.model import catalogue
from mpiprof.model.distributions import DISTRIBUTIONS
from mpiprof.model.machine import Machine
from mpiprof.model.pipeline_formulas import (
    best_ring_block,
    count_blocks,
    count_skipping_ring_rounds,
    ring_block_size,
    ring_order,
)
from mpiprof.model.schedule import Problem, Schedule
from mpiprof.model.simulate import simulate

PER_BYTE = Machine(0.0, 1.0, 0.0, 0.0, 1.0)
BLOCK = 10
# Three processes with three blocks each, and three without data: the numbers of Figure 3.
FIGURE_3 = (30, 30, 30, 0, 0, 0)
PROCESSES, BASE = 24, 1 << 16
# Figure 1: processes of each node, and the node of each process.
NODE_SIZES = (1, 5, 2, 1, 1, 1)
NODES = tuple(node for node, size in enumerate(NODE_SIZES) for _ in range(size))
ORDERS = (("linear ring", "linear_ring"), ("pipelined ring", "pipelined_ring"))


def trace_examples(_: bool) -> list[Row]:
    """Return the messages of Figures 1, 2 and 8."""
    regular = Problem(len(NODES), counts=(10,) * len(NODES), nodes=NODES, order="nodes")
    irregular = Problem(6, counts=(40, 10, 25, 5, 10, 20), block_size=BLOCK)
    rows = trace_schedule("Figure 1", "allgatherv", "pipelined_ring", regular, PER_BYTE, NODES)
    rows += trace_schedule("Figure 2", "allgatherv", "pipelined_ring", irregular, PER_BYTE)
    for title, name in ORDERS:
        counts = DISTRIBUTIONS["broadcast"](1 << 20, 16)
        rows += trace_schedule(
            title, "allgatherv", name, Problem(16, counts=counts, block_size=1 << 15), GIGABIT
        )
    return rows


# ---- rounds


def _count_schedule_rounds(counts: tuple[int, ...], block: int, order: str = "ranks") -> int:
    algorithm = catalogue.find("allgatherv", "pipelined_ring")
    problem = Problem(len(counts), counts=counts, block_size=block, order=order)
    most = 0
    for rank in range(len(counts)):
        with Schedule(algorithm, problem, rank) as schedule:
            most = max(most, schedule.rounds)
    return most


def count_rounds(_: bool) -> list[Row]:
    """Return the rounds of the schedule and of formula (1), by distribution."""
    rows: list[Row] = []
    for name, distribute in DISTRIBUTIONS.items():
        counts = distribute(BASE, PROCESSES)
        block = max(max(counts) // 8, 1)
        blocks = [max(1, int(n)) for n in count_blocks(counts, block)]
        formula = sum(blocks) - min(blocks)
        rounds = _count_schedule_rounds(counts, block)
        rows.append({"distribution": name, "rounds": rounds, "formula (1)": formula})
    example = {"distribution": "Figure 3", "formula (1)": _count_formula_1(FIGURE_3)}
    spread = [FIGURE_3[rank] for rank in ring_order(FIGURE_3, "spread")]
    return [*rows, example | {"rounds": count_skipping_ring_rounds(spread, BLOCK)}]


def _count_formula_1(counts: tuple[int, ...]) -> int:
    blocks = [max(1, int(n)) for n in count_blocks(counts, BLOCK)]
    return sum(blocks) - min(blocks)


def check_formula_1(results: Results) -> Verdict:
    """Judge that no distribution takes more rounds than formula (1)."""
    rows = [row for row in results.rows["rounds"] if row["distribution"] in DISTRIBUTIONS]
    right = sum(row["rounds"] <= row["formula (1)"] for row in rows)
    fewer = sum(row["rounds"] < row["formula (1)"] for row in rows)
    return judge_share(right, len(rows), f"distributions take at most (1) rounds, {fewer} fewer")


def check_figure_3(results: Results) -> Verdict:
    """Judge the rounds of the example."""
    (row,) = results.select("rounds", distribution="Figure 3")
    expected = results.values
    pairs = [
        (row["rounds"], expected.find("Figure 3", "example", "rounds")),
        (row["formula (1)"], expected.find("Figure 3", "example", "formula (1)")),
    ]
    right = sum(found == wanted for found, wanted in pairs)
    return judge_share(right, 2, f"numbers: {pairs[0][0]} rounds, and {pairs[1][0]} by (1)")


def show_rounds(results: Results) -> Content:
    """Return the table of rounds."""
    rows = results.rows["rounds"]
    return Content(tables=[Table("Rounds", ("distribution", "rounds", "formula (1)"), rows)])


# ---- block size


def compare_block_sizes(_: bool) -> list[Row]:
    """Return the time at the block size of formula (2), at the best, and of the linear ring."""
    rows: list[Row] = []
    pipelined, linear = (catalogue.find("allgatherv", name) for _, name in reversed(ORDERS))
    for name, distribute in DISTRIBUTIONS.items():
        counts = distribute(BASE, PROCESSES)
        formula = ring_block_size(counts, GIGABIT.alpha, GIGABIT.beta)
        best = best_ring_block(counts, GIGABIT.alpha, GIGABIT.beta)
        times = [
            simulate(pipelined, Problem(PROCESSES, counts=counts, block_size=b), GIGABIT).after_last
            for b in (formula, best)
        ]
        ring = simulate(linear, Problem(PROCESSES, counts=counts), GIGABIT).after_last
        rows.append(
            {"distribution": name, "B of (2)": formula, "best B": best}
            | {"time of (2) / best": times[0] / times[1], "linear ring / best": ring / times[1]}
        )
    return rows


def show_block_sizes(results: Results) -> Content:
    """Return the table of block sizes."""
    rows = results.rows["block sizes"]
    return Content(tables=[Table("Block sizes", tuple(rows[0]), rows)])


def check_formula_2(results: Results) -> Verdict:
    """Judge that the block size of (2) costs at most 5 % over the best."""
    ratios = {row["distribution"]: row["time of (2) / best"] for row in results.rows["block sizes"]}
    right = sum(ratio <= 1.05 for ratio in ratios.values())
    worst = max(ratios, key=lambda name: ratios[name])
    reason = f"distributions are within 5 % of the best size; {worst}: {ratios[worst]:.3g} times"
    return judge_share(right, len(ratios), reason)


def check_never_worse(results: Results) -> Verdict:
    """Judge that the pipelined ring at its best size is never slower than the linear ring."""
    rows = results.rows["block sizes"]
    right = sum(row["linear ring / best"] >= 0.999 for row in rows)
    return judge_share(right, len(rows), "distributions are as fast or faster")


FORMULA_RUNS: dict[str, Run] = {
    "examples": Computation(trace_examples, "simulated; Figure 8 with Gigabit Ethernet", 2, 2),
    "rounds": Computation(count_rounds, "rounds of the schedules"),
    "block sizes": Computation(compare_block_sizes, "simulated with Gigabit Ethernet", 3, 3),
}
