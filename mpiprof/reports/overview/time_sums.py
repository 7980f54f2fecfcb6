"""Composition of the run's time: computing, messages, collectives and waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.finding import Finding, is_blamed
from mpiprof.metrics.message_callsite_sums import find_located_waits
from mpiprof.metrics.one_sided_waits import ONE_SIDED_STATES
from mpiprof.metrics.run_times import lacks_complete_instances
from mpiprof.reports.overview.answer import name_blamed
from mpiprof.reports.pictures.time_split import BlamedTime, TimePart
from mpiprof.reports.site_labels import format_wait_site
from mpiprof.trace import Trace

WIDTHS = {"wide": 1232.0, "narrow": 366.0}  # by class: of the bar of time in px
TIME_PARTS = {  # name, colour and whether ranks wait, by part of TimeSums.compose
    "lost": ("no records", "line2", False),
    "outside": ("computing", "q1", False),
    "local": ("other MPI functions", "q3", False),
    "point to point": ("messages", "q2", False),
    "waiting for messages": ("for messages", "late", True),
    "waiting on windows": ("on windows", "late", True),
    "work": ("collectives", "q3", False),
    "unknown": ("collectives, waiting unknown", "q3", False),
    "waiting": ("in collectives", "late", True),
    "other collectives": ("filtered out", "line2", False),
}


@dataclass(frozen=True)
class TimeSums:
    """Times of some ranks in ns, summed over the ranks.

    whole_ns: of the run. elapsed_ns, wait_ns: in collectives that pass the filters.
    collective_ns: in all collectives. message_ns: in point-to-point calls. lost_ns: of ranks whose
    records are lost. local_ns: in calls on windows, files etc. message_wait_ns: waiting for
    messages and on windows. window_wait_ns: waiting on windows.
    """

    whole_ns: float
    elapsed_ns: float
    wait_ns: float
    collective_ns: float
    message_ns: float
    message_wait_ns: float
    lost_ns: float = 0.0
    local_ns: float = 0.0
    window_wait_ns: float = 0.0

    def compose(self) -> dict[str, float]:
        """Return the time by part (of TIME_PARTS); the parts sum to the whole.

        Point-to-point time is limited to the time outside collectives.
        """
        outside = max(self.whole_ns - self.collective_ns - self.lost_ns, 0.0)
        between = min(self.message_ns, outside)
        waited = min(self.message_wait_ns - self.window_wait_ns, between)
        local = min(self.local_ns, outside - between)
        waited_on_windows = min(self.window_wait_ns, local)
        return {
            "lost": self.lost_ns,
            "outside": outside - between - local,
            "local": local - waited_on_windows,
            "point to point": between - waited,
            "waiting for messages": waited,
            "waiting on windows": waited_on_windows,
            "work": self.elapsed_ns - self.wait_ns,
            "waiting": self.wait_ns,
            "other collectives": self.collective_ns - self.elapsed_ns,
        }


def sum_times(trace: Trace) -> TimeSums:
    """Return the times of all ranks."""
    if trace.record == "summary":
        elapsed = float(trace.summary["total_ns"].sum())
        wait = min(float(trace.callsites["total_wait_ns"].sum()), elapsed)
    else:
        totals = trace.rank_totals
        elapsed, wait = (float(totals[name].sum()) for name in ("elapsed_ns", "total_wait_ns"))
    # `point_to_point` ends with the last collective, and older traces have no message sums.
    sums = trace.message_sums.groupby("rank")["total_ns"].sum()
    in_messages = sums.reindex(range(trace.ranks), fill_value=0).to_numpy(np.float64)
    message_ns = float(np.maximum(trace.point_to_point, in_messages).sum())
    waits = float(find_located_waits(trace)["wait_ns"].sum())
    on_windows = sum_window_waits(trace)
    whole = float(trace.process_time_ns)
    lost_ns = float(trace.duration_ns) * len(trace.ranks_without_records)
    local_ns = float(trace.local_sums["total_ns"].sum())
    times = elapsed, wait, elapsed, message_ns, waits, lost_ns, local_ns, on_windows
    return TimeSums(whole, *times)


def sum_window_waits(trace: Trace, ranks: Sequence[int] | None = None) -> float:
    """Return the waiting of some ranks, by default all, in calls on windows."""
    waits = find_located_waits(trace)
    waits = waits[waits["state"].isin(ONE_SIDED_STATES)]
    if ranks is not None:
        waits = waits[waits["rank"].isin(ranks)]
    return float(waits["wait_ns"].sum())


def list_time_parts(trace: Trace, sums: TimeSums, ranks: int) -> list[TimePart]:
    """Return the parts of the time as means of the ranks."""
    parts = sums.compose()
    if lacks_complete_instances(trace):
        parts = {"unknown" if name == "work" else name: ns for name, ns in parts.items()}
    named = [(*TIME_PARTS[name], ns / max(ranks, 1)) for name, ns in parts.items()]
    return [TimePart(name, ns, colour, waits) for name, colour, waits, ns in named]


def how_to_read(parts: Sequence[TimePart], blamed: BlamedTime | None) -> str:
    """Return the explanation of the bar."""
    text = "The bar is the run, mean of the ranks."
    if any(part.waiting and part.time_ns > 0 for part in parts):
        text += " On the right, hatched: the parts in which ranks wait."
    if blamed is not None:
        text += " Accent: the waiting for the named ranks; other ranks cause the rest."
    return text


def find_blamed_time(trace: Trace, finding: Finding | None) -> BlamedTime | None:
    """Return the waiting that the worst finding causes, mean of the ranks, or None."""
    if finding is None or not is_blamed(finding):
        return None
    main = finding.main_callsite
    site = "" if main is None else format_wait_site(trace, main).partition(" at ")[2]
    where = f" at {site.partition(' ')[0]}" if site else ""
    text = f"for {name_blamed(finding)}{where}"
    return BlamedTime(text, finding.cost_ns / max(trace.ranks, 1))
