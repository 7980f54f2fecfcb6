"""The verdict on a whole run: how much is lost, to what, and whether anything is to be gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.analysis.findings import Finding
from mpiprof.trace.trace import Trace

SURE = 0.5  # certainty from which a cause is called sure
BESIDE = 0.1  # of what an unsure cause costs: a sure one that is named beside it
LITTLE = 0.01  # of all ranks' time: waiting that is not worth looking at


@dataclass(frozen=True)
class Verdict:
    """What a run loses, and for what.

    cause: that of the costliest finding, "none" where nothing is to be gained; worst: that finding;
    beside: where that one is not sure, the costliest that is; waiting and collective: shares of all
    ranks' run time; gain: what another algorithm would bring most, if anything.
    """

    cause: str
    worst: Finding | None
    beside: Finding | None
    waiting: float
    collective: float
    gain: Finding | None


def verdict(trace: Trace, found: Sequence[Finding]) -> Verdict:
    """Conclude from the findings of a trace, the costliest first."""
    whole = max(float(trace.process_time_ns), 1.0)
    inside, waiting = (trace.totals[name].value / whole for name in ("elapsed", "wait"))
    gain = next((one for one in found if one.cause == "algorithm"), None)
    worst = next((one for one in found if one.share >= LITTLE or one is gain), None)
    beside = None
    if worst is not None and worst.certainty < SURE:
        least = max(LITTLE, BESIDE * worst.share)
        sure = (one for one in found if one.certainty >= SURE and one.share >= least)
        beside = next(sure, None)
    return Verdict(worst.cause if worst else "none", worst, beside, waiting, inside, gain)
