"""Waits that findings explain, and the call sites at which ranks wait because of a delay.

A rank that waits for a late rank arrives late as well, so a delay causes waiting at later call
sites, too. The waiting at each call site is therefore followed to its causes (delay_graph.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.delay_costs import Delays
from mpiprof.account.delay_graph import DelayCosts
from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.message_callsite_sums import KEYS, locate_waits
from mpiprof.causes.finding import WaitSite
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MAX_CALLSITES = 8  # with most waiting, which are followed to its causes
MAX_NAMED = 4  # call sites of a finding
MIN_SHARE = 0.01  # of the waiting of a finding, from which a call site is named
MIN_MAIN_SHARE = 0.5  # of the waiting at one call site, from which most of it is there

# Number of a call site of collectives, or operation and site_id of one of messages.
Callsite: TypeAlias = int | tuple[str, int]


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


class CallsiteWaits:
    """Waiting of some waits of a run or of a window, by call site.

    callsites: numbers in the run of collectives, or (operation, site_id) of messages. at_ns:
    waiting at each of them.
    """

    def __init__(self, waits: ChosenWaits) -> None:
        delays, self.waits = waits.delays, waits
        self._group_callsite, keys = _number_callsites(waits.trace, delays)
        self.callsites: list[Callsite] = [
            int(waits.callsites[key]) if isinstance(key, int) else key for key in keys
        ]
        of = delays.waits
        self._wait_length = (of.end_ns - of.begin_ns) * waits.weight[of.group]
        self.at_ns = self._sum_waits(np.ones(len(of.rank), np.bool_))

    def _sum_waits(self, chosen: Bool) -> dict[Callsite, float]:
        """Return the sum of some waits at each call site."""
        callsite = self._group_callsite[self.waits.delays.waits.group[chosen]]
        sums = np.bincount(callsite, self._wait_length[chosen], len(self.callsites))
        return dict(zip(self.callsites, sums.astype(np.float64).tolist(), strict=True))

    def sum_caused(self, callsites: Sequence[Callsite], intervals: Sequence[Bool]) -> Float:
        """Return the waiting at call sites (columns) that sets of intervals (rows) cause."""
        caused = np.zeros((len(intervals), len(callsites)))
        for column, callsite in enumerate(callsites if intervals else ()):
            if callsite in self.callsites:
                here = self._group_callsite == self.callsites.index(callsite)
                cost_ns = self.waits.delays.graph.compute_costs(self.waits.weight * here)
                caused[:, column] = [cost_ns.interval_ns[of].sum() for of in intervals]
        return caused

    def sum_by_ranks(self, callsites: Sequence[Callsite], ranks: Sequence[int]) -> Float:
        """Return the waiting of some ranks at call sites."""
        at_ns = self._sum_waits(np.isin(self.waits.delays.waits.rank, ranks))
        return np.array([at_ns.get(callsite, 0.0) for callsite in callsites], np.float64)


def count_most_calls(trace: Trace, callsites: Sequence[Callsite]) -> int:
    """Return the largest number of recorded calls of a rank at one of some call sites."""
    sums, counts = trace.message_sums, [0]
    for callsite in callsites:
        if isinstance(callsite, int):
            counts.append(int(trace.callsites["instances"][callsite]))
        else:
            operation, site = callsite
            rows = sums[(sums["operation"] == operation) & (sums["site_id"] == site)]
            counts.append(int(rows.groupby("rank")["calls"].sum().max()) if len(rows) else 0)
    return max(counts)


def choose_callsites(at_ns: Mapping[Callsite, float]) -> list[Callsite]:
    """Return the call sites with most waiting, which are followed to its causes."""
    order = sorted(at_ns, key=lambda callsite: -at_ns[callsite])
    return [callsite for callsite in order[:MAX_CALLSITES] if at_ns[callsite] > 0]


def list_sites(
    callsites: Sequence[Callsite], wait_ns: Float, at_ns: Mapping[Callsite, float]
) -> tuple[WaitSite, ...]:
    """Return the call sites with most of some waiting, the costliest first.

    at_ns: all waiting at each call site.
    """
    least = MIN_SHARE * float(wait_ns.sum())
    order = np.argsort(-wait_ns, kind="stable")[:MAX_NAMED].tolist()
    return tuple(
        WaitSite(callsites[i], float(wait_ns[i]), float(wait_ns[i] / at_ns[callsites[i]]))
        for i in order
        if wait_ns[i] > least
    )


RankWaits = Callable[[Callsite], tuple[Float, Float] | None]


def make_rank_waits(trace: Trace) -> RankWaits:
    """Return `sum_waits_by_rank` of a trace, which computes each call site once."""
    return functools.cache(lambda callsite: sum_waits_by_rank(trace, callsite))


def sum_waits_by_rank(trace: Trace, callsite: Callsite) -> tuple[Float, Float] | None:
    """Return the waiting at a call site that the work of each rank causes, and its own, in ns.

    Returns None if it is unknown, because the tables of delays do not fit in memory.
    """
    if not fits_in_memory(trace):
        return None
    delays: Delays = trace.derive("delays_found")
    number, keys = _number_callsites(trace, delays)
    if callsite not in keys:
        return None
    chosen = delays.counted * (number == keys.index(callsite))
    costs, waits = delays.graph.compute_costs(chosen), delays.waits
    length = (waits.end_ns - waits.begin_ns) * chosen[waits.group]
    caused = np.bincount(delays.intervals.rank, costs.interval_ns, trace.ranks).astype(np.float64)
    return caused, np.bincount(waits.rank, length, trace.ranks).astype(np.float64)


def find_main_callsite(waits_at: Sequence[WaitSite]) -> Callsite | None:
    """Return the call site with half of the waiting at some call sites, or None."""
    least = MIN_MAIN_SHARE * sum(at.wait_ns for at in waits_at)
    return next((at.callsite for at in waits_at if at.wait_ns >= least > 0), None)


def _number_callsites(trace: Trace, delays: Delays) -> tuple[Int, list[Callsite]]:
    """Return the number of the call site of each group of waits, and the call site by number."""
    count = int(delays.callsite.max(initial=-1)) + 1
    keys: list[Callsite] = list(range(count))
    number = delays.callsite.copy()
    of_messages = delays.callsite < 0
    if of_messages.any():
        waits = trace.message_waits.iloc[delays.message[of_messages]]
        located = locate_waits(trace, waits)[KEYS]
        code = located.groupby(KEYS, sort=True, observed=True).ngroup().to_numpy()
        first = np.unique(code, return_index=True)[1]
        keys += [(str(name), int(site)) for name, site in located.iloc[first].to_numpy()]
        number[of_messages] = count + code
    return number, keys
