"""The report of Kang et al.: known answers of its formulas, theorems and claims."""

from __future__ import annotations

import pytest

from mpiprof.bench.harness.figures import SpaceTime
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import kang, kang_theorems
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, IN_PART, Results
from mpiprof.bench.papers.paper_values import PaperValues, read_paper_values
from mpiprof.bench.papers.schedule_pictures import show_schedules, trace_schedule
from mpiprof.model.schedule import Problem


def results(**rows: list[Row]) -> Results:
    return Results({name.replace("_", " "): value for name, value in rows.items()}, PaperValues(()))


def test_transfer_time_of_two_equal_groups() -> None:
    """A block from the partner and 3 from the ring are 4 blocks, which is M."""
    problem = Problem(4, 100, remote_size=4, remote_bytes=100)
    assert kang_theorems.transfer_time("allgather", "kang", problem) == 400


def test_links_are_an_exchange_and_two_rings() -> None:
    """6+2: 6 links between groups, a ring of 6, and one link between the two of group B."""
    row = kang_theorems.count_links(True)[0]
    assert (row["between groups"], row["within groups"], row["links"]) == (6, 7, 13)
    assert kang_theorems.check_links(results(links=[row])).state == FAILS


def test_a_bound_that_holds_one_way_holds_in_part() -> None:
    one: list[Row] = [{"direction": "A to B", "time": 10, "bound": 10}]
    both: list[Row] = [{"direction": "both", "time": t, "bound": 10} for t in (9, 12)]
    assert kang_theorems.check_bound(results(t=one), "t").state == HOLDS
    assert kang_theorems.check_bound(results(t=both), "t").state == FAILS
    verdict = kang_theorems.check_bound(results(t=one + both), "t")
    assert verdict.state == IN_PART
    assert verdict.reason.endswith("both: 1 of 2 random cases exceed it, by up to 20.0%")


def test_formulas_of_root_gathering() -> None:
    """(1) of p = q is (p - 1 + 2 p) / p, and (2) is (p - 1 + 6 p) / p, over M."""
    rows = {(row["formula"], row["groups"]): row for row in kang_theorems.compute_formulas(True)}
    assert rows["(1)", "32+32"]["formula / M"] == pytest.approx((31 + 64) / 32)
    assert rows["(2)", "32+32"]["formula / M"] == pytest.approx((31 + 192) / 32)


def make_rows(setting: int, size: int, **ms: float) -> list[Row]:
    old = ms["root_gathering_sequential"]
    labels = {"setting": setting, "bytes": size}
    return [
        labels | {"algorithm": name, "median ms": value, "root gathering / this": old / value}
        for name, value in ms.items()
    ]


def test_algorithm_1_is_teams_where_sizes_do_not_divide_each_other() -> None:
    rows = [
        *make_rows(1, 1 << 20, root_gathering_sequential=14, kang=2),
        *make_rows(2, 1 << 20, root_gathering_sequential=12, kang=2, kang_teams=3),
    ]
    found = kang.find_improvements(results(**{"256 processes": rows}), 256)
    assert found == {1: [(1 << 20, 7.0)], 2: [(1 << 20, 4.0)]}


def test_limits_are_judged_by_the_paper_s_numbers() -> None:
    limits = read_paper_values("kang").column("Figure 6", "limit")
    rows = [
        row
        for n in range(1, 9)
        for row in make_rows(n, 1 << 23, root_gathering_sequential=limits[f"setting {n}"], kang=1)
    ]
    judged = Results({"256 processes": rows}, read_paper_values("kang"))
    assert kang.check_limits(judged).state == HOLDS
    assert kang.check_excess(judged).state == FAILS


def test_a_schedule_in_space_and_time() -> None:
    """Two processes exchange 100 bytes at 1 ns each, at once."""
    rows = trace_schedule("p", "allgather", "ring", Problem(2, 100), kang_theorems.PER_BYTE)
    (figure,) = show_schedules("", rows).figures
    assert isinstance(figure, SpaceTime)
    assert sorted(figure.sends) == [(0, 0.0, 100.0), (1, 0.0, 100.0)]
    assert figure.ends == [100.0, 100.0]
