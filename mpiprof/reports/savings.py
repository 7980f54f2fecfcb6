"""The run time that a repair would save, as text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpiprof.diagnosis.finding import MIN_CERTAINTY, Finding
from mpiprof.interface.format_units import UNKNOWN, format_share, format_time, format_uncertain_time
from mpiprof.reports.phrases import state_sentence
from mpiprof.trace import Trace


@dataclass(frozen=True)
class Saving:
    """text: the saved run time. share: of the run. parts: less waiting and less work, or "".

    The share is UNKNOWN if the time is.
    """

    text: str
    share: str
    parts: str = ""


def describe_saving(trace: Trace, finding: Finding) -> Saving:
    """Return the run time that a repair would save.

    A late rank does not wait but works, so a repair may save more than the mean waiting of all
    ranks: also the work of the late rank.
    """
    share = format_share(finding.saved_ns / max(float(trace.run_ns), 1.0))
    if finding.saved_ns < 1:
        # Lost calls hide dependences, so a replay without them is no evidence.
        if state_sentence(trace):
            return Saving("unknown", UNKNOWN, "calls are lost")
        return Saving("nothing alone", UNKNOWN, "other ranks are as late")
    if finding.cause == "algorithm":
        error = (finding.at_callsite.error_ns or 0.0) / finding.at_callsite.size
        return Saving(format_uncertain_time(finding.saved_ns, error), share)
    if finding.certainty < MIN_CERTAINTY:
        return Saving(f"up to {format_time(finding.saved_ns)}", share)
    error = math.nan if trace.sampling_interval > 1 or state_sentence(trace) else 0.0
    parts = [f"{format_time(ns)} of {name}" for name, ns in divide_saving(finding)]
    return Saving(format_uncertain_time(finding.saved_ns, error), share, ", ".join(parts))


def divide_saving(finding: Finding) -> list[tuple[str, float]]:
    """Return the saved waiting and the saved work in ns, [] if only waiting is saved."""
    work_ns = finding.evidence.saved_work_ns
    if not work_ns > 0:
        return []
    return [("waiting", max(finding.saved_ns - work_ns, 0.0)), ("work", work_ns)]
