"""Waits of a run, or of a window of it, that findings explain, and the work that causes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.delay_graph import DelayCosts
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int


@dataclass(frozen=True)
class ChosenWaits:
    """Waits to explain.

    trace, delays: of the run or the window. weight: of each group of waits. costs: of these waits.
    callsites: numbers in the run of the call sites of collectives of the window.
    """

    trace: Trace
    delays: Delays
    weight: Float
    costs: DelayCosts
    callsites: Int


def choose_waits(trace: Trace, callsite: int | None = None) -> ChosenWaits:
    """Return all waits of a run, or those at one call site of collectives."""
    delays: Delays = trace.derive("delays_found")
    weight = delays.counted
    if callsite is not None:
        weight = weight * (delays.callsite == callsite)
    costs = delays.costs if callsite is None else delays.graph.compute_costs(weight)
    return ChosenWaits(trace, delays, weight, costs, np.arange(len(trace.aggregate[1])))


def choose_window_waits(window: Trace, numbers: Mapping[CallsiteKey, int]) -> ChosenWaits:
    """Return all waits of a window; numbers: of the call sites in the run."""
    delays: Delays = window.derive("delays_found")
    callsites = np.array([numbers[key] for key in window.aggregate[1]], np.int64)
    return ChosenWaits(window, delays, delays.counted, delays.costs, callsites)
