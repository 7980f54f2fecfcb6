"""Replay with other work: leads computed by hand, and simulated programs whose repair is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program

import mpiprof
from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.dependences import DependenceCollector, Dependences
from mpiprof.account.replay import Replay
from mpiprof.trace.types import Int

US, MS = 1_000, 1_000_000


def ints(*values: int) -> Int:
    return np.array(values, np.int64)


def join(*dependences: tuple[dict[int, int], dict[int, int]]) -> Dependences:
    """Return dependences, each of the arrivals of its sources and the entries of its ranks."""
    collector = DependenceCollector()
    for sources, entries in dependences:
        times = (np.array([*of.values()])[:, None] for of in (sources, entries))
        collector.add_instances(ints(*sources), ints(*entries), *times)
    return collector.join()


def leads(dependences: Dependences, *removed: tuple[int, int, float]) -> list[float]:
    """Return the leads of 3 ranks if work is removed: rank, time and time removed."""
    rank, time, ns = (np.array(column) for column in zip(*removed, strict=True))
    values: list[float] = Replay(dependences, 3).compute_leads(rank, time, ns).tolist()
    return values


def test_a_rank_that_waited_continues_earlier_with_the_awaited_rank() -> None:
    chain = join(({0: 9}, {1: 1}), ({1: 10}, {2: 2}))
    assert leads(chain, (0, 9, 5)) == [5, 5, 5]
    assert leads(chain, (0, 9, 9)) == [9, 8, 8]
    assert leads(chain, (1, 1, 1)) == [0, 0, 0]
    assert leads(chain, (0, 9, -3)) == [-3, -3, -3]


def test_a_lead_ends_where_the_rank_waits_for_another_one() -> None:
    # Rank 1 waits for rank 0 until 9, and for rank 2, which stays as late, until 30.
    waits = join(({0: 9}, {1: 1}), ({2: 30}, {1: 12}))
    assert leads(waits, (0, 9, 6)) == [6, 0, 0]


def test_a_lead_is_limited_by_slack() -> None:
    """Rank 0 needs a message that was sent 2 before; it waits for it if it comes earlier."""
    slack = join(({1: 7}, {0: 9}), ({0: 11}, {2: 1}))
    assert leads(slack, (0, 9, 1)) == [1, 0, 1]
    assert leads(slack, (0, 9, 5)) == [2, 0, 2]
    assert leads(slack, (0, 9, 5), (1, 7, 4)) == [5, 4, 5]


def test_work_between_entry_and_completion_hides_a_part_of_a_delay() -> None:
    """Rank 0 starts a collective at 8, and ranks complete it after other work at 9 and 6."""
    overlap = join(({0: 8, 1: 2}, {0: 9, 1: 6}))
    assert leads(overlap, (0, 8, 5)) == [5, 2, 0]


def test_all_members_leave_a_meeting_after_the_last_one() -> None:
    arrivals = {0: 10, 1: 7, 2: 4}
    meeting = join((arrivals, arrivals))
    assert leads(meeting, (0, 10, 6)) == [3, 3, 3]
    assert leads(meeting, (0, 10, 6), (1, 7, 6)) == [6, 6, 6]
    assert leads(meeting, (1, 7, 6), (2, 4, 4)) == [0, 0, 0]


def test_work_counts_as_removed_before_the_first_wait_for_it() -> None:
    """Between its recorded calls, rank 0 sends a message, for which rank 1 waits until 9."""
    replay = Replay(join(({0: 9}, {1: 1})), 3)
    work = WorkIntervals(ints(0, 1), ints(0, 10), ints(20, 20), ints(0, 0))
    assert replay.find_ends(work).tolist() == [9, 20]


def replay_by_loop(
    events: Dependences, ranks: int, removed: list[tuple[int, int, float]]
) -> list[float]:
    """Return the leads by a loop over events and removals: the reference."""
    leads, ends = [0.0] * ranks, [np.inf] * events.count
    columns = events.time_ns, events.rank, events.dependence, events.gap_ns
    steps = [(time, 1, *row) for time, *row in zip(*(of.tolist() for of in columns), strict=True)]
    steps += [(time, 0, rank, 0, ns) for rank, time, ns in removed]
    for _, is_event, rank, dependence, ns in sorted(steps, key=lambda step: step[:2]):
        if not is_event:
            leads[rank] += ns
        elif dependence >= 0:
            ends[dependence] = min(ends[dependence], leads[rank] + ns)
        else:
            end = ends[-1 - dependence] + max(-ns, 0)
            leads[rank] = min(leads[rank] + max(ns, 0), end)
    return leads


@pytest.mark.parametrize("seed", range(10))
def test_the_replay_equals_a_loop_over_the_events(seed: int) -> None:
    random, ranks, collector = np.random.default_rng(seed), 5, DependenceCollector()
    for step in range(40):
        chosen = random.permutation(ranks)
        sources, waiting = chosen[: random.integers(1, 5)], chosen[: random.integers(1, 6)]
        times = (step * 100 + random.integers(0, 90, (len(of), 3)) for of in (sources, waiting))
        collector.add_instances(sources, waiting, *times)
    events = collector.join()
    rank, time = random.integers(0, ranks, 200), random.integers(0, 4200, 200)
    removed = random.integers(-20, 50, 200).astype(np.float64)
    rows = list(zip(rank.tolist(), time.tolist(), removed.tolist(), strict=True))
    found = Replay(events, ranks).compute_leads(rank, time, removed)
    assert found.tolist() == replay_by_loop(events, ranks, rows)


Build = Callable[[bool], Program]


def build_halo(faulty: bool) -> Program:
    """Two ranks are late by different times; one is repaired."""
    program = Program(8, intervals=True)
    for _ in range(30):
        work = MS * (1 + 5 * (np.arange(8) == 6) + 8 * faulty * (np.arange(8) == 3))
        program.halo(make_ring(8), own_ns=work)
        program.halo(make_ring(8), own_ns=MS)
    return program


def build_overlap(faulty: bool) -> Program:
    """Work between the posts and Waitall hides a part of the delay."""
    program = Program(6, intervals=True)
    for _ in range(30):
        work = MS + 6 * MS * faulty * (np.arange(6) == 2)
        program.halo(make_ring(6), own_ns=work, overlap_ns=3 * MS)
    return program


def build_large_messages(faulty: bool) -> Program:
    """Senders wait for a late receiver."""
    program = Program(4, intervals=True)
    for _ in range(30):
        program.work(2 * MS + 5 * MS * faulty * (np.arange(4) == 1))
        program.message([0, 2], [1, 3], bytes_=1 << 20)
        program.halo(make_ring(4))
    return program


def build_reduction(faulty: bool) -> Program:
    """The root waits for the last of ranks with different work."""
    program = Program(4, intervals=True)
    for _ in range(30):
        work = MS * (1 + np.arange(4) % 3) + 7 * MS * faulty * (np.arange(4) == 3)
        program.collective("reduce", own_ns=work, root=0)
        program.collective("bcast", own_ns=MS * (np.arange(4) == 0), root=0)
    return program


def build_nonblocking(faulty: bool) -> Program:
    """A collective is started late, and completed after other work."""
    program = Program(4, intervals=True)
    for _ in range(30):
        program.work(2 * MS + 6 * MS * faulty * (np.arange(4) == 1))
        started = program.start("iallreduce")
        program.wait(started, own_ns=np.array([4, 1, 4, 3]) * MS)
    return program


def build_pipeline(faulty: bool) -> Program:
    """The stage before the late one is the second slowest."""
    program = Program(5, intervals=True)
    for _ in range(40):
        program.pipeline(MS * (1 + (np.arange(5) == 1) + 4 * faulty * (np.arange(5) == 2)))
    return program


def build_short_receive(faulty: bool) -> Program:
    """The late rank needs a message that comes in time only because it is late."""
    program = Program(4, intervals=True)
    for _ in range(30):
        program.work(np.array([3 + 7 * faulty, 7, 3, 3]) * MS)
        program.message([1, 3], [0, 2])
        program.collective("allreduce", own_ns=np.array([4, 1, 1, 1]) * MS)
    return program


def build_communicators(faulty: bool) -> Program:
    """Rows and columns of a grid meet in turn, and the ranks have different work."""
    program = Program(4, intervals=True)
    members = {"row 0": [0, 1], "row 1": [2, 3], "column 0": [0, 2], "column 1": [1, 3]}
    for name, ranks in members.items():
        program.synthetic.add_communicator(name, ranks)
    for _ in range(30):
        program.work(MS * (3 + np.arange(4) % 2) + 6 * MS * faulty * (np.arange(4) == 1))
        for name in members:
            program.collective("allreduce", own_ns=MS, communicator=name)
    return program


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("build", "late", "error"),
    [
        (build_halo, 3, 0.002),
        (build_overlap, 2, 0.002),
        (build_large_messages, 1, 0.002),
        (build_reduction, 3, 0.002),
        (build_nonblocking, 1, 0.002),
        (build_pipeline, 2, 0.002),
        (build_short_receive, 0, 0.002),
        (build_communicators, 1, 0.002),
    ],
)
def test_the_replay_predicts_the_repaired_program(
    build: Build, late: int, error: float, tmp_path: Path
) -> None:
    faulty, repaired = (
        mpiprof.open(build(switch).write(tmp_path / str(switch))) for switch in (True, False)
    )
    intervals = faulty.derive("delays_found").intervals
    length = intervals.end_ns - intervals.begin_ns
    usual = repaired.derive("delays_found").intervals
    of_late = usual.end_ns[usual.rank == late] - usual.begin_ns[usual.rank == late]
    chosen = intervals.rank == late
    assert np.count_nonzero(chosen) == len(of_late)
    removed = np.zeros(len(length))
    removed[chosen] = length[chosen] - of_late
    replay = faulty.derive("replay")
    ends = replay.find_ends(intervals)
    saved, _ = replay.find_saved_times(faulty, intervals.rank, ends, removed)
    assert faulty.run_ns - saved == pytest.approx(repaired.run_ns, rel=error)
