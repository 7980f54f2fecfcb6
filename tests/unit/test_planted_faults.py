"""Regression tests for wrong statements about slow programs with known faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, messages, noise, one_site
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Float


def pairs(folder: Path, work_ms: Float) -> Trace:
    """Return a trace of one call site on communicators of two ranks each: instances x ranks."""
    ranks = work_ms.shape[1]
    synthetic, random, now = Synthetic(ranks), np.random.default_rng(2), np.full(ranks, 10 * MS)
    for first in range(0, ranks, 2):
        synthetic.add_communicator(f"pair{first}", [first, first + 1])
    for row in work_ms:
        came = now + MS + np.rint(row * MS).astype(np.int64) + random.integers(0, 20_000, ranks)
        for first in range(0, ranks, 2):
            mine = came[first : first + 2]
            now[first : first + 2] = mine.max() + 10_000
            left = now[first : first + 2]
            synthetic.add_collective("allreduce", mine, left, f"pair{first}", site="md.py:6:pair")
    synthetic.ended_ns = int(now.max()) + MS
    return mpiprof.open(synthetic.write(folder / "t"))


@pytest.mark.parametrize(
    ("work_ms", "named"),
    [((0, 6, 0, 0), (1,)), ((0, 6, 0, 0, 0, 0), (1,)), ((0, 6, 0, 6), (1, 3)), ((0, 6), (1,))],
)
def test_the_work_of_a_rank_costs_its_own_communicator(
    tmp_path: Path, work_ms: tuple[float, ...], named: tuple[int, ...]
) -> None:
    """Ranks in other pairs never meet the late rank, and must not reduce its delay."""
    trace = pairs(tmp_path, np.tile(np.array(work_ms, np.float64), (100, 1)))
    one = trace.findings()[0]
    assert (one.cause, tuple(sorted(one.ranks))) == ("rank", named)
    assert one.habit.late_ns == pytest.approx(6 * MS, rel=0.01)
    assert one.cost_ns == pytest.approx(len(named) * 100 * 6 * MS, rel=0.03)
    assert " 6.0" in finding_sentences.problem_sentence(trace, one)


def accidents(folder: Path, late: dict[int, tuple[int, float]]) -> Trace:
    """Return a trace of 200 quiet steps, some of them with a rank that is late by some ms."""
    spread = noise(200, 4, 0.1)
    for step, (rank, by) in late.items():
        spread[step, rank] = np.delete(spread[step], rank).min() + by
    longest = np.rint(spread.max(1) * MS).astype(np.int64) + MS
    start = 10 * MS + np.cumsum(longest) - longest
    came = start[:, None] + np.rint(spread * MS).astype(np.int64)
    synthetic = Synthetic(4)
    left = np.repeat(came.max(1, keepdims=True) + 50_000, 4, 1)
    synthetic.add_collective("allreduce", came, left, site="md.py:93:exchange")
    synthetic.ended_ns = int(came.max()) + MS
    return mpiprof.open(synthetic.write(folder / "trace"))


def test_a_single_large_delay_is_distinguished_from_small_delays(tmp_path: Path) -> None:
    """Other steps have more than ten times the usual wait, and nearly nothing of the total."""
    late = {49: (3, 1000.0), 40: (0, 8.0), 90: (1, 7.0), 150: (2, 9.0)}
    trace = accidents(tmp_path, late)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("long_work", (3,))
    assert one.saved_ns == pytest.approx(1000 * MS, rel=2e-2)
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith("Once, at ") and "rank 3 works 1.0" in printed


def test_two_accidents_are_two_findings(tmp_path: Path) -> None:
    trace = accidents(tmp_path, {64: (1, 300.0), 120: (2, 100.0), 67: (3, 4.0), 154: (3, 4.0)})
    findings = [one for one in trace.findings() if one.cause == "long_work"]
    assert [one.ranks for one in findings] == [(1,), (2,)]
    late = [one.saved_ns for one in findings]
    assert late == pytest.approx([300 * MS, 100 * MS], rel=0.02)


def test_many_delays_are_reported_with_the_worst(tmp_path: Path) -> None:
    """No rank has a large share, so they are reported together, as those of no rank."""
    trace = accidents(tmp_path, {20: (0, 90.0), 70: (1, 60.0), 110: (2, 70.0), 160: (3, 80.0)})
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("long_work", ())
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith("4 times, at ") and ", work took up to " in printed
    assert ", each time on one of ranks 0-3: " in printed


def test_a_usual_value_is_not_reported_as_the_maximum(tmp_path: Path) -> None:
    """In every 5th step no specific rank is late; one of them has by far the most wait."""
    spread = noise(200, 4, 0.05)
    spread[4::5] = noise(40, 4, 1.0, seed=3) - 5
    spread[44, 1] += 10.0
    trace = one_site(tmp_path, Synthetic(4), spread)
    printed = finding_sentences.problem_sentence(trace, trace.findings()[0])
    assert printed.startswith("The work of the ranks differs by ") and "up to" not in printed
    assert ", in every 5th step from step 4 on: " in printed


def waiting_for_a_message(folder: Path) -> Trace:
    """Return a trace in which rank 0 works 5 ms longer.

    Rank 1 waits for its message, then works 1 ms.
    """
    synthetic, random = Synthetic(4), np.random.default_rng(7)
    for i in range(100):
        came = 20 * MS * (i + 1) + random.integers(0, MS // 50, 4) + np.array([5, 6, 0, 0]) * MS
        messages(synthetic, 1, 5 * MS)
        synthetic.add_collective(
            "allreduce", came, np.full(4, came.max() + 50_000), site="md.py:10:step"
        )
    synthetic.ended_ns = 20 * MS * 102
    return mpiprof.open(synthetic.write(folder / "t"))


def test_time_in_messages_is_no_work(tmp_path: Path) -> None:
    """Rank 1 comes last, but works 1 ms only."""
    trace = waiting_for_a_message(tmp_path)
    one = trace.findings()[0]
    assert (one.cause, one.ranks[0]) == ("rank", 0)
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith("Rank 0 works 5.00 ms, rank 1 works 1.00 ms longer ")
    assert one.saved_ns <= 100 * 5 * MS * 1.01
    lines = conclusion.verdict_lines(trace, make_verdict(trace, [one]))
    assert lines[2].endswith("it is the load.")


def own_loads(folder: Path, late: tuple[float, ...], count: int = 150) -> Trace:
    """Return a trace of ranks with different constant lateness, in ms."""
    return one_site(folder, Synthetic(len(late)), noise(count, len(late), 0.02) + np.array(late))


def test_ranks_that_hide_each_other_are_one_finding(tmp_path: Path) -> None:
    """With rank 2 in time, all ranks wait for rank 1, so both delays must go."""
    trace = own_loads(tmp_path, (0.0, 4.0, 8.0, 0.0))
    (one,) = trace.findings()
    assert one.ranks == (2, 1)
    # 8 + 8 + 4 ms of wait per step, then none.
    assert one.cost_ns == pytest.approx(150 * 20 * MS, rel=0.02)
    assert one.saved_ns == pytest.approx(150 * 8 * MS, rel=0.02)
    text = finding_sentences.problem_sentence(trace, one)
    assert text.startswith("Rank 2 works 8.00 ms, rank 1 works 4.00 ms longer ")


def test_what_pays_by_itself_is_a_finding_of_its_own(tmp_path: Path) -> None:
    late = noise(300, 8, 0.1)
    late[:, 3] += 3
    late[4::10, 6] += 8
    findings = one_site(tmp_path, Synthetic(8), late).findings()
    assert [(one.cause, one.ranks) for one in findings if one.ranks] == [
        ("rank", (3,)),
        ("periodic", (6,)),
    ]


def test_time_of_all_ranks_is_not_attributed_to_one_rank(tmp_path: Path) -> None:
    """Rank 1 in time removes 13 of 21 ms of wait; all ranks in time remove all."""
    trace = own_loads(tmp_path, (0.0, 9.0, 4.0, 2.0))
    one = trace.findings()[0]
    assert one.cost_ns == pytest.approx(150 * 21 * MS, rel=0.02)
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith(
        "The work differs from rank to rank, and rank 1 works longest, 7.00 ms beyond the median "
    )
    assert "This holds in 150 of 150 steps." in printed


def test_occasional_time_of_all_ranks_is_not_attributed_to_one_rank(tmp_path: Path) -> None:
    late = noise(200, 4, 0.02)
    late[4::5] += np.array([0.0, 9.0, 4.0, 2.0])
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert (one.cause, one.period) == ("periodic", 5)
    printed = finding_sentences.problem_sentence(trace, one)
    # 7 ms behind the median of the others: 13 of 21 ms.
    assert one.ranks == (1,) and one.cost_ns == pytest.approx(40 * 13 * MS, rel=0.05)
    assert printed.startswith("Rank 1 works 7.00 ms longer ")
    assert all(other.ranks != (0,) for other in trace.findings())  # the earliest one


def in_messages(folder: Path, late: Float) -> Trace:
    """Return a trace with lateness (instances x ranks, ms) from waiting for messages."""
    synthetic, random = Synthetic(late.shape[1]), np.random.default_rng(8)
    for i, row in enumerate(np.rint(late * MS).astype(np.int64)):
        came = 20 * MS * (i + 1) + random.integers(0, MS // 50, len(row)) + row
        for rank in np.flatnonzero(row).tolist():
            messages(synthetic, rank, int(row[rank]))
        left = np.full(len(row), came.max() + 50_000)
        synthetic.add_collective("allreduce", came, left, site="md.py:7:step")
    synthetic.ended_ns = 20 * MS * (len(late) + 2)
    return mpiprof.open(synthetic.write(folder / "t"))


@pytest.mark.parametrize("cause", ["rank", "periodic", "gradient"])
def test_who_may_wait_for_messages_is_not_accused(cause: str, tmp_path: Path) -> None:
    """Only the sums of the time in messages are recorded."""
    late = np.zeros((200, 4))
    late[:: 2 if cause == "periodic" else 1, 2] = 5
    if cause == "gradient":
        late[:] = [0, 3, 6, 9]
    trace = in_messages(tmp_path, late)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("noise", ())
    lines = conclusion.verdict_lines(trace, make_verdict(trace, [one]))
    assert "of the waiting: single calls on messages are not recorded" in lines[1]
    assert lines[2] == "Record events, with --messages auto."


def test_in_how_many_instances_lateness_moves_is_counted(tmp_path: Path) -> None:
    """Lateness moves from rank to rank, and in every fourth instance no rank is late."""
    late, random = noise(400, 4, 0.02), np.random.default_rng(4)
    due = np.arange(400)
    here = random.random(400) < 0.75
    late[due[here], due[here] % 4] += 3
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert one.cause == "moving"
    assert one.habit.late_instances == here.sum()
    printed = finding_sentences.finding_text(trace, one)
    assert f"This holds in {here.sum()} of 400 steps." in printed


def test_in_how_many_instances_ranks_come_apart_is_counted(tmp_path: Path) -> None:
    """In every 5th instance no specific rank is late, and in some of them no rank at all."""
    spread = noise(200, 4, 0.05)
    spread[4::5] = noise(40, 4, 1.0, seed=3) - 5
    spread[[4, 24, 69, 94]] = 5
    trace = one_site(tmp_path, Synthetic(4), spread)
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("periodic", ())
    apart = np.ptp(spread[4::5], axis=1)
    shows = int((apart > np.median(apart) / 2).sum())
    assert shows < 40 and one.habit.late_instances == shows


@pytest.mark.parametrize("late_ms", [(0.0, 20.0, 20.0, 21.0), (0.0, 605.0, 611.0, 612.0)])
def test_who_comes_early_alone_makes_nobody_late(
    late_ms: tuple[float, ...], tmp_path: Path
) -> None:
    """Rank 0 arrives long before three other ranks, which differ little."""
    trace = one_site(tmp_path, Synthetic(4), np.array([late_ms]))
    (one,) = trace.findings()
    assert not one.ranks
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith("No single rank causes the waiting")
    assert printed.endswith(" Record another run to tell.")


def test_the_rank_that_delays_the_root_is_late_before_the_gather(tmp_path: Path) -> None:
    """Rank 2 delays the root of a gather, which then is late to the first of two broadcasts."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(4), np.full(4, 10 * MS)
    for _ in range(100):
        came = now + MS + random.integers(0, 20_000, 4)
        came[2] += 6 * MS
        left = came + 10_000
        left[0] = came[2] + 20_000
        synthetic.add_collective("gather", came, left, root=0, site="md.py:7:step")
        for _ in range(2):
            came = left + 5_000
            left = np.maximum(came, came[0] + 5_000) + 5_000
            synthetic.add_collective("bcast", came, left, root=0, site="md.py:8:step")
        now = left
    synthetic.ended_ns = int(now.max()) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("rank", (2,))
    printed = finding_sentences.problem_sentence(trace, one)
    assert printed.startswith("Rank 2 works 6.0")
    assert "between bcast at md.py:8 step and gather at md.py:7 step, in each " in printed
    assert all(other.ranks in ((2,), ()) for other in trace.findings())


def test_work_is_distinguished_by_step(tmp_path: Path) -> None:
    late = noise(200, 4, 0.05)
    late[4::5, 2] += 5
    trace = one_site(tmp_path, Synthetic(4), late)
    printed = finding_sentences.finding_text(trace, trace.findings()[0])
    assert ", in every 5th step from step 4 on: " in printed


def test_a_rank_behind_another_one_is_named_with_its_delay(tmp_path: Path) -> None:
    """Rank 1 is last in the first step only, in which rank 2 is not yet late."""
    late = noise(150, 4, 0.02)
    late[:, 1] += 4
    late[1:, 2] += 8
    trace = one_site(tmp_path, Synthetic(4), late)
    printed = finding_sentences.finding_text(trace, trace.findings()[0])
    assert printed.startswith("Rank 2 works 8.00 ms, rank 1 works 4.00 ms longer ")
    assert "the start of the run" not in printed


def test_who_is_early_may_have_as_much_to_do(tmp_path: Path) -> None:
    """In a ring rank 1 works 4 ms longer: 0 and 2 wait for rank 1, and rank 3 for 0 and 2."""
    synthetic, random, now = Synthetic(4), np.random.default_rng(4), np.full(4, 10 * MS)
    around = {r: ([(r - 1) % 4, (r + 1) % 4], [(r - 1) % 4, (r + 1) % 4]) for r in range(4)}
    synthetic.add_communicator("ring", [0, 1, 2, 3], topology=around)
    for _ in range(120):
        came = now + MS + random.integers(0, 20_000, 4)
        came[1] += 4 * MS
        now = np.maximum(came, np.maximum(np.roll(came, 1), np.roll(came, -1))) + 10_000
        synthetic.add_collective("neighbor_allgather", came, now, "ring", site="md.py:8:ring")
    synthetic.ended_ns = int(now.max()) + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (1,))
    printed = " ".join(finding_sentences.finding_text(trace, one) for one in trace.findings())
    assert "less" not in printed and "more of the work" not in printed
