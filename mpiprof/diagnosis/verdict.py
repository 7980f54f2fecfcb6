"""Verdict on a whole run: the time lost, its cause, and the possible gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.diagnosis.finding import Finding
from mpiprof.trace.trace import Trace

MIN_CERTAINTY = 0.5  # minimum certainty for a cause to be called certain
# minimum cost of a certain cause that is named beside an uncertain one, over the latter's cost
MIN_SECOND_SHARE = 0.1
NEGLIGIBLE_SHARE = 0.01  # share of all ranks' time below which waiting is negligible


@dataclass(frozen=True)
class Verdict:
    """Losses of a run and their main cause.

    - cause: cause of the costliest finding, or "none" if nothing can be gained. worst: that
      finding.
    - beside: if that finding is uncertain, the costliest certain one.
    - waiting, collective: shares of all ranks' run time. waiting_for_messages: a part of waiting.
    - gain: the largest gain from another algorithm, or None.
    """

    cause: str
    worst: Finding | None
    beside: Finding | None
    waiting: float
    waiting_for_messages: float
    collective: float
    gain: Finding | None


def make_verdict(trace: Trace, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict from the findings of a trace, which are in descending order of cost."""
    whole = max(float(trace.process_time_ns), 1.0)
    inside, waiting = (trace.totals[name].value / whole for name in ("elapsed", "wait"))
    for_messages = float(trace.message_waits["wait_ns"].sum()) / whole
    gain = next((finding for finding in findings if finding.cause == "algorithm"), None)
    worst = next(
        (finding for finding in findings if finding.share >= NEGLIGIBLE_SHARE or finding is gain),
        None,
    )
    beside = None
    if worst is not None and worst.certainty < MIN_CERTAINTY:
        least = max(NEGLIGIBLE_SHARE, MIN_SECOND_SHARE * worst.share)
        sure = (
            finding
            for finding in findings
            if finding.certainty >= MIN_CERTAINTY and finding.share >= least
        )
        beside = next(sure, None)
    cause = worst.cause if worst else "none"
    return Verdict(cause, worst, beside, waiting + for_messages, for_messages, inside, gain)
