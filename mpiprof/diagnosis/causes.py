"""Causes of the arrival pattern of one call site: why its processes arrive at different times.

An arrival is the exit from the rank's previous collective plus the time since that exit. So the
spread of the arrivals is inherited from these exits or arises in between. It comes from the same
ranks always (the load), from the same nodes, or is random (noise). Source: Faraj et al., Section 5,
applied to every call site of every program.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.lateness import LatenessSamples
from mpiprof.diagnosis.sampling import SamplePart, take_sample
from mpiprof.metrics.variance_components import Estimate
from mpiprof.trace.sites import NOT_RECORDED, START, label_site
from mpiprof.trace.trace import Trace


@dataclass(frozen=True)
class Causes:
    """Causes of the arrival spread of a call site. Times are in ns, shares are of the variance.

    instances: how many complete ones were looked at, of complete_instances.
    arrival_ns, exit_ns (from the previous collective), between_ns, point_to_point_ns (within
    between): last minus first over the ranks, mean over instances (the paper's Tables 6 and 7).
    inherited (with those exits), outside and point_to_point (both since then) are what spreads the
    arrivals, and sum to 1; compensated: the share of this spread that is gone again when the ranks
    arrive, such as that of late exits after which there is less work. by_rank, by_node and random
    sum to 1: the same ranks always (within a phase), the same nodes, neither.
    ranks: rank, node, late_ns (mean lateness after the median arrival of the others), error_ns (of
    it, 95 %), late_share (of instances, late by half of late_ns and more than the clocks' error),
    last_share, inherited_ns, outside_ns, point_to_point_ns (parts of late_ns).
    nodes: node, host, ranks, late_ns (after the other nodes' mean), error_ns.
    before: callsite that ranks come from (-1 the start, -2 unknown), site, share (of calls).
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


def compute_causes(trace: Trace, callsite: int) -> Causes:
    """Compute the causes of a call site from the sample of its instances."""
    sample = take_sample(trace, callsite)
    row: Any = trace.callsites.loc[callsite]
    cells = LatenessSamples(trace, sample.parts, trace.phases(callsite))
    spreads, shares = cells.imbalance_shares()
    arrival_ns, exit_ns, between_ns, point_to_point_ns = spreads
    inherited, outside, point_to_point, compensated = shares
    by_rank, by_node, random = cells.systematic_shares()
    return Causes(
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
