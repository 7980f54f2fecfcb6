"""Call sites of collectives and messages at which ranks wait because of a delay.

A rank that waits for a late rank arrives late as well, so a delay causes waiting at later call
sites, too. The waiting at each call site is therefore followed to its causes (delay_graph.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.diagnosis.finding import WaitSite
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.message_callsite_sums import KEYS, find_located_waits
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MAX_CALLSITES = 8  # with most waiting, which are followed to its causes
MAX_NAMED = 4  # call sites of a finding
MIN_SHARE = 0.01  # of the waiting of a finding, from which a call site is named
MIN_MAIN_SHARE = 0.5  # of the waiting at one call site, from which most of it is there


class CallsiteWaits:
    """Waiting of some groups of waits, by call site.

    chosen: weight of each group. callsites: those with most waiting, numbers of collectives or
    (operation, site_id) of messages. wait_ns: waiting at each of them.
    """

    def __init__(self, trace: Trace, delays: Delays, chosen: Float) -> None:
        self.delays, self.chosen = delays, chosen
        self._group_callsite, keys = _number_callsites(trace, delays)
        waits = delays.waits
        length = np.bincount(waits.group, waits.end_ns - waits.begin_ns, len(waits.awaited))
        total = np.bincount(self._group_callsite, length * chosen, len(keys))
        order = np.argsort(-total, kind="stable")[:MAX_CALLSITES]
        self._numbers = order[total[order] > 0].tolist()
        self.callsites = [keys[number] for number in self._numbers]
        self.wait_ns = total[self._numbers]
        self._wait_length = (waits.end_ns - waits.begin_ns) * chosen[waits.group]

    def sum_caused(self, intervals: Sequence[Bool]) -> Float:
        """Return the waiting at each call site (column) that sets of intervals (rows) cause."""
        caused = np.zeros((len(intervals), len(self._numbers)))
        for column, number in enumerate(self._numbers if intervals else ()):
            here = self.chosen * (self._group_callsite == number)
            cost_ns = self.delays.graph.compute_costs(here).interval_ns
            caused[:, column] = [cost_ns[of].sum() for of in intervals]
        return caused

    def sum_by_ranks(self, ranks: Sequence[int]) -> Float:
        """Return the waiting of some ranks at each call site."""
        waits = self.delays.waits
        mine = np.isin(waits.rank, ranks)
        callsite = self._group_callsite[waits.group[mine]]
        total = np.bincount(callsite, self._wait_length[mine], max(self._numbers, default=0) + 1)
        by_callsite: Float = total[self._numbers].astype(np.float64)
        return by_callsite

    def list_sites(self, wait_ns: Float) -> tuple[WaitSite, ...]:
        """Return the call sites with most of some waiting, the costliest first."""
        least = MIN_SHARE * float(wait_ns.sum())
        order = np.argsort(-wait_ns, kind="stable")[:MAX_NAMED].tolist()
        return tuple(
            WaitSite(self.callsites[i], float(wait_ns[i]), float(wait_ns[i] / self.wait_ns[i]))
            for i in order
            if wait_ns[i] > least
        )


def make_waits_at(
    found: CallsiteWaits, patterns: Sequence[Pattern], intervals: Sequence[Bool]
) -> tuple[list[tuple[WaitSite, ...]], tuple[WaitSite, ...]]:
    """Return the call sites at which patterns cause waiting, and those of the waiting besides.

    intervals: of work, of each pattern. Early ranks wait for the work of all other ranks.
    """
    caused = found.sum_caused(intervals)
    for row, pattern in enumerate(patterns):
        if pattern.cause == "early":
            caused[row] = found.sum_by_ranks(pattern.ranks)
    rest = np.maximum(found.wait_ns - caused.sum(0), 0.0)
    return [found.list_sites(row) for row in caused], found.list_sites(rest)


RankWaits = Callable[[int | tuple[str, int]], tuple[Float, Float] | None]


def make_rank_waits(trace: Trace) -> RankWaits:
    """Return `sum_waits_by_rank` of a trace, which computes each call site once."""
    return functools.cache(lambda callsite: sum_waits_by_rank(trace, callsite))


def sum_waits_by_rank(trace: Trace, callsite: int | tuple[str, int]) -> tuple[Float, Float] | None:
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


def find_main_callsite(waits_at: Sequence[WaitSite]) -> int | tuple[str, int] | None:
    """Return the call site with half of the waiting at some call sites, or None."""
    least = MIN_MAIN_SHARE * sum(at.wait_ns for at in waits_at)
    return next((at.callsite for at in waits_at if at.wait_ns >= least > 0), None)


def _number_callsites(trace: Trace, delays: Delays) -> tuple[Int, list[int | tuple[str, int]]]:
    """Return the number of the call site of each group of waits, and the call site by number."""
    count = int(delays.callsite.max(initial=-1)) + 1
    keys: list[int | tuple[str, int]] = list(range(count))
    number = delays.callsite.copy()
    of_messages = delays.callsite < 0
    if of_messages.any():
        located = find_located_waits(trace)[KEYS].iloc[delays.message[of_messages]]
        code = located.groupby(KEYS, sort=True, observed=True).ngroup().to_numpy()
        first = np.unique(code, return_index=True)[1]
        keys += [(str(name), int(site)) for name, site in located.iloc[first].to_numpy()]
        number[of_messages] = count + code
    return number, keys
