"""The time of the collectives themselves: the verdict mentions it if it is the largest share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace

MS = 1_000_000


def busy(folder: Path, operation: str = "alltoall") -> Trace:
    """Return a trace of a collective of 8 ms that releases a random rank some ms late."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(5), np.full(4, 10 * MS)
    for _ in range(60):
        came = now + random.integers(0, 20_000, 4)
        now = np.full(4, came.max() + 8 * MS) + random.integers(0, 50_000, 4)
        now[random.integers(4)] += random.integers(2 * MS, 5 * MS)
        synthetic.add_collective(operation, came, now, site="md.py:6:swap")
    synthetic.ended_ns = int(now.max()) + MS
    return mpiprof.open(synthetic.write(folder / "t"))


@pytest.mark.heavy
def test_the_verdict_mentions_the_time_in_the_calls(tmp_path: Path) -> None:
    trace = busy(tmp_path)
    verdict = make_verdict(trace, trace.findings())
    assert 0.1 < verdict.waiting < 0.5 < verdict.collective - verdict.waiting
    last = conclusion.verdict_lines(trace, verdict)[-1]
    assert " The collectives themselves take more than the waiting, " in last
    assert last.endswith(
        " of all ranks' time, nearly all of it alltoall at md.py:6 swap: `tune` looks for a faster "
        "algorithm."
    )


@pytest.mark.heavy
def test_what_makes_a_communicator_can_not_be_tuned(tmp_path: Path) -> None:
    trace = busy(tmp_path, "comm_split")
    assert "`tune`" not in " ".join(
        conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    )


@pytest.mark.heavy
def test_lateness_made_inside_is_no_work_of_the_ranks(tmp_path: Path) -> None:
    trace = busy(tmp_path)
    (one,) = (one for one in trace.findings() if one.cause == "noise")
    printed = finding_sentences.finding_text(trace, one)
    inside = (
        " Most of it arises inside alltoall at md.py:6 swap, which keeps different ranks longer"
    )
    assert inside in printed and "work that varies" not in printed


def test_no_algorithm_is_tuned_for_a_wait(tmp_path: Path) -> None:
    """Rank 2 computes 5 ms between start and Wait, so the other ranks' data do not progress."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(5), np.full(4, 10 * MS)
    for _ in range(60):
        came = now + MS + random.integers(0, 100_000, 4)
        waits = came + 10_000 + np.array([0, 0, 5 * MS, 0])
        now = np.full(4, waits.max() + 20_000)
        synthetic.add_collective(
            "iallreduce", came, came + 5_000, completions=(waits, now), site="md.py:6:sum"
        )
    synthetic.ended_ns = int(now.max()) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    verdict = make_verdict(trace, trace.findings())
    assert verdict.worst is not None and verdict.worst.ranks == (2,)
    assert verdict.worst.saved_ns == pytest.approx(60 * 5 * MS, rel=0.1)
    assert "`tune`" not in " ".join(conclusion.verdict_lines(trace, verdict))


def test_a_rank_that_waits_inside_a_broadcast_is_not_blamed(tmp_path: Path) -> None:
    """Rank 1 works 3 ms longer before a bcast.

    In a library, rank 3 receives its data through rank 1.
    """
    synthetic, random, now = Synthetic(4), np.random.default_rng(5), np.full(4, 10 * MS)
    for i in range(120):
        came = now + MS // 2 + random.integers(0, 10_000, 4)
        came[1] += 3 * MS
        now = came + 10_000
        now[3] = max(now[3], now[1] + 10_000)
        synthetic.add_collective("bcast", came, now, root=0, site="md.py:8:share")
        if i % 40 == 39:
            came = now + 5_000
            now = np.full(4, came.max() + 10_000)
            synthetic.add_collective("allreduce", came, now, site="md.py:9:sum")
    synthetic.ended_ns = int(now.max()) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    (one,) = (one for one in trace.findings() if one.ranks)
    assert one.cause == "rank" and one.ranks == (1,)
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith(
        "Rank 1 works 3.00 ms longer than the other ranks between two calls of bcast at md.py:8"
    )
