"""Simulated programs: known answers, invariants, and the tables that are read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.neighbours import make_grid, make_neighbours, make_ring
from support.program import Program
from support.program_log import LONG_CALL_NS, NO_SHAPE
from support.simulation import Network

import mpiprof
from mpiprof.causes.polling import find_polling_delays
from mpiprof.facts.operations import OPERATIONS, WaitRule
from mpiprof.trace.types import INTERVAL, MESSAGE_CALL

START, LATENCY, CALL = 1_000_000, 1_000, 100
MS = 1_000_000
SIMPLE = Network(latency_ns=LATENCY, bytes_per_ns=1.0, eager_bytes=1_000, call_ns=CALL)
MESSAGE_CALLS = ("send", "ssend", "recv", "sendrecv", "waitall")
PLAIN = [name for name in OPERATIONS if not name.startswith("neighbor")]


def select(truth: pd.DataFrame, operation: str) -> dict[str, list[int]]:
    """Return the columns of the calls of an operation, as lists."""
    rows = truth[truth["operation"] == operation]
    return {name: rows[name].tolist() for name in rows.columns}


def make_mixture(ranks: int = 6, is_complete: bool = True, **options: Any) -> Program:
    """Return a program with each form of message, in which ranks are late at random."""
    program = Program(ranks, **options)
    program.log.is_complete = is_complete
    random = np.random.default_rng(5)
    neighbours = make_grid((2, ranks // 2))
    everybody = np.arange(ranks)
    for step in range(12):
        size = (8, 4_000, 200_000)[step % 3]
        program.halo(neighbours, random.integers(0, MS, ranks), size, tag=step)
        program.pipeline(random.integers(0, MS // 4, ranks), bytes_=size)
        program.work(random.integers(0, MS, ranks))
        program.sendrecv((everybody + 1) % ranks, (everybody - 1) % ranks, bytes_=size)
        program.work(random.integers(0, MS, ranks))
        program.message([0, 3], [2, 1], size, tag=99, synchronous=step % 2 == 1)
        started = program.start("iallreduce", own_ns=random.integers(0, MS, ranks))
        program.wait(started, own_ns=random.integers(0, MS, ranks))
    return program


def test_a_chain_of_four_ranks(tmp_path: Path) -> None:
    program = Program(4, SIMPLE, START)
    program.pipeline(np.array([30_000, 40_000, 50_000, 60_000]), bytes_=0)
    truth = program.make_truth()
    sends, receives = select(truth, "send"), select(truth, "recv")
    assert sends["rank"] == [0, 1, 2] and receives["rank"] == [1, 2, 3]
    assert sends["own_ns"] == [30_000, 40_000, 50_000]
    assert sends["enter_ns"] == [1_030_000, 1_071_100, 1_122_200]
    assert sends["exit_ns"] == [1_030_100, 1_071_200, 1_122_300]
    assert sends["wait_ns"] == [0, 0, 0] and sends["awaited"] == [-1, -1, -1]
    assert receives["enter_ns"] == [START] * 3
    assert receives["exit_ns"] == [1_031_100, 1_072_200, 1_123_300]
    assert receives["wait_ns"] == [30_000, 71_100, 122_200]
    assert receives["awaited"] == [0, 1, 2]
    assert program.now_ns.tolist() == [1_030_100, 1_071_200, 1_122_300, 1_183_300]
    program.write(tmp_path / "t", finalize=False)
    calls = mpiprof.open(tmp_path / "t").message_calls
    calls = calls[calls["operation"] == "recv"]
    assert calls["rank"].tolist() == [1, 2, 3]
    assert calls["peer"].tolist() == [0, 1, 2]
    assert calls["exit_ns"].tolist() == receives["exit_ns"]


def test_a_large_message_waits_for_its_receiver() -> None:
    program = Program(2, SIMPLE, START)
    program.work(np.array([0, 50_000]))
    program.message(0, 1, bytes_=2_000)
    truth = program.make_truth()
    end = START + 50_000 + LATENCY + 2_000 + CALL
    assert select(truth, "send")["wait_ns"] == [50_000]
    assert select(truth, "send")["awaited"] == [1]
    assert select(truth, "recv")["wait_ns"] == [0]
    assert truth["exit_ns"].tolist() == [end, end]


def test_the_neighbours_of_a_slow_rank_wait_for_it() -> None:
    program = Program(8, SIMPLE, START)
    work = np.full(8, MS)
    work[3] = 9 * MS
    program.halo(make_ring(8), work)
    halo = select(program.make_truth(), "waitall")
    # Rank 3 sends to rank 2 after two Irecv calls, and to rank 4 one call later.
    assert halo["wait_ns"] == [0, 0, 8 * MS - 2 * CALL, 0, 8 * MS - CALL, 0, 0, 0]
    assert halo["awaited"] == [-1, -1, 3, -1, 3, -1, -1, -1]
    sent = START + 9 * MS + 2 * CALL
    assert halo["exit_ns"][2] == sent + LATENCY + 8 + CALL
    for step in range(2, 4):
        program.halo(make_ring(8), 0 if step == 2 else MS)
        waits = program.calls[-1].wait_ns
        reached = [r for r in range(8) if waits[r] > MS]
        assert reached == sorted((3 + step * side) % 8 for side in (-1, 1))


def test_a_halo_of_two_ranks_pairs_messages_in_order(tmp_path: Path) -> None:
    """Both neighbours of a rank are the same rank."""
    program = Program(2, SIMPLE, START)
    for _ in range(2):
        program.halo(make_ring(2), np.array([0, MS]), bytes_=50_000)
    messages = mpiprof.open(program.write(tmp_path / "t")).messages
    # The calls that post messages have rows too.
    complete = messages[messages["complete"]]
    received = complete[complete["received"] & (complete["rank"] == 0)]
    assert received["number"].tolist() == [0, 1, 2, 3]
    assert (complete["partner"] >= 0).sum() == 2 * 8


def test_neighbours_must_be_mutual() -> None:
    with pytest.raises(ValueError, match="rank 1 has neighbour 0"):
        make_neighbours([[], [0]])


def test_a_rank_cannot_send_twice_in_a_step() -> None:
    with pytest.raises(ValueError, match="twice in one step"):
        Program(3).message([0, 0], [1, 2])


@pytest.mark.parametrize("operation", PLAIN)
def test_waits_of_collectives_agree_with_the_metrics(tmp_path: Path, operation: str) -> None:
    random = np.random.default_rng(3)
    program = Program(5)
    for _ in range(20):
        program.collective(operation, own_ns=random.integers(0, MS, 5), root=2)
    trace = mpiprof.open(program.write(tmp_path / "t", finalize=False))
    truth = program.make_truth()
    assert trace.callsites["total_wait_ns"].sum() == truth["wait_ns"].sum()
    assert trace.events["exit_ns"].sum() == truth["exit_ns"].sum()
    if OPERATIONS[operation].wait_rule is WaitRule.ALL_FOR_ALL:
        arrival = truth["enter_ns"].to_numpy().reshape(-1, 5)
        assert truth["wait_ns"].sum() == (arrival.max(1, keepdims=True) - arrival).sum()


def test_waits_for_nonblocking_collectives_agree_with_the_metrics(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    program = Program(5)
    for _ in range(20):
        started = program.start("iallreduce", own_ns=random.integers(0, MS, 5))
        program.wait(started, own_ns=random.integers(0, MS, 5))
    trace = mpiprof.open(program.write(tmp_path / "t", finalize=False))
    assert trace.callsites["total_wait_ns"].sum() == program.make_truth()["wait_ns"].sum()


def test_neighbourhood_collectives_wait_for_sources() -> None:
    program = Program(3, SIMPLE, START)
    edges = {0: ([2], [1]), 1: ([0], [2]), 2: ([1], [0])}
    cycle = program.synthetic.add_communicator("cycle", [0, 1, 2], topology=edges)
    work = np.array([0, 5 * MS, 0])
    program.collective("neighbor_allgather", own_ns=work, communicator=cycle)
    truth = program.make_truth()
    assert truth["wait_ns"].tolist() == [0, 0, 5 * MS]
    assert truth["awaited"].tolist() == [-1, -1, 1]


def test_the_root_may_have_a_call_site_of_its_own(tmp_path: Path) -> None:
    program = Program(4)
    for root in (2, 0):
        program.collective("bcast", "app.py:24:main", root=root, root_site="app.py:20:main")
    events = mpiprof.open(program.write(tmp_path / "t", finalize=False)).events
    lines = events.pivot(index="sequence", columns="rank", values="site").to_numpy()
    assert [[site.split()[0][-2:] for site in instance] for instance in lines.tolist()] == [
        ["24", "24", "20", "24"],
        ["20", "24", "24", "24"],
    ]


def test_work_and_calls_fill_the_time() -> None:
    program = make_mixture()
    truth = program.make_truth()
    spent = (truth["own_ns"] + truth["exit_ns"] - truth["enter_ns"]).groupby(truth["rank"]).sum()
    posts = 12 * 2 * 4 * program.network.call_ns  # four neighbours, Irecv and Isend
    unfinished = program.worked_ns
    assert (spent + posts + unfinished + START).tolist() == program.now_ns.tolist()
    assert ((truth["wait_ns"] >= 0) & (truth["wait_ns"] <= truth["exit_ns"])).all()
    assert ((truth["awaited"] >= 0) == (truth["wait_ns"] > 0)).all()


@pytest.mark.parametrize("is_complete", [True, False])
def test_logged_calls_are_read_back(is_complete: bool, tmp_path: Path) -> None:
    """Outside of complete windows, only long calls are logged."""
    program = make_mixture(is_complete=is_complete)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    truth = program.make_truth()
    elapsed = truth["exit_ns"] - truth["enter_ns"]
    is_message = truth["operation"].isin(MESSAGE_CALLS)
    names = ["rank", "enter_ns", "exit_ns", "operation"]
    least_ns = 0 if is_complete else LONG_CALL_NS
    expected = truth.loc[is_message & (elapsed >= least_ns), names]
    calls = trace.message_calls[names]
    read = calls[calls["operation"].isin(MESSAGE_CALLS)]
    posts = calls[~calls["operation"].isin(MESSAGE_CALLS)]
    assert set(posts["operation"]) == ({"irecv", "isend"} if is_complete else set())
    read = read.sort_values(names[:2]).reset_index(drop=True)
    expected = expected.sort_values(names[:2]).reset_index(drop=True)
    read["operation"] = read["operation"].astype(expected["operation"].dtype)
    pd.testing.assert_frame_equal(read, expected, check_dtype=False)
    assert len(read) > 100 and trace.problems == [] and trace.is_complete


def test_all_calls_are_in_the_sums(tmp_path: Path) -> None:
    program = make_mixture()
    trace = mpiprof.open(program.write(tmp_path / "t"))
    truth = program.make_truth()
    sums = trace.message_sums.groupby(["rank", "operation"])[["calls", "total_ns", "longest_ns"]]
    read = sums.agg({"calls": "sum", "total_ns": "sum", "longest_ns": "max"})
    truth["elapsed"] = truth["exit_ns"] - truth["enter_ns"]
    rows = truth[truth["operation"].isin(MESSAGE_CALLS)].groupby(["rank", "operation"])["elapsed"]
    for key, row in rows.agg(["count", "sum", "max"]).iterrows():
        assert read.loc[key].tolist() == row.tolist()  # type: ignore[call-overload]
    assert trace.message_sums["sent"].sum() == trace.message_sums["received"].sum() > 0
    # The calls outside collectives are in the headers and before the next collective, too.
    assert trace.point_to_point.sum() == trace.message_sums["total_ns"].sum() + sum(
        int((call.exit_ns - call.enter_ns).sum())
        for call in program.calls
        if call.operation == "wait"
    )


def test_both_sides_of_a_message_are_partners(tmp_path: Path) -> None:
    program = make_mixture()
    messages = mpiprof.open(program.write(tmp_path / "t")).messages
    paired = messages[messages["partner"] >= 0]
    other = messages.loc[paired["partner"]].reset_index()
    for name in ("communicator", "source", "destination", "tag", "number", "bytes"):
        assert paired[name].tolist() == other[name].tolist(), name
    assert paired["received"].tolist() == [not value for value in other["received"]]
    assert messages["sure"].all()
    large = messages[(messages["bytes"] == 200_000) & messages["received"]]
    assert len(large) > 50 and (large["partner"] >= 0).mean() > 0.9


def test_times_of_several_nodes_are_on_one_clock(tmp_path: Path) -> None:
    nodes = [0, 0, 0, 1, 1, 1]
    options: dict[str, Any] = {"nodes": nodes, "offsets": (0, 7 * MS), "drifts": (0.0, 0.0)}
    near, far = make_mixture(), make_mixture(**options)
    one = mpiprof.open(near.write(tmp_path / "near"))
    two = mpiprof.open(far.write(tmp_path / "far"))
    assert two.node_count == 2
    for name in ("enter_ns", "exit_ns"):
        difference = two.message_calls[name] - one.message_calls[name]
        assert np.abs(difference).max() <= two.clock_error_ns
    assert two.messages["partner"].tolist() == one.messages["partner"].tolist()


def read_records(folder: Path, rank: int) -> list[Any]:
    """Return the records of calls on messages of a rank, chunk by chunk."""
    trace = mpiprof.open(folder)
    chunks = trace.message_chunks(rank)[0]
    return [records[records["kind"] > 0] for records in (chunk.read() for chunk in chunks)]


def test_intervals_between_calls(tmp_path: Path) -> None:
    program = Program(2, SIMPLE, START, intervals=True)
    program.message(0, 1)
    program.work(np.array([300_000, 100_000]))
    program.collective("barrier")
    folder = program.write(tmp_path / "t", finalize=False)
    (records,) = read_records(folder, 0)
    intervals = records[records["kind"] == INTERVAL]
    enter = START + CALL + 300_000
    assert intervals[["enter_ns", "exit_ns", "sequence", "shape"]].tolist() == [
        (START + CALL, enter, 0, 1)
    ]
    assert not (read_records(folder, 1)[0]["kind"] == INTERVAL).any()
    first = Program(1, intervals=True)
    first.collective("barrier", own_ns=500_000)
    (records,) = read_records(first.write(tmp_path / "f", finalize=False), 0)
    assert records["sequence"].tolist() == [NO_SHAPE]


@pytest.mark.heavy
def test_a_call_and_its_messages_are_in_one_chunk(tmp_path: Path) -> None:
    program = Program(3)
    ring, work = make_ring(3), np.array([0, 0, 90_000])
    for step in range(900):
        program.halo(ring, work, sites=[f"halo.py:{step % 120}:main"] * 3)
    folder = program.write(tmp_path / "t")
    chunks = read_records(folder, 0)
    assert len(chunks) > 1
    assert all(records["kind"][-1] == MESSAGE_CALL for records in chunks)
    trace = mpiprof.open(folder)
    calls = trace.message_calls["operation"][trace.message_calls["rank"] == 0]
    assert calls.value_counts()[["waitall", "irecv", "isend"]].tolist() == [900, 1800, 1800]
    # 120 call sites of Irecv and Isend to two neighbours, and of Waitall; a chunk has 511 sums.
    assert (trace.message_sums["rank"] == 0).sum() == 120 * 5


def test_messages_of_a_slow_link_take_longer() -> None:
    network = Network(LATENCY, 1.0, 1_000, CALL, {(1, 2): MS})
    program = Program(4, network, START)
    program.message([0, 1], [3, 2], bytes_=8)
    ends = {1: START + CALL, 2: START + MS + LATENCY + 8 + CALL, 3: START + LATENCY + 8 + CALL}
    assert {rank: program.now_ns[rank] for rank in ends} == ends
    assert select(program.make_truth(), "recv")["wait_ns"] == [0, 0]  # not for the sender
    for size in (8, 50_000):
        program = Program(4, network, START)
        program.halo(make_ring(4), bytes_=size)
        assert np.flatnonzero(program.now_ns > START + MS).tolist() == [2]


def test_counters_of_intervals_are_read_back(tmp_path: Path) -> None:
    """No chunk ends between an interval and its counters."""
    steps = 1_000
    program = Program(2, counters=True, intervals=True)
    program.synthetic.processors = {0: [5], 1: [5]}
    for _ in range(steps):
        program.work(MS)
        program.lose(off_ns=np.array([0, 3 * MS]), queue_ns=np.array([2 * MS, 0]))
        program.sendrecv([1, 0], [1, 0])
    trace = mpiprof.open(program.write(tmp_path / "t"))
    intervals = trace.intervals
    for rank, queue_ns, off_ns in ((0, 2 * MS, 0), (1, 0, 3 * MS)):
        rows = intervals[intervals["rank"] == rank]
        assert len(rows) == steps and set(rows["first_processor"]) == {5}
        assert set(rows["processor_ns"]) == {MS} and set(rows["queue_ns"]) == {queue_ns}
        assert set(rows["end_ns"] - rows["begin_ns"]) == {MS + queue_ns + off_ns}


def test_a_poll_finds_a_message_after_its_pause(tmp_path: Path) -> None:
    program = Program(2, SIMPLE, START)
    program.work(np.array([0, 17 * MS]))
    program.poll(1, 0, pause_ns=10 * MS)
    assert program.now_ns.tolist() == [START + 20 * MS + 2 * CALL, START + 17 * MS + CALL]
    program.poll(1, 0, pause_ns=MS)  # the message arrives before the first call
    trace = mpiprof.open(program.write(tmp_path / "t"))
    calls = trace.message_calls[trace.message_calls["operation"] == "iprobe"]
    assert calls["polls"].tolist() == [2, 0]
    assert calls["exit_ns"].iloc[0] - calls["enter_ns"].iloc[0] == 20 * MS + CALL
    assert trace.message_waits["wait_ns"].tolist() == [17 * MS]
    assert find_polling_delays(trace)["delay_ns"].tolist() == [3 * MS]


def test_the_two_broadcasts_of_an_object_have_sites_of_their_own(tmp_path: Path) -> None:
    program = Program(2)
    for datatype in ("MPI_COUNT", "MPI_BYTE"):
        program.collective("bcast", datatype=datatype)
    events = mpiprof.open(program.write(tmp_path / "t", finalize=False)).events
    sites = events.loc[events["rank"] == 0, "site"].tolist()
    assert [site.partition(", ")[2] for site in sites] == [
        "sizes of comm.bcast",
        "data of comm.bcast",
    ]
