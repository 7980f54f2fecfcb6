"""Faraj et al. 2008: checks of the claims about algorithms under imbalanced arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, Results, Verdict, judge_share
from mpiprof.interface.format_units import format_round_size

SIMILAR = 1.001


def find_times(rows: Sequence[Row]) -> dict[int, dict[str, float]]:
    """Return the mean times of the algorithms by MAX_IF."""
    times: dict[int, dict[str, float]] = {}
    for row in rows:
        times.setdefault(row["MAX_IF"], {})[row["algorithm"]] = row["mean ms"]
    return times


def check_change(results: Results, run: str, operation: str, size: int) -> Verdict:
    """Judge that the fastest algorithm of balanced arrivals is not that of imbalanced ones."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    first, last = min(times), max(times)
    best = min(times[first], key=lambda name: times[first][name])
    ratio = times[last][best] / min(times[last].values())
    reason = f"{best} is the fastest at MAX_IF {first}, and takes {ratio:.4g} times the best at "
    return Verdict(HOLDS if ratio > SIMILAR else FAILS, f"{reason}{last}")


def check_lead(
    results: Results, run: str, operation: str, size: int, name: str, factors: Sequence[int]
) -> Verdict:
    """Judge that an algorithm is the only fastest one at some values of MAX_IF."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    chosen = [most for most in times if most in factors]
    ratios = {most: _lead_ratio(times[most], name) for most in chosen}
    right = [most for most in chosen if ratios[most] > SIMILAR]
    reason = f"values of MAX_IF have {name} ahead of all others"
    rest = [
        f"{most} ({min(times[most], key=lambda other: times[most][other])}, {ratios[most]:.3g})"
        for most in chosen
        if most not in right
    ]
    if rest:
        reason += f"; the fastest, and its time over that of {name}, at the others: "
        reason += ", ".join(rest)
    return judge_share(len(right), len(chosen), reason)


def check_overtaking(results: Results, run: str, operation: str, size: int, name: str) -> Verdict:
    """Judge that an algorithm is not the fastest at first, and the only one from some MAX_IF on."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    ratios = {most: _lead_ratio(times[most], name) for most in sorted(times)}
    leads = [ratio > SIMILAR for ratio in ratios.values()]
    text = ", ".join(f"{most}: {ratio:.3g}" for most, ratio in ratios.items())
    state = HOLDS if leads[-1] and not leads[0] and leads == sorted(leads) else FAILS
    return Verdict(state, f"time of the fastest other one over that of {name} by MAX_IF: {text}")


def _lead_ratio(times: Mapping[str, float], name: str) -> float:
    """Return the time of the fastest other algorithm over that of the named one."""
    return min(t for algorithm, t in times.items() if algorithm != name) / times[name]


def check_fall(
    results: Results, run: str, operation: str, size: int, name: str, limit: int
) -> Verdict:
    """Judge that an algorithm takes less time with each step of MAX_IF up to a limit."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    steps = [times[most][name] for most in sorted(times) if most <= limit]
    right = sum(after < before for before, after in pairwise(steps))
    text = " to ".join(f"{ms:.3g}" for ms in (steps[0], min(steps), steps[-1]))
    reason = f"steps are a fall; ms at first, at least and at MAX_IF {limit}: {text}"
    return judge_share(right, len(steps) - 1, reason)


def check_convergence(
    results: Results, runs: Sequence[str], operation: str, most: int, exception: tuple[str, int]
) -> Verdict:
    """Judge that all algorithms take a similar time at a MAX_IF, except on one run with one size.

    The paper gives no number. Times are similar if they differ by less than half as much as those
    of the exception.
    """
    ratios = {}
    for run in runs:
        rows = [row for row in results.select(run, operation=operation) if row["MAX_IF"] == most]
        for size in sorted({row["bytes"] for row in rows}):
            times = find_times([row for row in rows if row["bytes"] == size])[most].values()
            ratios[run, size] = max(times) / min(times)
    other = ratios.pop(exception)
    right = sum(ratio - 1 < (other - 1) / 2 for ratio in ratios.values())
    text = ", ".join(
        f"{run}, {format_round_size(size)}: {ratio:.3g}" for (run, size), ratio in ratios.items()
    )
    reason = f"cases; slowest over fastest algorithm: {text}; {other:.3g} in the exception"
    return judge_share(right, len(ratios), reason)


def check_widening(results: Results, run: str, operation: str, size: int, name: str) -> Verdict:
    """Judge that the others' best time less that of the named grows with each step of MAX_IF."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    leads = {
        most: min(t for other, t in times[most].items() if other != name) - times[most][name]
        for most in sorted(times)
    }
    right = sum(after > before for before, after in pairwise(leads.values()))
    text = ", ".join(f"{most}: {lead:.3g}" for most, lead in leads.items())
    return judge_share(right, len(leads) - 1, f"steps widen it; ms by MAX_IF: {text}")
