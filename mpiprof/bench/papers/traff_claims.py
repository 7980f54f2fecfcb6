"""Träff et al. 2009: curves of the rings, and checks of the claims about them."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, REFUTED, Results, Verdict, judge_share
from mpiprof.bench.papers.machines import INFINIBAND
from mpiprof.bench.papers.traff_formulas import count_formula_1
from mpiprof.interface.format_units import format_round_size, format_time
from mpiprof.model.distributions import DISTRIBUTIONS

LINEAR, PIPELINED = "linear_ring", "pipelined_ring"
Curve = list[tuple[int, float]]
SX8_NODES, SX8_BLOCK, SX8_CURVE = 30, 1 << 20, "pipelined, B = 1 MB"
SMALL_BLOCKS = "InfiniBand, small blocks"
SIMILAR = 0.1  # relative difference of times that the paper calls similar


def find_curves(rows: Sequence[Row], distribution: str, x: str = "c") -> dict[str, Curve]:
    """Return the least times of each ring over c or the processes.

    A block that is not smaller than the largest contribution makes the pipelined ring the linear
    ring. The study omits these points, so they have the linear ring's time here.
    """
    mine = [row for row in rows if row["distribution"] == distribution]
    times: dict[str, dict[int, float]] = {}
    for row in mine:
        times.setdefault(row["algorithm"], {})[row[x]] = row["least ms"]
    linear = times[LINEAR]
    curves = {"linear ring": sorted(linear.items())}
    for name in sorted((n for n in times if n != LINEAR), key=_block_size):
        label = f"pipelined, B = {format_round_size(_block_size(name))}"
        curves[label] = sorted((linear | times[name]).items())
    if len(curves) == 1:
        curves["pipelined"] = curves["linear ring"]
    return curves


def _block_size(name: str) -> int:
    return int(name.rpartition("=")[2])


def find_ratios(rows: Sequence[Row], distribution: str, x: str = "c") -> list[tuple[int, float]]:
    """Return the linear ring's time over that of the pipelined ring with the first block size."""
    linear, pipelined, *_ = find_curves(rows, distribution, x).values()
    return [(at, over / under) for (at, over), (_, under) in zip(linear, pipelined, strict=True)]


def find_idle_curves(rows: Sequence[Row]) -> dict[str, Curve]:
    """Return communication and idle times of each ring over c; for "linear ring, idle" and so on.

    The pipelined ring has the linear ring's times where no block is smaller.
    """
    curves: dict[str, Curve] = {}
    for part in ("communication", "idle"):
        linear = {row["c"]: row[f"{part} ms"] for row in rows if row["algorithm"] == LINEAR}
        pipelined = {row["c"]: row[f"{part} ms"] for row in rows if row["algorithm"] != LINEAR}
        curves[f"linear ring, {part}"] = sorted(linear.items())
        curves[f"pipelined ring, {part}"] = sorted((linear | pipelined).items())
    return curves


def _last(curve: Curve) -> float:
    return curve[-1][1]


# ---- NEC SX-8


def check_gain_of_broadcast(results: Results) -> Verdict:
    """Judge the gain for the largest broadcast."""
    size, ratio = find_ratios(results.rows["NEC SX-8"], "broadcast")[-1]
    least = results.values.find("Figure 4", "broadcast, least", "improvement")
    best = results.values.find("Figure 4", "broadcast, best possible at 32 MB", "improvement")
    reason = f"{ratio:.3g} times at {format_round_size(size)}; {best:g} is the best possible"
    return Verdict(HOLDS if ratio > least else FAILS, reason)


def check_twice(results: Results) -> Verdict:
    """Judge the linear ring's time for the largest broadcast over that of spike."""
    ratio = _divide_last(results.rows["NEC SX-8"])
    expected = results.values.find("Figure 4", "linear ring, broadcast over spike", "ratio")
    right = abs(ratio / expected - 1) <= SIMILAR
    return Verdict(HOLDS if right else FAILS, f"{ratio:.3g} times as long")


def _divide_last(rows: Sequence[Row]) -> float:
    """Return the linear ring's time for the largest broadcast over that of spike."""
    over, under = (_last(find_curves(rows, d)["linear ring"]) for d in ("broadcast", "spike"))
    return over / under


def check_spike(results: Results) -> Verdict:
    """Judge that the pipelined ring takes similar times for broadcast and spike.

    The paper gives no number, but contrasts it with the linear ring, which takes twice as long for
    broadcast. Times are similar if their ratio is nearer to 1 than to that of the linear ring. Only
    sizes of which both have several blocks count.
    """
    rows = results.rows["NEC SX-8"]
    split = [
        {row["c"] for row in rows if row["distribution"] == d and row["algorithm"] != LINEAR}
        for d in ("broadcast", "spike")
    ]
    over, under = (dict(find_curves(rows, d)[SX8_CURVE]) for d in ("broadcast", "spike"))
    ratios = {c: over[c] / under[c] for c in sorted(split[0] & split[1])}
    linear = _divide_last(rows)
    right = sum(max(ratio, 1 / ratio) ** 2 < linear for ratio in ratios.values())
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
    return judge_share(right, len(ratios), reason)


def check_similar_rings(results: Results, distribution: str) -> Verdict:
    """Judge that both rings are equally fast for a distribution.

    For half full data, the paper's own formulas for the two rings contradict this statement.
    """
    ratio = find_ratios(results.rows["NEC SX-8"], distribution)[-1][1]
    reason, otherwise = f"linear over pipelined: {ratio:.3g}", FAILS
    if distribution == "half_full":
        otherwise = REFUTED
        reason += (
            ". By Sections 2.1 and 2.2 half full data take (p-1) 2c in the linear ring, in which "
            "each process sends and receives by turns, and about p c in the pipelined ring, where "
            "it does both at once"
        )
    return Verdict(HOLDS if abs(ratio - 1) <= SIMILAR else otherwise, reason)


# ---- InfiniBand


def check_small_blocks(results: Results) -> Verdict:
    """Judge that the pipelined ring is faster for spike at each block size, at the largest c."""
    linear, *others = find_curves(results.rows["InfiniBand"], "spike").values()
    right = sum(_last(curve) < _last(linear) for curve in others)
    return judge_share(right, len(others), "block sizes are faster at the largest c")


def check_decreasing(results: Results) -> Verdict:
    """Judge that a too small block is slower than the linear ring for decreasing data.

    The paper names no size of such a block.
    """
    counts = {run: _count_slower(results, run) for run in ("InfiniBand", SMALL_BLOCKS)}
    slower, smaller = counts["InfiniBand"][0], counts[SMALL_BLOCKS][0]
    needed = INFINIBAND.beta * 32768
    reason = (
        "32 KB blocks are slower at {} of {} sizes".format(*counts["InfiniBand"])
        + ", 2 KB blocks at {} of {}".format(*counts[SMALL_BLOCKS])
        + f". 32 KB blocks are slower if a start-up takes longer than the "
        f"transfer of 32 KB, {format_time(needed)}; "
        f"here it takes {format_time(INFINIBAND.alpha)}, and the paper gives none"
    )
    return Verdict(HOLDS if slower or smaller else FAILS, reason)


def _count_slower(results: Results, run: str) -> tuple[int, int]:
    """Return at how many c the smallest block is slower for decreasing data, and the total."""
    linear, smallest, *_ = find_curves(results.rows[run], "decreasing").values()
    return sum(b > a for (_, a), (_, b) in zip(linear, smallest, strict=True)), len(linear)


def check_best_block(results: Results) -> Verdict:
    """Judge that several block sizes are best for some size and distribution."""
    best = set()
    for distribution in ("spike", "decreasing"):
        curves = find_curves(results.rows["InfiniBand"], distribution)
        curves.pop("linear ring")
        points = len(next(iter(curves.values())))
        best |= {min(curves, key=lambda name: curves[name][i][1]) for i in range(points)}
    return Verdict(
        HOLDS if len(best) > 1 else FAILS, f"best at some size: {', '.join(sorted(best))}"
    )


# ---- other machines


def check_growth(results: Results) -> Verdict:
    """Judge that the gain is larger at the largest c than at the smallest."""
    gains = {d: find_ratios(results.rows["Gigabit Ethernet"], d) for d in ("spike", "geometric")}
    right = sum(points[-1][1] > points[0][1] for points in gains.values())
    text = ", ".join(
        f"{d} {points[0][1]:.3g} to {points[-1][1]:.3g}" for d, points in gains.items()
    )
    return judge_share(right, len(gains), f"distributions: {text} times as fast")


def check_idle(results: Results) -> Verdict:
    """Judge the idle time of broadcast at each c that is split into blocks."""
    rows = results.select("Gigabit Ethernet", distribution="broadcast")
    linear = {row["c"]: row["idle ms"] for row in rows if row["algorithm"] == LINEAR}
    pipelined = {row["c"]: row["idle ms"] for row in rows if row["algorithm"] != LINEAR}
    longer = sum(linear[c] > ms for c, ms in pipelined.items())
    c = max(pipelined)
    reason = (
        f"sizes; at {format_round_size(c)} {linear[c]:.3g} ms idle in the linear ring, "
        f"{pipelined[c]:.3g} ms in the pipelined ring"
    )
    return judge_share(longer, len(pipelined), reason)


def check_outperforms(results: Results, run: str, x: str = "c") -> Verdict:
    """Judge that the pipelined ring is faster for geometric data, where the two rings differ."""
    rows = results.rows[run]
    split = {row[x] for row in rows if row["algorithm"] != LINEAR}
    points = find_ratios(rows, "geometric", x)
    ratios = [ratio for at, ratio in points if at in split]
    same = ", ".join(str(at) for at, _ in points if at not in split)
    reason = f"points are faster, by {min(ratios):.3g} to {max(ratios):.3g} times"
    if same:
        reason += f"; the rings are the same at {x} {same}, where no contribution exceeds B"
    return judge_share(sum(ratio > 1 for ratio in ratios), len(ratios), reason)
