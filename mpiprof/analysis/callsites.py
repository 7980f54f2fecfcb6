"""Aggregation per call site, and the paper's tables over routines.

Straight from batches to sums: memory does not grow with the number of instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.analysis.measure import Measure
from mpiprof.analysis.measured import CallsiteKey, Rows
from mpiprof.analysis.operations import STATES
from mpiprof.analysis.sampled import SUMMED, Sampled, intervals, scales
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

SMALL_BYTES = 1000  # the paper's border between small and larger messages (Figure 2)
RANGES = (1.0, 8.0, 32.0, 128.0, 1024.0)  # upper ends of the ranges of worst-case factors
RANGE_NAMES = ("<1", "1-8", "8-32", "32-128", "128-1024", ">=1024")

# Sums over complete instances whose value is known, each with its own count.
MEANS = (
    "average_imbalance",
    "worst_imbalance",
    "message_bytes",
    "message_time",
    "average_factor",
    "worst_factor",
    "exit_imbalance",
    "exit_factor",
    "mean_elapsed",
    "wait",
    "skew",
    "bytes",
)


class _Growing:
    """Named vectors with one slot a call site, that grow together."""

    def __init__(self) -> None:
        self.size = 0
        self.vectors: dict[str, Float] = {}
        self.fill: dict[str, float] = {}

    def __getitem__(self, name: str) -> Float:
        return self.vectors[name]

    def declare(self, name: str, fill: float) -> None:
        self.vectors[name] = np.full(self.size, fill)
        self.fill[name] = fill

    def grow(self, size: int) -> None:
        if size > self.size:
            room = max(size, 2 * self.size, 64)
            for name, old in self.vectors.items():
                new = np.full(room, self.fill[name])
                new[: len(old)] = old
                self.vectors[name] = new
            self.size = room


class Aggregate:
    """Sums per call site over the rows of all batches."""

    def __init__(self, ranks: int, clock_error_ns: int) -> None:
        self.ranks = ranks
        self.clock_error_ns = clock_error_ns
        self.sums = _Growing()
        for name in MEANS:
            self.sums.declare(name, 0.0)
            self.sums.declare(name + "_count", 0.0)
        for name in ("instances", "complete", "left", "elapsed", "balanced", "judged", "late"):
            self.sums.declare(name, 0.0)
        for state in STATES:
            self.sums.declare("wait_" + state, 0.0)
        for name in ("size", "bytes_max", "worst_max", "last"):
            self.sums.declare(name, -1.0)
        for name in ("bytes_min", "first"):
            self.sums.declare(name, np.inf)
        for size in ("small", "large"):
            for name in RANGE_NAMES:
                self.sums.declare(size + name, 0.0)
        self.late: dict[int, dict[int, int]] = {}
        self.algorithms: Counter[tuple[int, int]] = Counter()  # by call site and algorithm
        self.algorithm_names: dict[str, int] = {}
        self.sampled: Sampled | None = None  # of a part of the instances

    def add(self, rows: Rows, size: int) -> None:
        """Add the instances of one batch, of a communicator of `size` ranks."""
        if not len(rows.callsite):
            return
        ids, where = np.unique(rows.callsite, return_inverse=True)
        self.sums.grow(int(ids[-1]) + 1)
        n = len(ids)
        counts = np.bincount(where, None, n)

        def total(name: str, values: Float | Bool | None, chosen: Bool | None = None) -> None:
            if chosen is not None:
                values = chosen if values is None else np.where(chosen, values, 0.0)
            if values is None:
                self.sums[name][ids] += counts
            elif n == 1:
                self.sums[name][ids] += values.sum()
            else:
                self.sums[name][ids] += np.bincount(where, values, n)

        done = rows.complete
        all_done = bool(done.all())
        total("instances", None)
        total("complete", None if all_done else done)
        total("left", None, None if all_done else rows.left)
        total("elapsed", rows.elapsed)
        for name in MEANS:
            values: Float = getattr(rows, name)
            good = None if all_done and not np.isnan(values.sum()) else done & ~np.isnan(values)
            total(name, values, good)
            total(name + "_count", None, good)
        for state, values in rows.waits.items():
            total("wait_" + state, values, None if all_done else done)
        self._extremes(rows, size, ids, where)
        self._balance(rows, total)
        self._latest(rows, done)
        self._algorithms(rows)

    def _extremes(self, rows: Rows, size: int, ids: Int, where: Int) -> None:
        sums = self.sums
        sums["size"][ids] = np.maximum(sums["size"][ids], size)
        at = ids[where] if len(ids) > 1 else ids
        for name, values, best in (
            ("bytes_max", rows.bytes_max, np.fmax),
            ("bytes_min", rows.bytes_min, np.fmin),
            ("worst_max", rows.worst_factor, np.fmax),
            ("first", rows.first_arrival.astype(np.float64), np.fmin),
            ("last", rows.last_exit.astype(np.float64), np.fmax),
        ):
            if len(ids) == 1:
                sums[name][at] = best(sums[name][at], best.reduce(values))
            else:
                best.at(sums[name], at, values)

    def _balance(self, rows: Rows, total: Any) -> None:
        judged = rows.complete & ~np.isnan(rows.worst_factor)
        if not judged.any():
            return
        total("judged", None, judged)
        total("balanced", None, judged & (rows.worst_factor < 1))
        range_ = np.searchsorted(RANGES, rows.worst_factor, "right")
        small = rows.message_bytes <= SMALL_BYTES
        for size, chosen in (("small", judged & small), ("large", judged & ~small)):
            if chosen.any():
                for i, name in enumerate(RANGE_NAMES):
                    inside = chosen & (range_ == i)
                    if inside.any():
                        total(size + name, None, inside)

    def _algorithms(self, rows: Rows) -> None:
        pairs, counts = np.unique(rows.callsite << 32 | rows.algorithm, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            self.algorithms[divmod(pair, 1 << 32)] += count

    def _latest(self, rows: Rows, done: Bool) -> None:
        # Where the clocks' error exceeds the difference, it is not known who was late.
        late = done & (rows.worst_imbalance > self.clock_error_ns)
        if not late.any():
            return
        key = rows.callsite[late] * self.ranks + rows.last_rank[late]
        keys, counts = np.unique(key, return_counts=True)
        for k, count in zip(keys.tolist(), counts.tolist(), strict=True):
            callsite, rank = divmod(k, self.ranks)
            ranks = self.late.setdefault(callsite, {})
            ranks[rank] = ranks.get(rank, 0) + count


def aggregate(trace: Trace) -> tuple[Aggregate, dict[CallsiteKey, int]]:
    """One pass over the trace: the sums, and the call sites they belong to."""
    measure = Measure(trace)
    sums = Aggregate(trace.ranks, trace.clock_error_ns)
    if trace.sample > 1:
        sums.sampled = Sampled(trace.sample)
    for batch, rows in measure.batches():
        sums.add(rows, batch.communicator.size)
        if sums.sampled is not None and len(batch):
            sums.sampled.add(batch, rows, list(measure.callsites))
    sums.algorithm_names = measure.algorithms
    return sums, measure.callsites


def callsites(trace: Trace) -> pd.DataFrame:
    """One row a call site, in order of appearance; `callsite` is its number.

    Means are over complete instances, NaN without any (times in ns, `wait_ns` summed over the
    ranks of an instance); `total_...` are sums over ranks and instances,
    estimated from those that are recorded where that is a part only (`--sample`), and lie with 95 %
    confidence between `total_..._low_ns` and `..._high_ns`, else both the sum. `started`: the
    instances are starts of a persistent operation. `latest_rank` is the rank that came last most
    often (NA: nobody was late by more than the clocks' error), `latest_share` its share of them;
    `algorithm` names what its instances ran on, joined by "+" if several, `algorithms` how many on
    each, most first: "native 37, kang 3".
    """
    if trace.record == "summary" and len(trace.summary):
        from mpiprof.analysis import observed

        return observed.callsites(trace)
    sums, keys = trace.aggregate
    n = len(keys)
    s = {name: vector[:n] for name, vector in _sized(sums, n).items()}
    scale = scales(trace)
    elapsed, wait = (scale * s[name] for name in SUMMED)
    means = {name: _divide(s[name], s[name + "_count"]) for name in MEANS}
    latest = [_latest(sums.late.get(i, {})) for i in range(n)]
    complete = s["complete"]
    ran = _algorithms(sums, n)
    table: dict[str, Any] = {
        "callsite": np.arange(n),
        "operation": [k.operation for k in keys],
        "sites": describe_sites(trace.tables.sites, [sorted(k.sites) for k in keys]),
        "started": np.array([k.started for k in keys], np.bool_),
        "instances": s["instances"].astype(np.int64),
        "complete_instances": complete.astype(np.int64),
        "size": s["size"].astype(np.int64),
        "bytes": means["bytes"],
        "bytes_min": np.where(np.isinf(s["bytes_min"]), np.nan, s["bytes_min"]),
        "bytes_max": np.where(s["bytes_max"] < 0, np.nan, s["bytes_max"]),
        "message_bytes": means["message_bytes"],
        "mean_elapsed_ns": means["mean_elapsed"],
        "average_imbalance_ns": means["average_imbalance"],
        "worst_imbalance_ns": means["worst_imbalance"],
        "message_time_ns": means["message_time"],
        "average_factor": means["average_factor"],
        "worst_factor": means["worst_factor"],
        "worst_factor_max": np.where(s["worst_max"] < 0, np.nan, s["worst_max"]),
        "exit_imbalance_ns": means["exit_imbalance"],
        "exit_factor": means["exit_factor"],
        "balanced_share": _divide(s["balanced"], s["judged"]),
        "wait_ns": means["wait"],
        "latest_rank": pd.array([rank for rank, _ in latest], dtype="Int64"),
        "latest_share": _divide(np.array([float(c) for _, c in latest]), complete),
        "algorithm": ["+".join(sorted(of)) for of in ran],
        "algorithms": [counted(of) for of in ran],
        "completion_skew_ns": means["skew"],
        "total_elapsed_ns": elapsed.astype(np.int64),
        "total_wait_ns": wait.astype(np.int64),
        **intervals(trace, {"elapsed": elapsed, "wait": wait}),
        **{
            f"total_wait_{state}_ns": (scale * s["wait_" + state]).astype(np.int64)
            for state in STATES
        },
    }
    frame: pd.DataFrame = pd.DataFrame(table)
    return frame


def _sized(sums: Aggregate, n: int) -> dict[str, Float]:
    sums.sums.grow(n)
    return sums.sums.vectors


def _divide(total: Float, count: Float) -> Float:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _latest(counts: dict[int, int]) -> tuple[int | None, int]:
    if not counts:
        return None, 0
    rank = min(counts, key=lambda r: (-counts[r], r))
    return rank, counts[rank]


def _algorithms(sums: Aggregate, n: int) -> list[Counter[str]]:
    """Return for each call site how many instances ran on what; some on several, by rank."""
    names = list(sums.algorithm_names)
    found: list[Counter[str]] = [Counter() for _ in range(n)]
    for (callsite, algorithm), count in sums.algorithms.items():
        for name in names[algorithm].split("+"):
            found[callsite][name] += count
    return found


def counted(algorithms: Mapping[str, int]) -> str:
    """Return algorithms and their instances as text, most first."""
    order = sorted(algorithms, key=lambda name: (-algorithms[name], name))
    return ", ".join(f"{name} {algorithms[name]}" for name in order)


def routines(table: pd.DataFrame) -> pd.DataFrame:
    """Call sites joined by routine: the paper's Tables 2, 3 and 5, from `callsites`.

    One row a routine, by time: operation, callsites, count (instances), bytes, bytes_min,
    bytes_max, total_elapsed_ns, elapsed_share (of all routines), total_wait_ns, average_factor and
    worst_factor (means over instances), major (a tenth or more of the time in all routines).
    """
    rows = []
    for operation, part in table.groupby("operation", sort=False):
        weight = part["complete_instances"].to_numpy(np.float64)
        rows.append(
            {
                "operation": operation,
                "callsites": len(part),
                "count": int(part["instances"].sum()),
                "bytes": _weighted(part["bytes"], weight),
                "bytes_min": part["bytes_min"].min(),
                "bytes_max": part["bytes_max"].max(),
                "mean_elapsed_ns": _weighted(part["mean_elapsed_ns"], weight),
                "total_elapsed_ns": int(part["total_elapsed_ns"].sum()),
                "total_wait_ns": int(part["total_wait_ns"].sum()),
                "average_factor": _weighted(part["average_factor"], weight),
                "worst_factor": _weighted(part["worst_factor"], weight),
            }
        )
    columns = [
        "operation",
        "callsites",
        "count",
        "bytes",
        "bytes_min",
        "bytes_max",
        "mean_elapsed_ns",
        "total_elapsed_ns",
        "total_wait_ns",
        "average_factor",
        "worst_factor",
    ]
    joined: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    whole = max(int(joined["total_elapsed_ns"].sum()), 1)
    joined["elapsed_share"] = joined["total_elapsed_ns"] / whole
    joined["major"] = joined["elapsed_share"] >= 0.1
    ordered: pd.DataFrame = joined.sort_values(
        "total_elapsed_ns", ascending=False, ignore_index=True
    )
    return ordered


def _weighted(values: Any, weight: Float) -> float:
    v = np.asarray(values, np.float64)
    good = ~np.isnan(v) & (weight > 0)
    return float(np.average(v[good], weights=weight[good])) if good.any() else float("nan")


def averages(table: pd.DataFrame) -> dict[str, float]:
    """Return the paper's Table 4: mean average-case and worst-case factor over all instances."""
    weight = table["complete_instances"].to_numpy(np.float64)
    return {
        "average_factor": _weighted(table["average_factor"], weight),
        "worst_factor": _weighted(table["worst_factor"], weight),
    }


def distribution(trace: Trace) -> pd.DataFrame:
    """Return the paper's Figure 2: shares of instances by range of their worst-case factor.

    One row a range: range, small (messages of at most 1000 B), large (above); each column sums to
    1, or is NaN without such instances. The ranges' borders are 1, 8, 32, 128 and 1024.
    """
    sums, keys = trace.aggregate
    vectors = _sized(sums, len(keys))
    table: dict[str, Any] = {"range": list(RANGE_NAMES)}
    for size in ("small", "large"):
        counts = np.array([vectors[size + name].sum() for name in RANGE_NAMES])
        table[size] = _divide(counts, np.full(len(counts), counts.sum()))
        table[size + "_count"] = counts.astype(np.int64)
    frame: pd.DataFrame = pd.DataFrame(table)
    return frame
