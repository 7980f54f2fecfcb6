"""Faraj et al. 2008: checks of the claims about arrival patterns and algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import (
    FAILS,
    HOLDS,
    NOT_REPRODUCED,
    Results,
    Verdict,
    judge_share,
)
from mpiprof.bench.papers.machines import BEOWULF, LEMIEUX

SIZES = {"4 B": 4, "256 B": 256, **{f"{n} KB": n << 10 for n in (1, 4, 16, 32, 64, 128)}}
MACHINES = {"Lemieux": LEMIEUX, "Beowulf": BEOWULF}
NO_TIMES = "message times were not usable, so there are no factors"
EARLY, LATE = (1, 2, 3, 5, 9), (33, 65, 129, 257)  # MAX_IF: nearly balanced, and imbalanced
SIMILAR = 1.001


def compute_message_times(_: bool) -> list[Row]:
    """Return the time of each size on the simulator's two machines."""
    return [
        {"size": name, "machine": machine, "simulated ms": (m.alpha + size * m.beta) / 1e6}
        for machine, m in MACHINES.items()
        for name, size in SIZES.items()
    ]


def compare_message_times(results: Results) -> list[Row]:
    """Return the rows with the paper's time."""
    rows = []
    for row in results.rows["message times"]:
        paper = results.values.find("Table 1", row["size"], f"{row['machine']} time")
        rows.append(row | {"paper ms": paper, "ratio": row["simulated ms"] / paper})
    return rows


def check_bandwidths(results: Results) -> Verdict:
    """Judge the paper's bandwidths by its sizes and times."""
    right, total = 0, 0
    for machine in MACHINES:
        for name, size in SIZES.items():
            time = results.values.find("Table 1", name, f"{machine} time")
            bandwidth = results.values.find("Table 1", name, f"{machine} bandwidth")
            total += 1
            right += abs(size / time / 1e3 / bandwidth - 1) <= 0.05
    return judge_share(right, total, "bandwidths are size over time, within 5 %")


# ---- arrivals


def check_arrivals(results: Results) -> Verdict:
    """Judge that arrivals are imbalanced after balanced computation, at each computation time."""
    factors = [row["arrival ω/T"] for row in results.rows["arrival"]]
    if any(isinstance(factor, str) or isnan(factor) for factor in factors):
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    right = sum(factor >= 1 for factor in factors)
    text = ", ".join(f"{factor:.3g}" for factor in factors)
    return judge_share(right, len(factors), f"computation times have factors of at least 1: {text}")


def check_growth(results: Results) -> Verdict:
    """Judge that the imbalance of computation grows with the computation."""
    rows = sorted(results.rows["arrival"], key=lambda row: float(row["computation ms"]))
    factors = [row["computation ω/T"] for row in rows]
    if any(isinstance(factor, str) or isnan(factor) for factor in factors):
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    state = HOLDS if factors == sorted(factors) and factors[-1] > factors[0] else FAILS
    return Verdict(state, "factors: " + ", ".join(f"{factor:.3g}" for factor in factors))


def check_programs(results: Results) -> Verdict:
    """Judge that the average worst-case factor of every program is imbalanced."""
    rows = results.select("apps", routine="(all collectives)")
    factors = [row["ω/T"] for row in rows]
    if not factors or any(isinstance(f, str) or isnan(f) for f in factors):
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    right = sum(factor >= 1 for factor in factors)
    return judge_share(right, len(factors), "programs have an average worst-case factor above 1")


# ---- algorithms


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


# ---- programs under auto


def check_applications(results: Results) -> Verdict:
    """Judge that auto shortens the time in collectives of all programs."""
    rows = results.select("apps", routine="(all collectives)")
    right = sum(row["native / auto"] > 1 for row in rows)
    return judge_share(right, len(rows), "programs are faster under auto, which replaces ROBUST")
