"""Verdicts on ranks that wait for messages: one synthetic trace for each fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from signal import Signals

import pytest
from support.hang_traces import SECOND, call, now
from support.message_hangs import ANY, MessageHang
from support.message_traces import call as message_call

from mpiprof.hang.blocking_calls import MessageNeeds, find_waits
from mpiprof.hang.processes import JobProcesses
from mpiprof.trace.message_counts import COUNT_PERIOD as PERIOD

WORLD = "MPI_COMM_WORLD"
BARRIER = f"barrier on {WORLD} at app.py:1 main"


def at(line: int, comm: str = WORLD) -> str:
    """Return the location of a call as sentences have it."""
    return f"on {comm} at app.c:{line} main"


def make_blocked_rank(ranks: int, operation: str, peer: int) -> MessageHang:
    """Return a job whose rank 0 is in a call with a peer, and all other ranks in a barrier."""
    hang = MessageHang(ranks)
    hang.block(0, operation, peer, 7, line=12)
    hang.enter_barrier(*range(1, ranks))
    return hang


def send_to_each_other() -> MessageHang:
    """Return two ranks in large sends to each other."""
    hang = MessageHang(2)
    hang.block(0, "send", 1, 7, line=11)
    hang.block(1, "send", 0, 7, line=12)
    return hang


def wrong_tag() -> MessageHang:
    """Return a receive of tag 7 from a rank that has sent tag 8."""
    hang = MessageHang(3)
    hang.block(2, "recv", 1, 7, line=12)
    hang.count(1, 2, 8, sent=1, line=9)
    hang.enter_barrier(0, 1)
    return hang


def wrong_communicator() -> MessageHang:
    """Return a receive on one communicator from a rank that has sent on another."""
    hang = MessageHang(2)
    hang.synthetic.add_communicator("other", [0, 1])
    hang.block(0, "recv", 1, 7, line=12)
    hang.count(1, 0, 7, sent=1, line=9, comm="other")
    hang.enter_barrier(1)
    return hang


def wrong_destination() -> MessageHang:
    """Return a rank in a Sendrecv whose message another rank has sent to a third rank."""
    hang = MessageHang(3)
    sent, received = (
        hang.message(0, "sendrecv", 1, 5),
        hang.message(0, "sendrecv", 2, 5, is_sent=False),
    )
    hang.wait(0, "sendrecv", sent, received, line=14)
    hang.count(0, 2, 5, received=1)
    hang.count(2, 1, 5, sent=1, line=15)
    hang.enter_barrier(1, 2)
    return hang


def missing_send() -> MessageHang:
    """Return a receive from a rank that is in a barrier."""
    return make_blocked_rank(3, "recv", 1)


def missing_receive() -> MessageHang:
    """Return a synchronous send to a rank that is in a barrier."""
    return make_blocked_rank(3, "ssend", 1)


def receives_of_3_ranks() -> MessageHang:
    """Return three ranks that receive from each other."""
    hang = MessageHang(3)
    for rank in range(3):
        hang.block(rank, "recv", (rank + 1) % 3, 7, number=4, line=20 + rank)
        hang.count(rank, (rank + 2) % 3, 7, sent=4, line=9)
    return hang


def receive_from_any_rank() -> MessageHang:
    """Return a receive from any source whose possible senders are in a barrier."""
    return make_blocked_rank(4, "recv", ANY)


def waitall_with_a_missing_message() -> MessageHang:
    """Return a Waitall of two receives, one of which has been sent."""
    hang = MessageHang(3)
    received = [hang.message(0, "irecv", peer, 7, line=10 + peer) for peer in (1, 2)]
    hang.wait(0, "waitall", *received, line=14)
    hang.count(1, 0, 7, sent=1)
    hang.enter_barrier(1, 2)
    return hang


def probe() -> MessageHang:
    """Return a probe of a message that has another tag."""
    hang = MessageHang(2)
    hang.block(0, "probe", 1, 7, line=12)
    hang.count(1, 0, 8, sent=1, line=9)
    hang.enter_barrier(1)
    return hang


Fault = Callable[[], MessageHang]
CIRCLE = "Ranks wait for each other in a circle:"
CIRCLES: list[tuple[Fault, tuple[int, ...], str]] = [
    (
        send_to_each_other,
        (0, 1),
        f"{CIRCLE} rank 0 waits in send {at(11)} for rank 1 to receive tag 7; "
        f"rank 1 waits in send {at(12)} for rank 0 to receive tag 7. "
        "A send may wait until its message is received. ",
    ),
    (
        wrong_tag,
        (2,),
        f"rank 2 waits in recv {at(12)} for tag 7 from rank 1, which sent tag 8 at app.c:9 main",
    ),
    (
        wrong_communicator,
        (0,),
        f"rank 0 waits in recv {at(12)} for tag 7 from rank 1, which sent tag 7 on split ",
    ),
    (
        wrong_destination,
        (0,),
        f"rank 0 waits in sendrecv {at(14)} for tag 5 from rank 2, "
        "which sent tag 5 to rank 1 at app.c:15 main",
    ),
    (
        missing_send,
        (0,),
        f"{CIRCLE} rank 0 waits in recv {at(12)} for tag 7 from rank 1; "
        f"rank 1 waits in {BARRIER} for rank 0. Rank 1 must send before it calls barrier.",
    ),
    (
        missing_receive,
        (0,),
        f"{CIRCLE} rank 0 waits in ssend {at(12)} for rank 1 to receive tag 7; "
        f"rank 1 waits in {BARRIER} for rank 0. Rank 1 must receive before it calls barrier.",
    ),
    (
        receives_of_3_ranks,
        (0, 1, 2),
        f"rank 2 waits in recv {at(22)} for tag 7 from rank 0. "
        "One of these ranks must send before it receives.",
    ),
    (
        receive_from_any_rank,
        (0,),
        f"{CIRCLE} rank 0 waits in recv {at(12)} for tag 7 from any rank; "
        f"rank 1 waits in {BARRIER} for rank 0. A rank must send to rank 0 before it calls "
        "barrier, or rank 0 receives once too often.",
    ),
    (
        waitall_with_a_missing_message,
        (0,),
        f"{CIRCLE} rank 0 waits in waitall {at(14)} for tag 7 from rank 2 "
        "(irecv at app.c:12 main); ",
    ),
    (
        probe,
        (0,),
        f"rank 0 waits in probe {at(12)} for tag 7 from rank 1, which sent tag 8 at app.c:9 main",
    ),
]


@pytest.mark.parametrize(
    ("fault", "odd", "text"), CIRCLES, ids=lambda v: getattr(v, "__name__", "")
)
def test_circle_with_messages(
    fault: Fault, odd: tuple[int, ...], text: str, tmp_path: Path
) -> None:
    hang = fault()
    ranks = range(hang.ranks)
    verdict, found = hang.conclude(tmp_path / "soon", now(*ranks, after=9))
    assert verdict.kind == "none", found
    verdict, found = hang.conclude(tmp_path, now(*ranks, after=20))
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", odd), found
    assert text in found
    gone = JobProcesses(10_000, dict.fromkeys(ranks, False))
    hang.synthetic.signal = [Signals.SIGTERM] * hang.ranks
    ended, found = hang.conclude(tmp_path / "ended", gone)
    assert (ended.kind, ended.odd_ranks) == ("point_to_point", odd), found
    past = text.replace("Ranks wait ", "Ranks waited ").replace("waits in", "waited in")
    assert past in found
    assert "waits in" not in found


def test_a_receive_from_a_rank_that_has_ended(tmp_path: Path) -> None:
    hang = MessageHang(2)
    hang.block(0, "recv", 1, 7, line=12)
    call(hang.synthetic, 1, "finalize", site="app.c:30:main")
    verdict, text = hang.conclude(tmp_path, now(0, 1, after=20))
    assert (verdict.kind, verdict.odd_ranks, verdict.reason) == ("missing", (1,), "finished")
    assert text == (
        f"Rank 0 waits in recv {at(12)} for tag 7 from rank 1. Rank 1 will never send it: it has "
        "called MPI_Finalize. A send is missing there, or a receive is one too many here."
    )


@pytest.mark.parametrize(
    ("seen", "kind", "printed"),
    [
        ("busy", "stalled", "Rank 1 has not sent it: it computes after barrier at app.py:1 main"),
        ("still", "missing", "Rank 1 has not sent it, last seen after barrier at app.py:1 main."),
        ("in_files", "stalled", "Rank 1 has not sent it: it has been reading or writing files"),
    ],
)
def test_a_receive_from_a_rank_outside_mpi(
    seen: str, kind: str, printed: str, tmp_path: Path
) -> None:
    """Rank 0 waits for a message of rank 1; rank 2 waits for all in a barrier."""
    hang = MessageHang(3)
    hang.block(0, "recv", 1, 7, line=12)
    hang.enter_barrier(2)
    processes = now(0, 1, 2, after=20, **{seen: frozenset([1])})
    verdict, text = hang.conclude(tmp_path, processes)
    assert (verdict.kind, verdict.odd_ranks) == (kind, (1,)), text
    assert text.startswith(f"Rank 0 waits in recv {at(12)} for tag 7 from rank 1. {printed}")


def test_a_chain_through_a_collective_on_another_communicator(tmp_path: Path) -> None:
    """Rank 0 waits for a message of rank 1, which waits in a barrier for rank 2."""
    hang = MessageHang(3)
    hang.synthetic.add_communicator("pair", [1, 2])
    hang.block(0, "recv", 1, 7, line=12)
    call(hang.synthetic, 1, "barrier", communicator="pair", sequence=0)
    verdict, text = hang.conclude(tmp_path, now(0, 1, 2, after=20, still=frozenset([2])))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (2,)), text
    assert f"Rank 0 waits in recv {at(12)} for tag 7 from rank 1; rank 1 waits in barrier" in text
    assert "for rank 2. Rank 2 has not arrived, last seen" in text


def test_a_message_of_a_dead_rank(tmp_path: Path) -> None:
    hang = MessageHang(2)
    hang.block(0, "recv", 1, 7, line=12)
    hang.synthetic.signal[1] = 11
    processes = JobProcesses(10_000 + 20 * SECOND, {0: True, 1: False})
    verdict, text = hang.conclude(tmp_path, processes)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,))
    assert "Rank 1 died of SIGSEGV" in text
    assert f"Rank 0 waits in recv {at(12)} for tag 7 from rank 1." in text


def sound_exchange(any_source: bool) -> MessageHang:
    """Return a large message that its receiver accepts."""
    hang = MessageHang(2)
    hang.block(0, "send", 1, 7, number=3)
    if any_source:
        hang.block(1, "recv", ANY, 7)
    else:
        hang.block(1, "recv", 0, 7, number=3)
    return hang


def sound_waitany() -> MessageHang:
    """Return a Waitany whose second message has been sent."""
    hang = MessageHang(3)
    messages = [hang.message(0, "irecv", peer, 7) for peer in (1, 2)]
    hang.wait(0, "waitany", *messages)
    hang.count(2, 0, 7, sent=1)
    hang.enter_barrier(1, 2)
    return hang


def sound_source() -> MessageHang:
    """Return a receive from any source that one computing rank may still send to."""
    hang = MessageHang(3)
    hang.block(0, "recv", ANY, 7)
    hang.enter_barrier(1)
    return hang


def sound_classes() -> MessageHang:
    """Return a receive of tag 7 that was sent, after a message with tag 23 of the same class."""
    hang = MessageHang(2)
    hang.block(0, "recv", 1, 7, number=1)
    hang.count(1, 0, 23, sent=3)
    hang.enter_barrier(1)
    return hang


@pytest.mark.parametrize(
    "sound",
    [
        lambda: sound_exchange(any_source=False),
        lambda: sound_exchange(any_source=True),
        sound_waitany,
        sound_source,
        sound_classes,
    ],
)
def test_no_circle_while_a_message_may_arrive(
    sound: Callable[[], MessageHang], tmp_path: Path
) -> None:
    hang = sound()
    ranks = range(hang.ranks)
    verdict, text = hang.conclude(tmp_path, now(*ranks, after=20, busy=frozenset(ranks)))
    assert not verdict.cycle and verdict.kind in ("none", "stalled"), text


@pytest.mark.parametrize("number", [3, PERIOD - 1, PERIOD, 5 * PERIOD + 3])
@pytest.mark.parametrize("other_tags", [False, True])
def test_a_missing_receive_after_many_messages(
    number: int, other_tags: bool, tmp_path: Path
) -> None:
    """Rank 1 has not received; other tags in the class leave open which of two ranks has not."""
    hang = MessageHang(3)
    coded = number + 9 * PERIOD * other_tags
    hang.wait(0, "waitall", *(hang.message(0, "issend", peer, 7, coded) for peer in (1, 2)))
    for peer in (1, 2):
        hang.count(0, peer, 7, sent=number + 1)
        hang.count(peer, 0, 7, received=number + peer - 1)
    hang.enter_barrier(1, 2)
    trace = hang.write(tmp_path)
    (wait,) = find_waits(trace, 0)
    needs = MessageNeeds(trace, [wait]).find(wait)
    expected = [(1, False), (2, False)] if other_tags else [(1, True)]
    assert [(need.waits_for, need.is_sure) for need in needs] == expected


def test_unknown_counts_prove_no_missing_message_in_a_waitall(tmp_path: Path) -> None:
    """Either message of the Waitall may be missing; the rank that computes decides."""
    hang = MessageHang(3)
    messages = [hang.message(0, "irecv", peer, 7) for peer in (1, 2)]
    hang.wait(0, "waitall", *messages)
    hang.stop_counting(1)
    hang.enter_barrier(1)
    verdict, text = hang.conclude(tmp_path, now(0, 1, 2, after=20, busy=frozenset([2])))
    assert (verdict.kind, verdict.odd_ranks) == ("stalled", (2,)), text


def test_another_thread_may_still_send(tmp_path: Path) -> None:
    """Rank 1 has a thread with messages that is in no call, beside the thread in the barrier."""
    hang = missing_send()
    shape = hang.shape(1, "isend", 2, 3, "world")
    hang.of_second_thread[1].append(message_call(shape, 5_000, 6_000, thread=2))
    verdict, text = hang.conclude(tmp_path, now(0, 1, 2, after=20))
    assert not verdict.cycle, text
