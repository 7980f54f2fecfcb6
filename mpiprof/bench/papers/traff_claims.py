"""Träff et al. 2009: curves of the rings, and checks of the claims about them."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, Results, Verdict, judge_share
from mpiprof.interface.format_units import format_round_size

LINEAR, PIPELINED = "linear_ring", "pipelined_ring"
Curve = list[tuple[int, float]]
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
    """Judge the linear ring's time for broadcast over spike."""
    return _compare(results, "linear ring", 2.0)


def check_spike(results: Results) -> Verdict:
    """Judge the pipelined ring's time for broadcast over spike."""
    return _compare(results, "pipelined, B = 1 MB", 1.0)


def _compare(results: Results, name: str, expected: float) -> Verdict:
    rows = results.rows["NEC SX-8"]
    over, under = (_last(find_curves(rows, d)[name]) for d in ("broadcast", "spike"))
    right = abs(over / under / expected - 1) <= SIMILAR
    return Verdict(HOLDS if right else FAILS, f"{over / under:.3g} times as long")


def check_regular(results: Results) -> Verdict:
    """Judge that both rings are equally fast for regular and half full data."""
    ratios = {
        name: find_ratios(results.rows["NEC SX-8"], name)[-1][1]
        for name in ("regular", "half_full")
    }
    right = sum(abs(ratio - 1) <= SIMILAR for ratio in ratios.values())
    text = ", ".join(f"{name} {ratio:.3g}" for name, ratio in ratios.items())
    return judge_share(right, len(ratios), f"distributions; linear over pipelined: {text}")


# ---- InfiniBand


def check_small_blocks(results: Results) -> Verdict:
    """Judge that the pipelined ring is faster for spike at each block size, at the largest c."""
    linear, *others = find_curves(results.rows["InfiniBand"], "spike").values()
    right = sum(_last(curve) < _last(linear) for curve in others)
    return judge_share(right, len(others), "block sizes are faster at the largest c")


def check_decreasing(results: Results) -> Verdict:
    """Judge that the smallest block is slower than the linear ring for some decreasing c."""
    linear, smallest, *_ = find_curves(results.rows["InfiniBand"], "decreasing").values()
    slower = sum(b > a for (_, a), (_, b) in zip(linear, smallest, strict=True))
    reason = f"32 KB blocks are slower at {slower} of {len(linear)} sizes"
    return Verdict(HOLDS if slower else FAILS, reason)


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
    """Judge the idle time of broadcast at the largest c."""
    rows = results.select("Gigabit Ethernet", distribution="broadcast")
    largest = max(row["c"] for row in rows)
    idle = {row["algorithm"]: row["idle ms"] for row in rows if row["c"] == largest}
    linear, pipelined = idle[LINEAR], min(ms for name, ms in idle.items() if name != LINEAR)
    reason = f"{linear:.3g} ms idle in the linear ring, {pipelined:.3g} ms in the pipelined ring"
    return Verdict(HOLDS if linear > pipelined else FAILS, reason)


def check_outperforms(results: Results, run: str, x: str = "c") -> Verdict:
    """Judge that the pipelined ring is faster for geometric data."""
    points = find_ratios(results.rows[run], "geometric", x)
    right = sum(ratio > 1 for _, ratio in points)
    low, high = min(r for _, r in points), max(r for _, r in points)
    return judge_share(right, len(points), f"points are faster, by {low:.3g} to {high:.3g} times")
