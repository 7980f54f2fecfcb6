"""Faraj et al. 2008: checks of the claims about algorithms under imbalanced arrivals."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, Results, Verdict, judge_share

EARLY, LATE = (1, 2, 3, 5, 9), (33, 65, 129, 257)  # MAX_IF: nearly balanced, and imbalanced
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
    reason = f"{best} is the fastest at MAX_IF {first}, and takes {ratio:.3g} times the best at "
    return _explain(Verdict(HOLDS if ratio > SIMILAR else FAILS, f"{reason}{last}"))


def check_lead(
    results: Results, run: str, operation: str, size: int, name: str, *, late: bool
) -> Verdict:
    """Judge that an algorithm is the only fastest one at small or at large MAX_IF."""
    times = find_times(results.select(run, operation=operation, bytes=size))
    chosen = [most for most in times if most in (LATE if late else EARLY)]
    right = 0
    for most in chosen:
        others = min(t for algorithm, t in times[most].items() if algorithm != name)
        right += times[most][name] * SIMILAR < others
    reason = f"values of MAX_IF have {name} ahead of all others"
    return _explain(judge_share(right, len(chosen), reason))


def _explain(verdict: Verdict) -> Verdict:
    """Return a verdict with the limits of the simulator, unless the claim holds."""
    if verdict.state == HOLDS:
        return verdict
    limits = "the simulator knows neither contention nor eager messages"
    return Verdict(verdict.state, f"{verdict.reason}; {limits}")
