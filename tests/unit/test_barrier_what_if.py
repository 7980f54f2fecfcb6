"""The cost of a barrier: planted, and computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.late_traces import MS, steps
from support.synthetic import Synthetic

import mpiprof
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.types import Float


def test_what_a_barrier_costs_is_the_second_waiting(tmp_path: Path) -> None:
    trace = steps(tmp_path)
    (row,) = trace.causes(2).followers.to_dict("records")
    assert (row["callsite"], row["share"]) == (3, 1)
    finding = next(one for one in trace.findings() if one.cause == "barrier")
    assert finding.callsites == (2, 3)
    # By hand: without the barrier, the ranks would reach the alltoall when both stretches of work
    # and the barrier's own time are over.
    barriers, left = trace.matrix(2)
    arrivals, _ = trace.matrix(3)
    own = left - barriers.max(1, keepdims=True)
    without = (barriers + own + arrivals - left).max(1)
    assert finding.cost_ns == 6 * (arrivals.max(1) - without).sum()


def loop_of_barriers(tmp_path: Path, late: Float, alone: int = 0, shared: str = "") -> Any:
    """Return a loop of 4 ranks with a barrier and at once a broadcast of rank 0.

    late: lateness after the previous broadcast. alone: number of barriers that rank 3 calls alone
    at the same call site at the end. shared: a collective on a window or file before the loop, or
    a class of calls of one rank.
    """
    synthetic, now = Synthetic(4), np.full(4, 10 * MS)
    if shared in OUTSIDE_CLASSES:
        spent = [1000 * (name == shared) for name in OUTSIDE_CLASSES]
        synthetic.spent = dict.fromkeys(range(4), spent)
    elif shared:
        synthetic.add_collective(shared, now - MS, now, site="md.py:2:setup")
    for row in late:
        came = now + row.astype(np.int64)
        synthetic.add_collective(
            "barrier", came, np.full(4, came.max() + 1000), site="md.py:10:sync"
        )
        now = np.full(4, came.max() + 2000)
        synthetic.add_collective("bcast", now - 500, now, root=0, site="md.py:11:spread")
    if alone:
        came = now[:1] + 1000 * np.arange(1, alone + 1)[:, None]
        synthetic.add_communicator("alone", [3])
        synthetic.add_collective("barrier", came, came + 500, "alone", site="md.py:10:sync")
        now = came[-1]
    synthetic.ended_ns = int(now.max()) + MS
    return mpiprof.open(synthetic.write(tmp_path / "t"))


def test_no_barrier_is_blamed_where_the_same_rank_is_late_again(tmp_path: Path) -> None:
    """The other ranks would only wait for it later, at the end at the latest."""
    late = np.full((100, 4), 0.1 * MS)
    late[:, 2] += 3 * MS
    trace = loop_of_barriers(tmp_path, late)
    assert [one.cause for one in trace.findings()] == ["rank"]


def test_a_barrier_costs_the_sum_of_moving_lateness(tmp_path: Path) -> None:
    """By hand: with the barrier, all ranks wait for the rank that is late in this iteration.

    Without it, each rank is delayed only by its own lateness.

    Rank 0 is never late, so its broadcasts delay no rank.
    """
    late = np.full((100, 4), 0.1 * MS)
    for i in range(100):
        late[i, 1 + i % 3] += 3 * MS
    trace = loop_of_barriers(tmp_path, late)
    causes = trace.causes(0)
    with_it, without = late.max(1).sum(), late.sum(0).max()
    assert causes.saved_ns == pytest.approx(4 * (with_it - without), rel=0.1)


@pytest.mark.parametrize("shared", ["", "win_allocate", "file_open", "one_sided", "files"])
def test_barriers_between_accesses_to_windows_and_files_stay(tmp_path: Path, shared: str) -> None:
    late = np.full((100, 4), 0.1 * MS)
    for i in range(100):
        late[i, 1 + i % 3] += 3 * MS
    causes = [one.cause for one in loop_of_barriers(tmp_path, late, shared=shared).findings()]
    assert ("barrier" in causes) == (not shared)


def test_barriers_of_one_rank_save_nothing(tmp_path: Path) -> None:
    """Rank 3 calls the same barrier 9 times alone for each call of all ranks."""
    late = np.full((100, 4), 0.1 * MS)
    for i in range(100):
        late[i, 1 + i % 3] += 3 * MS
    expected = loop_of_barriers(tmp_path / "without", late).causes(0).saved_ns
    saved_ns = loop_of_barriers(tmp_path / "with", late, alone=900).causes(0).saved_ns
    assert saved_ns == expected > 0


def test_barriers_that_cannot_be_replayed_promise_nothing(tmp_path: Path) -> None:
    """A call on another communicator follows the last 90 barriers, so their gain is unknown.

    The gain of the first 10, with alternating lateness as above, is at most a tenth of all waits.
    """
    synthetic, now = Synthetic(4), 10 * MS
    synthetic.add_communicator("other", [0, 1, 2, 3])
    for i in range(100):
        came = now + np.full(4, MS // 10)
        came[1 + i % 3] += 3 * MS
        synthetic.add_collective(
            "barrier", came, np.full(4, came.max() + 1000), site="md.py:10:sync"
        )
        now = int(came.max()) + 2000
        where = "world" if i < 10 else "other"
        synthetic.add_collective(
            "bcast", np.full(4, now - 500), np.full(4, now), where, root=0, site="md.py:11:spread"
        )
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    waited = trace.callsites["total_wait_ns"][0]
    assert 0 <= trace.causes(0).saved_ns <= 0.1 * waited * 1.1


def test_a_barrier_is_judged_by_all_that_follows_it(tmp_path: Path) -> None:
    """The following call may be the program's first: 20 broadcasts with a barrier, then the end."""
    synthetic, random = Synthetic(4), np.random.default_rng(8)
    now = 10 * MS
    for number in range(21):
        for name in ("bcast", "barrier") if number < 20 else ("finalize",):
            came = now + random.integers(0, 3 * MS, (1, 4))
            now = int(came.max()) + 50_000
            more: dict[str, Any] = {"root": 0} if name == "bcast" else {}
            synthetic.add_collective(
                name, came, np.full((1, 4), now), site=f"md.py:{len(name)}:f", **more
            )
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    rows = trace.causes(1).followers.set_index("callsite")["share"].to_dict()
    assert rows == {0: 19 / 20, 2: 1 / 20}
    waited = trace.callsites["total_wait_ns"]
    for one in trace.findings():
        assert one.cost_ns <= sum(waited[list(one.callsites)])
