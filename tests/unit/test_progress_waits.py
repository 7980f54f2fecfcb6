"""Ranks that a late rank keeps in the Wait of a nonblocking collective are not accused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program
from support.random_work import MS, Noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account.wait_states import Group, find_progress_waits
from mpiprof.facts.operations import WaitRule

RANKS, STEPS, LATE_MS = 8, 60, 6
ALL = Group(WaitRule.ALL_FOR_ALL, (4, 0))


def column(*times: int) -> np.ndarray:
    return np.array(times, np.int64)[:, None]


def test_a_rank_waits_for_the_rank_that_enters_just_before_it_leaves() -> None:
    start, enter = column(0, 0, 0, 0), column(100, 900, 120, 110)
    found = find_progress_waits(
        start, enter, column(200, 950, 190, 930), ALL, 10, is_blocking=False
    )
    assert found.row.tolist() == [3] and found.awaited.tolist() == [1]
    assert found.begin_ns.tolist() == [110] and found.until_ns.tolist() == [900]


def test_a_rank_that_leaves_long_after_the_last_one_enters_waits_for_nobody() -> None:
    """The operation takes 2000 ns, whoever is in Wait."""
    start, enter = column(0, 0, 0, 0), column(100, 900, 120, 110)
    found = find_progress_waits(
        start, enter, column(2000, 2000, 2000, 2000), ALL, 10, is_blocking=False
    )
    assert not len(found.row)


def test_a_wait_for_the_last_start_is_no_wait_for_progress() -> None:
    start, enter = column(0, 900, 0, 0), column(100, 901, 120, 110)
    found = find_progress_waits(
        start, enter, column(950, 950, 950, 950), ALL, 10, is_blocking=False
    )
    assert not len(found.row)


def late_wait(messages: bool) -> Program:
    """Return steps in which rank 1 works 6 ms longer before its Wait, which keeps rank 3 there."""
    program, noise, ring = Program(RANKS, intervals=True), Noise(RANKS), make_ring(RANKS)
    for _ in range(STEPS):
        started = program.start("iallreduce", "nb.py:4:step", noise.work())
        late = noise.work() + LATE_MS * MS * (np.arange(RANKS) == 1)
        program.wait(started, "nb.py:6:step", late, progress=[(3, 1)])
        if messages:
            program.halo(ring, noise.work(20_000))
        program.collective("barrier", "nb.py:9:step", noise.work(20_000))
    return program


@pytest.mark.parametrize("messages", [True, False])
def test_only_the_rank_that_enters_wait_late_is_named(messages: bool, tmp_path: Path) -> None:
    trace = mpiprof.open(late_wait(messages).write(tmp_path / "t"))
    findings = trace.findings()
    assert (findings[0].cause, findings[0].ranks) == ("rank", (1,))
    assert not any(3 in one.ranks for one in findings)
    # Rank 3 waits for rank 1 in its Wait, and the others in the barrier.
    waiting_ns = (RANKS - 1) * STEPS * LATE_MS * MS
    assert findings[0].cost_ns == pytest.approx(waiting_ns, rel=0.05)
    row = trace.callsites[trace.callsites["operation"] == "iallreduce"].iloc[0]
    assert row["total_wait_ns"] == pytest.approx(STEPS * LATE_MS * MS, rel=0.05)
    matrix = trace.derive("waiting_for").total_wait_ns
    assert matrix[3, 1] >= 0.95 * STEPS * LATE_MS * MS
    totals = trace.rank_totals.groupby("rank")[["total_wait_ns", "caused_ns"]].sum()
    assert totals["total_wait_ns"].sum() == pytest.approx(matrix.sum(), rel=1e-9)
    assert totals["caused_ns"].to_numpy() == pytest.approx(matrix.sum(0), rel=1e-9)


def test_a_rank_inside_a_tree_waits_for_the_rank_beside_it() -> None:
    """In a reduction to row 0, row 1 forwards the data of row 3, which comes late."""
    reduce, ms = Group(WaitRule.ROOT_FOR_ALL, (4, 0), 0), 1_000_000
    enter, leave = column(0, 0, 0, 6 * ms), column(6 * ms + 9, 6 * ms + 5, 4, 6 * ms + 2)
    found = find_progress_waits(enter, enter, leave, reduce, 10, is_blocking=True)
    assert (found.row.tolist(), found.awaited.tolist()) == ([1], [3])
    assert (found.begin_ns.tolist(), found.until_ns.tolist()) == ([0], [6 * ms])


def test_a_rank_that_forwards_data_is_not_accused(tmp_path: Path) -> None:
    synthetic = Synthetic(RANKS)
    ranks, start = np.arange(RANKS), 1_000_000
    for _ in range(STEPS):
        enter = start + 2 * MS + 6 * MS * (ranks == 5)
        last = int(enter.max())
        leave = np.where(np.isin(ranks, (0, 1)), last + 4_000, enter + 3_000)
        synthetic.add_collective("reduce", enter, leave, root=0, site="tree.py:1:main")
        then = np.full(RANKS, last + 20_000)
        synthetic.add_collective("barrier", leave + 10_000, then, site="tree.py:2:main")
        start = int(then.max())
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (5,))
