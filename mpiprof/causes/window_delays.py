"""Windows of a run that does not fit in memory: functions of each window, and its delays.

The windows are independent (account/run_windows.py), so sums over them are those of the run, and
the workers of a data set can analyse them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.delay_costs import DELAY_SUMS, make_delay_table
from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.message_callsite_sums import find_located_waits, sum_located_waits
from mpiprof.account.shape_names import name_shapes
from mpiprof.account.transfers import sum_transfers
from mpiprof.causes.cause import Saving, join_savings, list_barriers, replay_without_callsite
from mpiprof.causes.delay_summary import WindowSummary, summarise_waits
from mpiprof.causes.explained_waits import choose_window_waits
from mpiprof.causes.search import apply_beside_search
from mpiprof.interface.processes import map_in_processes
from mpiprof.interface.progress import show_progress
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace

Result = TypeVar("Result")
Derived: TypeAlias = Mapping[str, Callable[..., Any]]
Item: TypeAlias = tuple[int, int]  # begin and end of a window
Sums: TypeAlias = tuple[Any, dict[CallsiteKey, int]]  # of the calls in the run, by call site


def map_windows(
    trace: Trace, derived: Derived, function: Callable[[TraceWindow], Result]
) -> list[Result]:
    """Return the results of a function for the windows of a run.

    derived: functions of the tables of a trace.
    """
    items: list[Item] = trace.derive("run_windows")
    # The sums of a sample show how much of each window is recorded, so each window has its own.
    sums: Sums | None = trace.aggregate if trace.sampling_interval == 1 else None
    if trace.workers is not None:
        path, machine = str(trace.path.resolve()), trace.given_machine
        apply = functools.partial(_apply_on_worker, path, machine, derived, function, sums)
        return list(trace.workers.map(apply, items))
    processes = 1 if trace.is_growing else trace.parallel
    results = []

    def apply_noting(item: Item) -> tuple[Result, list[str], list[bool]]:
        result = function(_open_window(trace, derived, sums, item))
        return result, list(trace.problems), [log.damaged for log in trace.logs.opened]

    with show_progress("analysing the run", len(items)) as advance:
        for result, problems, damaged in map_in_processes(apply_noting, items, processes):
            trace.note_problems(problems, damaged)
            results.append(result)
            advance(1)
    return results


def open_windows(trace: Trace, derived: Derived) -> Iterator[Trace]:
    """Yield a trace that fits in memory, or else each window of the run."""
    if fits_in_memory(trace):
        yield trace
        return
    for begin_ns, end_ns in trace.derive("run_windows"):
        yield TraceWindow(trace, begin_ns, end_ns, derived)


def _apply_on_worker(
    path: str,
    machine: Any,
    derived: Derived,
    function: Callable[[TraceWindow], Result],
    sums: Sums | None,
    item: Item,
) -> Result:
    trace = Trace(path, {"shapes": name_shapes})
    trace.given_machine = machine
    return function(_open_window(trace, derived, sums, item))


def _open_window(trace: Trace, derived: Derived, sums: Sums | None, item: Item) -> TraceWindow:
    of_run: dict[str, Any] = {} if sums is None else {"aggregate": lambda _: sums}
    return TraceWindow(trace, *item, {**derived, **of_run})


@dataclass(frozen=True)
class WindowDelays:
    """Delays of a window. table: as Trace.delays. waits: as sum_located_waits.

    transfers: as sum_transfers.
    without_barriers: what the window would save without the barriers of a call site of the run.
    """

    table: pd.DataFrame
    waits: pd.DataFrame
    transfers: pd.DataFrame
    summary: WindowSummary
    without_barriers: dict[int, Saving]


def find_window_delays(trace: Trace) -> list[WindowDelays]:
    """Return the delays of each window of a run."""
    numbers, barriers = trace.aggregate[1], list_barriers(trace)
    analyse = functools.partial(_analyse_window, numbers=numbers, barriers=barriers)
    return apply_beside_search(trace, analyse)


def _analyse_window(
    window: TraceWindow, numbers: dict[CallsiteKey, int], barriers: Sequence[int]
) -> WindowDelays:
    """Return the delays of a window.

    numbers: of the call sites in the run. barriers: those without which the window is replayed.
    """
    waits = sum_located_waits(find_located_waits(window))
    summary = summarise_waits(choose_window_waits(window, numbers))
    without = {barrier: replay_without_callsite(window, numbers, barrier) for barrier in barriers}
    return WindowDelays(window.delays, waits, sum_transfers(window), summary, without)


def find_saving_without(trace: Trace, callsite: int) -> Saving:
    """Return what a run would save without the barriers of a call site."""
    if fits_in_memory(trace):
        return join_savings([replay_without_callsite(trace, trace.aggregate[1], callsite)])
    windows = [of.without_barriers for of in trace.derive("window_delays")]
    return join_savings([savings.get(callsite, Saving(0.0, 0.0)) for savings in windows])


def make_run_delay_table(trace: Trace) -> pd.DataFrame:
    """Return the table of delays of a run as delay_costs.make_delay_table does."""
    if fits_in_memory(trace):
        return make_delay_table(trace)
    tables = [of.table for of in trace.derive("window_delays")]
    joined = pd.concat(tables).groupby(["rank", "before_id", "after_id"], as_index=False)
    table: pd.DataFrame = joined[list(DELAY_SUMS)].sum()
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def join_window_waits(trace: Trace) -> pd.DataFrame:
    """Return the sums of the waits for messages in each window, one table after the other."""
    windows: list[WindowDelays] = trace.derive("window_delays")
    return pd.concat([of.waits for of in windows], ignore_index=True)


def find_window_transfers(trace: Trace) -> list[pd.DataFrame]:
    """Return the transfers of messages in each window, as sum_transfers."""
    windows: list[WindowDelays] = trace.derive("window_delays")
    return [window.transfers for window in windows]
