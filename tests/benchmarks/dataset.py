"""Speed at which workers read a data set: `python -m benchmarks.dataset [--events N] [--ranks R]`.

The benchmark writes a synthetic data set block by block, without logs. One and more processes of
this machine then sum it up by call site, alternately and several times. The output has a row per
requirement: goal, measurement and verdict. The exit code is 3 if a requirement is missed. The
output also has the time of the sample of instances that a report takes in its own process. If
other programs use the machine, the processor time of the busiest worker is the better measure.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support.synthetic import Synthetic

import mpiprof
from benchmarks.checks import THRESHOLD_MISSED, Row, printed
from benchmarks.memory import peak_mb
from benchmarks.view import number
from mpiprof.account import batch_map, shape_names
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.errors import MpiprofError
from mpiprof.formats import dataset
from mpiprof.formats.dask_workers import LOCAL_PREFIX, Workers, connect_workers
from mpiprof.interface.progress import show_progress
from mpiprof.trace import Trace
from mpiprof.trace.batch import Batch, Before
from mpiprof.trace.malloc_tuning import retain_freed_memory
from mpiprof.trace.match import BATCH_RECORDS, MAX_READ_RECORDS
from mpiprof.trace.metadata import Communicator

STEP_NS = 1_000_000
MOST_MB, SPEED_UP = 2048, 1.8
# Per communicator the operations that its ranks call in turn.
CALLED = {
    "world": ("allreduce", "bcast", "barrier"),
    "low": ("alltoall", "allreduce"),
    "high": ("alltoall", "allreduce"),
}


# ---- the data set


def write(folder: Path, events: int, ranks: int) -> int:
    """Write a data set of about `events` calls block by block; returns the exact number."""
    synthetic = Synthetic(ranks)
    synthetic.add_communicator("low", list(range(ranks // 2)))
    synthetic.add_communicator("high", list(range(ranks // 2, ranks)))
    for rank in range(ranks):
        for name, operations in CALLED.items():
            if any(rank in group for group in synthetic.members[name]):
                for operation in operations:
                    more = {"sent": 800, "received": 800, "site": f"{name}.py:1:{operation}"}
                    root = 0 if operation == "bcast" else None
                    synthetic.add_shape(rank, operation, name, root=root, **more)
    synthetic.ended_ns = (events // ranks + 1) * STEP_NS * 2
    synthetic.write(folder)
    with show_progress("writing", events) as step:
        return dataset.write(folder, mpiprof.open(folder), step, _batches(folder, events, ranks))


def _batches(folder: Path, events: int, ranks: int) -> Iterator[Batch]:
    """Yield batches of three communicators in turn, world with three fifths of the calls."""
    tables = mpiprof.open(folder).tables
    each = events // (5 * ranks)  # instances of world's three fifths, and of the halves' two
    rounds = max(-(-each // min(MAX_READ_RECORDS, BATCH_RECORDS // ranks)), 1)
    count = max(each // rounds, 1)
    random = np.random.default_rng(5)
    for lap in range(rounds):
        for communicator, name in zip(tables.communicators, CALLED, strict=True):
            shapes = np.array(
                [i for i, s in enumerate(tables.shapes) if s.communicator == communicator.index],
                np.int32,
            )
            for piece in range(len(CALLED[name])):
                first = (lap * len(CALLED[name]) + piece) * count
                yield _batch(communicator, shapes, first, count, random)


def _batch(
    communicator: Communicator,
    shapes: np.ndarray[Any, np.dtype[np.int32]],
    first: int,
    count: int,
    random: np.random.Generator,
) -> Batch:
    size = (len(communicator.ranks), count)
    number = first + np.arange(count)
    late = random.integers(0, 50_000, size)
    arrival = (number + 1) * STEP_NS + late
    finish = (number + 1) * STEP_NS + 60_000 + late // 8
    shape = np.broadcast_to(shapes[number % len(shapes)], size)
    before = Before(
        arrival - STEP_NS,
        finish - STEP_NS,
        np.broadcast_to(shapes[(number - 1) % len(shapes)].astype(np.int64), size),
        np.broadcast_to(number - 1, size),
        np.zeros(size, np.int64),
    )
    none = np.zeros(count, np.int64)
    elapsed = finish - arrival
    return Batch(
        communicator,
        number,
        none,
        arrival,
        arrival,
        finish,
        elapsed,
        shape,
        None,
        None,
        True,
        before,
    )


# ---- reading


@dataclass(frozen=True)
class Found:
    """One reading: seconds, processor time and peak memory of the workers, and the table.

    sample_s: processor time of this process for the sample of a report, or None without a sample.
    """

    wall_s: float
    cpu_s: list[float]
    peak_mb: float
    table: pd.DataFrame
    sample_s: float | None = None


def read(folder: Path, workers: Workers, sample: bool) -> Found:
    """Sum up the data set; with `sample`, also take the sample of a report."""
    client = workers.client
    before = client.run(time.process_time)
    began = time.perf_counter()
    trace = Trace(folder, {**DERIVED, "shapes": shape_names.name_shapes}, workers)
    table = trace.callsites
    wall = time.perf_counter() - began
    after = client.run(time.process_time)
    peaks = client.run(peak_mb)
    taken = None
    if sample:
        start = time.process_time()
        trace.samples(trace.hot)
        taken = time.process_time() - start
    return Found(wall, [after[w] - before[w] for w in after], max(peaks.values()), table, taken)


def _warm() -> str:
    """Import the modules that a worker needs."""
    return batch_map.__name__


def measured(folder: Path, counts: Sequence[int], laps: int) -> dict[int, list[Found]]:
    """Return the readings by each number of workers, measured alternately."""
    found: dict[int, list[Found]] = {count: [] for count in counts}
    for lap in range(laps):
        for count, readings in found.items():
            with connect_workers(f"{LOCAL_PREFIX}{count}") as workers:
                assert workers is not None
                workers.client.run(_warm)
                readings.append(read(folder, workers, lap == 0 and count == max(counts)))
    return found


def promises(found: dict[int, list[Found]], events: int) -> Iterator[Row]:
    """Yield the row of each requirement."""
    tables = [one.table for readings in found.values() for one in readings]
    calls = {int((table["instances"] * table["size"]).sum()) for table in tables}
    yield Row(
        "calls in the table", f"{events:,}", ", ".join(f"{n:,}" for n in calls), calls == {events}
    )
    same = all(table.equals(tables[0]) for table in tables)
    yield Row("tables", "the same bits", "the same" if same else "others", same)
    best = {count: min(readings, key=lambda one: one.wall_s) for count, readings in found.items()}
    for count, one in best.items():
        name = f"{count} worker{'s' * (count > 1)}"
        yield Row(f"{name}: events/s", "", f"{events / one.wall_s / 1e6:.2f} million")
        busy = min(max(reading.cpu_s) for reading in found[count])
        rate = f"{events / busy / 1e6:.2f} million"
        yield Row(f"{name}: by processor time", "", rate)
        peak = max(reading.peak_mb for reading in found[count])
        yield Row(f"{name}: memory of one", f"< {MOST_MB} MB", f"{peak:.0f} MB", peak < MOST_MB)
    for one in (one for readings in found.values() for one in readings):
        if one.sample_s is not None:
            yield Row("sample of a report", "", f"{one.sample_s:.1f} s of processor time")
    if {1, 2} <= best.keys():
        gain = best[1].wall_s / best[2].wall_s
        yield Row("speed-up from 1 to 2", f"{SPEED_UP}", f"{gain:.2f}", gain >= SPEED_UP)
        alone, busy = (min(max(r.cpu_s) for r in found[count]) for count in (1, 2))
        yield Row("  by processor time", "", f"{alone / busy:.2f}")


# ---- the command


def command() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dataset", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--events", type=number, default=10_000_000, metavar="N", help="(10M)")
    parser.add_argument("--ranks", type=number, default=64, metavar="R", help="(64)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="W")
    parser.add_argument("--laps", type=int, default=3, metavar="N", help="readings each (3)")
    parser.add_argument("--folder", type=Path, help="where the data set is made, and removed")
    args = parser.parse_args()
    if args.ranks < 2 or min(args.workers) < 1 or args.laps < 1:
        parser.error("at least two ranks, one worker and one lap")
    retain_freed_memory()  # as verbs do
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-dataset-", dir=args.folder) as name:
            folder = Path(name) / "set"
            began = time.process_time()
            events = write(folder, args.events, args.ranks)
            took = time.process_time() - began
            size = sum(p.stat().st_size for p in (folder / "calls").rglob("*.parquet"))
            print(
                f"{events:,} calls of {args.ranks} ranks: {size / events:.1f} bytes each, written "
                f"at {events / took / 1e6:.1f} million/s; load {os.getloadavg()[0]:.1f}"
            )
            met = printed(promises(measured(folder, args.workers, args.laps), events))
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if met else THRESHOLD_MISSED


if __name__ == "__main__":
    sys.exit(command())
