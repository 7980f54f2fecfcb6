"""Samples of data sets: reading only the blocks of the samples returns the same as reading all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.dataset_traces import bits
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import aggregate, instance_series
from mpiprof.account.aggregate import BlockIndex
from mpiprof.account.instance_series import SeriesMaker
from mpiprof.causes import sampling
from mpiprof.causes.sampling import Sample
from mpiprof.formats import dataset
from mpiprof.trace.batch import Batch
from mpiprof.trace.dataset import Reader, StoredBlock
from mpiprof.trace.types import Int

MS = 1_000_000
ROUNDS = 3_000
SITES = ("allreduce", "barrier", "bcast", "bcast")


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_series, "MAX_INSTANCES", 128)
    monkeypatch.setattr(instance_series, "RUN_LENGTH", 8)
    monkeypatch.setattr("mpiprof.trace.trace.max_cached_calls", lambda: 0)


def made(folder: Path, rounds: int = ROUNDS) -> Path:
    """Write rounds of 4 ranks: a bcast in each of two pairs, then an allreduce and a barrier.

    A root is late in some rounds, so that its partner is late in the allreduce.
    """
    trace = Synthetic(4)
    trace.add_communicator("left", [0, 1])
    trace.add_communicator("right", [2, 3])
    random = np.random.default_rng(3)
    start = np.arange(1, rounds + 1) * MS
    free: Int = start[None] + random.integers(0, 9_000, (4, rounds))
    free[::2] += 300_000 * (random.random((2, rounds)) < 0.4)
    number = np.arange(rounds)
    for pair, name in enumerate(("left", "right")):
        rows = [2 * pair, 2 * pair + 1]
        left = np.maximum(free[rows], free[rows[0]]) + 2_000
        for rank in rows:
            shape = trace.add_shape(rank, "bcast", name, root=0, site=f"{name}.py:5:step")
            trace.add(rank, shape, number, free[rank], left[rank - rows[0]])
        free[rows] = left
    for step, operation in enumerate(("allreduce", "barrier")):
        arrival = free + random.integers(1_000, 30_000, free.shape)
        free = np.repeat(arrival.max(0)[None] + 3_000, 4, 0)
        for rank in range(4):
            shape = trace.add_shape(rank, operation, "world", site=f"all.py:{step + 1}:main")
            trace.add(rank, shape, 2 * number + step, arrival[rank], free[rank])
    for rank in range(4):
        records = np.concatenate(trace.records[rank])
        trace.records[rank] = [records[np.argsort(records["enter_ns"], kind="stable")]]
    trace.ended_ns = (rounds + 2) * MS
    return trace.write(folder)


def in_small_blocks(folder: Path, to: Path) -> Path:
    """Make a data set with blocks of some hundred calls."""
    dataset.copy_trace_files(folder, to)
    trace = mpiprof.open(to)
    dataset.write(to, trace, lambda _: None, trace.batches(batch=1, before=True))
    return to


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("blocks")
    return in_small_blocks(made(base / "job"), base / "set")


@pytest.fixture
def blocks_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the numbers of the blocks that are read with the previous records."""
    numbers: list[int] = []
    real = Reader.read_batch

    def batch(self: Reader, block: StoredBlock) -> Batch:
        numbers.extend([block.number] * self.before)
        return real(self, block)

    monkeypatch.setattr(Reader, "read_batch", batch)
    yield numbers


def check(a: Sample, b: Sample, scratch: Path) -> None:
    assert bits(a.series, scratch) == bits(b.series, scratch)
    assert len(a.parts) == len(b.parts)
    for one, other in zip(a.parts, b.parts, strict=True):
        assert one.communicator == other.communicator
        assert (one.arrival_ns == other.arrival_ns).all()
        for name, values in vars(one.before).items():
            assert (values == getattr(other.before, name)).all(), name


@pytest.mark.heavy
def test_of_few_blocks_as_of_all(
    folder: Path, blocks_read: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = mpiprof.open(folder)
    assert few.callsites["operation"].tolist() == list(SITES)
    assert few.dataset is not None
    found = few.samples(range(4))
    assert len(blocks_read) == len(set(blocks_read)) < len(few.dataset.blocks) / 2
    blocks_read.clear()
    monkeypatch.setattr(sampling, "_counts_by_block", lambda *_: None)
    everything = mpiprof.open(folder)
    others = everything.samples(range(4))
    assert set(blocks_read) == set(range(len(few.dataset.blocks)))
    for callsite, sample in found.items():
        check(sample, others[callsite], tmp_path)
        alone = mpiprof.open(folder).samples(callsite)[callsite]
        check(sample, alone, tmp_path)


@pytest.mark.heavy
def test_sampled_values_equal_the_instances(folder: Path) -> None:
    """Equal to the last bit, even if few instances of a block are measured alone."""
    trace = mpiprof.open(folder)
    for callsite, sample in trace.samples(range(4)).items():
        rows = trace.instances[trace.instances["callsite"] == callsite].reset_index(drop=True)
        number = sample.series["number"].to_numpy()
        assert len(number) == SeriesMaker(ROUNDS).max_instances <= 128 + 8
        assert (np.diff(number) == 1).sum() >= 7 * len(number) // 8
        assert number[-1] > 0.9 * ROUNDS
        for name in ("average_imbalance_ns", "worst_imbalance_ns", "worst_factor", "wait_ns",
                     "mean_elapsed_ns", "last_rank"):  # fmt: skip
            values = rows[name].to_numpy(np.float64)[number]
            assert values.tobytes() == sample.series[name].to_numpy(np.float64).tobytes(), name
        first = np.sort(np.concatenate([part.arrival_ns.min(0) for part in sample.parts]))
        assert np.isin(first, sample.series["first_arrival_ns"]).all()
        assert len(first) == len(number)


@pytest.mark.slow
@pytest.mark.heavy
def test_a_trace_twice_as_long_costs_no_more(tmp_path: Path, blocks_read: list[int]) -> None:
    counts = []
    for rounds in (2 * ROUNDS, 4 * ROUNDS):  # with far more blocks than sampled instances
        base = tmp_path / str(rounds)
        base.mkdir()
        trace = mpiprof.open(in_small_blocks(made(base / "job", rounds), base / "set"))
        blocks_read.clear()
        trace.samples(range(4))
        counts.append(len(blocks_read))
    assert counts[1] <= 1.1 * counts[0]


@pytest.mark.heavy
def test_many_call_sites_in_each_block(
    folder: Path, blocks_read: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the blocks' locations are not stored; all blocks are read, and the results are equal."""
    known = mpiprof.open(folder).samples(2)[2]
    blocks_read.clear()
    monkeypatch.setattr(aggregate, "MAX_ENTRIES", 10)
    trace = mpiprof.open(folder)
    found = trace.samples(2)[2]
    assert trace.dataset is not None
    assert len(blocks_read) == len(trace.dataset.blocks)
    check(known, found, tmp_path)


@pytest.mark.heavy
def test_where_instances_are(folder: Path) -> None:
    trace = mpiprof.open(folder)
    assert trace.dataset is not None
    table = trace.instances
    held: BlockIndex = trace.aggregate[0].placed
    for callsite in range(4):
        counts = held.counts_of(callsite)
        assert counts is not None
        assert counts.sum() == (table["callsite"] == callsite).sum() == ROUNDS
        mine = {b.communicator for b, n in zip(trace.dataset.blocks, counts, strict=True) if n}
        assert len(mine) == 1


@pytest.mark.heavy
def test_a_block_more_costs_a_few_bytes() -> None:
    """However small the block is, because a program may make many communicators."""
    tracemalloc.start()
    try:
        held = BlockIndex()
        for block in range(20_000):
            held.add(np.array([block % 3]), np.array([block]))
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 20 * 20_000
    counts = held.counts_of(2)
    assert counts is not None
    assert counts.tolist() == [block * (block % 3 == 2) for block in range(20_000)]


@pytest.mark.parametrize("expected", [0, 1, 7, 8, 127, 128, 129, 1_000, 1_030, 4_095])
def test_the_sample_size_is_determined_before_reading(expected: int) -> None:
    """The number is independent of the pieces."""
    maker = SeriesMaker(expected)
    retained, at = 0, 0
    for count in np.random.default_rng(expected).integers(0, 20, 1_000).tolist():
        count = min(count, expected - at)
        wanted = maker.includes_any(count)
        here = int(maker.next_numbers(count)[1].sum())
        assert wanted == bool(here)
        retained, at = retained + here, at + count
    assert at == expected
    assert retained == maker.max_instances
