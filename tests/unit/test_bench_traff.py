"""The report of Träff et al.: known answers of its formulas, curves and claims."""

from __future__ import annotations

import math

import pytest
from support.paper_claims import judge_claim, judge_rule

from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import traff
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    REFUTED,
    Results,
    read_paper_values,
)
from mpiprof.collectives.pipeline_formulas import count_skipping_ring_rounds, ring_block_size

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
    rows = traff.count_rounds(True)
    results = make_results("rounds", rows)
    assert judge_claim("traff", "The example takes 9 rounds", results).state == HOLDS
    by_name = {row["distribution"]: row for row in rows}
    assert by_name["Figure 3"]["rounds"] == 9 and by_name["Figure 3"]["formula (1)"] == 11
    # 24 processes of 8 blocks each.
    assert by_name["regular"]["rounds"] == by_name["regular"]["formula (1)"] == 23 * 8


def test_more_rounds_than_formula_1_are_reported() -> None:
    rows: list[Row] = [
        {"distribution": "regular", "rounds": 3, "formula (1)": 2},
        {"distribution": "spike", "rounds": 2, "formula (1)": 2},
    ]
    verdict = judge_claim("traff", "The ring ends after r rounds", make_results("rounds", rows))
    assert verdict.state == IN_PART and verdict.reason.startswith("1 of 2")


def test_a_block_that_is_too_large_is_the_linear_ring() -> None:
    rows = make_rows("spike", (1, 2.0, None), (4, 8.0, 2.0))
    curves = traff.find_curves(rows, "spike")
    assert curves == {
        "linear ring": [(1, 2.0), (4, 8.0)],
        "pipelined, B = 1 MB": [(1, 2.0), (4, 2.0)],
    }
    compared = traff.list_curves(make_results("NEC SX-8", rows), "NEC SX-8", "spike")
    assert [(row["c"], row["ratio"]) for row in compared] == [(1, 1.0), (4, 4.0)]


@pytest.mark.parametrize(("pipelined", "state"), [(2.0, HOLDS), (4.0, FAILS)])
def test_the_gain_of_broadcast(pipelined: float, state: str) -> None:
    rows = make_rows("broadcast", (1 << 25, 30.0, pipelined))
    verdict = judge_claim("traff", "Broadcast of 32 MB", make_results("NEC SX-8", rows))
    assert verdict.state == state and "32 MB" in verdict.reason


def test_linear_ring_of_broadcast_over_spike() -> None:
    rows = make_rows("broadcast", (1, 4.0, 1.0)) + make_rows("spike", (1, 2.0, 1.0))
    assert (
        judge_claim("traff", "The linear ring takes twice", make_results("NEC SX-8", rows)).state
        == HOLDS
    )


def test_broadcast_and_spike_are_compared_where_both_have_several_blocks() -> None:
    """32 MB take 31 + 29 rounds for broadcast, and 17 + 29 - 1 for spike (16 MB and 16 bytes)."""
    broadcast = make_rows("broadcast", (1 << 22, 9.0, 3.1), (1 << 25, 90.0, 16.0))
    spike = make_rows("spike", (1 << 20, 5.0, None), (1 << 22, 4.0, 3.0), (1 << 25, 9.0, 4.0))
    verdict = judge_claim(
        "traff", "The pipelined ring takes similar", make_results("NEC SX-8", broadcast + spike)
    )
    assert verdict.state == IN_PART and verdict.reason.startswith("1 of 2 sizes")
    assert "nearer to 1 than to the 10 of the linear ring: 1.03 at 4 MB, 4 at 32" in verdict.reason
    assert "60 rounds for broadcast and 45 for spike" in verdict.reason


def test_idle_times() -> None:
    rows = make_rows("broadcast", (1, 0.1, None), (2, 4.0, 1.0))
    verdict = judge_claim("traff", "Processes idle longer", make_results("Gigabit Ethernet", rows))
    assert verdict.state == HOLDS and verdict.reason.startswith("1 of 1 sizes")
    assert "4 ms idle in the linear ring, 1 ms" in verdict.reason


def test_points_at_which_the_rings_are_the_same_are_no_evidence() -> None:
    rows = make_rows("geometric", (1, 2.0, None), (2, 6.0, 2.0), (3, 6.0, 7.0))
    verdict = judge_rule("traff", make_results("SiCortex", rows), "gain", "SiCortex", "c")
    assert verdict.state == IN_PART
    assert verdict.reason.startswith("1 of 2 points are faster, by 0.857 to 3 times")
    assert "the same at c 1," in verdict.reason


def test_blocks_smaller_than_the_paper_s_show_the_effect() -> None:
    same, slower = (make_rows("decreasing", (1 << 20, 4.0, ms)) for ms in (3.0, 5.0))
    runs = {"InfiniBand": same, traff.SMALL_BLOCKS: slower}
    judged = Results(runs, read_paper_values("traff"))
    assert judge_claim("traff", "For decreasing", judged).state == HOLDS


def test_the_sign_in_formula_2() -> None:
    """12 of 24 processes have no data: 18 more rounds by (2), and 6 by the rounds before it."""
    counts = (1200, 0) * 12
    sizes = [ring_block_size(counts, 1.0, 1.0, corrected=c) for c in (False, True)]
    assert sizes == [math.isqrt(14400 // 18), math.isqrt(14400 // 6)]
    assert count_skipping_ring_rounds(counts, 300) == 12 * 4 - 1 + 1


# ---- permuted communicator


def test_a_ring_in_the_order_of_nodes_ignores_a_permutation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 nodes of 8: in the order of ranks, a permuted ring leaves a node at most ranks."""
    monkeypatch.setattr(traff, "NODES", 4)
    rows = traff._simulate_rings("spike", 1 << 20, 8)
    by_order: dict[str, list[float]] = {}
    for row in rows:
        by_order.setdefault(row["order"], []).append(row["permuted / world"])
    assert by_order["order of nodes"] == pytest.approx([1, 1], abs=0.1)
    assert min(by_order["order of ranks"]) > 2
    assert (
        judge_claim("traff", "A permutation changes", make_results("permuted", rows)).state == HOLDS
    )


@pytest.mark.parametrize(
    ("distribution", "linear", "state"),
    [("half_full", 2.1, HOLDS), ("half_full", 3.6, REFUTED), ("regular", 3.6, FAILS)],
)
def test_rings_are_judged_for_each_distribution(
    distribution: str, linear: float, state: str
) -> None:
    """The paper's formulas contradict its statement about half full data, on any machine."""
    results = make_results("NEC SX-8", make_rows(distribution, (4, 9.0, 2.0), (8, linear, 2.0)))
    text = f"Both rings take as long for {distribution.replace('_', ' ')}"
    verdict = judge_claim("traff", text, results)
    assert verdict.state == state and verdict.reason.startswith(
        f"linear over pipelined: {linear / 2:.3g}"
    )
