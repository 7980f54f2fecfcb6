"""Detection of parent and child traces: jobs linked by MPI_Comm_spawn.

The two jobs exchange no data for this, and neither launcher passes the parent's environment to the
child. But children enter MPI_Init before the MPI_Comm_spawn that starts them returns. So a trace of
spawned processes is a child if they entered MPI_Init on the same machine during such a call of the
other trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace import Trace
from mpiprof.trace.run_metadata import read_metadata

SPAWNING = ("comm_spawn", "comm_spawn_multiple")
MAX_FOLDERS = 1000  # a larger folder is not searched


def describe_spawned(trace: Trace) -> list[str]:
    """Return a line for each child or parent trace in the same folder."""
    lines = []
    if "spawned_ns" in trace.meta:
        parents = [p for p in _sibling_traces(trace) if _is_child(trace, _spawn_calls(p))]
        lines += [f"its processes were spawned by those of {p.path}" for p in parents[:3]]
        if not parents:
            lines.append("its processes were spawned by a job without a trace in this folder")
    calls = _spawn_calls(trace)
    if calls:
        spawned_traces = _sibling_traces(trace, spawned=True)
        children = [child for child in spawned_traces if _is_child(child, calls)]
        lines += [f"it spawned the processes of {child.path}" for child in children[:8]]
    return lines


Calls = list[tuple[str, int, int]]  # node, enter and exit time on that node's clock


def _spawn_calls(trace: Trace) -> Calls:
    shapes = [i for i, s in enumerate(trace.tables.shapes) if s.operation in SPAWNING]
    if not shapes or trace.record == "summary":
        return []
    calls: Calls = []
    for rank, shape_ids in trace.tables.shape_ids.items():
        if not np.isin(shape_ids, shapes).any():
            continue
        for block in trace.open_stream(rank, local_times=True).iterate_blocks(1 << 16):
            is_spawn = np.isin(block.shape, shapes) & (block.exit_ns != 0)
            times = block.enter_ns[is_spawn].tolist(), block.exit_ns[is_spawn].tolist()
            node = trace.node_ids.get(rank, "?")
            calls += [(node, *entry_exit) for entry_exit in zip(*times, strict=True)]
    return calls


def _is_child(trace: Trace, calls: Calls) -> bool:
    entered: int | None = trace.meta.get("spawned_ns")  # into MPI_Init
    node = trace.node_ids.get(0)
    return entered is not None and any(n == node and a <= entered <= b for n, a, b in calls)


def _sibling_traces(trace: Trace, *, spawned: bool = False) -> Iterator[Trace]:
    """Yield the other traces in the folder; with `spawned`, only traces of spawned processes."""
    folder = trace.path.resolve()
    for count, path in enumerate(sorted(folder.parent.glob("*/meta.json"))):
        if count >= MAX_FOLDERS:
            return
        if path.parent == folder or (spawned and not _is_spawned(path.parent)):
            continue
        try:
            yield Trace(path.parent)
        except TraceError:
            continue


def _is_spawned(folder: Path) -> bool:
    try:
        return "spawned_ns" in read_metadata(folder).fields
    except TraceError:
        return False
