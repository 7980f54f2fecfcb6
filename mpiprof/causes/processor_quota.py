"""A quota: some ranks may use less processor time than they need, so the kernel stops them.

    rank 1   work ── stopped ── work | call ── stopped ── | work ── stopped ── | call ── stopped ──
    others   work | call ── waits ── | work | call ─ waits ── | work | call ── waits ──────────────

A quota belongs to a control group, such as that of a container or a job. A rank may also get one
during the run. The kernel counts for how long a quota stops the processes of a group. Ranks that
share a quota share this time. A rank is stopped between calls and inside calls, also while it polls
for a message. So it may lose the time between calls in which it does not run, and the time of calls
beyond the usual one. A stop is longer than the turns of other processes on the same processor: the
longest of these times that add up to the stopped time are lost. The run is replayed without them.

The function is silent about ranks that are stopped for less than MIN_STOPPED_SHARE of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.place import Place, find_place
from mpiprof.causes.processor_queues import read_counted, remove_from_calls, remove_from_work
from mpiprof.causes.processor_sets import Limit, find_limits, format_period
from mpiprof.interface.format_units import format_ranks, format_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MIN_STOPPED_SHARE = 0.05  # of the run, of a rank
MIN_SAVED_SHARE = 0.01  # of the run time
MIN_LOST_NS = 1_000_000  # of a time that a stop may have caused


@dataclass(frozen=True)
class ProcessorQuota(Cause):
    """Ranks that their quotas stop.

    processors: the smallest quota. stopped_ns: the longest time of a rank. when: in which the ranks
    had the quota, as text, "" if they had it at the start. is_shared: by these ranks.
    least_lost_ns: of each rank, the shortest time that it lost.
    """

    name: ClassVar[str] = "processor_quota"
    repair: ClassVar[str] = "Without the quota"
    reason: ClassVar[str] = "stopped by its quota"
    icon: ClassVar[str] = "paused"
    is_first: ClassVar[bool] = True
    processors: float
    stopped_ns: float
    when: str
    is_shared: bool
    least_lost_ns: tuple[float, ...]

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        return f"The quota of {format_ranks(self.ranks)} stopped {self._them} for {self._time}"

    @property
    def clause(self) -> str:
        """Return the quota of which ranks, since when, and for how long it stopped them."""
        verb = "share" if self.is_shared else "have" if len(self.ranks) > 1 else "has"
        quota = f"a quota of {self.processors:.3g} processor{'s' * (self.processors != 1)}"
        ranks = format_ranks(self.ranks)
        return f"{ranks} {verb} {quota}{self.when}, which stopped {self._them} for {self._time}"

    @property
    def waiting_ranks(self) -> tuple[int, ...]:
        """Return the ranks that wait for a processor, as Oversubscription does."""
        return self.ranks

    @property
    def _them(self) -> str:
        return "them" if len(self.ranks) > 1 else "it"

    @property
    def _time(self) -> str:
        return ("up to " if len(self.ranks) > 1 else "") + format_time(self.stopped_ns)

    @property
    def advice(self) -> str:
        """Return what to change."""
        return f"Raise or remove the quota of the control group of {format_ranks(self.ranks)}."


def list_lost(trace: Trace) -> dict[int, Float]:
    """Return the times that each rank with a quota may have lost in a run or a window of it."""
    limits = find_limits(trace)
    lost = _remove_lost(trace, list(limits), limits) if limits else Removal.nothing()
    lost = lost.take(lost.removed_ns >= MIN_LOST_NS)
    return {rank: lost.removed_ns[lost.rank == rank] for rank in limits}


def _remove_lost(trace: Trace, ranks: Sequence[int], limits: Mapping[int, Limit]) -> Removal:
    """Return the time without a processor between calls, and that of calls beyond the usual one."""
    periods = {rank: limits[rank].period for rank in ranks}
    table = read_counted(trace)
    length_ns = (table["end_ns"] - table["begin_ns"]).to_numpy(np.float64)
    lost_ns = (length_ns - table["processor_ns"].to_numpy(np.float64)).clip(min=0)
    work = remove_from_work(table, lost_ns, ranks, periods)
    return join_removals([work, remove_from_calls(trace, ranks, periods)])


def choose_limits(trace: Trace, windows: Sequence[dict[int, Float]]) -> list[ProcessorQuota]:
    """Return the ranks that are stopped for a notable part of the run, as one cause."""
    least_ns, limits = MIN_STOPPED_SHARE * float(trace.run_ns), find_limits(trace)
    chosen = [rank for rank, limit in sorted(limits.items()) if limit.stopped_ns >= least_ns]
    if not chosen:
        return []
    stopped_ns = [limits[rank].stopped_ns for rank in chosen]
    return [
        ProcessorQuota(
            tuple(chosen),
            (_find_main_place(trace, chosen),),
            min(limits[rank].processors for rank in chosen),
            max(stopped_ns),
            format_period(trace, [limits[rank].period for rank in chosen]),
            len(chosen) > 1 and len({limits[rank].group for rank in chosen}) == 1,
            tuple(
                _find_least_lost(np.concatenate([of[rank] for of in windows]), stopped)
                for rank, stopped in zip(chosen, stopped_ns, strict=True)
            ),
        )
    ]


def _find_least_lost(lost_ns: Float, stopped_ns: float) -> float:
    """Return the shortest of the longest times that add up to the stopped time."""
    descending = np.sort(lost_ns)[::-1]
    count = int(np.searchsorted(np.cumsum(descending), stopped_ns)) + 1
    return float(descending[count - 1]) if count <= len(descending) else 0.0


def _find_main_place(trace: Trace, ranks: Sequence[int]) -> Place:
    """Return the place at which the ranks spend most time between calls."""
    table = read_counted(trace)
    table = table[table["rank"].isin(ranks)]
    length_ns = table["end_ns"] - table["begin_ns"]
    sums: Any = length_ns.groupby([table["before_site_id"], table["after_site_id"]]).sum()
    before, after = sums.idxmax() if len(sums) else (-1, -1)
    return find_place(trace, (int(before), int(after)))


def remove_lost(trace: Trace, causes: Sequence[ProcessorQuota]) -> list[tuple[Removal, Saving]]:
    """Return the time that the quotas cost in a run or a window of it, and its effect."""
    limits = find_limits(trace)
    results = []
    for cause in causes:
        lost = _remove_lost(trace, cause.ranks, limits)
        least_ns = np.full(trace.ranks, np.inf)
        least_ns[list(cause.ranks)] = cause.least_lost_ns
        removal = lost.take(lost.removed_ns >= least_ns[lost.rank])
        results.append((removal, replay_without(trace, removal)))
    return results


def make_causes(
    causes: Sequence[ProcessorQuota],
    windows: Sequence[Sequence[tuple[Removal, Saving]]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the causes that cost time; windows: of the run, as remove_lost."""
    results = []
    for cause, *parts in zip(causes, *windows, strict=True):
        removal = join_removals([removal for removal, _ in parts])
        saving = join_savings([saving for _, saving in parts])
        saving = replace(saving, queue_ns=removal.total_ns)
        if saving.run_ns >= MIN_SAVED_SHARE * run_ns:
            results.append(FoundCause(cause, removal, saving))
    return results
