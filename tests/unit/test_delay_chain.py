"""Walks back along the chain of lateness through calls that share a sequence number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.diagnosis.delay_chain import NOT_RECORDED, START, BatchData, BatchHistory, Origin, walk
from mpiprof.metrics.instance_metrics import InstanceMetrics
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

US, MS = 1_000, 1_000_000
ROUNDS = 60


def alike(folder: Path, persistent: bool) -> tuple[mpiprof.Trace, Int]:
    """Return a trace of broadcasts from rank 0, each followed by an allreduce, and each late rank.

    The late rank is 3 ms late at the broadcast. No rank waits there, so it is also late at the
    allreduce. The broadcasts are starts of one operation, or calls on communicators that share a
    row.
    """
    synthetic = Synthetic(4)
    synthetic.add_communicator("made", [0, 1, 2, 3])
    late = np.random.default_rng(7).integers(1, 4, ROUNDS)
    for rank in range(4):
        operation = "bcast_init" if persistent else "bcast"
        first = synthetic.add_shape(
            rank, operation, "made", root=0, sent=8, received=8, site="b.py:1:f"
        )
        then = synthetic.add_shape(rank, "allreduce", "world", sent=8, received=8, site="a.py:2:f")
        if persistent:
            synthetic.add(rank, first, 0, MS, MS + US)
        for i in range(ROUNDS):
            come = 10 * MS * (i + 1) + rank * US + 3 * MS * (late[i] == rank)
            if persistent:
                synthetic.add_start(rank, first, 0, i + 1, come, (come + US, come + 9 * US))
            else:
                synthetic.add_extension(rank, 2, i + 1)
                synthetic.add(rank, first, 0, come, come + 9 * US)
            synthetic.add(rank, then, i, come + 20 * US, 10 * MS * (i + 1) + 4 * MS)
    synthetic.ended_ns = 10 * MS * (ROUNDS + 2)
    return mpiprof.open(synthetic.write(folder)), late


@pytest.mark.parametrize("persistent", [True, False])
def test_calls_with_equal_sequence_numbers_are_distinguished(
    tmp_path: Path, persistent: bool
) -> None:
    trace, late = alike(tmp_path / "t", persistent)
    operations = trace.callsites["operation"].tolist()
    then = operations.index("allreduce")
    first = len(operations) - 1 - operations[::-1].index("bcast_init" if persistent else "bcast")
    walks = trace.samples(then)[then].walks
    assert len(walks) == ROUNDS
    for i, one in enumerate(walks):
        rank = int(late[i])
        after = then if i else one.origin.after  # no allreduce precedes the first broadcast
        assert one.origin == Origin(rank, first, after, "outside"), i
        assert [(step.callsite, step.rank) for step in one.steps] == [(first, rank), (then, rank)]


def test_a_rank_that_waited_for_one_that_was_late_to_few(tmp_path: Path) -> None:
    """8 ranks: 0 waits in its half for 3, which came with 1 and 2; then 0 is last of all ranks.

    Rank 3 has made another call meanwhile. So only the half is compared, in which it is not late,
    and no known rank is to blame.
    """
    synthetic = Synthetic(8)
    synthetic.add_communicator("half", [0, 1, 2, 3])
    synthetic.add_communicator("other", [4, 5, 6, 7])
    synthetic.add_communicator("alone", [3])
    left = 11 * MS + 1
    synthetic.add_collective("barrier", [[MS, 11 * MS, 11 * MS, left]], [[left] * 4], "half")
    synthetic.add_collective("barrier", [[MS] * 4], [[MS + US] * 4], "other")
    synthetic.add_collective("barrier", [[left + US]], [[left + 2 * US]], "alone")
    come = [left + 9 * US, *[left + 5 * US] * 3, *[2 * MS] * 4]
    synthetic.add_collective("allreduce", [come], [[12 * MS] * 8], site="all.py:1:f")
    synthetic.ended_ns = 20 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    site = trace.callsites["operation"].tolist().index("allreduce")
    (one,) = trace.samples(site)[site].walks
    assert one.late == 9 * MS + 1 + 9 * US
    assert one.origin.how == "unknown"


@pytest.mark.parametrize("turned", [False, True])
def test_the_first_event_in_a_ring_is_not_the_start(tmp_path: Path, turned: bool) -> None:
    """2 ranks, one call: rank 1's earlier calls are lost if the ring was overwritten."""
    synthetic = Synthetic(2)
    synthetic.add_collective("allreduce", [[MS, 5 * MS]], [[6 * MS, 6 * MS]])
    synthetic.ended_ns = 9 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    (batch,) = Trace(tmp_path / "t").batches(before=True)
    ((signature, _),) = InstanceMetrics(trace).group_by_signature(batch)
    retained = BatchData.of_batch(batch)
    retained.signature[:] = 0
    found = walk(BatchHistory(trace.tables.shapes, [signature], turned), retained, 0, 0)
    assert found is not None
    after, how = (NOT_RECORDED, "unknown") if turned else (START, "outside")
    assert found.origin == Origin(1, 0, after, how)
