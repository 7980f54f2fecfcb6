"""Sums over the instances of each call site, from which its columns are computed.

CallsiteSums are over the recorded instances. SummarySums are those of a trace recorded as summary:
counts, times and sizes are exact, from each rank's sums. Arrival metrics are from the recorder's
in-situ statistics, which cover most instances but not all. Unknown values are NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.message_volume import Volume, count_peers, message_time, volume
from mpiprof.account.sampling_estimates import callsite_scales, interval_columns
from mpiprof.facts.operations import OPERATIONS, WAIT_STATES, WaitRule, base_operation, wait_state
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int

NAN = float("nan")
TIME_SUMS = ["elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns", "wait_ns"]


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

    def ratio(self, part: str, total: str) -> Float:
        """Return one sum over another; NaN where the latter is 0."""
        return divide(self.sums[part], self.sums[total])

    def quantile(self, name: str) -> Float:
        """Return a column of account.quantiles; NaN without complete instances."""
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


@dataclass(frozen=True)
class SummarySums:
    """Sums of all call sites of a summary; arrays have one value per call site."""

    trace: Trace
    calls: pd.DataFrame  # `Trace.summary`, one row for each rank, site and algorithm
    # One row for each call site and communicator: the columns of `_make_part`, observed (instances
    # that the statistics cover), and sums of `Trace.statistics`, NaN if none is observed.
    parts: pd.DataFrame

    @cached_property
    def operations(self) -> list[str]:
        """Collective without MPI_."""
        return self.parts.groupby("callsite")["operation"].first().tolist()

    @property
    def sites(self) -> list[list[dict[str, Any]]]:
        """File, line and function of each site."""
        ids = [sorted(set(calls["site_id"])) for _, calls in self.calls.groupby("callsite")]
        return describe_sites(self.trace.tables.sites, ids)

    @cached_property
    def _joint_calls(self) -> pd.DataFrame:
        """Calls on communicators of two or more ranks; others are no instances."""
        return self.calls[self.calls["size"] > 1]

    @cached_property
    def elapsed_ns(self) -> Int:
        """Time of all ranks in the calls."""
        return self.calls.groupby("callsite")["total_ns"].sum().to_numpy()

    @property
    def mean_elapsed_ns(self) -> Float:
        """Mean time of a call; NaN without an instance."""
        joint = self._joint_calls.groupby("callsite")[["total_ns", "calls"]].sum()
        joint = joint.reindex(range(len(self.operations)), fill_value=0)
        return divide(joint["total_ns"].to_numpy(), joint["calls"].to_numpy())

    @cached_property
    def algorithms(self) -> list[dict[str, int]]:
        """Number of instances of each algorithm."""
        algorithms = []
        instances = self.total("instances").tolist()
        by_callsite = dict(list(self._joint_calls.groupby("callsite")))
        for callsite, count in enumerate(instances):
            calls = by_callsite.get(callsite, self.calls[:0])
            calls_by_name = calls[calls["calls"] > 0].groupby("algorithm")["calls"].sum()
            total_calls = max(int(calls["calls"].sum()), 1)
            shares = {str(name): n / total_calls for name, n in calls_by_name.items()}
            algorithms.append({name: round(share * count) for name, share in shares.items()})
        return algorithms

    def total(self, name: str) -> Int:
        """Return the sum of a column of `parts`, without unknown values."""
        return self._sum(self.parts[name].fillna(0).to_numpy(np.int64))

    def extreme(self, name: str, which: str) -> Array:
        """Return the "min" or "max" of a column of `parts`; NaN if no value is known."""
        return self.parts.groupby("callsite")[name].agg(which).to_numpy()

    def average(self, name: str) -> Float:
        """Return the mean of a column of `parts` over instances."""
        return self._average(self.parts[name], "instances")

    def _average(self, values: Any, weights: str) -> Float:
        table = pd.DataFrame({"value": values, "weight": self.parts[weights]})
        groups = table.groupby(self.parts["callsite"])
        return np.array([weighted_mean(part["value"], part["weight"]) for _, part in groups])

    def mean(self, name: str, *, factor: bool = False) -> Float:
        """Return the mean of a sum over the observed instances; in units of T if `factor`."""
        unit = self.parts["factor_unit_ns"] if factor else 1.0
        return self._average(self.parts[name] / self.parts["observed"] / unit, "observed")

    @property
    def worst_factor_max(self) -> Float:
        """Largest worst-case factor of an observed instance."""
        worst = self.parts["worst_most_ns"] / self.parts["factor_unit_ns"]
        return worst.groupby(self.parts["callsite"]).max().to_numpy(np.float64)

    @property
    def is_waiting_known(self) -> Bool:
        """Mask of the call sites with operations with waits that the statistics cover."""
        return np.array([is_waiting_observed(operation) for operation in self.operations])

    @property
    def balanced_share(self) -> Float:
        """Share of the observed instances that are balanced."""
        # The recorder judges balance by the bytes that a call site's leader knows.
        is_known = self.is_waiting_known & (np.array(self.operations) != "alltoallw")
        is_known &= ~np.isnan(self.worst_factor_max)
        return np.where(is_known, self.mean("balanced"), np.nan)

    @cached_property
    def latest(self) -> list[tuple[int | None, int]]:
        """Rank that was last most often, or None, and its number of instances."""
        counts: list[Counter[int]] = [Counter() for _ in self.operations]
        known_parts = self.parts[self.parts["latest_rank"] >= 0]
        names = ["callsite", "latest_rank", "latest_count"]
        for callsite, rank, count in known_parts[names].astype(int).itertuples(index=False):
            counts[callsite][rank] += count
        late = self.mean("worst_imbalance_ns") > self.trace.clock_error_ns
        return [
            most_frequent(counts_of_ranks if late[i] else {})
            for i, counts_of_ranks in enumerate(counts)
        ]

    @cached_property
    def wait_ns(self) -> Int:
        """Wait of all instances, estimated from the observed ones, at most the time in them."""
        estimate = self.parts["wait_ns"] * self.parts["instances"] / self.parts["observed"]
        total = np.where(self.is_waiting_known, self._sum(estimate.fillna(0).to_numpy()), 0)
        return np.asarray(np.rint(np.clip(total, 0, self.elapsed_ns)), np.int64)

    def wait_in(self, state: str) -> Int:
        """Return the wait in one wait state; an operation leads to one state at most."""
        leads_to_state = [
            wait_state(base_operation(operation)) == state for operation in self.operations
        ]
        return np.where(leads_to_state, self.wait_ns, 0)

    @cached_property
    def wait_limits(self) -> tuple[Int, Int]:
        """Certain limits of the wait: the observed wait, and that plus all unobserved time."""
        waited = self.total("wait_ns")
        inside_ns = self.parts["size"] * self.parts["elapsed_ns"].fillna(0)
        inside = self._sum(inside_ns.to_numpy(np.int64))
        high = np.minimum(waited + np.maximum(self.elapsed_ns - inside, 0), self.elapsed_ns)
        is_known = self.is_waiting_known
        limits = np.minimum(waited, self.wait_ns), np.maximum(high, self.wait_ns)
        low, high = (np.where(is_known, limit, self.wait_ns) for limit in limits)
        return low, high

    def _sum(self, values: Array) -> Array:
        """Return the sums over the parts of each call site, without loss of digits."""
        sums = np.zeros(len(self.operations), values.dtype)
        np.add.at(sums, self.parts["callsite"].to_numpy(), values)
        return sums


def is_waiting_observed(operation: str) -> bool:
    """Return whether the recorder's statistics contain the waits of an operation."""
    rule = WAIT_STATES.get(wait_state(base_operation(operation)) or "")
    return rule not in (WaitRule.RANK_FOR_SOURCES, WaitRule.UNSPECIFIED)


def sum_summary(trace: Trace) -> SummarySums:
    """Return the sums of the call sites of a trace recorded as summary."""
    keys = ["callsite", "communicator"]
    groups = trace.summary.groupby(keys, sort=False)
    parts = pd.DataFrame([_make_part(trace, calls) for _, calls in groups])
    parts = parts.merge(_sum_statistics(trace), how="left", on=keys)
    one_rank = parts["size"] == 1  # its calls are no instances
    parts.loc[one_rank, [*TIME_SUMS, "worst_most_ns", "bytes_min", "bytes_max"]] = NAN
    parts.loc[one_rank, ["instances", "observed"]] = 0
    return SummarySums(trace, trace.summary, parts.fillna({"observed": 0}))


def _sum_statistics(trace: Trace) -> pd.DataFrame:
    """Return each call site's statistics on each communicator: sums over sites, top last rank."""
    columns = ["operation", "communicator", "site_id"]
    numbers = trace.summary[[*columns, "callsite"]].drop_duplicates()
    rows = trace.statistics.merge(numbers, on=columns).rename(columns={"instances": "observed"})
    rows = rows.sort_values("latest_count", ascending=False, kind="stable")
    functions = dict.fromkeys([*TIME_SUMS, "observed", "balanced"], "sum")
    functions |= {"worst_most_ns": "max", "latest_rank": "first", "latest_count": "first"}
    table = rows.groupby(["callsite", "communicator"], as_index=False).agg(functions)
    return table.astype(dict.fromkeys(functions, np.float64))


def _make_part(trace: Trace, calls: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of `SummarySums.parts` that follow from calls on one communicator."""
    first: Any = calls.iloc[0]
    communicator = trace.tables.communicators[first["communicator"]]
    per_rank = calls.groupby("rank")[["calls", "sent", "received"]].sum()
    mean_volume = _mean_volume(trace, base_operation(first["operation"]), communicator, per_rank)
    message = np.asarray(mean_volume.message)
    time = message_time(trace.machine, trace.node_ids, communicator, message)
    sent = pd.Series(mean_volume.bytes)
    return {
        **{name: first[name] for name in ("callsite", "communicator", "operation", "size")},
        "instances": int(per_rank["calls"].max()),
        "bytes": sent.mean(),
        "bytes_min": sent.min(),
        "bytes_max": sent.max(),
        "message_bytes": float(mean_volume.message),
        "message_time_ns": float(time),
        "factor_unit_ns": float(time) if time > 0 else NAN,
    }


def _mean_volume(trace: Trace, base: str, communicator: Communicator, per_rank: Any) -> Volume:
    """Return the bytes of an instance, from the mean of each rank over its calls."""
    each = per_rank.reindex(communicator.ranks)
    sent, received = ((each[n] / each["calls"]).to_numpy() for n in ("sent", "received"))
    if base == "bcast":  # each rank sends or receives; the root may change
        sent = received = sent + received
    elif communicator.is_inter and base in OPERATIONS and OPERATIONS[base].rooted:
        sent, received = (np.where(v > 0, v, np.nan) for v in (sent, received))
    peers = count_peers(base, communicator, trace.tables.destinations)
    sent, received = (np.nan_to_num(byte_counts, nan=-1.0) for byte_counts in (sent, received))
    return volume(base, sent, received, -1, peers)


def weighted_mean(values: Any, weights: Any) -> float:
    """Return the weighted mean of known values; NaN without a known value of positive weight."""
    v, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    good = ~np.isnan(v) & (w > 0)
    return float(np.average(v[good], weights=w[good])) if good.any() else NAN
