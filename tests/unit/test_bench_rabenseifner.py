"""The report of Rabenseifner and Adamidis: known answers of its maps and claims."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.paper_claims import judge_claim, judge_rule

from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import Map
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import import_paper, rabenseifner
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    REFUTED,
    Results,
    read_paper_values,
)
from mpiprof.collectives.papers.reports.machines import CRAY_T3E
from mpiprof.collectives.papers.reports.runs import Simulation
from mpiprof.collectives.papers.studies.reduction import PROTOCOLS


def make_rows(processes: int, size: int, **ms: float) -> list[Row]:
    labels = {"processes": processes, "bytes": size}
    return [labels | {"algorithm": name, "median ms": value} for name, value in ms.items()]


def make_results(rows: list[Row], run: str = "Cray T3E") -> Results:
    return Results({run: rows}, read_paper_values("rabenseifner"))


def test_of_equally_fast_protocols_the_simplest_is_in_the_map() -> None:
    rows = make_rows(8, 32, ring=2.0, binary_blocks=1.0, halving_doubling=1.0, binary_tree=3.0)
    assert rabenseifner.find_fastest(rows) == {(8, 32): "halving_doubling"}
    others = rows + make_rows(8, 32, circulant=0.5)
    results = make_results(rows)
    results = replace(results, rows={**results.rows, "Cray T3E, all algorithms": others})
    figure, of_all = rabenseifner.show_figure_4(results).figures
    assert isinstance(figure, Map) and isinstance(of_all, Map)
    assert figure.rows == [("8", ["halving_doubling"])] and figure.columns == ["32B"]
    assert of_all.rows == [("8", ["circulant"])]


def test_differences_of_exponents_are_the_paper_s() -> None:
    """100 = 2^6 + 2^5 + 2^2 has the difference 3."""
    rows = rabenseifner.compute_exponents(True)
    assert {"processes": 100, "difference": 3} in rows
    verdict = judge_claim(
        "rabenseifner", "The paper's nine numbers", make_results(rows, "exponents")
    )
    assert verdict.state == HOLDS and verdict.reason.startswith("9 of 9")


def test_short_vectors_need_recursive_doubling() -> None:
    rows = make_rows(4, 8, recursive_doubling=1.0, ring=2.0)
    rows += make_rows(6, 8, recursive_doubling=2.0, ring=1.0)
    rows += make_rows(6, 64, recursive_doubling=2.0, ring=1.0)  # not short
    verdict = judge_claim("rabenseifner", "Up to 32 B", make_results(rows))
    assert verdict.state == IN_PART
    assert verdict.reason == "1 of 2 numbers of processes and sizes; not on 6 processes"


def test_the_rule_for_binary_blocks() -> None:
    """96 has the difference 1, below lg(16384) / 2 - 2.5 = 4.5; 33 has 5, above it."""
    rows = make_rows(96, 16384, binary_blocks=1.0, halving_doubling=2.0)
    rows += make_rows(33, 16384, binary_blocks=2.0, halving_doubling=1.0)
    rows += make_rows(32, 16384, binary_blocks=2.0, halving_doubling=1.0)  # not above 32
    verdict = judge_claim("rabenseifner", "From 16 KB and 33", make_results(rows))
    assert verdict.state == HOLDS and verdict.reason.startswith("2 of 2")


@pytest.mark.parametrize(("best", "state"), [(2.0, HOLDS), (1.0, FAILS)])
def test_benefit_over_mpich_1_excludes_recursive_doubling(best: float, state: str) -> None:
    rows = make_rows(8, 4096, binary_tree=10.0, recursive_doubling=0.5, ring=best)
    assert rabenseifner.find_benefits(rows) == {(8, 4096): 10.0 / best}
    results = make_results(rows, "Myrinet, process per CPU")
    assert judge_rule("rabenseifner", results, "benefit", "process per CPU").state == state


def test_only_the_paper_s_protocols_are_simulated() -> None:
    run = import_paper("rabenseifner").runs["Cray T3E"]
    assert isinstance(run, Simulation)
    _, cases = run._prepare(quick=True)
    assert {case.name for case in cases} == set(PROTOCOLS)
    assert {case.labels["operand"] for case in cases} == {"sum"}


@pytest.mark.heavy
def test_formulas_with_one_way_costs() -> None:
    """With a half, two formulas charge both ways for messages one way to removed processes."""
    results = make_results(rabenseifner.compute_costs(True), "costs")
    assert judge_claim("rabenseifner", "The formulas describe", results).state == HOLDS
    verdict = judge_claim("rabenseifner", "With one-way costs of a half", results)
    assert verdict.state == HOLDS and verdict.reason.startswith("33 of 33 cases")
    verdict = judge_claim("rabenseifner", "Also recursive doubling", results)
    assert verdict.state == REFUTED and verdict.reason.startswith("0 of 6 cases")


def test_the_binary_tree_may_share_the_lead() -> None:
    """Powers of two and sizes up to 32 B do not count."""
    rows = make_rows(6, 128, binary_tree=2.0, recursive_doubling=1.0)
    rows += make_rows(7, 128, binary_tree=1.0, recursive_doubling=1.0)
    rows += make_rows(8, 128, binary_tree=1.0, recursive_doubling=2.0)
    rows += make_rows(6, 32, binary_tree=1.0, recursive_doubling=2.0)
    results = make_results(rows)
    verdict = judge_claim("rabenseifner", "Up to 1 KB the binary tree", results)
    assert verdict.state == IN_PART
    assert verdict.reason == "1 of 2 cells have no faster protocol; not on 6 processes"
    verdict = judge_claim("rabenseifner", "Up to 1 KB recursive doubling", results)
    assert verdict.state == IN_PART and "up to 2 times" in verdict.reason


@pytest.mark.parametrize(("factor", "state"), [(1.0, FAILS), (0.5, HOLDS)])
def test_the_binary_tree_needs_cheaper_messages_one_way(factor: float, state: str) -> None:
    machine = replace(CRAY_T3E, one_way_alpha=factor, one_way_beta=factor)
    options = Options((1024,), processes=(6, 7, 12), only=("allreduce",))
    run = import_paper("rabenseifner").runs["Cray T3E"]
    assert isinstance(run, Simulation)
    run = replace(run, quick=options, machine=machine)
    results = make_results(run.obtain(quick=True).rows)
    assert judge_claim("rabenseifner", "Up to 1 KB the binary tree", results).state == state


def test_binary_blocks_by_the_difference_of_exponents() -> None:
    """48 has the difference 1, 33 has 5, 36 has 3: the differences 1, 3 and 5 are 2 apart."""
    rows = make_rows(48, 32768, binary_blocks=1.0) + make_rows(36, 32768, binary_blocks=2.0)
    rows += make_rows(33, 32768, binary_blocks=1.5)
    verdict = judge_claim("rabenseifner", "Binary blocks depend", make_results(rows))
    assert verdict.state == IN_PART and verdict.reason.startswith("2 of 3 pairs")


def test_binary_blocks_on_powers_of_two() -> None:
    rows = make_rows(8, 64, binary_blocks=1.0, halving_doubling=1.0)
    rows += make_rows(6, 64, binary_blocks=1.0, halving_doubling=2.0)
    verdict = judge_claim("rabenseifner", "On powers of two", make_results(rows))
    assert verdict.state == HOLDS and verdict.reason == "1 of 1 cells have equal times"
