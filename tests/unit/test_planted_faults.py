"""Regression tests for wrong statements about slow programs with known faults."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, messages, noise, one_site
from support.synthetic import Synthetic

import mpiprof
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion, json, sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

pytestmark = pytest.mark.usefixtures("arrival_findings")


def pairs(folder: Path, late: Float) -> Trace:
    """Return a trace of one call site on communicators of two ranks each: instances x ranks, ms."""
    ranks = late.shape[1]
    synthetic, random, now = Synthetic(ranks), np.random.default_rng(2), 10 * MS
    for first in range(0, ranks, 2):
        synthetic.add_communicator(f"pair{first}", [first, first + 1])
    for row in late:
        came = now + np.rint(row * MS).astype(np.int64) + random.integers(0, 20_000, ranks)
        for first in range(0, ranks, 2):
            mine = came[first : first + 2]
            left = np.full(2, mine.max() + 10_000)
            synthetic.add_collective("allreduce", mine, left, f"pair{first}", site="md.py:6:pair")
        now = int(came.max()) + MS
    synthetic.ended_ns = now + MS
    return mpiprof.open(synthetic.write(folder / "t"))


@pytest.mark.parametrize(
    ("lateness", "named"),
    [((0, 6, 3, 3), (1,)), ((0, 6, 3, 3, 2, 2), (1,)), ((0, 6, 0, 6), (1, 3)), ((0, 6), (1,))],
)
def test_lateness_of_a_rank_is_relative_to_its_communicator(
    tmp_path: Path, lateness: tuple[float, ...], named: tuple[int, ...]
) -> None:
    """Ranks in other pairs arrive at any time, and must not reduce the lateness."""
    trace = pairs(tmp_path, np.tile(np.array(lateness, np.float64), (100, 1)))
    (one,) = trace.findings()
    assert (one.cause, tuple(sorted(one.ranks))) == ("rank", named)
    assert one.evidence["late_ns"] == pytest.approx(6 * MS, rel=0.01)
    assert one.cost_ns == pytest.approx(len(named) * 100 * 6 * MS, rel=0.02)
    assert " 6.0" in sentences.problem_sentence(trace, one)


def accidents(folder: Path, late: dict[int, tuple[int, float]]) -> Trace:
    """Return a trace of 200 quiet instances, some of them with a rank that is late by some ms."""
    spread = noise(200, 4, 0.1)
    for instance, (rank, by) in late.items():
        spread[instance, rank] = np.delete(spread[instance], rank).min() + by
    return one_site(folder, Synthetic(4), spread)


def test_a_single_large_delay_is_distinguished_from_small_delays(tmp_path: Path) -> None:
    """Other instances have more than ten times the usual wait, and nearly nothing of the total."""
    late = {0: (3, 1000.0), 40: (0, 8.0), 90: (1, 7.0), 150: (2, 9.0)}
    trace = accidents(tmp_path, late)
    (one,) = trace.findings()
    assert (one.cause, one.ranks, one.first_instance) == ("outlier", (3,), 0)
    assert one.evidence["late_ns"] == pytest.approx(1000 * MS, rel=1e-6)
    printed = sentences.finding_text(trace, one)
    assert printed.startswith(
        "In one instance of allreduce at md.py:93 exchange, number 0, rank 3 "
    )
    assert "rank 3 came 1.00 s late" in printed
    assert "The other instances wait less than a tenth of that." in printed


def test_two_accidents_are_two_findings(tmp_path: Path) -> None:
    trace = accidents(tmp_path, {50: (1, 300.0), 120: (2, 100.0), 53: (3, 4.0), 154: (3, 4.0)})
    findings = [one for one in trace.findings() if one.cause == "outlier"]
    assert [(one.ranks, one.first_instance) for one in findings] == [((1,), 50), ((2,), 120)]
    assert [one.evidence["late_ns"] for one in findings] == pytest.approx([300 * MS, 100 * MS])
    assert "All but 1 of the other instances wait" in sentences.finding_text(trace, findings[0])


def test_many_delays_are_reported_with_the_worst(tmp_path: Path) -> None:
    """No rank has a large share, so they are reported together, without a common time."""
    trace = accidents(tmp_path, {20: (0, 90.0), 70: (1, 60.0), 110: (2, 70.0), 160: (3, 80.0)})
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("outlier", (0, 3, 2, 1))
    printed = sentences.finding_text(trace, one)
    assert (
        "In 4 of the 200 instances of " in printed
        and "ranks 0-3 came up to 90.0 ms late" in printed
    )


def test_a_usual_value_is_not_reported_as_the_maximum(tmp_path: Path) -> None:
    """In every 5th instance no specific rank is late; one of them has by far the most wait."""
    spread = noise(200, 4, 0.05)
    spread[4::5] = noise(40, 4, 1.0, seed=3) - 5
    spread[44, 1] += 10.0
    trace = one_site(tmp_path, Synthetic(4), spread)
    printed = sentences.problem_sentence(trace, trace.findings()[0])
    assert printed.startswith("In every 5th instance (4, 9, 14, ...) of ")
    assert "the ranks usually come " in printed and "up to" not in printed


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


def test_computing_ranks_are_not_reported_as_sending_messages(tmp_path: Path) -> None:
    trace = waiting_for_a_message(tmp_path)
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("rank", (1, 0))
    printed = sentences.finding_text(trace, one)
    assert printed.startswith("Ranks 0-1 come up to 6.0")
    assert "step, rank 0 for what it does before and rank 1 for its messages: " in printed
    assert "Look at what rank 0 does between two calls of allreduce at md.py:10 step" in printed
    assert printed.endswith("Rank 1 may only wait for a message.")
    assert sentences.finding_title(trace, one).startswith("Rebalance rank 0 before ")
    assert conclusion.verdict_lines(trace, make_verdict(trace, [one]))[2].endswith(
        "it is the load."
    )


def own_loads(folder: Path, late: tuple[float, ...], count: int = 150) -> Trace:
    """Return a trace of ranks with different constant lateness, in ms."""
    return one_site(folder, Synthetic(len(late)), noise(count, len(late), 0.02) + np.array(late))


def test_what_pays_only_after_another_repair_stands_behind_it(tmp_path: Path) -> None:
    """With rank 1 in time, all ranks, including rank 1, wait for rank 2 as before."""
    trace = own_loads(tmp_path, (0.0, 4.0, 8.0, 0.0))
    first, second = trace.findings()
    assert (first.ranks, second.ranks) == ((2,), (1,))
    # 8 + 8 + 4 ms of wait per instance; without rank 2's lateness 4 + 4 + 4, then none.
    assert first.cost_ns == pytest.approx(150 * 8 * MS, rel=0.02)
    assert second.cost_ns == pytest.approx(150 * 12 * MS, rel=0.03)
    assert sentences.problem_sentence(trace, first).endswith("of all ranks' time.")
    assert sentences.problem_sentence(trace, second).endswith(
        ", once rank 2 comes with the others."
    )
    assert json.finding_as_data(trace, second)["evidence"]["once"] == {
        "cause": "rank",
        "ranks": [2],
    }
    lines = conclusion.verdict_lines(trace, make_verdict(trace, [first, second]))
    assert lines[1].startswith("40 % of it: rank 2 takes ")


def test_what_pays_by_itself_needs_no_other_repair(tmp_path: Path) -> None:
    late = noise(300, 8, 0.1)
    late[:, 3] += 3
    late[4::10, 6] += 8
    for one in one_site(tmp_path, Synthetic(8), late).findings():
        assert "once" not in one.evidence


def test_time_of_all_ranks_is_not_attributed_to_one_rank(tmp_path: Path) -> None:
    """Rank 1 in time removes 13 of 21 ms of wait; all ranks in time remove all."""
    trace = own_loads(tmp_path, (0.0, 9.0, 4.0, 2.0))
    one = trace.findings()[0]
    assert one.cost_ns == pytest.approx(150 * 21 * MS, rel=0.02)
    printed = sentences.finding_text(trace, one)
    assert printed.startswith(
        "Each rank comes at its own time to allreduce at md.py:93 exchange, rank 1 7.0"
    )
    assert " ms after the median of the others: " in printed
    assert (
        sentences.finding_title(trace, one)
        == "Rebalance the ranks before allreduce at md.py:93 exchange"
    )
    assert printed.endswith(" All that waiting ends only where all ranks come together.")
    (count,) = re.findall(r"It is so in (\d+) of 150 instances", printed)
    assert int(count) == 150


def test_occasional_time_of_all_ranks_is_not_attributed_to_one_rank(tmp_path: Path) -> None:
    late = noise(200, 4, 0.02)
    late[4::5] += np.array([0.0, 9.0, 4.0, 2.0])
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert (one.cause, one.period) == ("periodic", 5)
    printed = sentences.problem_sentence(trace, one)
    # 7 ms behind the median of the others: 13 of 21 ms.
    if one.ranks:
        assert one.cost_ns == pytest.approx(40 * 13 * MS, rel=0.05)
    else:
        assert "the ranks usually come 9.0" in printed
        assert one.cost_ns == pytest.approx(40 * 21 * MS, rel=0.05)


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
def test_who_waits_for_messages_has_no_load(cause: str, tmp_path: Path) -> None:
    late = np.zeros((200, 4))
    late[:: 2 if cause == "periodic" else 1, 2] = 5
    if cause == "gradient":
        late[:] = [0, 3, 6, 9]
    trace = in_messages(tmp_path, late)
    one = trace.findings()[0]
    assert one.cause == cause
    printed = sentences.finding_text(trace, one)
    assert "in point-to-point messages" in printed and "only then" not in printed
    assert "who sends late to" in printed or "may wait for a message of the one before" in printed
    assert (
        sentences.finding_title(trace, one)
        == "Look at the messages before allreduce at md.py:7 step"
    )
    assert conclusion.verdict_lines(trace, make_verdict(trace, [one]))[2].endswith(
        "No algorithm would help: it is the messages."
    )


def test_phases_in_the_last_events_of_a_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of 200 instances in the trace is not number 199 if 4000 earlier ones are lost."""
    monkeypatch.setattr("mpiprof.diagnosis.sampling.first_recorded", lambda *_: 4000)
    late = noise(200, 4, 0.02)
    late[:140, 1] += 2
    late[140:, 2] += 6
    trace = one_site(tmp_path, Synthetic(4), late)
    first, second = (sentences.problem_sentence(trace, one) for one in trace.findings())
    assert first.startswith("Rank 2 ") and "exchange from instance 4140 on: " in first
    assert second.startswith("Rank 1 ") and "exchange up to instance 4139: " in second


def test_in_how_many_instances_lateness_moves_is_counted(tmp_path: Path) -> None:
    """Lateness moves from rank to rank, and in every fourth instance no rank is late."""
    late, random = noise(400, 4, 0.02), np.random.default_rng(4)
    due = np.arange(400)
    here = random.random(400) < 0.75
    late[due[here], due[here] % 4] += 3
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert one.cause == "moving"
    assert one.evidence["late_instances"] == here.sum()
    printed = sentences.finding_text(trace, one)
    assert f"It is so in {here.sum()} of 400 instances." in printed


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
    assert shows < 40 and one.evidence["late_instances"] == shows


def test_who_comes_early_alone_makes_nobody_late(tmp_path: Path) -> None:
    """Rank 0 arrives 20 ms before three other ranks, of which the last is 1 ms behind."""
    trace = one_site(tmp_path, Synthetic(4), np.array([[0.0, 20.0, 20.0, 21.0]]))
    (one,) = trace.findings()
    assert not one.ranks
    printed = sentences.finding_text(trace, one)
    assert printed.startswith(
        "Rank 0 comes up to 21.0 ms before the others to the only instance of "
    )
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
    printed = [sentences.finding_text(trace, one) for one in trace.findings()]
    (periodic,) = (
        text for text in printed if text.startswith("In every 2nd instance (0, 2, 4, ...)")
    )
    assert " of bcast at md.py:8 step, rank 2 takes 6.0" in periodic
    assert " longer than the others before gather at md.py:7 step, and others wait" in periodic
    assert periodic.endswith(
        "Look at what rank 2 does from bcast at md.py:8 step to gather at md.py:7 step."
    )


def test_work_is_distinguished_by_instance(tmp_path: Path) -> None:
    late = noise(200, 4, 0.05)
    late[4::5, 2] += 5
    trace = one_site(tmp_path, Synthetic(4), late)
    printed = sentences.finding_text(trace, trace.findings()[0])
    assert printed.endswith(
        "Look at what rank 2 does before these instances and not before others, such as output or "
        "a check."
    )


def test_a_single_walk_does_not_determine_the_origin_of_lateness(tmp_path: Path) -> None:
    """Rank 1 is last in the first instance only, in which rank 2 is not yet late."""
    late = noise(150, 4, 0.02)
    late[:, 1] += 4
    late[1:, 2] += 8
    trace = one_site(tmp_path, Synthetic(4), late)
    _, second = trace.findings()
    assert second.ranks == (1,)
    printed = sentences.finding_text(trace, second)
    assert "the start of the run" not in printed
    assert printed.endswith("Look at what rank 1 does before this call.")


def test_an_early_rank_is_reported_if_three_ranks_differ_little(tmp_path: Path) -> None:
    trace = one_site(tmp_path, Synthetic(4), np.array([[0.0, 605.0, 611.0, 612.0]]))
    (one,) = trace.findings()
    assert not one.ranks and one.evidence["ahead"] == (0,)
    assert sentences.finding_text(trace, one).startswith(
        "Rank 0 comes up to 612 ms before the others "
    )


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
    first, second = trace.findings()
    assert (first.cause, first.ranks) == ("rank", (1,))
    assert (second.cause, second.ranks) == ("early", (3,))
    printed = sentences.finding_text(trace, second)
    assert " and waits, as the call before kept the others longer: " in printed
    assert "less to do" not in printed and "more of the work" not in printed
    assert sentences.finding_title(trace, second).startswith(
        "Look at whom the others wait for before "
    )
