"""All ranks that wait for a dead or finished rank are reported, in collectives and in messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hang_traces import SECOND, call
from support.message_hangs import ANY, MessageHang

from mpiprof.hang.processes import JobProcesses

WORLD = "on MPI_COMM_WORLD"


def waits_of_every_class(ranks: int = 7) -> MessageHang:
    """Return a job that waits for rank 1: in a barrier and in each class of message calls."""
    hang = MessageHang(ranks)
    hang.enter_barrier(0, 6)
    hang.block(2, "recv", 1, 7, line=12)
    hang.wait(3, "waitall", hang.message(3, "irecv", 1, 8, line=13), line=14)
    hang.block(4, "probe", 1, ANY, line=15)
    messages = hang.message(5, "sendrecv", 2, 5, line=16, is_sent=True)
    hang.wait(5, "sendrecv", messages, hang.message(5, "sendrecv", 1, 5, line=16, is_sent=False))
    return hang


def gone(ranks: int) -> JobProcesses:
    return JobProcesses(10_000 + 20 * SECOND, dict.fromkeys(range(ranks), False))


@pytest.mark.parametrize("signal", [9, 11])
def test_every_wait_for_a_dead_rank_is_reported(signal: int, tmp_path: Path) -> None:
    hang = waits_of_every_class()
    hang.synthetic.signal[1] = signal
    verdict, text = hang.conclude(tmp_path, gone(7))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)), text
    assert {link.rank for link in verdict.waits} == {0, 2, 3, 4, 5, 6}
    assert f"Ranks 0, 6 waited in barrier {WORLD} at app.py:1 main for rank 1; " in text
    assert f"rank 2 waited in recv {WORLD} at app.c:12 main for tag 7 from rank 1; " in text
    assert "irecv at app.c:13 main" in text and "; and 1 more rank waited." in text
    assert text.count("waited") == 5


def test_indirect_waits_follow_the_direct_ones(tmp_path: Path) -> None:
    """Rank 0 waits for 2, which waits for the dead rank 3; rank 1 waits for it in a collective."""
    hang = MessageHang(4)
    hang.synthetic.add_communicator("pair", [1, 3])
    hang.block(0, "recv", 2, 7, line=11)
    call(hang.synthetic, 1, "barrier", communicator="pair", sequence=0)
    hang.block(2, "recv", 3, 7, line=12)
    hang.synthetic.signal[3] = 11
    processes = JobProcesses(10_000 + 20 * SECOND, {0: True, 1: True, 2: True, 3: False})
    verdict, text = hang.conclude(tmp_path, processes)
    assert [(link.rank, link.waits_for) for link in verdict.waits] == [(1, 3), (2, 3), (0, 2)]
    positions = [text.index(f"{rank} wait") for rank in (1, 2, 0)]
    assert positions == sorted(positions), text


def test_every_wait_for_a_finished_rank_is_reported(tmp_path: Path) -> None:
    hang = waits_of_every_class()
    processes = JobProcesses(10_000 + 20 * SECOND, dict.fromkeys(range(7), True))
    verdict, text = hang.conclude(tmp_path, processes, finished=[1])
    assert (verdict.kind, verdict.odd_ranks, verdict.reason) == ("missing", (1,), "finished")
    assert text.startswith(f"Ranks 0, 6 wait in barrier at app.py:1 main {WORLD}. Rank 1 will "), (
        text
    )
    assert f"Rank 2 waits in recv {WORLD} at app.c:12 main for tag 7 from rank 1; " in text
    assert all(f"rank {rank} waits in " in text for rank in (3, 4, 5))


def test_many_equal_waits_share_a_clause(tmp_path: Path) -> None:
    hang = MessageHang(300)
    for rank in range(1, 299):
        hang.block(rank, "recv", 0, 7, line=12)
    hang.enter_barrier(299)
    hang.synthetic.signal[0] = 11
    verdict, text = hang.conclude(tmp_path, gone(300))
    assert len(verdict.waits) == 299
    assert f"waited in recv {WORLD} at app.c:12 main for tag 7 from rank 0" in text
    assert len(text) < 500, text


def test_a_receive_from_any_rank_waits_for_a_dead_rank_if_no_rank_can_send(tmp_path: Path) -> None:
    for computes, expected in ((False, {1, 2, 3}), (True, {1})):
        hang = MessageHang(4)
        hang.synthetic.signal[0] = 11
        hang.block(1, "recv", 0, 7, line=12)
        hang.block(2, "recv", ANY, 7, line=13)
        if not computes:
            hang.block(3, "recv", 0, 7, line=12)
        processes = JobProcesses(10_000 + 20 * SECOND, {0: False, 1: True, 2: True, 3: True})
        verdict, text = hang.conclude(tmp_path / str(computes), processes)
        assert {link.rank for link in verdict.waits} == expected, text
