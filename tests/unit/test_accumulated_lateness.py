"""Lateness that accumulates over many instances without waits, and appears at the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import delay_graph
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.single_event import SingleEvent
from mpiprof.interface.format_units import format_time
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Float


def unwaited(folder: Path, longer: Float, rounds: int = 1) -> Trace:
    """Return a trace of reduces without waits, and a barrier after them, repeated in rounds.

    longer: each rank's work beyond one millisecond before each reduce (instances x ranks, ms). Rank
    0 is the root, and comes last.
    """
    ranks = longer.shape[1]
    synthetic, now = Synthetic(ranks), np.full(ranks, 10 * MS)
    for _ in range(rounds):
        came = now + np.cumsum(np.rint((1 + longer) * MS).astype(np.int64) + 10_000, 0)
        synthetic.add_collective("reduce", came, came + 10_000, root=0, site="md.py:6:loop")
        last = came[-1] + 20_000
        now = np.full(ranks, last.max() + 50_000)
        synthetic.add_collective("barrier", last, now, site="md.py:9:end")
    synthetic.ended_ns = int(now.max()) + MS
    return mpiprof.open(synthetic.write(folder / "t"))


def test_lateness_that_is_collected_is_no_accident(tmp_path: Path) -> None:
    longer = np.abs(noise(150, 4, 0.02))
    longer[:, 0] += 5
    trace = unwaited(tmp_path, longer)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("rank", (0,)) and one.certainty > 0.99
    assert one.cost_ns == pytest.approx(3 * 750 * MS, rel=0.02)
    assert one.saved_ns == pytest.approx(750 * MS, rel=0.02)
    printed = finding_sentences.finding_text(trace, one)
    between = "between two calls of reduce at md.py:6 loop, in each repetition"
    assert printed.startswith(f"Rank 0 works 5.00 ms longer than the other ranks {between}: ")
    assert "This holds in 150 of 150 repetitions." in printed and "habit" not in printed
    lines = conclusion.verdict_lines(trace, make_verdict(trace, [one]))
    assert lines[1].startswith("Nearly all of it: rank 0 works 5.00 ms longer ")


def test_a_limit_of_following_back_leaves_the_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last 32 intervals before the barrier are compared."""
    monkeypatch.setattr(delay_graph, "MAX_REACH", 32)
    longer = np.abs(noise(150, 4, 0.02))
    longer[:, 0] += 5
    (one,) = unwaited(tmp_path, longer).findings()
    assert one.ranks == (0,)
    assert one.habit.late_ns == pytest.approx(5 * MS, rel=0.01)
    assert one.cost_ns <= 3 * 750 * MS * 1.01


@pytest.mark.slow
@pytest.mark.heavy
def test_who_wanders_behind_is_not_accused(tmp_path: Path) -> None:
    """Each rank's work varies at random, so the last rank at the end is chance."""
    named = 0
    for seed in range(10):
        longer = np.random.default_rng(seed).normal(0, 0.2, (150, 4))
        trace = unwaited(tmp_path / str(seed), longer)
        barrier = trace.callsites["operation"].tolist().index("barrier")
        named += any(one.certainty > 0 for one in trace.conclusions(barrier))
    assert not named


def test_a_single_delay_among_many_steps_is_located(tmp_path: Path) -> None:
    """Rank 0 is 200 ms late once, 60 reduces before the barrier at which the delay appears."""
    longer = np.abs(noise(150, 4, 0.02))
    longer[90, 0] += 200
    trace = unwaited(tmp_path, longer)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("long_work", (0,))
    assert one.cost_ns == pytest.approx(3 * 200 * MS, rel=0.02)
    printed = finding_sentences.finding_text(trace, one)
    assert isinstance(one.fact, SingleEvent)
    onset = format_time(one.fact.times_ns[0])
    where = "between two calls of reduce at md.py:6 loop"
    assert printed.startswith(f"Once, at {onset}, rank 0 works 2") and where in printed
    before = 10 * MS + ((1 + longer[:90, 0]) * MS + 10_000).sum()  # start, work and reduces
    assert one.fact.times_ns[0] == pytest.approx(before, abs=0.5 * MS)


@pytest.mark.heavy
def test_lateness_of_each_round_is_reported_for_each_round(tmp_path: Path) -> None:
    """50 reduces before every barrier: so many steps lead to where rank 0 becomes late."""
    longer = np.abs(noise(50, 4, 0.02))
    longer[:, 0] += 5
    trace = unwaited(tmp_path, longer, rounds=40)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("rank", (0,))
    printed = finding_sentences.finding_text(trace, one)
    assert "Rank 0 works 250 ms longer " in printed
    assert " between two calls of reduce at md.py:6 loop, in each step: " in printed
    assert "This holds in 40 of 40 steps. A step ends when all ranks meet in barrier" in printed


def test_who_waits_shortly_each_time_is_not_to_blame(tmp_path: Path) -> None:
    """In pairs, rank 0 waits 3 ms for rank 1 in each of 100 calls, and comes last at the end."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(6), np.full(4, 10 * MS)
    for first in (0, 2):
        synthetic.add_communicator(f"pair{first}", [first, first + 1])
    for _ in range(100):
        came = now + MS + random.integers(0, 20_000, 4)
        came[1] += 3 * MS
        for first in (0, 2):
            mine = came[first : first + 2]
            now[first : first + 2] = mine.max() + 10_000
            synthetic.add_collective(
                "allreduce", mine, now[first : first + 2], f"pair{first}", site="md.py:6:pair"
            )
    came = now + np.array([9_000, 5_000, 3_000, 1_000])
    synthetic.add_collective("barrier", came, np.full(4, came.max() + 10_000), site="md.py:9:end")
    synthetic.ended_ns = int(came.max()) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("rank", (1,))
    work = one.habit.work[0]
    assert (work.before["operation"], work.after["operation"]) == ("allreduce", "allreduce")
    assert all(of.ranks in ((1,), ()) for of in trace.findings())
