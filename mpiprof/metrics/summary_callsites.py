"""The table of call sites of a trace recorded as summary.

Counts, times and sizes are exact, from each rank's sums. Arrival metrics are from the recorder's
in-situ statistics, which cover most instances but not all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.aggregate import counted
from mpiprof.metrics.insitu_statistics import is_waiting_observed
from mpiprof.metrics.message_volume import Volume, message_time, peers_of, volume
from mpiprof.metrics.quantiles import NAMES
from mpiprof.operations import OPERATIONS, WAIT_STATES, base_operation, wait_state
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

NAN = float("nan")


@dataclass(frozen=True)
class Part:
    """A call site on one communicator: its instances, the observed instances, and their sums.

    `sums` as in metrics/insitu_statistics.py, or None if no instance was observed.
    """

    operation: str
    communicator: int
    size: int
    instances: int
    volume: Volume
    message_time: float
    sums: dict[str, Any] | None

    @property
    def observed(self) -> int:
        """Number of instances covered by the statistics."""
        return 0 if self.sums is None else int(self.sums["instances"])


def callsites(trace: Trace) -> pd.DataFrame:
    """Return the table of call sites with the columns of metrics/callsites.py; NaN if unknown.

    `complete_instances` are the instances with observed arrivals. Means are over these.
    `total_wait_ns` is their mean wait times all instances, limited by `total_elapsed_ns`. Its
    limits are certain: the observed wait, and that plus all time in the other instances.
    `bytes_min` and `bytes_max` are over the mean sizes of the ranks.
    """
    table: pd.DataFrame = trace.summary
    sums = _sums(trace, table)
    rows = []
    for number in range(int(table["callsite"].max()) + 1):
        mine = table[table["callsite"] == number]
        operation = str(mine["operation"].iloc[0])
        parts = [
            _part(trace, operation, index, calls, sums.get((number, index)))
            for index in mine["communicator"].unique().tolist()
            for calls in (mine[mine["communicator"] == index],)
        ]
        where = describe_sites(trace.tables.sites, [sorted(set(mine["site_id"]))])[0]
        row = {"callsite": number, "operation": operation, "sites": where, "started": False}
        rows.append(row | _row(trace, mine, parts))
    frame: pd.DataFrame = pd.DataFrame(rows)
    frame["latest_rank"] = frame["latest_rank"].astype("Int64")
    return frame


def _sums(trace: Trace, table: pd.DataFrame) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the statistics of each call site (by number) on each communicator."""
    places = ["operation", "communicator", "site_id"]
    numbers = table[[*places, "callsite"]].drop_duplicates()
    sums: dict[tuple[int, int], dict[str, Any]] = {}
    for row in trace.statistics.merge(numbers, on=places).to_dict("records"):
        _add(sums.setdefault((int(row["callsite"]), int(row["communicator"])), {}), row)
    return sums


ADDED = (
    *("instances", "elapsed_ns", "average_imbalance_ns"),
    *("worst_imbalance_ns", "wait_ns", "balanced"),
)


def _add(into: dict[str, Any], row: dict[Any, Any]) -> None:
    """Add sums of one communicator; the most frequent last rank is taken."""
    if row["latest_count"] > into.get("latest_count", -1):
        into.update(latest_rank=row["latest_rank"], latest_count=row["latest_count"])
    into["worst_most_ns"] = max(into.get("worst_most_ns", 0), row["worst_most_ns"])
    for name in ADDED:
        into[name] = into.get(name, 0) + row[name]


ALONE = dict.fromkeys(
    ("elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns", "wait_ns"), 0
) | {
    "worst_most_ns": 0,
    "latest_rank": -1,
    "latest_count": 0,
}


def _part(
    trace: Trace, operation: str, index: int, calls: Any, sums: dict[str, Any] | None
) -> Part:
    communicator = trace.tables.communicators[index]
    per_rank = calls.groupby("rank")[["calls", "sent", "received"]].sum()
    instances = int(per_rank["calls"].max())
    if communicator.size == 1:  # a single rank waits for no rank
        sums = ALONE | {"instances": instances, "balanced": instances}
    found = _volume(trace, base_operation(operation), index, per_rank)
    nodes = {trace.node_of.get(rank) for rank in communicator.ranks.tolist()}
    time = message_time(trace.machine, len(nodes) > 1, np.asarray(found.message))
    return Part(operation, index, communicator.size, instances, found, float(time), sums)


def _volume(trace: Trace, base: str, index: int, per_rank: Any) -> Volume:
    """Return the bytes of an instance, from the mean of each rank over its calls."""
    communicator = trace.tables.communicators[index]
    members = communicator.ranks.tolist()
    each = per_rank.reindex(members)
    sent, received = ((each[n] / each["calls"]).to_numpy() for n in ("sent", "received"))
    if base == "bcast":  # each rank sends or receives; the root may change
        sent = received = sent + received
    elif communicator.inter and base in OPERATIONS and OPERATIONS[base].rooted:
        sent, received = (np.where(v > 0, v, np.nan) for v in (sent, received))
    sizes: Int = np.array([len(group) for group in communicator.groups], np.int64)
    side = np.repeat(np.arange(len(sizes)), sizes)
    destinations = [trace.tables.destinations.get((index, rank)) for rank in members]
    peers = peers_of(base, sizes, side, destinations)
    known: tuple[Float, Float] = (np.nan_to_num(sent, nan=-1.0), np.nan_to_num(received, nan=-1.0))
    return volume(base, *known, -1, peers)


def _row(trace: Trace, table: Any, parts: list[Part]) -> dict[str, Any]:
    calls = max(int(table["calls"].sum()), 1)
    instances = sum(part.instances for part in parts)
    observed = sum(part.observed for part in parts)
    weights = [part.instances for part in parts]
    each = [part.volume.bytes[~np.isnan(part.volume.bytes)] for part in parts]
    means = [float(values.mean()) if len(values) else NAN for values in each]
    all_bytes = np.concatenate(each)
    by_algorithm = table[table["calls"] > 0].groupby("algorithm")["calls"].sum()
    ran = {str(name): round(part / calls * instances) for name, part in by_algorithm.items()}
    elapsed = int(table["total_ns"].sum())
    return {
        "instances": instances,
        "complete_instances": observed,
        "total_instances": instances,
        "size": int(table["size"].max()),
        "bytes": _mean(means, weights),
        "bytes_min": float(all_bytes.min()) if len(all_bytes) else NAN,
        "bytes_max": float(all_bytes.max()) if len(all_bytes) else NAN,
        "message_bytes": _mean([float(p.volume.message) for p in parts], weights),
        "mean_elapsed_ns": float(table["total_ns"].sum()) / calls,
        **dict.fromkeys(NAMES, NAN),
        **_arrivals(trace, parts, observed),
        "algorithm": "+".join(sorted(ran)),
        "algorithms": counted(ran),
        "completion_skew_ns": NAN,
        "total_elapsed_ns": elapsed,
        "total_elapsed_low_ns": elapsed,
        "total_elapsed_high_ns": elapsed,
        **_waits(parts, elapsed),
    }


def _mean(values: list[float], weights: list[int]) -> float:
    """Return the weighted mean of known values; NaN if there is none."""
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if not np.isnan(v) and w > 0]
    return sum(v * w for v, w in pairs) / sum(w for _, w in pairs) if pairs else NAN


def _arrivals(trace: Trace, parts: list[Part], observed: int) -> dict[str, Any]:
    seen = [(part, part.sums) for part in parts if part.sums is not None]
    weights = [part.observed for part, _ in seen]
    timed = [(part, sums, _time(trace, part)) for part, sums in seen]

    def mean(name: str) -> float:
        return _mean([sums[name] / part.observed for part, sums in seen], weights)

    def factor(name: str) -> float:
        return _mean([sums[name] / part.observed / time for part, sums, time in timed], weights)

    worst = [sums["worst_most_ns"] / time for _, sums, time in timed if not np.isnan(time)]
    known = is_waiting_observed(parts[0].operation)
    # The recorder judges balance by the bytes that a call site's leader knows.
    judged = known and parts[0].operation != "alltoallw" and bool(worst)
    latest = _latest(seen) if mean("worst_imbalance_ns") > trace.clock_error_ns else (None, 0)
    return {
        "average_imbalance_ns": mean("average_imbalance_ns"),
        "worst_imbalance_ns": mean("worst_imbalance_ns"),
        "message_time_ns": _mean([p.message_time for p in parts], [p.instances for p in parts]),
        "average_factor": factor("average_imbalance_ns"),
        "worst_factor": factor("worst_imbalance_ns"),
        "worst_factor_max": max(worst, default=NAN),
        "exit_imbalance_ns": NAN,
        "exit_factor": NAN,
        "balanced_share": mean("balanced") if judged else NAN,
        "wait_ns": mean("wait_ns") if known else NAN,
        "latest_rank": pd.NA if latest[0] is None else latest[0],
        "latest_share": latest[1] / observed if observed else NAN,
    }


def _time(trace: Trace, part: Part) -> float:
    """Return T for the factors; 1 for a single rank, where instances are always balanced."""
    if trace.tables.communicators[part.communicator].size == 1:
        return 1.0
    return part.message_time if part.message_time > 0 else NAN


def _latest(seen: list[tuple[Part, dict[str, Any]]]) -> tuple[int | None, int]:
    counts: dict[int, int] = {}
    for _, sums in seen:
        if sums["latest_rank"] >= 0:
            rank = int(sums["latest_rank"])
            counts[rank] = counts.get(rank, 0) + int(sums["latest_count"])
    if not counts:
        return None, 0
    rank = min(counts, key=lambda r: (-counts[r], r))
    return rank, counts[rank]


def _waits(parts: list[Part], elapsed: int) -> dict[str, int]:
    """Return the wait of all instances, estimated from the observed ones, at most their time."""
    operation = parts[0].operation
    total = sum(
        part.sums["wait_ns"] * part.instances / part.observed
        for part in parts
        if part.sums is not None and is_waiting_observed(operation)
    )
    state = wait_state(base_operation(operation))
    total = round(min(max(total, 0), elapsed))
    low, high = _bounds(parts, elapsed) if is_waiting_observed(operation) else (0, 0)
    return {
        "total_wait_ns": total,
        "total_wait_low_ns": min(low, total),
        "total_wait_high_ns": max(high, total),
        **{f"total_wait_{name}_ns": total if name == state else 0 for name in WAIT_STATES},
    }


def _bounds(parts: list[Part], elapsed: int) -> tuple[int, int]:
    """Return certain limits of the wait of all instances, whatever was not observed."""
    seen = [(part.size, part.sums) for part in parts if part.sums is not None]
    waited = sum(int(sums["wait_ns"]) for _, sums in seen)
    inside = sum(size * int(sums["elapsed_ns"]) for size, sums in seen)
    return min(waited, elapsed), min(waited + max(elapsed - inside, 0), elapsed)
