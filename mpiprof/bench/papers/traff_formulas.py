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
FIGURE_8_CALLS = 3
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
            title, "allgatherv", name, Problem(16, counts=counts, block_size=1 << 15), GIGABIT,
            calls=FIGURE_8_CALLS,
        )  # fmt: skip
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
        formula = count_formula_1(counts, block)
        rounds = _count_schedule_rounds(counts, block)
        rows.append({"distribution": name, "rounds": rounds, "formula (1)": formula})
    example = {"distribution": "Figure 3", "formula (1)": count_formula_1(FIGURE_3, BLOCK)}
    spread = [FIGURE_3[rank] for rank in ring_order(FIGURE_3, "spread")]
    return [*rows, example | {"rounds": count_skipping_ring_rounds(spread, BLOCK)}]


def count_formula_1(counts: tuple[int, ...], block: int) -> int:
    """Return formula (1)."""
    blocks = [max(1, int(n)) for n in count_blocks(counts, block)]
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
    """Return the time at the block size of formula (2), at the best, and of the linear ring.

    The paper's (p + z)/2 in (2) must be (p - z)/2: with b - z = m/B + (p - z)/2, the b - z - 1 + z'
    rounds are m/B + (p - z)/2 - 1 + z'. Both sizes are compared.
    """
    rows: list[Row] = []
    pipelined, linear = (catalogue.find("allgatherv", name) for _, name in reversed(ORDERS))
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


def show_block_sizes(results: Results) -> Content:
    """Return the table of block sizes."""
    rows = results.rows["block sizes"]
    note = (
        "(2) has (p + z)/2 where the number of rounds before it has (p - z)/2, for z processes "
        "without data. The second size has the correct sign."
    )
    return Content(tables=[Table("Block sizes", tuple(rows[0]), rows)], notes=[note])


def check_formula_2(results: Results) -> Verdict:
    """Judge that the block size of (2) costs at most 5 % over the best."""
    rows = results.rows["block sizes"]
    columns = ("time of (2) / best", "time with p - z / best")
    right, corrected = (sum(row[name] <= 1.05 for row in rows) for name in columns)
    worst = max(rows, key=lambda row: row[columns[0]])
    above = ", ".join(
        f"{row['distribution']} {row[columns[0]]:.3g}" for row in rows if row[columns[0]] > 1.05
    )
    reason = (
        f"distributions are within 5 % of the best size; times of the best: {above}. (2) has p + z "
        f"where p - z is right: with that {corrected}, and {worst['distribution']} "
        f"{worst[columns[1]]:.3g}. (2) assumes that half of the last blocks are full, whatever the "
        "sizes"
    )
    return judge_share(right, len(rows), reason)


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
