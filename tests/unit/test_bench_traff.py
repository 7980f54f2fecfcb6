"""The report of Träff et al.: known answers of its formulas, curves and claims."""

from __future__ import annotations

import pytest

from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers import traff_claims, traff_formulas
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, IN_PART, Results
from mpiprof.bench.papers.paper_values import read_paper_values

BLOCK = "pipelined_ring:block_size=1048576"


def make_rows(distribution: str, *points: tuple[int, float, float | None]) -> list[Row]:
    """Return rows of c, the linear ring's ms, and the pipelined ring's ms where it runs."""
    rows: list[Row] = []
    for c, linear, pipelined in points:
        labels = {"distribution": distribution, "c": c}
        rows.append(labels | {"algorithm": "linear_ring", "least ms": linear, "idle ms": linear})
        if pipelined is not None:
            rows.append(labels | {"algorithm": BLOCK, "least ms": pipelined, "idle ms": pipelined})
    return rows


def make_results(run: str, rows: list[Row]) -> Results:
    return Results({run: rows}, read_paper_values("traff"))


def test_the_example_has_the_paper_s_rounds() -> None:
    """9 blocks, and 3 empty processes: 9 - 1 + 3 // 3 rounds, and 12 blocks - 1 by (1)."""
    rows = traff_formulas.count_rounds(True)
    results = make_results("rounds", rows)
    assert traff_formulas.check_figure_3(results).state == HOLDS
    by_name = {row["distribution"]: row for row in rows}
    assert by_name["Figure 3"]["rounds"] == 9 and by_name["Figure 3"]["formula (1)"] == 11
    # 24 processes of 8 blocks each.
    assert by_name["regular"]["rounds"] == by_name["regular"]["formula (1)"] == 23 * 8


def test_more_rounds_than_formula_1_are_reported() -> None:
    rows: list[Row] = [
        {"distribution": "regular", "rounds": 3, "formula (1)": 2},
        {"distribution": "spike", "rounds": 2, "formula (1)": 2},
    ]
    verdict = traff_formulas.check_formula_1(make_results("rounds", rows))
    assert verdict.state == IN_PART and verdict.reason.startswith("1 of 2")


def test_a_block_that_is_too_large_is_the_linear_ring() -> None:
    rows = make_rows("spike", (1, 2.0, None), (4, 8.0, 2.0))
    curves = traff_claims.find_curves(rows, "spike")
    assert curves == {
        "linear ring": [(1, 2.0), (4, 8.0)],
        "pipelined, B = 1 MB": [(1, 2.0), (4, 2.0)],
    }
    assert traff_claims.find_ratios(rows, "spike") == [(1, 1.0), (4, 4.0)]


@pytest.mark.parametrize(("pipelined", "state"), [(2.0, HOLDS), (4.0, FAILS)])
def test_the_gain_of_broadcast(pipelined: float, state: str) -> None:
    rows = make_rows("broadcast", (1 << 25, 30.0, pipelined))
    verdict = traff_claims.check_gain_of_broadcast(make_results("NEC SX-8", rows))
    assert verdict.state == state and "32 MB" in verdict.reason


def test_linear_ring_of_broadcast_over_spike() -> None:
    rows = make_rows("broadcast", (1, 4.0, 1.0)) + make_rows("spike", (1, 2.0, 1.0))
    results = make_results("NEC SX-8", rows)
    assert traff_claims.check_twice(results).state == HOLDS
    assert traff_claims.check_spike(results).state == HOLDS


def test_idle_times() -> None:
    rows = make_rows("broadcast", (1, 0.1, 0.2), (2, 4.0, 1.0))
    verdict = traff_claims.check_idle(make_results("Gigabit Ethernet", rows))
    assert verdict.state == HOLDS and verdict.reason.startswith("4 ms idle")


def test_points_that_are_not_faster() -> None:
    rows = make_rows("geometric", (1, 2.0, None), (2, 6.0, 2.0))
    verdict = traff_claims.check_outperforms(make_results("SiCortex", rows), "SiCortex")
    assert verdict.state == IN_PART
    assert verdict.reason == "1 of 2 points are faster, by 1 to 3 times"
