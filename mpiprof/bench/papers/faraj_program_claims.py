"""Faraj et al. 2008: checks of the claims about message times and programs (Section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from statistics import median
from typing import TypeGuard

import numpy as np

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import NOT_REPRODUCED, Results, Verdict, judge_share
from mpiprof.bench.papers.machines import BEOWULF, LEMIEUX
from mpiprof.bench.studies.apps import ALL, WHOLE
from mpiprof.interface.format_units import format_share
from mpiprof.metrics.aggregate import FACTOR_RANGES, RANGE_NAMES

SIZES = {"4 B": 4, "256 B": 256, **{f"{n} KB": n << 10 for n in (1, 4, 16, 32, 64, 128)}}
MACHINES = {"Lemieux": LEMIEUX, "Beowulf": BEOWULF}
STAND_INS = {  # samples in place of the programs of Section 4
    "ft": "FT",
    "is": "IS",
    "lammps": "LAMMPS",
    "paradyn": "PARADYN",
    "nbody": "NBODY",
    "md": "NTUBE 1",
    "ntube2": "NTUBE 2",
}
NO_TIMES = "message times were not usable, so there are no factors"
NEAR = 2.0  # ratio of the factors of similar instances


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


def check_measured_bandwidths(results: Results) -> Verdict:
    """Judge that the measured bandwidth grows from each size of Table 1 to the next."""
    rows = [r for r in results.rows.get("apps messages", []) if r["bytes"] in SIZES.values()]
    if not rows:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    steps = [
        after["MB/s"] > before["MB/s"]
        for before, after in pairwise(rows)
        if before["link"] == after["link"]
    ]
    ends = f"{rows[0]['MB/s']:.3g} to {rows[-1]['MB/s']:.3g} MB/s"
    return judge_share(sum(steps), len(steps), f"steps to the next size raise it, {ends}")


# ---- programs


def check_shares(results: Results) -> Verdict:
    """Judge that each program spends at least the paper's smallest share in collectives."""
    execution = results.values.column("Table 2", "execution time")
    inside = results.values.column("Table 2", "communication time")
    least = min(inside[name] / execution[name] for name in execution)
    seconds = {(r["program"], r["routine"]): r["native s"] for r in results.rows["apps"]}
    shares = [seconds[name, ALL] / seconds[name, WHOLE] for name in STAND_INS]
    right = sum(share >= least for share in shares)
    smallest = f"{100 * least:.1f} % of their time, the paper's smallest share"
    reason = f"programs spend at least {smallest}"
    return judge_share(right, len(shares), reason)


def check_routines(results: Results) -> Verdict:
    """Judge that the samples call the routines of the programs that they replace."""
    called = {
        f"{STAND_INS[row['program']]} {row['routine']}"
        for row in results.rows["apps collectives"]
        if row["program"] in STAND_INS
    }
    wanted = list(dict.fromkeys(value.row for value in results.values.of_exhibit("Table 3")))
    absent = [name for name in wanted if name not in called]
    without = f"; not {', '.join(absent)}" if absent else ""
    right = len(wanted) - len(absent)
    return judge_share(right, len(wanted), f"routines are called{without}")


# ---- imbalance factors


def is_known(value: object) -> TypeGuard[float]:
    """Return whether a value of a table is a number."""
    return isinstance(value, int | float) and not isnan(value)


def find_known(values: Sequence[object]) -> list[float]:
    """Return the values if all are numbers, else []."""
    known = [v for v in values if is_known(v)]
    return known if len(known) == len(values) else []


def check_programs(results: Results) -> Verdict:
    """Judge that the average worst-case factor of every program is imbalanced."""
    factors = find_known([row["ω/T"] for row in results.select("apps", routine=ALL)])
    if not factors:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    right = sum(factor >= 1 for factor in factors)
    reason = f"programs have an average worst-case factor of at least 1, {min(factors):.3g} to "
    return judge_share(right, len(factors), f"{reason}{max(factors):.3g}")


def find_balanced(results: Results) -> dict[str, float]:
    """Return the share of balanced instances by message size."""
    rows = results.rows.get("apps distribution", [])
    return {row["messages"]: row["share"] for row in rows if row["ω/T"] == RANGE_NAMES[0]}


def check_few_balanced(results: Results) -> Verdict:
    """Judge that no larger share of instances is balanced than on the paper's machines."""
    balanced = find_balanced(results)
    if not balanced:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    most = max(value.value for value in results.values.of_exhibit("Figure 2")) / 100
    right = sum(share <= most for share in balanced.values())
    found = ", ".join(f"{format_share(share)} {size}" for size, share in balanced.items())
    reason = f"sizes have at most {format_share(most)} balanced: {found}"
    return judge_share(right, len(balanced), reason)


def check_small(results: Results) -> Verdict:
    """Judge that operations with large messages are less imbalanced, below each limit of a range.

    "Arrival patterns for operations with large messages are in general less imbalanced than those
    for operations with small messages" (Section 4.4). The first limit is that of balance.
    """
    below: dict[str, list[float]] = {}
    for row in results.rows.get("apps distribution", []):
        below.setdefault(row["messages"], []).append(row["share"])
    if len(below) < 2:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    small, large = (np.cumsum(shares)[:-1].tolist() for shares in below.values())
    right = sum(one <= other for one, other in zip(small, large, strict=True))
    if small == large:
        right = 0
    parts = [
        f"{name}: {', '.join(map(format_share, shares))}"
        for name, shares in zip(below, (small, large), strict=True)
    ]
    limits = ", ".join(f"{limit:g}" for limit in FACTOR_RANGES)
    reason = f"limits have no larger share of small messages below them; below {limits}: "
    return judge_share(right, len(small), reason + "; ".join(parts))


def check_balanced_routine(results: Results) -> Verdict:
    """Judge the balance of each of the paper's major routines by the paper's, on both machines."""
    paper = results.values.column("Table 5", "Lemieux worst")
    found = {}
    for row in results.rows["apps collectives"]:
        name = f"{STAND_INS.get(row['program'], '')} {row['routine']}"
        if name in paper:
            found[name] = row["ω/T"]
    if not find_known(list(found.values())):
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    right = [name for name, factor in found.items() if (factor < 1) == (paper[name] < 1)]
    others = ", ".join(f"{n} {found[n]:.3g}" for n in found if n not in right)
    reason = "major routines are balanced exactly if the paper's are"
    return judge_share(len(right), len(found), f"{reason}; not {others}" if others else reason)


def check_similar(results: Results) -> Verdict:
    """Judge that most instances of each followed call site are near the median."""
    rows = results.rows.get("apps instances", [])
    if not rows:
        return Verdict(NOT_REPRODUCED, NO_TIMES)
    shares = {}
    for program in dict.fromkeys(row["program"] for row in rows):
        factors = [row["ω/T"] for row in rows if row["program"] == program]
        middle = median(factors)
        near = sum(middle / NEAR <= factor <= middle * NEAR for factor in factors)
        shares[f"{near} of {len(factors)} in {STAND_INS[program]}"] = near > len(factors) / 2
    reason = f"call sites have most factors within {NEAR:g} times the median"
    return judge_share(sum(shares.values()), len(shares), f"{reason}: {', '.join(shares)}")
