"""Traces whose derived tables come from the cache where it holds them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mpiprof.analysis import DERIVED
from mpiprof.trace import Trace

from . import cache, values

# What takes a pass over the trace and is small. A value of another type is just not kept.
KEPT = frozenset(
    ("callsites", "causes", "findings", "hot", "instances", "matrix_ranks", "phases", "series", "summary")
)


def open_trace(path: Path) -> Trace:
    """Open a trace as `mpiprof.open` does; what it derives is kept in files (see cache)."""
    kept = {name: partial(_kept, name) for name in KEPT & DERIVED.keys()}
    return Trace(path, {**DERIVED, **kept})


def key_of(trace: Trace) -> str:
    """Return the key of a trace's entries as it was when it was first asked for."""
    known: dict[str, str] = trace.__dict__
    if "_cache_key" not in known:
        known["_cache_key"] = cache.key_of(trace)
    return known["_cache_key"]


def _kept(name: str, trace: Trace, *arguments: Any) -> Any:
    make: Callable[..., Any] = DERIVED[name]
    if any(type(a) is not int for a in arguments):
        return make(trace, *arguments)
    key = key_of(trace)
    entry_name = ".".join([name, *map(str, arguments)])
    entry = cache.find(trace.path, entry_name, key)
    if entry is not None:
        try:
            found = values.read(entry)
            for problem in entry.meta["problems"]:
                trace.problems.note(str(problem))
            return found
        except (cache.Damaged, KeyError, TypeError):
            pass
        finally:
            entry.close()
    found = make(trace, *arguments)

    def fill(writer: cache.Writer) -> dict[str, Any]:
        return values.write(found, writer) | {"problems": list(trace.problems)}

    try:
        cache.make(trace.path, entry_name, key, fill).close()
    except (OSError, TypeError):
        pass  # nowhere to write, or of a type that is not kept: it is derived each time
    return found
