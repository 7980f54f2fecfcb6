"""Replay with less work: hand-computed leads, and a halo exchange whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from support.halo_waits import EXCHANGES, LATENCY_NS, halo_waits

from mpiprof.diagnosis.delay_graph import Intervals, Waits
from mpiprof.diagnosis.replay import Meetings, Replay
from mpiprof.trace.types import Float, Int


def ints(*values: int) -> Int:
    return np.array(values, np.int64)


NO_MEETINGS = Meetings(ints(), ints(), {})


def leads(
    awaited: Int, until: Int, waiting: Int, begin: Int, work: Intervals, removed: list[float]
) -> list[float]:
    """Return the leads of 3 ranks after waits of one rank each."""
    group = np.arange(len(awaited))
    waits = Waits(awaited, until, np.zeros_like(until), group, waiting, begin, until)
    replay = Replay(waits, np.full(len(awaited), -1), NO_MEETINGS, 3)
    values: list[float] = replay.compute_leads(work, np.array(removed)).tolist()
    return values


def test_a_rank_that_waited_continues_earlier_with_the_awaited_rank() -> None:
    work = Intervals(ints(0, 1), ints(0, 0), ints(9, 1), ints(0, 0))
    # Rank 1 waits 8 for rank 0, and rank 2 waits 8 for rank 1.
    chain = ints(0, 1), ints(9, 10), ints(1, 2), ints(1, 2)
    assert leads(*chain, work, [5, 0]) == [5, 5, 5]
    assert leads(*chain, work, [9, 0]) == [9, 8, 8]
    assert leads(*chain, work, [0, 1]) == [0, 0, 0]


def test_a_lead_ends_where_the_rank_waits_for_another_one() -> None:
    work = Intervals(ints(0, 2), ints(0, 0), ints(9, 30), ints(0, 0))
    # Rank 1 waits for rank 0 until 9, and for rank 2, which stays as late, until 30.
    waits = ints(0, 2), ints(9, 30), ints(1, 1), ints(1, 12)
    assert leads(*waits, work, [6, 0]) == [6, 0, 0]


def test_work_counts_as_removed_before_the_first_wait_for_it() -> None:
    """Between its recorded calls, rank 0 sends a message, for which rank 1 waits until 9."""
    work = Intervals(ints(0), ints(0), ints(20), ints(0))
    assert leads(ints(0), ints(9), ints(1), ints(1), work, [8]) == [8, 8, 0]


def test_all_members_leave_a_meeting_after_the_last_one() -> None:
    work = Intervals(ints(0, 1, 2), ints(0, 0, 0), ints(10, 7, 4), ints(0, 0, 0))
    waits = Waits(ints(0), ints(10), ints(0), ints(0, 0), ints(1, 2), ints(7, 4), ints(10, 10))
    meeting = Meetings(ints(10), ints(5), {5: ints(0, 1, 2)})
    replay = Replay(waits, ints(5), meeting, 3)
    assert replay.compute_leads(work, np.array([6.0, 0, 0])).tolist() == [3, 3, 3]
    assert replay.compute_leads(work, np.array([6.0, 6, 0])).tolist() == [6, 6, 6]
    assert replay.compute_leads(work, np.array([0.0, 6, 4])).tolist() == [0, 0, 0]


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_halo_exchange_without_its_delay_takes_as_long_as_its_work(ranks: int) -> None:
    steps, extra = 10, 8
    waits, intervals = halo_waits(ranks, slow=0, steps=steps, extra=extra)
    replay = Replay(waits, np.full(len(waits.awaited), -1), NO_MEETINGS, ranks)
    first = (intervals.rank == 0) & (intervals.key == 0)
    removed: Float = np.where(first, extra * 10**6, 0).astype(np.float64)
    found = replay.compute_leads(intervals, removed)
    # The latency of an exchange is not waited for, so a lead may differ by it.
    tolerance = steps * EXCHANGES * LATENCY_NS
    assert found == pytest.approx(np.full(ranks, steps * extra * 10**6), abs=tolerance)
