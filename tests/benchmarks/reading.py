"""Speed of reading a trace: `python -m benchmarks.reading [--events N] [--packed] ...`.

The benchmark writes a synthetic trace to a temporary folder, and reads it in a new process on one
core. It prints the events per second from log to call site metrics, and the peak memory of that
process. For a packed trace it also prints the bytes per event and the speed of packing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from support.synthetic import Synthetic

from benchmarks.checks import Row, store
from benchmarks.memory import peak_mb
from mpiprof.formats import pack_writer
from mpiprof.trace.pack import FILE_NAME as PACK
from mpiprof.trace.types import CALL, Array
from mpiprof.trace.writer import RECORD_TYPE, RECORDS_PER_CHUNK, make_chunks, make_head_chunk

# The loop body: five operations, three on all ranks and two on one half of them each.
BODY = (
    ("allreduce", "world", {"sent": 8, "received": 8}),
    ("bcast", "world", {"sent": 4096, "received": 4096, "root": 0}),
    ("alltoall", "half", {"sent": 65536, "received": 65536}),
    ("barrier", "world", {"sent": 0, "received": 0}),
    ("allreduce", "half", {"sent": 800, "received": 800}),
)
STEP_NS = 1_000_000
GOAL = 25e6  # events/s of processor time, from log to metrics
BYTES = 4  # of a packed event


def write(folder: Path, events: int, ranks: int) -> int:
    """Write a trace of about `events` events piece by piece; returns the exact number."""
    trace = Synthetic(ranks)
    half = ranks // 2
    trace.add_communicator("low", list(range(half)))
    trace.add_communicator("high", list(range(half, ranks)))
    loops = max(events // (ranks * len(BODY)), 1)
    trace.ended_ns = (loops + 1) * STEP_NS * len(BODY)
    shapes = [
        [
            trace.add_shape(rank, operation, name, site=f"app.py:{10 + line}:loop", **more)
            for line, (operation, where, more) in enumerate(BODY)
            for name in [where if where == "world" else "low" if rank < half else "high"]
        ]
        for rank in range(ranks)
    ]
    for name, members in trace.list_files().items():
        with (folder / f"{name}.log").open("wb") as log:
            log.write(make_head_chunk())
            _write_chunks(log, members, loops, shapes)
        (folder / f"{name}.tables").write_text("".join(map(trace.format_tables, members)))
    trace.write_meta(folder)
    return loops * len(BODY) * ranks


def _write_chunks(
    log: BinaryIO, members: Sequence[int], loops: int, shapes: Sequence[list[int]]
) -> None:
    """Write the calls of some ranks alternately, as ranks write to a shared log.

    A piece consists of whole chunks, because readers divide the log into chunks.
    """
    random = {rank: np.random.default_rng(rank) for rank in members}
    for first in range(0, loops, RECORDS_PER_CHUNK):
        count = min(RECORDS_PER_CHUNK, loops - first)
        serial = first * len(BODY) // RECORDS_PER_CHUNK
        for rank in members:
            records = _records(first, count, shapes[rank], random[rank])
            log.write(make_chunks(records, rank, 0, serial, window=False))


def _records(first: int, count: int, shapes: list[int], random: np.random.Generator) -> Array:
    """Build the records of `count` loops of one rank."""
    body = len(BODY)
    step = np.arange(first * body, (first + count) * body)
    records = np.zeros(count * body, RECORD_TYPE)
    late = random.integers(0, 50_000, len(step))
    records["enter_ns"] = (step + 1) * STEP_NS + late
    records["exit_ns"] = (step + 1) * STEP_NS + 60_000 + late // 8
    on = np.tile([[w == where for _, w, _ in BODY] for where in ("world", "half")], count)
    records["sequence"] = np.where(
        on[0],
        np.cumsum(on[0]) - 1 + first * int(on[0, :body].sum()),
        np.cumsum(on[1]) - 1 + first * int(on[1, :body].sum()),
    )
    records["shape"] = np.tile(shapes, count)
    records["kind"] = CALL
    return records


def pack(folder: Path, events: int, ranks: int) -> None:
    """Pack a trace, and print its time and size."""
    files = pack_writer.find_files(folder)
    began = time.process_time()
    packed = pack_writer.write(folder, files, ranks, lambda _: None)
    cpu = time.process_time() - began
    pack_writer.remove(files)
    print(
        f"packed: {packed.stat().st_size / events:.2f} bytes an event, "
        f"{events / cpu / 1e6:.1f} million events/s of processor time"
    )
    size = packed.stat().st_size / events
    store(Row("packed: bytes of an event", f"<= {BYTES} bytes", f"{size:.2f} bytes", size <= BYTES))
    store(Row("packing: events/s of processor time", "", f"{events / cpu / 1e6:.1f} million"))


def read(folder: Path, events: int) -> None:
    """Read a trace on one core, and print its time and memory."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import mpiprof
    from mpiprof.trace.malloc_tuning import retain_freed_memory

    retain_freed_memory()  # as verbs do
    begin, begin_cpu = time.perf_counter(), time.process_time()
    trace = mpiprof.open(folder)
    table = trace.callsites
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    measured = int((table["instances"] * table["size"]).sum())
    if measured < events or trace.problems:
        raise SystemExit(f"read {measured} of {events} events; {trace.problems}")
    print(
        f"{events:,} events, {trace.ranks} ranks: {seconds:.2f} s on one core, "
        f"{events / seconds / 1e6:.1f} million events/s; "
        f"{cpu:.2f} s of it computing ({events / cpu / 1e6:.1f} million/s), which is what counts "
        f"on a busy machine; peak memory {peak_mb():,.0f} MB"
    )
    kind = "packed" if (folder / PACK).exists() else "unpacked"
    rate, goal = f"{events / cpu / 1e6:.1f} million", f">= {GOAL / 1e6:g} million"
    name = f"{kind}, {trace.ranks} ranks"
    store(Row(f"{name}: events/s of processor time", goal, rate, events / cpu >= GOAL))
    store(Row(f"{name}: peak memory", "", f"{peak_mb():.0f} MB"))


def main() -> None:
    """Write a trace, and read it in another process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--packed", action="store_true", help="pack the trace before it is read")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read, options.events)
        return
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as folder:
        events = write(Path(folder), options.events, options.ranks)
        if options.packed:
            pack(Path(folder), events, options.ranks)
        subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.reading"),
                *("--read", folder, "--events", str(events)),
            ],
            check=True,
        )


if __name__ == "__main__":
    main()
