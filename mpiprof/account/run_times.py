"""Times of all ranks over a whole run: in collectives, and waiting in collectives and messages."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mpiprof.account.message_callsite_sums import (
    are_waits_known,
    find_located_waits,
    recorded_messages,
)
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.variance_components import UNKNOWN_ESTIMATE, Estimate
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float


@dataclass(frozen=True)
class RunTimes:
    """Times summed over all ranks in ns, NaN if unknown. Bounds differ from an estimated value.

    - whole_ns: time of all ranks in the run.
    - collective, collective_wait: time in collectives, and the waiting in it.
    - message_wait_ns: waiting for messages.
    - total_wait: all waiting. An unknown part counts as 0, but nothing is known without any part.
    """

    whole_ns: float
    collective: Estimate
    collective_wait: Estimate
    message_wait_ns: float

    @property
    def total_wait(self) -> Estimate:
        """All waiting, in collectives and for messages."""
        of_messages = 0.0 if math.isnan(self.message_wait_ns) else self.message_wait_ns
        estimate = self.collective_wait
        if not math.isnan(estimate.value):
            return Estimate(
                estimate.value + of_messages,
                estimate.low + of_messages,
                estimate.high + of_messages,
            )
        return Estimate(*[of_messages] * 3) if of_messages else UNKNOWN_ESTIMATE


def make_run_times(trace: Trace) -> RunTimes:
    """Return the times of all ranks in the run."""
    collective, wait = (_sum_over_callsites(trace, name) for name in ("elapsed", "wait"))
    if lacks_complete_instances(trace):
        wait = UNKNOWN_ESTIMATE
    return RunTimes(float(trace.process_time_ns), collective, wait, _message_wait_ns(trace))


def lacks_complete_instances(trace: Trace) -> bool:
    """Return whether there are instances but none of all its ranks, so waiting is unknown."""
    table = trace.callsites
    return bool(table["instances"].any()) and not table["complete_instances"].any()


def incomplete_times(trace: Trace) -> Float:
    """Return the time of all ranks in incomplete instances in ns, one value per call site.

    How much of it is waiting is unknown. Empty for a summary, which has no instances.
    """
    if trace.record == "summary":
        return np.zeros(0)
    sums, keys = trace.aggregate
    times: Float = callsite_scales(trace) * sums.take_sums(len(keys))["incomplete_elapsed"]
    return times


def _sum_over_callsites(trace: Trace, name: str) -> Estimate:
    """Return the sum of `elapsed` or `wait` over all call sites of collectives."""
    table = trace.callsites
    columns = (f"total_{name}_ns", f"total_{name}_low_ns", f"total_{name}_high_ns")
    value, low, high = (float(table[column].sum()) if len(table) else 0.0 for column in columns)
    if trace.sampling_interval > 1 and trace.record != "summary":
        sums, keys = trace.aggregate
        max_ns = float(trace.process_time_ns)
        low, high = sums.sampled.estimate_interval(name, value, range(len(keys)), max_ns)
    return Estimate(value, low, high)


def _message_wait_ns(trace: Trace) -> float:
    """Return the waiting for messages, NaN if the calls that may wait were not recorded."""
    waits = find_located_waits(trace)
    if len(waits):
        return float(waits["wait_ns"].sum())
    if recorded_messages(trace) == "off":
        return math.nan
    return 0.0 if are_waits_known(trace) or not len(trace.message_sums) else math.nan
