"""The report of Kang et al.: known answers of its formulas, theorems and claims."""

from __future__ import annotations

import pytest
from support.paper_claims import judge_claim

from mpiprof.collectives.papers.harness.figures import SpaceTime
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import kang, kang_theorems
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCIBLE,
    REFUTED,
    PaperValues,
    Results,
    read_paper_values,
)
from mpiprof.collectives.papers.reports.machines import PER_BYTE
from mpiprof.collectives.papers.reports.schedule_pictures import show_schedules, trace_schedule
from mpiprof.collectives.schedule import Problem


def results(**rows: list[Row]) -> Results:
    return Results({name.replace("_", " "): value for name, value in rows.items()}, PaperValues(()))


def test_transfer_time_of_two_equal_groups() -> None:
    """A block from the partner and 3 from the ring are 4 blocks, which is M."""
    problem = Problem(4, 100, remote_size=4, remote_bytes=100)
    assert kang_theorems.transfer_time("allgather", "kang", problem) == 400


def test_links_are_an_exchange_and_two_rings() -> None:
    """6+2: 6 links between groups, a ring of 6, and one link between the two of group B."""
    row = kang_theorems.count_links(True)[0]
    parts = ("between groups", "ring of A", "ring of B", "links", "of all pairs")
    assert [row[name] for name in parts] == [6, 6, 1, 13, 28]
    judged = results(links=[row])
    assert judge_claim("kang", "The exchange uses p links", judged).state == HOLDS
    assert judge_claim("kang", "It uses fewer than p + q", judged).state == REFUTED
    assert judge_claim("kang", "Their number is linear", judged).state == HOLDS


# ---- Theorem 3


@pytest.mark.parametrize(
    ("example", "bound", "port", "apart", "schedule"),
    [
        # The third message ends at 9; the ring of A has 2 steps of 2.
        (kang_theorems.SMALLEST, 12, 7, 13, 13),
        # Process 0 sends 20, and 3 shares of 8. In rounds: 8 (beside 5), 5, 5, 5 and three of 8.
        (kang_theorems.BUSY_PORT, 40, 44, 44, 47),
    ],
)
def test_counter_examples_exceed_the_bound(
    example: tuple[kang_theorems.Sizes, kang_theorems.Sizes],
    bound: int,
    port: int,
    apart: int,
    schedule: int,
) -> None:
    assert kang_theorems.compute_bound(*example) == bound
    assert kang_theorems.compute_port_time(*example) == port
    assert kang_theorems.simulate_apart(*example) == apart
    problem = kang_theorems.make_problem(*example)
    assert kang_theorems.transfer_time("allgatherv", "kang", problem) == schedule


@pytest.mark.heavy
def test_the_weaker_bound_holds_if_directions_do_not_wait_for_each_other() -> None:
    rows = kang_theorems.compute_cases(True)
    judged = results(**{"theorem 3": rows})
    assert kang_theorems.check_theorem_3(judged).state == REFUTED
    apart = [row for row in rows if row["direction"].endswith("apart, M + largest message")]
    assert apart and all(row["time"] <= row["bound"] for row in apart)


def test_one_direction_alone() -> None:
    """The schedule has no pairs of sends and receives then, and agrees with the paper's order."""
    for a in ((7, 5, 3, 9, 6), (100, 0, 0, 1, 30), (8, 8)):
        none = (0, 0, 0)
        problem = kang_theorems.make_problem(a, none)
        took = kang_theorems.transfer_time("allgatherv", "kang", problem)
        assert kang_theorems.simulate_apart(a, none) == took
        assert kang_theorems.compute_port_time(a, none) <= took


def test_receivers_serve_the_sender_that_continues_first() -> None:
    """Shares of 10: a1 ends in b0 and begins b1, a3 continues into b2."""
    begins = [0, 7, 12, 15, 24, 30]
    assert kang_theorems._order_senders(begins, 10, 20) == [3, 2, 1]
    assert kang_theorems._order_senders(begins, 20, 30) == [4, 3]


def test_a_bound_that_holds_one_way_holds_in_part() -> None:
    one: list[Row] = [{"direction": "A to B", "time": 10, "bound": 10}]
    both: list[Row] = [{"direction": "both", "time": t, "bound": 10} for t in (9, 12)]
    assert kang_theorems.check_bound(results(t=one), "t").state == HOLDS
    assert kang_theorems.check_bound(results(t=both), "t").state == FAILS
    verdict = kang_theorems.check_bound(results(t=one + both), "t")
    assert verdict.state == IN_PART
    assert verdict.reason.endswith("both: 1 of 2 random cases exceed it, by up to 20.0 %")


@pytest.mark.heavy
def test_formulas_of_root_gathering() -> None:
    """(1) of p = q is (p - 1 + 2 p) / p, and (2) is (p - 1 + 6 p) / p, over M."""
    computed = kang_theorems.compute_formulas(True)
    assert judge_claim("kang", "The best root gathering", results(formulas=computed)).state == HOLDS
    rows = {(row["formula"], row["groups"]): row for row in computed}
    assert rows["(1)", "32+32"]["formula / M"] == pytest.approx((31 + 64) / 32)
    assert rows["(2)", "32+32"]["formula / M"] == pytest.approx((31 + 192) / 32)


def make_rows(setting: int, size: int, **ms: float) -> list[Row]:
    labels = {"setting": setting, "bytes": size}
    return [labels | {"algorithm": name, "mean ms": value} for name, value in ms.items()]


def test_algorithm_1_is_teams_where_sizes_do_not_divide_each_other() -> None:
    rows = [
        *make_rows(1, 1 << 20, root_gathering_sequential=14, kang=2),
        *make_rows(2, 1 << 20, root_gathering_sequential=12, kang=2, kang_teams=3),
    ]
    judged = results(**{"256 processes": rows})
    found = kang.find_improvements(judged, 256)
    assert [(row["setting"], row["size"], row["improvement"]) for row in found] == [
        (1, 1 << 20, 7.0),
        (2, 1 << 20, 4.0),
    ]


def test_irregular_messages_are_gathered_along_the_ranks() -> None:
    rows = make_rows(6, 1 << 20, root_gathering_sequential=14, root_gathering_ring=16, kang=2)
    (found,) = kang.find_improvements(results(**{"256 processes": rows}), 256)
    assert (found["setting"], found["size"], found["improvement"]) == (6, 1 << 20, 8.0)


def test_limits_are_judged_by_the_paper_s_numbers() -> None:
    limits = read_paper_values("kang").column("Figure 6", "limit")
    rows = []
    for n in range(1, 9):
        old = "root_gathering_ring" if n in kang.IRREGULAR else "root_gathering_sequential"
        rows += make_rows(n, 1 << 23, **{old: limits[f"setting {n}"], "kang": 1})
    slow = make_rows(6, 1 << 23, root_gathering_ring=16, kang=2)
    named = {"256 processes": rows, kang.SLOW_LINKS: slow}
    judged = Results(named, read_paper_values("kang"))
    assert judge_claim("kang", "With the size, improvements converge", judged).state == HOLDS
    verdict = judge_claim("kang", "The improvement on 256 nodes", judged)
    assert verdict.state == NOT_REPRODUCIBLE and verdict.reason.endswith("4 times as slow, it is 8")


def test_a_schedule_in_space_and_time() -> None:
    """Two processes exchange 100 bytes at 1 ns each, at once."""
    rows = trace_schedule("p", "allgather", "ring", Problem(2, 100), PER_BYTE)
    (figure,) = show_schedules("", rows).figures
    assert isinstance(figure, SpaceTime)
    assert sorted(figure.sends) == [(0, 0.0, 100.0), (1, 0.0, 100.0)]
    assert figure.ends == [100.0, 100.0]
