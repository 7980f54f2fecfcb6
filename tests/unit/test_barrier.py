"""The cost of a barrier: planted, and computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, steps
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.finding import Finding
from mpiprof.trace import Trace
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.types import Float
from unit.test_run_windows import open_in_windows


def find_barriers(trace: Trace) -> list[Finding]:
    return [finding for finding in trace.findings() if finding.cause == "barrier"]


def test_a_barrier_costs_the_second_waiting(tmp_path: Path) -> None:
    """Compared with the run time by hand, in which each rank leaves the barrier after itself.

    Without the barrier, the ranks reach the alltoall when both stretches of work and the barrier's
    own time are over. Each alltoall ends a step, so the gains of the steps add up.
    """
    trace = steps(tmp_path)
    (finding,) = find_barriers(trace)
    assert finding.callsites == (2,)
    barriers, left = trace.matrix(2)
    arrivals, _ = trace.matrix(3)
    own = left - barriers.max(1, keepdims=True)
    without = (barriers + own + arrivals - left).max(1)
    saved_ns = (arrivals.max(1) - without).sum()
    assert finding.saved_ns == pytest.approx(saved_ns, rel=1e-6)
    assert finding.cost_ns == pytest.approx(6 * saved_ns, rel=1e-6)


def loop_of_barriers(tmp_path: Path, late: Float, alone: int = 0, shared: str = "") -> Trace:
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


def moving_lateness() -> Float:
    """Return the lateness of 4 ranks in 100 steps: 3 ms for one of ranks 1 to 3 by turns."""
    late = np.full((100, 4), 0.1 * MS)
    for i in range(100):
        late[i, 1 + i % 3] += 3 * MS
    return late


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
    late = moving_lateness()
    (finding,) = find_barriers(loop_of_barriers(tmp_path, late))
    with_it, without = late.max(1).sum(), late.sum(0).max()
    assert finding.saved_ns == pytest.approx(with_it - without, rel=0.1)


@pytest.mark.parametrize("shared", ["", "win_allocate", "file_open", "one_sided", "files"])
def test_barriers_between_accesses_to_windows_and_files_stay(tmp_path: Path, shared: str) -> None:
    trace = loop_of_barriers(tmp_path, moving_lateness(), shared=shared)
    assert bool(find_barriers(trace)) == (not shared)


def test_barriers_of_one_rank_save_nothing(tmp_path: Path) -> None:
    """Rank 3 calls the same barrier 9 times alone for each call of all ranks."""
    late = moving_lateness()
    (expected,) = find_barriers(loop_of_barriers(tmp_path / "without", late))
    (finding,) = find_barriers(loop_of_barriers(tmp_path / "with", late, alone=900))
    assert finding.cost_ns == expected.cost_ns > 0


def test_a_barrier_is_replayed_with_all_that_follows_it(tmp_path: Path) -> None:
    """Collectives on another communicator follow the last 90 barriers, the end the last one.

    By hand as above: rank 0 is never late, so its broadcasts delay no rank.
    """
    synthetic, now = Synthetic(4), 10 * MS
    synthetic.add_communicator("other", [0, 1, 2, 3])
    late = moving_lateness()
    for i, row in enumerate(late):
        came = now + row.astype(np.int64)
        ends = np.full(4, came.max() + 1000)
        synthetic.add_collective("barrier", came, ends, site="md.py:10:sync")
        now = int(came.max()) + 2000
        times = np.full(4, now - 500), np.full(4, now)
        where = "world" if i < 10 else "other"
        synthetic.add_collective("bcast", *times, where, root=0, site="md.py:11:spread")
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    (finding,) = find_barriers(trace)
    assert finding.saved_ns == pytest.approx(late.max(1).sum() - late.sum(0).max(), rel=0.1)


def test_a_run_in_windows_saves_the_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = loop_of_barriers(tmp_path, moving_lateness(), shared="allreduce")
    (expected,) = find_barriers(trace)
    in_windows = open_in_windows(trace, monkeypatch, 3)
    (finding,) = find_barriers(in_windows)
    assert finding.saved_ns == pytest.approx(expected.saved_ns, rel=0.03)
