"""Verdict on a whole run: the time lost, its cause, and the possible gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.diagnosis.finding import MIN_CERTAINTY, NEGLIGIBLE_SHARE, Finding
from mpiprof.trace.trace import Trace


@dataclass(frozen=True)
class Verdict:
    """Losses of a run and their main cause.

    - worst: the first finding that matters. cause: its cause, or "none" if nothing can be gained.
    - beside: if that finding is certain, an uncertain finding that costs more.
    - others: all further findings on waiting that are not negligible.
    - waiting, collective: shares of all ranks' run time; waiting is NaN if it is unknown.
    - waiting_for_messages: a part of waiting; the rest of it is a part of collective.
    - gain: the largest gain from another algorithm, or None.
    """

    cause: str
    worst: Finding | None
    beside: Finding | None
    waiting: float
    waiting_for_messages: float
    collective: float
    gain: Finding | None
    others: tuple[Finding, ...] = ()

    @property
    def collective_without_waiting(self) -> float:
        """Share of all ranks' run time in collectives but not waiting."""
        return max(self.collective - (self.waiting - self.waiting_for_messages), 0.0)


def make_verdict(trace: Trace, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict from the findings of a trace, which are in their order."""
    times = trace.run_times
    whole = max(times.whole_ns, 1.0)
    waiting, inside = times.total_wait.value / whole, times.collective.value / whole
    for_messages = 0.0 if math.isnan(times.message_wait_ns) else times.message_wait_ns / whole
    gain = next((finding for finding in findings if finding.cause == "algorithm"), None)
    worst = next(
        (finding for finding in findings if finding.share >= NEGLIGIBLE_SHARE or finding is gain),
        None,
    )
    beside = None
    if worst is not None and worst.certainty >= MIN_CERTAINTY:
        costlier = (finding for finding in findings if finding.cost_ns > worst.cost_ns)
        beside = next((one for one in costlier if one.certainty < MIN_CERTAINTY), None)
    cause = worst.cause if worst else "none"
    others = tuple(
        one for one in findings if one is not worst and one is not beside and one.is_delay
    )
    costly = sum(one.share for one in others) >= NEGLIGIBLE_SHARE
    others = others if worst is not None and costly else ()
    return Verdict(cause, worst, beside, waiting, for_messages, inside, gain, others)
