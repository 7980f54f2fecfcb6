"""Sentences on the waiting that is unknown because calls of some ranks are not in the trace."""

from __future__ import annotations

from mpiprof.diagnosis.finding import NEGLIGIBLE_SHARE
from mpiprof.interface.format_units import format_ranks, format_share, lower_first
from mpiprof.metrics.run_times import incomplete_times
from mpiprof.reports.phrases import share_in_words
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace


def waiting_verb(trace: Trace) -> str:
    """Return "is waiting", or another verb if ranks may have waited notably longer."""
    is_bound = bool(trace.ranks_without_records) or _share_of_time(trace) >= NEGLIGIBLE_SHARE
    return "is known to be waiting" if is_bound else "is waiting"


def describe_lost_ranks(trace: Trace) -> str:
    """Return the ranks without records, as a part of a sentence on waiting."""
    lost = sorted(trace.ranks_without_records)
    return f"{format_ranks(lost)}, whose calls are lost"


def unknown_waiting_sentence(trace: Trace) -> str:
    """Return the time in calls whose waiting is unknown, and where most of it is, otherwise ""."""
    times, share = incomplete_times(trace), _share_of_time(trace)
    if share < NEGLIGIBLE_SHARE:
        return ""
    worst = int(times.argmax())
    part = lower_first(share_in_words(float(times[worst] / times.sum())))
    site = format_callsite(trace, worst)
    return (
        f"A further {format_share(share)} is in collectives of which not all ranks' calls are in "
        f"the trace, {part} of it {site}: how much of that is waiting is not known."
    )


def _share_of_time(trace: Trace) -> float:
    return float(incomplete_times(trace).sum()) / max(float(trace.process_time_ns), 1.0)
