"""Windows of a run read the instances whose last rank arrives in them, and hardly any others."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.small_chunks import write_small_chunks
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.formats import dataset
from mpiprof.trace import Trace, stream
from mpiprof.trace.batch import Batch
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.types import COMPLETION, END_NS, START_NS
from mpiprof.trace.writer import RECORD_TYPE

RANKS, STEPS, STEP_NS = 4, 700, 1_000_000
CUTS = [20 * STEP_NS + 7, 300 * STEP_NS, 301 * STEP_NS, 600 * STEP_NS + 999]


def write_run(folder: Path, is_nonblocking: bool) -> Trace:
    """Return a run of collectives on all ranks and on halves of them.

    is_nonblocking: a nonblocking operation is open while other operations run, and into the next
    step.
    """
    run = Synthetic(RANKS)
    halves = {"low": [0, 1], "high": [2, 3]}
    for name, members in halves.items():
        run.add_communicator(name, members)
    random = np.random.default_rng(5)
    for rank in range(RANKS):
        half = "low" if rank < RANKS // 2 else "high"
        shapes = [
            run.add_shape(rank, operation, of, site="app.py:1:main", sent=8, received=8, **more)
            for operation, of, more in (
                ("iallreduce" if is_nonblocking else "allreduce", "world", {}),
                ("allreduce", half, {}),
                ("bcast", "world", {"root": 1}),
            )
        ]
        for step in range(STEPS):
            begin = (step + 1) * STEP_NS + int(random.integers(0, STEP_NS // 2))
            first, second = ([2 * step], [2 * step + 1]) if not is_nonblocking else ([step],) * 2
            run.add(rank, shapes[0], first, [begin], [begin + 10])
            if is_nonblocking and step:
                wait = [begin + 20], [begin + 30]
                run.add(rank, shapes[0], [step - 1], *wait, COMPLETION)
            run.add(rank, shapes[1], [step], [begin + 100], [begin + 200])
            if not is_nonblocking:
                run.add(rank, shapes[2], second, [begin + 300], [begin + 400])
    run.ended_ns = (STEPS + 2) * STEP_NS
    return mpiprof.open(run.write(folder))


def list_instances(batch: Batch) -> list[tuple[int, int, int, int]]:
    """Return communicator, sequence, last arrival and last exit of each instance."""
    columns = batch.sequence, batch.arrival_ns.max(0), batch.exit_ns.max(0)
    rows = zip(*(of.tolist() for of in columns), strict=True)
    return [(batch.communicator.index, *row) for row in rows]


@pytest.fixture(autouse=True)
def long_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide logs into many small chunks that are not cached."""
    write_small_chunks(monkeypatch)


@pytest.mark.parametrize("is_nonblocking", [False, True])
@pytest.mark.parametrize("is_dataset", [False, True])
def test_each_instance_is_in_one_window(
    is_nonblocking: bool, is_dataset: bool, tmp_path: Path
) -> None:
    whole = write_run(tmp_path / "t", is_nonblocking)
    if is_dataset:
        pytest.importorskip("pyarrow")
        dataset.write(whole.path, whole, lambda _: None)
        whole = mpiprof.open(whole.path)
    known = sorted(row for batch in whole.batches() for row in list_instances(batch))
    found: list[Any] = []
    for begin, end in itertools.pairwise([START_NS, *CUTS, END_NS]):
        window = TraceWindow(whole, begin, end, DERIVED)
        rows = [row for batch in window.batches() for row in list_instances(batch)]
        assert all(begin < last <= end for _, _, last, _ in rows)
        found += rows
    assert sorted(found) == known


@pytest.mark.parametrize("is_nonblocking", [False, True])
def test_a_window_reads_hardly_more_than_its_calls(
    is_nonblocking: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_run(tmp_path / "t", is_nonblocking)
    counts: list[int] = []
    take = stream.ThreadStream.take_pieces

    def count(self: stream.ThreadStream, most: int) -> Any:
        log, pieces = take(self, most)
        records = log.read(pieces) if log is not None else np.zeros(0, RECORD_TYPE)
        counts.append(int((records["kind"] != 0).sum()))
        return log, pieces

    monkeypatch.setattr(stream.ThreadStream, "take_pieces", count)
    window = TraceWindow(whole, 500 * STEP_NS, 600 * STEP_NS, DERIVED)
    instances = sum(map(len, window.batches(batch=RANKS * 128)))
    assert instances >= 100 * 2
    assert sum(counts) <= RANKS * (100 * 3 + 2 * 128 + 2 * 128)


def test_a_window_does_not_read_the_logs_again_for_a_table_of_the_whole_run(tmp_path: Path) -> None:
    whole = Trace(write_run(tmp_path / "t", False).path, DERIVED)
    window = TraceWindow(whole, 500 * STEP_NS, 600 * STEP_NS, DERIVED)
    assert window.point_to_point is whole.point_to_point
