"""The rank that is late at a call site, and the stages at which its lateness begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mpiprof.diagnosis.causes import Causes
from mpiprof.trace.trace import Trace

MIN_SPREAD_SHARE = 0.5  # of the spread of arrivals, for a rank to be called late
SIMILAR_SHARE = 0.5  # of the latest rank's lateness, from which other ranks are late, too


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
    causes: Causes = trace.causes(callsite)
    if len(causes.ranks) < 2 or not causes.instances:
        return None
    latest: Any = causes.ranks.iloc[0]
    late_ns, error_ns = float(latest["late_ns"]), float(latest["error_ns"])
    least = max(float(trace.clock_error_ns), 0.0 if math.isnan(error_ns) else error_ns, 0.0)
    if not late_ns > least or late_ns < MIN_SPREAD_SHARE * causes.arrival_ns.value:
        return None
    similar = int((causes.ranks["late_ns"] >= SIMILAR_SHARE * late_ns).sum()) - 1
    return LateRank(
        int(latest["rank"]),
        late_ns,
        float(latest["last_share"]),
        float(latest["inherited_ns"]),
        float(latest["outside_ns"]),
        float(latest["point_to_point_ns"]),
        similar,
        causes.instances,
        least if causes.instances > 1 else 0.0,
    )


def find_previous_callsite(causes: Causes) -> tuple[int, str] | None:
    """Return number and label of the call site that most ranks come from, or None if unknown."""
    if not len(causes.before):
        return None
    first = causes.before.iloc[0]
    return int(first["callsite"]), str(first["site"])
