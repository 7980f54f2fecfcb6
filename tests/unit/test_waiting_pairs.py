"""Pairs of ranks that wait for messages: sums, order, the longest wait, and sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mpiprof
from mpiprof.metrics.message_callsite_sums import find_located_waits
from mpiprof.metrics.waiting_pairs import list_waiting_pairs, select_pairs
from mpiprof.reports import message_pairs
from mpiprof.testing.neighbours import make_ring
from mpiprof.testing.program import Program

MS = 1_000_000
RANKS, LATE, STEPS = 8, 5, 10


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> mpiprof.Trace:
    """Return a halo exchange of a ring; rank 5 works 2 ms longer in each step."""
    program = Program(RANKS)
    work = np.full(RANKS, MS // 10) + 2 * MS * (np.arange(RANKS) == LATE)
    for _ in range(STEPS):
        program.halo(make_ring(RANKS), own_ns=work, bytes_=4096)
        program.collective("allreduce")
    return mpiprof.open(program.write(tmp_path_factory.mktemp("pairs") / "halo"))


def test_pairs_sum_to_the_waits_of_the_trace(trace: mpiprof.Trace) -> None:
    waits = find_located_waits(trace)
    pairs = list_waiting_pairs(waits)
    assert pairs["wait_ns"].sum() == waits["wait_ns"].sum() == trace.message_waits["wait_ns"].sum()
    assert pairs["calls"].sum() == len(waits)
    assert (pairs["wait_ns"].diff().dropna() <= 0).all()
    assert (pairs["longest_ns"] == pairs["until_ns"] - pairs["begin_ns"]).all()
    matrix = trace.message_matrix
    sends = pairs.groupby(["rank", "awaited"])["send_wait_ns"].sum()
    of_senders = matrix.set_index(["source", "destination"])["send_wait_ns"]
    assert sends[sends > 0].to_dict() == of_senders[of_senders > 0].to_dict()
    of_receivers = matrix.set_index(["destination", "source"])["wait_ns"]
    received = pairs.groupby(["rank", "awaited"])["wait_ns"].sum() - sends
    assert received[received > 0].to_dict() == of_receivers[of_receivers > 0].to_dict()


def test_the_neighbours_wait_for_the_late_rank(trace: mpiprof.Trace) -> None:
    pairs = list_waiting_pairs(find_located_waits(trace))
    assert set(pairs.head(2)["rank"]) == {LATE - 1, LATE + 1}
    assert set(pairs.head(2)["awaited"]) == {LATE}
    assert pairs["calls"].head(2).tolist() == [STEPS, STEPS]
    assert select_pairs(pairs, (4, 4), (4, 7))["awaited"].tolist() == [LATE]
    text = message_pairs.headline_text(trace, pairs)
    assert text.startswith("Rank 4 waits 20") and "for rank 5 to receive in waitall at" in text
    assert text.endswith("halo.py:13 exchange, in 10 calls.")
    share = message_pairs.share_sentence(pairs)
    assert share == "100 % of all waiting in messages is for rank 5; 2 ranks wait for it."


def test_without_waits_the_sentence_gives_the_reason(tmp_path: Path) -> None:
    program = Program(2)
    program.collective("allreduce")
    trace = mpiprof.open(program.write(tmp_path / "collectives"))
    pairs = list_waiting_pairs(find_located_waits(trace))
    assert len(pairs) == 0 and message_pairs.share_sentence(pairs) == ""
    assert message_pairs.headline_text(trace, pairs) == "This trace has no messages."
