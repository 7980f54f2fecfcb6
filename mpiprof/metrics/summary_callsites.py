"""Call sites of a trace recorded as summary.

Counts, times and sizes are exact, from each rank's sums. Arrival metrics are from the recorder's
in-situ statistics, which cover most instances but not all. Unknown values are NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.callsite_sums import most_frequent
from mpiprof.metrics.message_volume import Volume, count_peers, message_time, volume
from mpiprof.operations import OPERATIONS, WAIT_STATES, WaitRule, base_operation, wait_state
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

NAN = float("nan")


@dataclass(frozen=True)
class CommunicatorSums:
    """A call site on one communicator: its instances, the observed instances, and their sums.

    `sums` as in metrics/summary_tables.py, or None if no instance was observed.
    """

    operation: str
    size: int
    instances: int
    volume: Volume
    message_time: float
    sums: dict[str, Any] | None

    @property
    def observed(self) -> int:
        """Number of instances covered by the statistics."""
        return 0 if self.sums is None else int(self.sums["instances"])

    @property
    def factor_unit(self) -> float:
        """T for the factors; 1 for a single rank, where instances are always balanced."""
        if self.size == 1:
            return 1.0
        return self.message_time if self.message_time > 0 else NAN


@dataclass(frozen=True)
class SummaryCallsite:
    """A call site of a summary.

    calls: its rows of `Trace.summary`, one for each rank, site and algorithm. parts: the call site
    on each communicator.
    """

    trace: Trace
    calls: Any
    parts: Sequence[CommunicatorSums]

    @property
    def operation(self) -> str:
        """Collective without MPI_."""
        return self.parts[0].operation

    @property
    def sites(self) -> list[dict[str, Any]]:
        """File, line and function of each site."""
        sites = [sorted(set(self.calls["site_id"]))]
        return describe_sites(self.trace.tables.sites, sites)[0]

    @property
    def size(self) -> int:
        """Number of ranks of the largest communicator."""
        return int(self.calls["size"].max())

    @property
    def instances(self) -> int:
        """Number of instances."""
        return sum(part.instances for part in self.parts)

    @property
    def observed(self) -> int:
        """Number of instances with observed arrivals."""
        return sum(part.observed for part in self.parts)

    @cached_property
    def elapsed_ns(self) -> int:
        """Time of all ranks in the calls."""
        return int(self.calls["total_ns"].sum())

    @property
    def mean_elapsed_ns(self) -> float:
        """Mean time of a call."""
        return self.elapsed_ns / max(int(self.calls["calls"].sum()), 1)

    @property
    def algorithms(self) -> dict[str, int]:
        """Number of instances of each algorithm."""
        by_algorithm = self.calls[self.calls["calls"] > 0].groupby("algorithm")["calls"].sum()
        whole = max(int(self.calls["calls"].sum()), 1)
        return {str(n): round(part / whole * self.instances) for n, part in by_algorithm.items()}

    @cached_property
    def bytes(self) -> Float:
        """Known bytes that a rank sends: the mean of each rank."""
        return np.concatenate([part.volume.bytes[~np.isnan(part.volume.bytes)]
                               for part in self.parts])  # fmt: skip

    def over_instances(self, value: Callable[[CommunicatorSums], float]) -> float:
        """Return the mean of a value of each part, weighted by its instances."""
        return weighted_mean([value(p) for p in self.parts], [p.instances for p in self.parts])

    @cached_property
    def _seen(self) -> list[tuple[CommunicatorSums, dict[str, Any]]]:
        """Parts with observed instances, and their sums."""
        return [(part, part.sums) for part in self.parts if part.sums is not None]

    def mean(self, name: str, *, factor: bool = False) -> float:
        """Return the mean of a sum over the observed instances; in units of T if `factor`."""
        values = [
            sums[name] / part.observed / (part.factor_unit if factor else 1.0)
            for part, sums in self._seen
        ]
        return weighted_mean(values, [part.observed for part, _ in self._seen])

    @property
    def worst_factor_max(self) -> float:
        """Largest worst-case factor of an observed instance."""
        worst = [sums["worst_most_ns"] / part.factor_unit for part, sums in self._seen]
        return float(max((value for value in worst if not np.isnan(value)), default=NAN))

    @property
    def is_waiting_known(self) -> bool:
        """Return whether the statistics cover the waits of the operation."""
        return is_waiting_observed(self.operation)

    @property
    def balanced_share(self) -> float:
        """Share of the observed instances that are balanced.

        The recorder judges balance by the bytes that a call site's leader knows.
        """
        known = self.is_waiting_known and self.operation != "alltoallw"
        return self.mean("balanced") if known and not np.isnan(self.worst_factor_max) else NAN

    @cached_property
    def latest(self) -> tuple[int | None, int]:
        """Rank that was last most often, or None, and its number of instances."""
        if not self.mean("worst_imbalance_ns") > self.trace.clock_error_ns:
            return None, 0
        counts: Counter[int] = Counter()
        for _, sums in self._seen:
            if sums["latest_rank"] >= 0:
                counts[int(sums["latest_rank"])] += int(sums["latest_count"])
        return most_frequent(counts)

    @cached_property
    def wait_ns(self) -> int:
        """Wait of all instances, estimated from the observed ones, at most the time in them."""
        total: float = sum(
            sums["wait_ns"] * part.instances / part.observed
            for part, sums in self._seen
            if self.is_waiting_known
        )
        return round(min(max(total, 0.0), self.elapsed_ns))

    def wait_in(self, state: str) -> int:
        """Return the wait in one wait state; an operation leads to one state at most."""
        return self.wait_ns if wait_state(base_operation(self.operation)) == state else 0

    @cached_property
    def wait_limits(self) -> tuple[int, int]:
        """Certain limits of the wait: the observed wait, and that plus all unobserved time."""
        if not self.is_waiting_known:
            return self.wait_ns, self.wait_ns
        waited = sum(int(sums["wait_ns"]) for _, sums in self._seen)
        inside = sum(part.size * int(sums["elapsed_ns"]) for part, sums in self._seen)
        high = min(waited + max(self.elapsed_ns - inside, 0), self.elapsed_ns)
        return min(waited, self.wait_ns), max(high, self.wait_ns)


def is_waiting_observed(operation: str) -> bool:
    """Return whether the recorder's statistics contain the waits of an operation."""
    rule = WAIT_STATES.get(wait_state(base_operation(operation)) or "")
    return rule not in (WaitRule.RANK_FOR_SOURCES, WaitRule.UNSPECIFIED)


def summary_callsites(trace: Trace) -> list[SummaryCallsite]:
    """Return the call sites of a trace recorded as summary, by number."""
    table: pd.DataFrame = trace.summary
    sums = _sums_by_callsite(trace, table)
    sites = []
    for number, calls in table.groupby("callsite"):
        parts = [
            _make_part(trace, part, sums.get((number, index)))
            for index, part in calls.groupby("communicator", sort=False)
        ]
        sites.append(SummaryCallsite(trace, calls, parts))
    return sites


ADDED_COLUMNS = [
    *("instances", "elapsed_ns", "average_imbalance_ns"),
    *("worst_imbalance_ns", "wait_ns", "balanced"),
]


def _sums_by_callsite(trace: Trace, table: pd.DataFrame) -> dict[Any, Any]:
    """Return the statistics of each call site (by number) on each communicator.

    Statistics of several sites are added; the most frequent last rank is taken.
    """
    columns = ["operation", "communicator", "site_id"]
    numbers = table[[*columns, "callsite"]].drop_duplicates()
    rows = trace.statistics.merge(numbers, on=columns)
    groups = rows.sort_values("latest_count", ascending=False, kind="stable").groupby(
        ["callsite", "communicator"]
    )
    latest = groups[["latest_rank", "latest_count"]].first()
    sums = groups[ADDED_COLUMNS].sum().join(groups["worst_most_ns"].max()).join(latest)
    return sums.to_dict("index")


SINGLE_RANK_SUMS = dict.fromkeys(
    ("elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns", "wait_ns"), 0
) | {"worst_most_ns": 0, "latest_rank": -1, "latest_count": 0}


def _make_part(trace: Trace, calls: pd.DataFrame, sums: dict[str, Any] | None) -> CommunicatorSums:
    operation = str(calls["operation"].iloc[0])
    communicator = trace.tables.communicators[int(calls["communicator"].iloc[0])]
    per_rank = calls.groupby("rank")[["calls", "sent", "received"]].sum()
    instances = int(per_rank["calls"].max())
    if communicator.size == 1:  # a single rank waits for no rank
        sums = SINGLE_RANK_SUMS | {"instances": instances, "balanced": instances}
    found = _mean_volume(trace, base_operation(operation), communicator, per_rank)
    time = message_time(trace.machine, trace.node_ids, communicator, np.asarray(found.message))
    return CommunicatorSums(operation, communicator.size, instances, found, float(time), sums)


def _mean_volume(trace: Trace, base: str, communicator: Communicator, per_rank: Any) -> Volume:
    """Return the bytes of an instance, from the mean of each rank over its calls."""
    each = per_rank.reindex(communicator.ranks)
    sent, received = ((each[n] / each["calls"]).to_numpy() for n in ("sent", "received"))
    if base == "bcast":  # each rank sends or receives; the root may change
        sent = received = sent + received
    elif communicator.is_inter and base in OPERATIONS and OPERATIONS[base].rooted:
        sent, received = (np.where(v > 0, v, np.nan) for v in (sent, received))
    peers = count_peers(base, communicator, trace.tables.destinations)
    known: tuple[Float, Float] = (np.nan_to_num(sent, nan=-1.0), np.nan_to_num(received, nan=-1.0))
    return volume(base, *known, -1, peers)


def mean_bytes(part: CommunicatorSums) -> float:
    """Return the mean of the known bytes that a rank sends; NaN if none is known."""
    known = part.volume.bytes[~np.isnan(part.volume.bytes)]
    return float(known.mean()) if len(known) else NAN


def weighted_mean(values: Any, weights: Any) -> float:
    """Return the weighted mean of known values; NaN without a known value of positive weight."""
    v, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    good = ~np.isnan(v) & (w > 0)
    return float(np.average(v[good], weights=w[good])) if good.any() else NAN
