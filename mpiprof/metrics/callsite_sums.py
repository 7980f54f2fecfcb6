"""Sums over the recorded instances of each call site, from which its columns are computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.metrics.sampling_estimates import callsite_scales, interval_columns
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int


class CallsiteSums:
    """Sums of all call sites of a trace; arrays have one value per call site."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        aggregate, keys = trace.aggregate
        self.keys: list[CallsiteKey] = list(keys)
        self.sums: dict[str, Float] = aggregate.take_sums(len(keys))
        self.late: Mapping[tuple[int, int], int] = aggregate.late  # by call site and last rank
        self.quantiles: dict[str, Float] = aggregate.quantiles.make_table(len(keys))
        names = list(aggregate.algorithm_names)
        # Instances per algorithm; an instance may use several.
        self.algorithms: list[Counter[str]] = [Counter() for _ in keys]
        for (callsite, algorithm), count in aggregate.algorithms.items():
            for name in names[algorithm].split("+"):
                self.algorithms[callsite][name] += count

    @property
    def sites(self) -> list[list[dict[str, Any]]]:
        """File, line and function of each call site."""
        return describe_sites(self.trace.tables.sites, [sorted(k.sites) for k in self.keys])

    def count(self, name: str) -> Int:
        """Return a sum as integers."""
        return self.sums[name].astype(np.int64)

    def mean(self, name: str) -> Float:
        """Return the mean of a column over the complete instances in which it is known."""
        return self.ratio(name, f"{name}_count")

    def ratio(self, part: str, whole: str) -> Float:
        """Return one sum over another; NaN where the latter is 0."""
        return divide(self.sums[part], self.sums[whole])

    def quantile(self, name: str) -> Float:
        """Return a column of metrics.quantiles; NaN without complete instances."""
        return self.quantiles[name]

    def extreme(self, name: str) -> Float:
        """Return a maximum or minimum; NaN if no value is known."""
        values = self.sums[name]
        return np.where(np.isinf(values) | (values < 0), np.nan, values)

    @cached_property
    def scale(self) -> Float:
        """Number of instances that each recorded instance represents."""
        return callsite_scales(self.trace)

    def total(self, name: str) -> Int:
        """Return a sum over all instances, estimated from the recorded instances."""
        return (self.scale * self.sums[name]).astype(np.int64)

    @cached_property
    def limits(self) -> dict[str, Int]:
        """Confidence limits of the total time and wait, by column."""
        elapsed, wait = (self.scale * self.sums[name] for name in ("elapsed", "wait_ns"))
        return interval_columns(self.trace, {"elapsed": elapsed, "wait": wait})

    @cached_property
    def latest(self) -> list[tuple[int | None, int]]:
        """Rank that was last most often, or None, and its number of instances."""
        counts: list[dict[int, int]] = [{} for _ in self.keys]
        for (callsite, rank), count in self.late.items():
            counts[callsite][rank] = count
        return list(map(most_frequent, counts))


def latest_ranks(sums: Any) -> Any:
    """Return the rank of each call site that was last most often, or NA."""
    return pd.array([rank for rank, _ in sums.latest], dtype="Int64")


def latest_shares(sums: Any, instances: Array) -> Float:
    """Return the share of the instances in which that rank was last."""
    return divide(np.array([float(count) for _, count in sums.latest]), instances)


def divide(total: Float, count: Array) -> Float:
    """Return the quotient, or NaN where `count` is 0."""
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def most_frequent(counts: Mapping[int, int]) -> tuple[int | None, int]:
    """Return the rank with the largest count, the lowest of equal ones, and its count."""
    if not counts:
        return None, 0
    rank = min(counts, key=lambda r: (-counts[r], r))
    return rank, counts[rank]


def counted(algorithms: Mapping[str, int]) -> str:
    """Return algorithms with their numbers of instances, most frequent first."""
    order = sorted(algorithms, key=lambda name: (-algorithms[name], name))
    return ", ".join(f"{name} {algorithms[name]}" for name in order)
