"""The causes of a run that are facts: events and structure, from its account.

A run that does not fit in memory is read in windows, one after the other. All ranks meet between
two windows, so the savings of windows add up. If the ranks never meet, the savings are inexact.
The search passes over the windows three times:

    survey     events with their savings; sums and medians by place, loop, and pair of ranks
    removal    replay of each window without each candidate of the run
    balance    replay of each window with equal work, for the waiting that no other cause explains

A sample (`--sample`) has no facts. It contains whole instances of collectives, but the calls
between them are missing: the time between two recorded calls is work, waiting and transfers. So the
length of an event and the work of a place are unknown, and a replay lacks most dependences. An
event outside of the sample leaves no record at all. Habits of recorded instances are found, because
the instances are chosen independently of their causes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.segments import records_each_call
from mpiprof.causes import (
    exclusive_work,
    oversubscription,
    polling,
    processor_queues,
    processor_quota,
    repeated_stops,
    serial_turns,
    slow_messages,
    wavefront,
)
from mpiprof.causes.cause import Cause, FoundCause, Removal, find_saving, join_removals
from mpiprof.causes.exclusive_work import Members
from mpiprof.causes.habits.work_matrix import number_nodes
from mpiprof.causes.oversubscription import Oversubscription, remove_queues
from mpiprof.causes.processor_quota import ProcessorQuota
from mpiprof.causes.single_event import SingleEvent, choose_standing_out, list_events
from mpiprof.trace.trace import Trace

CAUSES = Cause.__subclasses__()  # of the modules above

# Tables with a row per call, which the functions of one pass share.
LARGE_TABLES = ("calls_without_waits", "recorded_calls", "work")

Function = Callable[[Trace], Any]  # of a run or a window of it
Passes = Generator[list[Function], Any, list[FoundCause]]  # receives results by function


class CauseSearch:
    """The search for the causes of a run that are facts, in passes over its windows.

    functions: of the next pass; empty after the last one. causes: the result. A caller that passes
    over the windows for another purpose calls these functions as well (`apply_beside_search`), so
    the windows are read less often. lock: of the thread that makes a pass.
    """

    def __init__(self, trace: Trace) -> None:
        self.lock = threading.Lock()
        self.causes: list[FoundCause] = []
        self._passes = _search(trace)
        self._advance(None)

    def take_results(self, windows: Sequence[list[Any]]) -> None:
        """Continue with the results of `functions` in each window."""
        results = [list(of_function) for of_function in zip(*windows, strict=True)]
        self._advance(results)

    def _advance(self, results: list[list[Any]] | None) -> None:
        """Continue to the next pass; results: None at first."""
        try:
            self.functions = self._passes.send(results)
        except StopIteration as end:
            self.functions, self.causes = [], end.value


def find_causes(trace: Trace) -> list[FoundCause]:
    """Return the causes of a run that are facts, the largest saving first; none of a sample."""
    search: CauseSearch = trace.derive("cause_search")
    with search.lock:
        while search.functions:
            call_each = partial(_call_each, functions=search.functions)
            fits = fits_in_memory(trace)
            windows = [call_each(trace)] if fits else trace.derive("in_windows")(call_each)
            search.take_results(windows)
    return search.causes


def apply_beside_search(trace: Trace, function: Function) -> list[Any]:
    """Return the results of a function for each window, in one pass with the search for causes."""
    in_windows: Callable[[Function], list[Any]] = trace.derive("in_windows")
    search: CauseSearch = trace.derive("cause_search")
    if not search.lock.acquire(blocking=False):  # the search makes a pass
        return in_windows(function)
    try:
        if not search.functions:
            return in_windows(function)
        windows = in_windows(partial(_call_both, function=function, functions=search.functions))
        search.take_results([of_search for _, of_search in windows])
        return [result for result, _ in windows]
    finally:
        search.lock.release()


def _search(trace: Trace) -> Passes:
    """Yield the functions of each pass, receive their results, and return the causes."""
    if trace.sampling_interval > 1:
        return []
    run_ns = float(trace.run_ns)
    events, work, queues, delays, stops, turns, transfers, waiting, lost = yield [
        partial(list_events, run_ns=run_ns, begin_ns=int(trace.run_start_ns)),
        exclusive_work.sum_work,
        processor_queues.sum_queues,
        polling.sum_delays,
        repeated_stops.list_stops,
        serial_turns.sum_turns,
        slow_messages.sum_transfers,
        wavefront.sum_waiting,
        processor_quota.list_lost,
    ]
    causes = choose_standing_out([event for window in events for event in window], run_ns)
    if fits_in_memory(trace):  # otherwise the savings of windows add up
        causes = [_replay_several(trace, cause) for cause in causes]
    quotas = processor_quota.choose_limits(trace, lost)
    crowds = oversubscription.choose_crowds(trace, queues, has_quota=bool(quotas))
    is_overloaded = bool(quotas) or any(crowd.is_disturbing for crowd in crowds)
    if is_overloaded:  # all calls and all work take longer at times, but nobody is stopped
        causes = [event for event in causes if _is_asleep(event)]
        transfers, turns = [], []  # ranks that wake late in their calls work at different times
    members = exclusive_work.choose_members(work, trace.ranks, run_ns)
    asleep = join_removals([event.removal for event in causes if _is_asleep(event)])
    removals = members, crowds, quotas, asleep
    causes += yield from _replay_without(trace, *removals, delays, stops, turns, transfers)
    if records_each_call(trace) and not is_overloaded and wavefront.is_notable(trace, waiting):
        removal = join_removals([cause.removal for cause in causes])
        means = wavefront.find_means(waiting)
        (balanced,) = yield [partial(wavefront.balance, causes=removal, means=means)]
        causes += wavefront.make_causes(trace, waiting, balanced)
    return sorted(causes, key=lambda found: -found.saving.run_ns)


def _replay_several(trace: Trace, event: FoundCause) -> FoundCause:
    """Return several events as one cause with their joint saving, at most the sum."""
    if not isinstance(event.cause, SingleEvent) or len(event.cause.times_ns) == 1:
        return event
    saving = find_saving(trace, event.removal)
    return replace(event, saving=replace(saving, calls_ns=event.saving.calls_ns))


def _replay_without(
    trace: Trace,
    members: list[Members],
    crowds: list[Oversubscription],
    quotas: list[ProcessorQuota],
    asleep: Removal,
    delays: list[Any],
    stops: list[Any],
    turns: list[Any],
    transfers: list[Any],
) -> Passes:
    """Return the causes among ranks that work alone, crowds, loops, stopped ranks, and pairs.

    asleep: of events. delays, stops, turns, transfers: of the windows of the run.
    """
    run_ns = float(trace.run_ns)
    candidates = exclusive_work.list_candidates(members)
    loops = polling.choose_loops(delays)
    _, node = number_nodes(trace, np.arange(trace.ranks))
    pairs = slow_messages.choose_pairs(transfers, run_ns, node)
    pairs = slow_messages.drop_crowded(pairs, oversubscription.find_crowded_nodes(trace))
    stopped = repeated_stops.choose_ranks(stops, trace.ranks)
    serial = serial_turns.choose_places(turns, run_ns)
    if not (candidates or crowds or quotas or loops or pairs or stopped or serial):
        return []
    of_members, of_crowds, of_quotas, of_loops, of_stops, of_turns, of_pairs = yield [
        partial(exclusive_work.remove_work, candidates=candidates),
        partial(remove_queues, crowds=crowds, asleep=asleep, stopped=stopped),
        partial(processor_quota.remove_lost, causes=quotas),
        partial(polling.remove_delays, loops=loops),
        partial(repeated_stops.remove_stops, ranks=stopped),
        partial(serial_turns.remove_turns, places=serial),
        partial(slow_messages.remove_transfers, candidates=pairs),
    ]
    # Waiting for a processor makes work longer, and short work has no counters that show it.
    queue_ratio = max((crowd.queue_ratio for crowd in crowds), default=0.0)
    longer_run_ns = run_ns * (1 + queue_ratio)
    return [
        *exclusive_work.make_causes(trace, candidates, of_members, longer_run_ns),
        *oversubscription.make_causes(crowds, of_crowds, run_ns),
        *processor_quota.make_causes(quotas, of_quotas, run_ns),
        *polling.make_causes(trace, loops, of_loops, run_ns),
        *repeated_stops.make_causes(trace, stopped, stops, of_stops, run_ns),
        *serial_turns.make_causes(trace, serial, of_turns, run_ns),
        *slow_messages.make_causes(trace, pairs, of_pairs, run_ns),
    ]


def _is_asleep(event: FoundCause) -> bool:
    return isinstance(event.cause, SingleEvent) and bool(event.cause.asleep)


def _call_each(trace: Trace, functions: list[Function]) -> list[Any]:
    results = [function(trace) for function in functions]
    trace.release(*LARGE_TABLES)
    return results


def _call_both(
    trace: Trace, function: Function, functions: list[Function]
) -> tuple[Any, list[Any]]:
    return function(trace), _call_each(trace, functions)
