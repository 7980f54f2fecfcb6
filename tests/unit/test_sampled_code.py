"""The code that a late rank executes between two calls, from the samples of `run --where`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.sampled_code import find_sampled_code
from mpiprof.trace.trace import Trace

MS = 1_000_000
UNKNOWN = (1 << 32) - 1  # a call without a shape
CALLS = {"allreduce": "md.py:93:step", "irecv": "md.py:20:halo", "waitall": "md.py:30:halo"}


def open_sampled(folder: Path, rows: Sequence[tuple[str, tuple[str, str] | None, int]]) -> Trace:
    """Return a trace of rank 0 with samples: place, operations before and after, and count."""
    trace = Synthetic(2)
    shapes = {name: trace.add_shape(0, name, "world", site=site) for name, site in CALLS.items()}
    step = trace.add_site(0, CALLS["allreduce"])
    for place, around, count in rows:
        where: dict[str, Any] = {"site": trace.add_site(0, place), "after": step, "before": step}
        where |= {"samples": count, "ns": count * 10 * MS}
        if around is not None:
            left, entered = (shapes.get(name, UNKNOWN) for name in around)
            where |= {"left": left, "entered": entered}
        trace.lines[0].append({"rank": 0, "where": where})
    return mpiprof.open(trace.write(folder))


def find(trace: Trace, before: str, after: str) -> tuple[int, str, float] | None:
    """Return line, function and share of the code between two operations of rank 0."""
    site_of = {shape.operation: shape.site for shape in trace.tables.shapes}
    found = find_sampled_code(trace, 0, [site_of[before]], [site_of[after]])
    return None if found is None else (found["line"], found["function"], found["share"])


def test_samples_count_between_the_calls_around_them(tmp_path: Path) -> None:
    """Other work between the same collectives is before another call on messages."""
    rows = [
        ("md.py:5:force", ("allreduce", "irecv"), 9),
        ("md.py:7:move", ("allreduce", "irecv"), 1),
        ("md.py:40:pack", ("irecv", "waitall"), 30),
        ("md.py:50:sum", ("waitall", "allreduce"), 20),
    ]
    trace = open_sampled(tmp_path, rows)
    assert find(trace, "allreduce", "irecv") == (5, "force", 0.9)
    assert find(trace, "irecv", "waitall") == (40, "pack", 1.0)
    assert find(trace, "waitall", "allreduce") == (50, "sum", 1.0)
    assert find(trace, "waitall", "irecv") is None


def test_samples_of_unknown_calls_count_between_their_collectives(tmp_path: Path) -> None:
    """Earlier versions recorded only collectives; without a log of messages, shapes are unknown."""
    for around in (None, ("unknown", "unknown")):
        trace = open_sampled(tmp_path / str(around), [("md.py:5:force", around, 9)])
        assert find(trace, "allreduce", "allreduce") == (5, "force", 1.0)


def test_time_in_a_system_library_is_that_of_its_caller(tmp_path: Path) -> None:
    trace = open_sampled(tmp_path, [("md.py:5:force", ("allreduce", "irecv"), 3)])
    library = {"module": "/usr/lib/x86_64-linux-gnu/libm.so.6", "offset": 64, "symbol": "exp"}
    (frame,) = trace.tables.sites[next(iter(trace.tables.presite_samples)).location]
    for count in (1, 2):
        key = next(iter(trace.tables.presite_samples))
        trace.tables.sites.append((*[library] * count, {**frame, "line": 6}))
        location = len(trace.tables.sites) - 1
        trace.tables.presite_samples[key._replace(location=location)] = (5, 50 * MS)
    assert find(trace, "allreduce", "irecv") == (6, "force", 1.0)


def test_the_function_is_one_in_which_other_ranks_spend_less(tmp_path: Path) -> None:
    """All ranks spend 300 ms in force(); rank 0 stores for 200 ms as well."""
    around = ("allreduce", "irecv")
    trace = open_sampled(tmp_path, [("md.py:5:force", around, 30), ("md.py:9:store", around, 20)])
    assert find(trace, "allreduce", "irecv") == (5, "force", 0.6)
    samples = trace.tables.presite_samples
    force = next(key for key in samples if trace.tables.sites[key.location][0]["line"] == 5)
    samples[force._replace(rank=1)] = samples[force]
    assert find(trace, "allreduce", "irecv") == (9, "store", 0.4)
