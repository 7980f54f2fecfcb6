"""Traces with derived tables that are read from the cache if possible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mpiprof.account.shape_names import name_shapes
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.errors import TraceError, UsageError
from mpiprof.formats import cache, values
from mpiprof.formats.otf2 import open_converted
from mpiprof.interface.shell_hints import format_command
from mpiprof.trace import Trace, dataset
from mpiprof.trace.clock import Clock
from mpiprof.trace.malloc_tuning import retain_freed_memory
from mpiprof.trace.trace import WorkerPool

# Small tables that take a pass over the trace. Values of unsupported types are not cached.
CACHED_TABLES = {
    *("arrival_statistics", "blamed_work", "callsites", "conclusions", "efficiencies"),
    *("findings", "hot", "instances", "ledger_stretches", "ledger_sums", "matrix_ranks"),
    *("phases", "point_to_point", "rank_times", "rank_totals", "run_times", "series", "summary"),
    *("waiting_for", "wrong"),
}
MAX_NAME_LENGTH = 100  # maximum number of characters of an entry's name


def open_trace(
    path: Path, workers: WorkerPool | None = None, machine: dict[str, Any] | None = None
) -> Trace:
    """Open a trace for a verb; its derived tables are cached in files.

    workers: process the partitions of a data set; UsageError if the trace is no data set.
    machine: a usable machine table that replaces the recorded one.
    """
    retain_freed_memory()
    caching = {name: partial(_derive_cached, name) for name in CACHED_TABLES & DERIVED.keys()}
    folder = open_converted(path)
    if workers is not None:
        require_dataset(folder)
    trace = _Trace(folder, {**DERIVED, **caching, "shapes": name_shapes}, workers)
    trace.given_machine = machine
    return trace


def refuse_unreadable(trace: Trace) -> None:
    """Raise TraceError if logs are damaged and no call is readable, unlike a run without calls."""
    if len(trace.callsites) or not trace.logs.truncated:
        return
    if not len(trace.message_calls) and not len(trace.message_sums):
        why = next((line for line in trace.problems if ".log" in line), "its logs are cut off")
        raise TraceError(f"{trace.path}: no readable call ({why}): record the program again")


def require_dataset(folder: Path) -> None:
    """Raise UsageError for a trace that is no data set."""
    if not (folder / dataset.FILE_NAME).exists():
        remedy = format_command("export", folder, "--to", "dataset")
        raise UsageError(f"{folder}: --dask is for data sets; make one: {remedy}")


class _Trace(Trace):
    """A trace with cached clocks, which take a pass over the trace if it has several nodes."""

    @cached_property
    def clocks(self) -> dict[str, Clock]:
        if self.node_count < 2:
            return super().clocks
        clocks: dict[str, Clock] = _read_or_make(self, "clocks", lambda: super(_Trace, self).clocks)
        return clocks


def cache_key(trace: Trace) -> str:
    """Return the key of a trace's entries, computed at the first request."""
    key: str = trace.__dict__.get("_cache_key") or cache.compute_key(trace)
    trace.__dict__["_cache_key"] = key
    return key


def _derive_cached(name: str, trace: Trace, *arguments: Any) -> Any:
    make: Callable[..., Any] = DERIVED[name]
    numbers = [a if isinstance(a, tuple) else (a,) for a in arguments]
    if any(type(n) is not int for of in numbers for n in of):
        return make(trace, *arguments)
    entry_name = ".".join([name, *("_".join(map(str, of)) for of in numbers if of)])
    if len(entry_name) > MAX_NAME_LENGTH:
        return make(trace, *arguments)
    return _read_or_make(trace, entry_name, lambda: make(trace, *arguments))


def _read_or_make(trace: Trace, name: str, make: Callable[[], Any]) -> Any:
    key = cache_key(trace)
    entry = cache.find(trace.path, name, key)
    if entry is not None:
        with (
            contextlib.closing(entry),
            contextlib.suppress(cache.DamagedError, KeyError, TypeError),
        ):
            value = values.read(entry)
            for problem in entry.meta["problems"]:
                trace.problems.add(str(problem))
            return value
    value = make()

    def fill(writer: cache.Writer) -> dict[str, Any]:
        return values.write(value, writer) | {"problems": list(trace.problems)}

    # Without a writable folder, or for an unsupported type, the value is derived each time.
    with contextlib.suppress(OSError, TypeError):
        cache.make(trace.path, name, key, fill).close()
    return value
