"""The verdict on a whole run: how much is lost, to what, and whether anything is to be gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.analysis.findings import Finding
from mpiprof.trace.trace import Trace

BESIDE_NOISE = 0.25  # of the noise's cost
LITTLE = 0.01  # of all ranks' time: waiting that is not worth looking at


@dataclass(frozen=True)
class Verdict:
    """What a run loses, and for what.

    cause: that of the costliest finding, or of one beside noise, "none" where nothing is to be
    gained; worst: that finding; waiting and collective: shares of all ranks' run time; gain: what
    another algorithm would bring most, if anything.
    """

    cause: str
    worst: Finding | None
    waiting: float
    collective: float
    gain: Finding | None


def verdict(trace: Trace, found: Sequence[Finding]) -> Verdict:
    """Conclude from the findings of a trace, the costliest first."""
    whole = max(float(trace.process_time_ns), 1.0)
    inside, waiting = (trace.totals[name].value / whole for name in ("elapsed", "wait"))
    gain = next((one for one in found if one.cause == "algorithm"), None)
    worst = next((one for one in found if one.share >= LITTLE or one is gain), None)
    if worst is not None and worst.cause == "noise":
        # What can be acted on comes first, where it costs something beside the noise.
        least = max(LITTLE, BESIDE_NOISE * worst.share)
        worst = next((one for one in found if one.cause != "noise" and one.share >= least), worst)
    return Verdict(worst.cause if worst else "none", worst, waiting, inside, gain)
