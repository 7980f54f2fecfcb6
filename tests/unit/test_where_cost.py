"""The benchmark of samples between calls: its figures for known times."""

from __future__ import annotations

import pytest
from benchmarks import where_cost
from benchmarks.where_cost import PERIODS_US, USUAL_US, Times

TURNS = 15
BLOCK_NS, CALL_NS = 100e6, 50.0


def known_times(cost: float) -> dict[int, list[Times]]:
    """Return times of turns that drift; samples at the usual period add `cost`."""
    drift = [1 + 0.1 * turn for turn in range(TURNS)]
    plain = [Times(BLOCK_NS * factor, CALL_NS) for factor in drift]
    sampled = [Times(of.block * (1 + cost), of.call + 7) for of in plain]
    return {0: plain, **dict.fromkeys(PERIODS_US, plain), USUAL_US: sampled}


@pytest.mark.parametrize(("cost", "met"), [(0.002, True), (-0.001, True), (0.012, False)])
def test_the_cost_is_the_ratio_within_a_turn(cost: float, met: bool) -> None:
    rows = list(where_cost.cost_rows("C", known_times(cost)))
    by_period = dict(zip(PERIODS_US, rows, strict=False))
    usual = by_period.pop(USUAL_US)
    text = f"{100 * cost:.2f}"
    assert (usual.measured, usual.holds) == (f"{text} % ({text} to {text})", met)
    assert all(row.measured.startswith("0.00 %") and row.holds for row in by_period.values())
    assert rows[-1].measured == "7 ns"


def test_the_upper_end_of_the_interval_decides() -> None:
    times = known_times(0.0)
    ratios = [0.98, 1.025] * (TURNS // 2) + [1.0]
    times[USUAL_US] = [
        Times(of.block * ratio, CALL_NS) for of, ratio in zip(times[0], ratios, strict=True)
    ]
    usual = list(where_cost.cost_rows("C", times))[PERIODS_US.index(USUAL_US)]
    assert usual.measured.startswith("0.00 % (-2.00 to 2.50)") and not usual.holds


def test_the_median_block_and_the_fastest_batch_count() -> None:
    output = "block 100\nblock 900\nblock 200\ncall 60.5\ncall 50.5\n"
    assert where_cost.parse_times(output) == Times(200, 50.5)
