"""Apply a function to each window of a run, here or on the workers of a data set."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from mpiprof.interface.progress import show_progress
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.metrics.library_algorithms import name_shapes
from mpiprof.metrics.run_windows import divide_run
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
    return list(_show_items(trace, derived, function, items))


def list_windows(trace: Trace) -> list[Item]:
    """Return the windows of a run."""
    return divide_run(trace)


def open_windows(trace: Trace, derived: Derived) -> Iterator[Trace]:
    """Yield a trace that fits in memory, or else each window of the run."""
    if fits_in_memory(trace):
        yield trace
        return
    for begin_ns, end_ns in divide_run(trace):
        yield TraceWindow(trace, begin_ns, end_ns, derived)


def _show_items(
    trace: Trace, derived: Derived, function: Callable[[TraceWindow], Result], items: Sequence[Item]
) -> Iterator[Result]:
    """Yield the results of a function for windows, and show the progress."""
    shown = 0 if trace.workers is not None else len(items)  # workers show their own progress
    with show_progress("analysing the run", shown) as advance:
        yield from _map_items(trace, derived, function, items, advance)


def _map_items(
    trace: Trace,
    derived: Derived,
    function: Callable[[TraceWindow], Result],
    items: Sequence[Item],
    advance: Callable[[int], None],
) -> Iterator[Result]:
    """Yield the results of a function for windows."""
    # The sums of a sample tell how much of each window is recorded, so each window has its own.
    sums: Sums | None = trace.aggregate if trace.sampling_interval == 1 else None
    results: Iterator[Result]
    if trace.workers is not None:
        path, machine = str(trace.path.resolve()), trace.given_machine
        apply = functools.partial(_apply_on_worker, path, machine, derived, function, sums)
        results = trace.workers.map(apply, items)
    else:
        results = (function(_open_window(trace, derived, sums, item)) for item in items)
    for result in results:
        advance(1)
        yield result


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
