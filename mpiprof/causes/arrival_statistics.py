"""Statistics of the arrivals at one call site: their spread, its shares, and the late rank.

An arrival is the exit from the rank's previous collective plus the time since that exit. So the
spread of the arrivals is inherited from these exits or arises in between. It comes from the same
ranks always (the load), from the same nodes, or is random (noise). Source: Faraj et al., Section 5,
applied to every call site of every program.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.variance_components import Estimate
from mpiprof.causes.lateness import LatenessSamples
from mpiprof.causes.sampling import SamplePart, take_sample
from mpiprof.trace.sites import NOT_RECORDED, START, label_site
from mpiprof.trace.trace import Trace

MIN_SPREAD_SHARE = 0.5  # of the spread of arrivals, for a rank to be called late
SIMILAR_SHARE = 0.5  # of the latest rank's lateness, from which other ranks are late, too


@dataclass(frozen=True)
class ArrivalStatistics:
    """Spread of the arrivals at a call site. Times are in ns, shares are of the variance.

    instances: number of sampled instances, of complete_instances.
    arrival_ns, exit_ns (from the previous collective), between_ns, point_to_point_ns (within
    between): last minus first over the ranks, mean over instances (the paper's Tables 6 and 7).
    inherited (with those exits), outside and point_to_point (both since then) spread the arrivals,
    and sum to 1. compensated: the share of this spread that is gone again when the ranks arrive,
    such as that of late exits after which there is less work. by_rank, by_node and random sum to 1:
    the same ranks always (within a phase), the same nodes, neither.
    ranks: rank, node, late_ns (mean lateness after the median arrival of the others), error_ns (of
    it, 95 %), late_share (of instances, late by half of late_ns and more than the clocks' error),
    last_share, inherited_ns, outside_ns, point_to_point_ns (parts of late_ns).
    nodes: node, host, ranks, late_ns (after the other nodes' mean), error_ns.
    before: callsite that ranks come from (-1 the start, -2 unknown), site, share (of calls), the
    most frequent first.
    """

    callsite: int
    operation: str
    instances: int
    complete_instances: int
    arrival_ns: Estimate
    exit_ns: Estimate
    between_ns: Estimate
    point_to_point_ns: Estimate
    inherited: Estimate
    outside: Estimate
    point_to_point: Estimate
    compensated: Estimate
    by_rank: Estimate
    by_node: Estimate
    random: Estimate
    ranks: pd.DataFrame
    nodes: pd.DataFrame
    before: pd.DataFrame

    @property
    def previous_callsite(self) -> int | None:
        """Return the call site that most ranks come from, or None if it is unknown."""
        return int(self.before["callsite"].iloc[0]) if len(self.before) else None


def compute_arrival_statistics(trace: Trace, callsite: int) -> ArrivalStatistics:
    """Compute the statistics of a call site from the sample of its instances."""
    sample = take_sample(trace, callsite)
    row: Any = trace.callsites.loc[callsite]
    cells = LatenessSamples(trace, sample.parts, trace.phases(callsite))
    spreads, shares = cells.imbalance_shares()
    arrival_ns, exit_ns, between_ns, point_to_point_ns = spreads
    inherited, outside, point_to_point, compensated = shares
    by_rank, by_node, random = cells.systematic_shares()
    return ArrivalStatistics(
        callsite,
        str(row["operation"]),
        cells.instances,
        int(row["complete_instances"]),
        arrival_ns,
        exit_ns,
        between_ns,
        point_to_point_ns,
        inherited,
        outside,
        point_to_point,
        compensated,
        by_rank,
        by_node,
        random,
        cells.make_rank_table(),
        cells.make_node_table(),
        make_before_table(CallsiteLabels(trace), sample.parts),
    )


@dataclass(frozen=True)
class LateRank:
    """The latest rank of a call site; times in ns are means over the sampled instances.

    late_ns: after the median of the other ranks, at its arrival. The stages of the lateness add up
    to it: inherited_ns (at the exit from the previous collective), outside_ns (since then, outside
    MPI) and point_to_point_ns (since then, in messages). They are NaN if a previous collective is
    unknown. last_share: share of the instances in which it is the last. similar: number of other
    ranks that are late by half as much. instances: number of sampled instances. error_ns: of
    late_ns, NaN if unknown.
    """

    rank: int
    late_ns: float
    last_share: float
    inherited_ns: float
    outside_ns: float
    point_to_point_ns: float
    similar: int
    instances: int
    error_ns: float = 0.0

    @property
    def knows_stages(self) -> bool:
        """Return whether the stages of the lateness are known."""
        return not math.isnan(self.outside_ns)

    @property
    def stages_ns(self) -> dict[str, float]:
        """Return the lateness that each stage adds, by name."""
        return {
            "inherited": self.inherited_ns,
            "outside": self.outside_ns,
            "point_to_point": self.point_to_point_ns,
        }

    @property
    def main_stage(self) -> str | None:
        """Return the stage that adds at least half of the lateness, or None if there is none."""
        if not self.knows_stages:
            return None
        name, added = max(self.stages_ns.items(), key=lambda item: item[1])
        return name if added >= self.late_ns / 2 else None


def find_late_rank(trace: Trace, callsite: int) -> LateRank | None:
    """Return the late rank of a call site, or None if no rank is late consistently.

    A rank is late if others wait at the call site and its mean lateness is at least half of the
    mean spread of the arrivals, and more than the errors of the mean and of the clocks.
    """
    row: Any = trace.callsites.loc[callsite]
    if trace.record == "summary" or not row["complete_instances"] or not row["total_wait_ns"] > 0:
        return None
    statistics: ArrivalStatistics = trace.arrival_statistics(callsite)
    if len(statistics.ranks) < 2 or not statistics.instances:
        return None
    latest: Any = statistics.ranks.iloc[0]
    late_ns, error_ns = float(latest["late_ns"]), float(latest["error_ns"])
    min_late_ns = max(float(trace.clock_error_ns), 0.0 if math.isnan(error_ns) else error_ns, 0.0)
    if not late_ns > min_late_ns or late_ns < MIN_SPREAD_SHARE * statistics.arrival_ns.value:
        return None
    similar = int((statistics.ranks["late_ns"] >= SIMILAR_SHARE * late_ns).sum()) - 1
    return LateRank(
        int(latest["rank"]),
        late_ns,
        float(latest["last_share"]),
        float(latest["inherited_ns"]),
        float(latest["outside_ns"]),
        float(latest["point_to_point_ns"]),
        similar,
        statistics.instances,
        min_late_ns if statistics.instances > 1 else 0.0,
    )


class CallsiteLabels:
    """Labels of call sites by number, and the call site of each shape."""

    def __init__(self, trace: Trace) -> None:
        table = trace.callsites
        self.names = {
            int(number): f"{operation} {' | '.join(map(label_site, sites))}"
            for number, operation, sites in zip(
                table["callsite"], table["operation"], table["sites"], strict=True
            )
        }
        # The first call site of each shape's operation and site; the last entry stands for no
        # shape, the start of the run.
        keys = trace.aggregate[1]
        number = {(k.operation, site): n for k, n in reversed(keys.items()) for site in k.sites}
        shapes = trace.tables.shapes
        self.of_shape = [number.get((s.operation, s.site), NOT_RECORDED) for s in shapes] + [START]

    def __getitem__(self, callsite: int) -> str:
        return self.names.get(callsite, "the start" if callsite == START else "?")


def make_before_table(labels: CallsiteLabels, parts: list[SamplePart]) -> pd.DataFrame:
    """Return the call sites that ranks come from, most frequent first, with shares of the calls."""
    counts: Counter[int] = Counter()
    for part in parts:
        shapes, number = np.unique(part.before.shape, return_counts=True)
        for shape, count in zip(shapes.tolist(), number.tolist(), strict=True):
            counts[labels.of_shape[shape]] += count
    calls = max(sum(counts.values()), 1)
    order = counts.most_common()
    rows = [(callsite, labels[callsite], count / calls) for callsite, count in order]
    return pd.DataFrame(rows, columns=["callsite", "site", "share"])
