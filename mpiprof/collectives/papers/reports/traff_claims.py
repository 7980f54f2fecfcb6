"""Träff et al. 2009: rounds and block sizes of the pipelined ring, its curves, and the claims."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.collectives import catalogue
from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import (
    REFUTED,
    ClaimVerdict,
    Content,
    Results,
    judge,
    judge_each,
    make_table,
)
from mpiprof.collectives.papers.reports.machines import GIGABIT, INFINIBAND
from mpiprof.collectives.papers.reports.runs import Computation, Run
from mpiprof.collectives.papers.reports.schedule_pictures import trace_schedule
from mpiprof.collectives.pipeline_formulas import (
    best_ring_block,
    count_blocks,
    count_skipping_ring_rounds,
    ring_block_size,
    ring_order,
)
from mpiprof.collectives.schedule import Problem, Schedule
from mpiprof.collectives.simulate import simulate
from mpiprof.interface.format_units import format_round_size, format_time

PER_BYTE = Machine(0.0, 1.0, 0.0, 0.0, 1.0)
BLOCK = 10
# Three processes with three blocks each, and three without data: the numbers of Figure 3.
FIGURE_3 = (30, 30, 30, 0, 0, 0)
PROCESSES, BASE = 24, 1 << 16
# Figure 1: processes of each node, and the node of each process.
NODE_SIZES = (1, 5, 2, 1, 1, 1)
NODES = tuple(node for node, size in enumerate(NODE_SIZES) for _ in range(size))
FIGURE_8_CALLS = 3
LINEAR, PIPELINED = "linear_ring", "pipelined_ring"
SX8, SX8_NODES, SX8_BLOCK, SX8_CURVE = "NEC SX-8", 30, 1 << 20, "pipelined, B = 1 MB"
SMALL_BLOCKS = "InfiniBand, small blocks"
SIMILAR = 0.1  # relative difference of times that the paper calls similar
Curve = list[tuple[int, float]]


def trace_examples(_: bool) -> list[Row]:
    """Return the messages of Figures 1, 2 and 8."""
    regular = Problem(len(NODES), counts=(10,) * len(NODES), nodes=NODES, order="nodes")
    irregular = Problem(6, counts=(40, 10, 25, 5, 10, 20), block_size=BLOCK)
    rows = trace_schedule("Figure 1", "allgatherv", PIPELINED, regular, PER_BYTE, NODES)
    rows += trace_schedule("Figure 2", "allgatherv", PIPELINED, irregular, PER_BYTE)
    broadcast = Problem(16, counts=DISTRIBUTIONS["broadcast"](1 << 20, 16), block_size=1 << 15)
    for name in (LINEAR, PIPELINED):
        call = (name.replace("_", " "), "allgatherv", name, broadcast, GIGABIT)
        rows += trace_schedule(*call, calls=FIGURE_8_CALLS)
    return rows


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
    example = {"distribution": "Figure 3", "formula (1)": count_formula_1(FIGURE_3, BLOCK)}
    spread = [FIGURE_3[rank] for rank in ring_order(FIGURE_3, "spread")]
    return [*rows, example | {"rounds": count_skipping_ring_rounds(spread, BLOCK)}]


def count_formula_1(counts: tuple[int, ...], block: int) -> int:
    """Return formula (1)."""
    blocks = [max(1, int(n)) for n in count_blocks(counts, block)]
    return sum(blocks) - min(blocks)


def check_formula_1(results: Results) -> ClaimVerdict:
    """Judge that no distribution takes more rounds than formula (1)."""
    rows = [row for row in results.rows["rounds"] if row["distribution"] in DISTRIBUTIONS]
    fewer = sum(row["rounds"] < row["formula (1)"] for row in rows)
    reason = f"distributions take at most (1) rounds, {fewer} fewer"
    return judge_each(rows, lambda row: row["rounds"] <= row["formula (1)"], reason)


def check_figure_3(results: Results) -> ClaimVerdict:
    """Judge the rounds of the example."""
    (row,) = results.select("rounds", distribution="Figure 3")
    reason = f"numbers: {row['rounds']} rounds, and {row['formula (1)']} by (1)"
    columns, find = ("rounds", "formula (1)"), results.values.find
    return judge_each(columns, lambda c: row[c] == find("Figure 3", "example", c), reason)


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


def show_block_sizes(results: Results) -> Content:
    """Return the table of block sizes."""
    rows = results.rows["block sizes"]
    note = (
        "(2) has (p + z)/2 where the number of rounds before it has (p - z)/2, for z processes "
        "without data. The second size has the correct sign."
    )
    return Content(tables=[make_table("Block sizes", rows)], notes=[note])


def check_formula_2(results: Results) -> ClaimVerdict:
    """Judge that the block size of (2) costs at most 5 % over the best."""
    rows = results.rows["block sizes"]
    ratios = {row["distribution"]: row["time of (2) / best"] for row in rows}
    corrected = {row["distribution"]: row["time with p - z / best"] for row in rows}
    worst = max(ratios, key=ratios.__getitem__)
    above = ", ".join(f"{name} {ratio:.3g}" for name, ratio in ratios.items() if ratio > 1.05)
    reason = (
        f"distributions are within 5 % of the best size; times of the best: {above}. (2) has p + z "
        f"where p - z is right: with that {sum(ratio <= 1.05 for ratio in corrected.values())}, "
        f"and {worst} {corrected[worst]:.3g}. (2) assumes that half of the last blocks are full, "
        "whatever the sizes"
    )
    return judge_each([*ratios.values()], lambda ratio: ratio <= 1.05, reason)


def check_never_worse(results: Results) -> ClaimVerdict:
    """Judge that the pipelined ring at its best size is never slower than the linear ring."""
    rows, reason = results.rows["block sizes"], "distributions are as fast or faster"
    return judge_each(rows, lambda row: row["linear ring / best"] >= 0.999, reason)


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


def find_ratios(rows: Sequence[Row], distribution: str, x: str = "c") -> list[tuple[int, float]]:
    """Return the linear ring's time over that of the pipelined ring with the first block size."""
    linear, pipelined, *_ = find_curves(rows, distribution, x).values()
    return [(at, over / under) for (at, over), (_, under) in zip(linear, pipelined, strict=True)]


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


# ---- NEC SX-8


def check_gain_of_broadcast(results: Results) -> ClaimVerdict:
    """Judge the gain for the largest broadcast."""
    size, ratio = find_ratios(results.rows[SX8], "broadcast")[-1]
    required = results.values.find("Figure 4", "broadcast, least", "improvement")
    best = results.values.find("Figure 4", "broadcast, best possible at 32 MB", "improvement")
    reason = f"{ratio:.3g} times at {format_round_size(size)}; {best:g} is the best possible"
    return judge(ratio > required, reason)


def check_twice(results: Results) -> ClaimVerdict:
    """Judge the linear ring's time for the largest broadcast over that of spike."""
    ratio = _divide_last(results.rows[SX8])
    expected = results.values.find("Figure 4", "linear ring, broadcast over spike", "ratio")
    return judge(abs(ratio / expected - 1) <= SIMILAR, f"{ratio:.3g} times as long")


def _divide_last(rows: Sequence[Row]) -> float:
    """Return the linear ring's time for the largest broadcast over that of spike."""
    over, under = (find_curves(rows, d)["linear ring"] for d in ("broadcast", "spike"))
    return over[-1][1] / under[-1][1]


def check_spike(results: Results) -> ClaimVerdict:
    """Judge that the pipelined ring takes similar times for broadcast and spike.

    The paper gives no number, but contrasts it with the linear ring, which takes twice as long for
    broadcast. Times are similar if their ratio is nearer to 1 than to that of the linear ring. Only
    sizes of which both have several blocks count.
    """
    rows = results.rows[SX8]
    split = [
        {row["c"] for row in rows if row["distribution"] == d and row["algorithm"] != LINEAR}
        for d in ("broadcast", "spike")
    ]
    over, under = (dict(find_curves(rows, d)[SX8_CURVE]) for d in ("broadcast", "spike"))
    ratios = {c: over[c] / under[c] for c in sorted(split[0] & split[1])}
    linear = _divide_last(rows)
    largest = max(ratios)
    rounds = [
        count_formula_1(DISTRIBUTIONS[d](largest, SX8_NODES), SX8_BLOCK)
        for d in ("broadcast", "spike")
    ]
    text = ", ".join(f"{ratio:.3g} at {format_round_size(c)}" for c, ratio in ratios.items())
    reason = (
        f"sizes have ratios nearer to 1 than to the {linear:.3g} of the linear ring: {text}. "
        f"By (1), {format_round_size(largest)} takes {rounds[0]} rounds for broadcast and "
        f"{rounds[1]} for spike, on any machine"
    )
    return judge_each([*ratios.values()], lambda r: max(r, 1 / r) ** 2 < linear, reason)


def check_similar_rings(results: Results, distribution: str) -> ClaimVerdict:
    """Judge that both rings are equally fast; for half full data, the paper contradicts itself."""
    ratio = find_ratios(results.rows[SX8], distribution)[-1][1]
    reason = f"linear over pipelined: {ratio:.3g}"
    is_similar = abs(ratio - 1) <= SIMILAR
    if distribution == "half_full":
        reason += (
            ". By Sections 2.1 and 2.2 half full data take (p-1) 2c in the linear ring, in which "
            "each process sends and receives by turns, and about p c in the pipelined ring, where "
            "it does both at once"
        )
        return judge(is_similar, reason, REFUTED)
    return judge(is_similar, reason)


# ---- InfiniBand


def check_small_blocks(results: Results) -> ClaimVerdict:
    """Judge that the pipelined ring is faster for spike at each block size, at the largest c."""
    linear, *pipelined = find_curves(results.rows["InfiniBand"], "spike").values()
    reason = "block sizes are faster at the largest c"
    return judge_each(pipelined, lambda curve: curve[-1][1] < linear[-1][1], reason)


def check_decreasing(results: Results) -> ClaimVerdict:
    """Judge that some block is too small for decreasing data; the paper names no size."""
    slower, count = _count_slower(results.rows["InfiniBand"])
    smaller, smaller_count = _count_slower(results.rows[SMALL_BLOCKS])
    reason = (
        f"32 KB blocks are slower at {slower} of {count} sizes, 2 KB blocks at {smaller} of "
        f"{smaller_count}. 32 KB blocks are slower if a start-up takes longer than the transfer of "
        f"32 KB, {format_time(INFINIBAND.beta * 32768)}; here it takes "
        f"{format_time(INFINIBAND.alpha)}, and the paper gives none"
    )
    return judge(slower or smaller, reason)


def _count_slower(rows: Sequence[Row]) -> tuple[int, int]:
    """Return at how many c the smallest block is slower for decreasing data, and the total."""
    linear, smallest, *_ = find_curves(rows, "decreasing").values()
    return sum(b > a for (_, a), (_, b) in zip(linear, smallest, strict=True)), len(linear)


def check_best_block(results: Results) -> ClaimVerdict:
    """Judge that several block sizes are best for some size and distribution."""
    best = set()
    for distribution in ("spike", "decreasing"):
        curves = find_curves(results.rows["InfiniBand"], distribution)
        points = len(curves.pop("linear ring"))
        best |= {min(curves, key=lambda name: curves[name][i][1]) for i in range(points)}
    return judge(len(best) > 1, f"best at some size: {', '.join(sorted(best))}")


# ---- other machines


def check_growth(results: Results) -> ClaimVerdict:
    """Judge that the gain is larger at the largest c than at the smallest."""
    gains = {d: find_ratios(results.rows["Gigabit Ethernet"], d) for d in ("spike", "geometric")}
    ends = {d: (points[0][1], points[-1][1]) for d, points in gains.items()}
    text = ", ".join(f"{d} {first:.3g} to {last:.3g}" for d, (first, last) in ends.items())
    reason = f"distributions: {text} times as fast"
    return judge_each([*ends.values()], lambda gain: gain[1] > gain[0], reason)


def check_idle(results: Results) -> ClaimVerdict:
    """Judge the idle time of broadcast at each c that is split into blocks."""
    rows = results.select("Gigabit Ethernet", distribution="broadcast")
    linear, pipelined = _split_rings(rows, "idle ms")
    c = max(pipelined)
    reason = (
        f"sizes; at {format_round_size(c)} {linear[c]:.3g} ms idle in the linear ring, "
        f"{pipelined[c]:.3g} ms in the pipelined ring"
    )
    return judge_each([*pipelined], lambda c: linear[c] > pipelined[c], reason)


def check_outperforms(results: Results, run: str, x: str = "c") -> ClaimVerdict:
    """Judge that the pipelined ring is faster for geometric data, where the two rings differ."""
    rows = results.rows[run]
    split = {row[x] for row in rows if row["algorithm"] != LINEAR}
    points = find_ratios(rows, "geometric", x)
    ratios = [ratio for at, ratio in points if at in split]
    same = ", ".join(str(at) for at, _ in points if at not in split)
    reason = f"points are faster, by {min(ratios):.3g} to {max(ratios):.3g} times"
    if same:
        reason += f"; the rings are the same at {x} {same}, where no contribution exceeds B"
    return judge_each(ratios, lambda ratio: ratio > 1, reason)


FORMULA_RUNS: dict[str, Run] = {
    "examples": Computation(trace_examples, "simulated; Figure 8 with Gigabit Ethernet", 2, 2),
    "rounds": Computation(count_rounds, "rounds of the schedules"),
    "block sizes": Computation(compare_block_sizes, "simulated with Gigabit Ethernet", 3, 3),
}
