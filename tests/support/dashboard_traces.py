"""Traces for the dashboard's tests: a plain one, and extreme ones that it must survive."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mpiprof.trace.types import Int
from support.synthetic import Synthetic

MS = 1_000_000
SCRIPT = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
SITES = ("solver.py:12:step", "fft.py:40:transpose", "io.py:7:read")


def plain(folder: Path, instances: int = 30) -> Path:
    """Write 8 ranks on 2 nodes; rank 5 is late by 2 ms at solver.py:12, all other calls are even.

    Each step has an allreduce, an alltoall on each half, and a broadcast from 0. An even arrival is
    0 to 0.07 ms after the first.
    """
    trace = Synthetic(8, nodes=[0] * 4 + [1] * 4, offsets=(0, 0), drifts=(0.0, 0.0))
    halves = [trace.add_communicator(f"half {i}", list(range(4 * i, 4 * i + 4))) for i in (0, 1)]
    begin = 10 * MS + np.arange(instances)[:, None] * 20 * MS
    even = np.arange(8) * 10_000
    late = even + np.where(np.arange(8) == 5, 2 * MS, 0)
    first = begin + late
    trace.add_collective("allreduce", first, _all(first), site=SITES[0], sent=1024, received=1024)
    second = begin + 6 * MS + even
    for i, half in enumerate(halves):
        part = second[:, 4 * i : 4 * i + 4]
        trace.add_collective("alltoall", part, _all(part), half, 4096, 4096, site=SITES[1])
    third = begin + 12 * MS + even
    leave = np.maximum(third, third[:, :1]) + 100_000
    trace.add_collective("bcast", third, leave, root=0, site=SITES[2], sent=64, received=64)
    trace.ended_ns = int(begin[-1, 0]) + 20 * MS
    for at in (trace.started_ns, trace.ended_ns):
        trace.add_clock(4, 0, at, error=1)
    return trace.write(folder)


def _all(arrivals: Int) -> Int:
    """Return exits 0.1 ms after the last arrival."""
    return np.broadcast_to(arrivals.max(1, keepdims=True) + 100_000, arrivals.shape)


def empty(folder: Path) -> Path:
    """Write 4 ranks that called no collective."""
    trace = Synthetic(4)
    trace.ended_ns = 5 * MS
    return trace.write(folder)


def lateness(late: Int) -> Synthetic:
    """Return an allreduce every 10 ms with the given lateness: instances x ranks, ns."""
    trace = Synthetic(late.shape[1])
    arrivals = np.arange(1, len(late) + 1)[:, None] * 10 * MS + late
    exits = arrivals.max(1, keepdims=True) + 9_000 + 0 * arrivals
    trace.add_collective("allreduce", arrivals, exits, site="md.py:93:force")
    return trace


def of_size(folder: Path, ranks: int, instances: int) -> Path:
    """Write an allreduce on so many ranks, so many times; the last rank is late by 1 ms."""
    nodes = ranks // 64 + 1
    trace = Synthetic(ranks, [r // 64 for r in range(ranks)], (0,) * nodes, (0.0,) * nodes)
    begin = 10 * MS + np.arange(instances)[:, None] * 5 * MS
    arrivals = begin + np.arange(ranks)[None, :] % 7 * 1000
    arrivals[:, -1] += MS
    trace.add_collective("allreduce", arrivals, _all(arrivals), site="main.py:3:main")
    trace.ended_ns = int(begin[-1, 0]) + 5 * MS
    return trace.write(folder)


def hostile(folder: Path, secret: Path) -> Path:
    """Write names that try to run, to break out of the page, and to read a secret file."""
    long = "n" * 300
    trace = Synthetic(4)
    trace.meta["program"] = SCRIPT + long
    trace.meta["mpi"] = SCRIPT
    name = trace.add_communicator(f"{SCRIPT}{long}", [0, 1, 2, 3])
    begin = 10 * MS + np.arange(5)[:, None] * 5 * MS + np.arange(4) * 1000
    files = (SCRIPT, f"../../../../../{secret}", str(secret), f"{secret.parent}/link.py", long)
    for i, file in enumerate(files):
        frame = {"file": file, "line": 1, "function": f"{SCRIPT}{long}"}
        times = begin + i * 500_000
        site = dict.fromkeys(range(4), frame)
        trace.add_collective("barrier", times, _all(times), name, 0, 0, site=site)
    trace.ended_ns = 60 * MS
    trace.write(folder)
    (folder / "selection.jsonl").write_text(
        json.dumps({"kind": "key", "key": SCRIPT, "communicator": "0", "operation": "barrier"})
        + "\n[1]\nnull\n{"
    )
    for tables in folder.glob("*.tables"):
        text = tables.read_text().replace('"host": "n0"', '"host": ' + json.dumps(SCRIPT))
        tables.write_text(text)
    return folder
