"""The benchmark of planted causes: some causes and noise of it, and its judgement."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import planted_causes as benchmark
from support.planted_families import planted_causes

CASES = (
    ("root of workers", 1),  # only one rank works between these calls
    ("pipeline", 1),  # with a barrier: work of the usual length costs wait, too
    ("onset", 2),
    ("moving", 2),
    ("slow node", 0),
)


@pytest.mark.heavy
@pytest.mark.parametrize(("family", "number"), CASES)
def test_a_cause_is_reported_with_its_cost(family: str, number: int, tmp_path: Path) -> None:
    cause = list(planted_causes(families=(family,)))[number]
    judgement = benchmark.judge(cause, tmp_path / "trace")
    assert (judgement.result, judgement.fault) == (benchmark.RIGHT, "")
    assert judgement.cost_ratio == pytest.approx(1, abs=benchmark.MAX_COST_ERROR)


def test_ranks_of_a_sentence() -> None:
    sentence = "Two thirds of it: ranks 3, 5-7 and 4 more work longer than rank 12."
    assert benchmark.named_ranks(sentence) == {3, 5, 6, 7, 12}
