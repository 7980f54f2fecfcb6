"""The table of call sites, and the paper's tables of routines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.aggregate import MEANS, RANGE_NAMES, Aggregate, counted
from mpiprof.metrics.quantiles import NAMES
from mpiprof.metrics.sampling_estimates import SUMMED, intervals, scales
from mpiprof.operations import WAIT_STATES
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float


def callsites(trace: Trace) -> pd.DataFrame:
    """Return one row per call site, in order of first appearance; `callsite` is its number.

    - Means and quantiles are over complete instances, in ns, and NaN if there is none. `wait_ns` is
      summed over the ranks of an instance. Quantiles (`elapsed_p50_ns` etc.) are from
      metrics/quantiles.py.
    - `total_...` are sums over ranks, and `total_instances` counts instances. With `--sample` they
      are estimated from the recorded instances, and `total_..._low_ns` to `..._high_ns` is the 95 %
      confidence interval. Otherwise both limits equal the sum.
    - `started`: the instances are starts of a persistent operation.
    - `latest_rank`: the rank that arrived last most often, or NA if no rank was late by more than
      the clock error. `latest_share`: its share of the complete instances.
    - `algorithm`: the algorithms that the instances ran, joined by "+". `algorithms`: instances per
      algorithm, most frequent first ("native 37, kang 3").
    """
    if trace.record == "summary" and len(trace.summary):
        from mpiprof.metrics import summary_callsites

        return summary_callsites.callsites(trace)
    sums, keys = trace.aggregate
    n = len(keys)
    s = {name: vector[:n] for name, vector in _sized(sums, n).items()}
    scale = scales(trace)
    elapsed, wait = (scale * s[name] for name in SUMMED)
    means = {name: _divide(s[name], s[name + "_count"]) for name in MEANS}
    latest = [_latest(sums.late.get(i, {})) for i in range(n)]
    complete = s["complete"]
    ran = _algorithms(sums, n)
    quantiles = sums.quantiles.table(n)
    table: dict[str, Any] = {
        "callsite": np.arange(n),
        "operation": [k.operation for k in keys],
        "sites": describe_sites(trace.tables.sites, [sorted(k.sites) for k in keys]),
        "started": np.array([k.started for k in keys], np.bool_),
        "instances": s["instances"].astype(np.int64),
        "complete_instances": complete.astype(np.int64),
        "total_instances": np.rint(scale * s["instances"]).astype(np.int64),
        "size": s["size"].astype(np.int64),
        "bytes": means["bytes"],
        "bytes_min": np.where(np.isinf(s["bytes_min"]), np.nan, s["bytes_min"]),
        "bytes_max": np.where(s["bytes_max"] < 0, np.nan, s["bytes_max"]),
        "message_bytes": means["message_bytes"],
        "mean_elapsed_ns": means["mean_elapsed"],
        **{name: quantiles[name] for name in NAMES if name.startswith("elapsed")},
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
        **{name: quantiles[name] for name in NAMES if name.startswith("wait")},
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
            for state in WAIT_STATES
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
    """Count the instances of each call site per algorithm; one instance may use several."""
    names = list(sums.algorithm_names)
    found: list[Counter[str]] = [Counter() for _ in range(n)]
    for (callsite, algorithm), count in sums.algorithms.items():
        for name in names[algorithm].split("+"):
            found[callsite][name] += count
    return found


def routines(table: pd.DataFrame) -> pd.DataFrame:
    """Join call sites by routine: the paper's Tables 2, 3 and 5, from `callsites`.

    One row a routine, by time: operation, callsites, count (instances, estimated of a sample),
    recorded (of these), bytes, bytes_min, bytes_max, message_bytes, total_elapsed_ns,
    elapsed_share (of all routines), total_wait_ns, average_factor and worst_factor (means over
    instances), major (a tenth or more of the time in all routines).
    """
    rows = []
    for operation, part in table.groupby("operation", sort=False):
        weight = part["complete_instances"].to_numpy(np.float64)
        rows.append(
            {
                "operation": operation,
                "callsites": len(part),
                "count": int(part["total_instances"].sum()),
                "recorded": int(part["instances"].sum()),
                "bytes": _weighted(part["bytes"], weight),
                "bytes_min": part["bytes_min"].min(),
                "bytes_max": part["bytes_max"].max(),
                "message_bytes": _weighted(part["message_bytes"], weight),
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
        "recorded",
        "bytes",
        "bytes_min",
        "bytes_max",
        "message_bytes",
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

    One row per range: range, small (messages of at most 1000 B), large (above 1000 B). Each column
    sums to 1, or is NaN without such instances. The limits of the ranges are 1, 8, 32, 128 and
    1024.
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
