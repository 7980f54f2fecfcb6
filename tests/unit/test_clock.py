"""Clocks of several nodes: shifted, drifting, killed early, never compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.trace.clock import Clock, fit, make_bounds
from mpiprof.trace.types import Int

SECOND = 10**9


def two_nodes(drift: float = 0.0, offset: int = 123 * SECOND) -> Synthetic:
    trace = Synthetic(4, nodes=[0, 0, 1, 1], offsets=[0, offset], drifts=[0.0, drift])
    trace.ended_ns = 20 * SECOND
    return trace


def barriers(spread: int, count: int = 50) -> tuple[Int, Int]:
    """Return arrivals within `spread` ns, and exits within `spread` after the last, over 18 s."""
    random = np.random.default_rng(7)
    begin = (np.arange(count)[:, None] * (18 * SECOND // count)) + SECOND
    arrivals = begin + random.integers(0, spread, (count, 4))
    return arrivals, arrivals.max(1)[:, None] + random.integers(1, spread, (count, 4))


def off_by(trace: mpiprof.Trace, arrivals: Int) -> int:
    """Return the largest error of a measured arrival."""
    return int(np.abs(trace.matrix(0)[0] - arrivals).max())


def test_one_node_has_no_error(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("barrier", [[10, 20]], [[30, 30]])
    assert mpiprof.open(trace.write(tmp_path / "t")).clock_error_ns == 0


@pytest.mark.parametrize("drift", [0.0, 2e-5, -3e-5])
def test_exact_lines_give_exact_times(tmp_path: Path, drift: float) -> None:
    trace = two_nodes(drift)
    arrivals, exits = barriers(50_000)
    trace.add_collective("barrier", arrivals, exits)
    for at, when in ((2000, "init"), (19 * SECOND, "finalize")):
        trace.add_clock(2, 0, at, 0, when)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert opened.node_count == 2
    assert off_by(opened, arrivals) <= 2
    assert opened.clock_error_ns <= 3
    assert opened.problems == []


@pytest.mark.parametrize("drift", [0.0, 2e-5])
@pytest.mark.parametrize("spread", [5_000, 200_000])
def test_the_error_is_within_the_printed_bound(tmp_path: Path, drift: float, spread: int) -> None:
    trace = two_nodes(drift)
    arrivals, exits = barriers(spread)
    trace.add_collective("barrier", arrivals, exits)
    trace.add_clock(2, 0, 2000, 20_000)
    trace.add_clock(2, 0, 19 * SECOND, 20_000, "finalize")
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert off_by(opened, arrivals) <= opened.clock_error_ns <= 22_000


def test_instances_bound_a_killed_job_s_clock(tmp_path: Path) -> None:
    """With a clock line from MPI_Init only, the drift is unknown, but barriers bound it."""
    trace = two_nodes(2e-5)
    arrivals, exits = barriers(5_000)
    trace.add_collective("barrier", arrivals, exits)
    trace.add_clock(2, 0, 2000, 20_000)
    opened = mpiprof.open(trace.write(tmp_path / "t", finished=False))
    assert not opened.is_complete
    assert off_by(opened, arrivals) <= opened.clock_error_ns <= 10_000


def test_without_lines_instances_alone_do(tmp_path: Path) -> None:
    trace = two_nodes(-2e-5)
    arrivals, exits = barriers(5_000)
    trace.add_collective("allreduce", arrivals, exits)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert off_by(opened, arrivals) <= opened.clock_error_ns <= 10_000


def test_uncompared_clocks_are_reported(tmp_path: Path) -> None:
    trace = two_nodes()
    trace.add_collective("bcast", [[10_000] * 4], [[20_000] * 4], root=0)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert opened.clock_error_ns >= SECOND
    assert any("never compared" in p for p in opened.problems)
    assert opened.callsites["latest_rank"].isna().all()


def test_broadcasts_bound_nothing(tmp_path: Path) -> None:
    """A broadcast's root may leave before other ranks arrive, so it is no bound."""
    trace = two_nodes(offset=0)
    arrivals, _ = barriers(1_000)
    arrivals[:, 2:] += 400_000
    trace.add_collective("bcast", arrivals, arrivals + 100, root=0)
    trace.add_clock(2, 0, 2000, 20_000)
    trace.add_clock(2, 0, 19 * SECOND, 20_000, "finalize")
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    # 20 us at both clock lines; the run ends a second later.
    assert off_by(opened, arrivals) <= opened.clock_error_ns <= 22_200


def test_clocks_compose_along_a_tree(tmp_path: Path) -> None:
    offsets, drifts = [0, 5 * SECOND, -7 * SECOND], [0.0, 1e-5, -2e-5]
    trace = Synthetic(3, nodes=[0, 1, 2], offsets=offsets, drifts=drifts)
    trace.ended_ns = 20 * SECOND
    arrivals = np.arange(1, 18)[:, None] * SECOND + np.array([[0, 1000, 2000]])
    trace.add_collective("bcast", arrivals, arrivals + 10, root=0)
    for at in (2000, 19 * SECOND):
        trace.add_clock(2, 1, at, 1)  # node 2 was measured against node 1, and that against node 0
        trace.add_clock(1, 0, at, 1)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert off_by(opened, arrivals) <= opened.clock_error_ns <= 12


def test_fit_is_the_middle_of_the_feasible_range() -> None:
    clock = fit(
        make_bounds([0, 0, 100, 100], [-10, 30, -10, 30], [True, False, True, False]), (0, 100)
    )
    assert clock is not None
    assert (clock.offset_at(0), clock.offset_at(100)) == (10, 10)
    assert clock.error_ns == 20


def test_contradicting_bounds_widen_the_error() -> None:
    # The offset is at least 100 and at most 40, so no clock satisfies both; each side lacks 30 ns.
    clock = fit(make_bounds([0, 0], [100, 40], [True, False]), (0, 0))
    assert clock is not None
    assert abs(clock.offset_ns - 70) <= clock.error_ns
    assert clock.error_ns >= 30


def test_one_sided_bounds_are_none() -> None:
    assert fit(make_bounds([0, 5], [1, 2], [True, True]), (0, 10)) is None


def test_to_global_is_right_for_large_times() -> None:
    clock = Clock(origin_ns=10**18, offset_ns=-(10**18), drift=1e-6)
    assert clock.to_global(np.array([10**18, 10**18 + 10**9])).tolist() == [0, 10**9 + 1000]
