"""Pairs of ranks that wait for messages: sums, order, the longest wait, and sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program

import mpiprof
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs, select_pairs
from mpiprof.causes.finding import Finding, WaitSite
from mpiprof.reports.words import message_sentences

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
    text = message_sentences.headline_text(trace, pairs)
    # Rank 5 sends after it has posted its receives, and to rank 6 last.
    ending = "for messages of rank 5, in 10 calls of waitall at halo.py:13 exchange."
    assert text.startswith("Rank 6 waits 20") and text.endswith(ending)
    (share,) = message_sentences.further_sentences(trace, pairs)
    assert share.startswith("100 % of all waiting for messages is for rank 5; 2 ranks wait for it.")


def test_without_waits_the_sentence_gives_the_reason(tmp_path: Path) -> None:
    program = Program(2)
    program.collective("allreduce")
    trace = mpiprof.open(program.write(tmp_path / "collectives"))
    pairs = list_waiting_pairs(find_located_waits(trace))
    assert len(pairs) == 0 and message_sentences.further_sentences(trace, pairs) == []
    assert message_sentences.headline_text(trace, pairs) == "This trace has no messages."


def test_the_headline_names_the_cause_and_not_the_neighbour_of_a_victim(tmp_path: Path) -> None:
    """The last rank of a line of ranks works longer, so each rank waits for its neighbour."""
    program = Program(RANKS)
    work = np.full(RANKS, MS // 10) + 5 * MS * (np.arange(RANKS) == RANKS - 1)
    for _ in range(40):
        program.pipeline(work, order=range(RANKS - 1, -1, -1))
    trace = mpiprof.open(program.write(tmp_path / "line", finalize=False))
    pairs = list_waiting_pairs(find_located_waits(trace))
    site = "recv", int(pairs["site_id"].iloc[0])
    half = WaitSite(site, 0.5 * float(pairs["wait_ns"].sum()), 0.5)
    other = Finding("rank", 1, 0.5, (), (2,), waits_at=(replace(half, wait_ns=1.0),))
    finding = Finding("rank", int(half.wait_ns), 0.5, (), (RANKS - 1,), waits_at=(half,))
    assert message_sentences.find_message_cause([other], pairs) is None
    cause = message_sentences.find_message_cause([other, finding], pairs)
    assert (
        cause is not None
        and cause.finding.ranks == (RANKS - 1,)
        and cause.share == pytest.approx(0.5)
    )
    words = message_sentences.headline(trace, pairs, cause)
    assert words[0] == (f"Rank {RANKS - 1}", "late")
    assert [text for text, style in words if style == "late"] == [f"Rank {RANKS - 1}"]
    direct, longest = message_sentences.further_sentences(trace, pairs, cause)
    assert direct.startswith("14 % is directly for rank 7; the rest passes through ranks")
    assert longest.startswith("Rank ") and " for messages of rank " in longest
    assert "late" not in dict(message_sentences.headline(trace, pairs)).values()
