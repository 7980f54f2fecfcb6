"""The benchmark of planted causes: some causes and noise of it, and its judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import planted_causes as benchmark
from support.planted_families import PlantedCause, noise_loops, planted_causes

import mpiprof
from mpiprof.diagnosis.finding import Finding

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


def true_finding(cause: PlantedCause) -> Finding:
    """Return the finding that describes a cause."""
    before, after = ({"operation": name} for name in cause.sites)
    return Finding(
        cause.causes[0],
        1,
        0.5,
        (0,),
        cause.ranks,
        period=cause.period,
        first_instance=cause.first,
        evidence={"work": [{"before": before, "after": after}]},
    )


WRONG: dict[str, Mapping[str, Any]] = {
    "ranks": {"ranks": (0, 1, 2)},
    "noise": {"cause": "noise"},
    "period": {"period": 7},
    "step": {"first_instance": 40},
    "between": {"evidence": {"work": [{"before": {"operation": "scan"}, "after": {}}]}},
}


@pytest.mark.parametrize("family", ["onset", "slow node", "periodic"])
def test_each_wrong_part_of_a_finding_is_a_fault(family: str) -> None:
    cause = list(planted_causes(families=(family,)))[2]
    finding = true_finding(cause)
    assert benchmark.find_fault(cause, finding, set(cause.named)) == ""
    for word, change in WRONG.items():
        assert word in benchmark.find_fault(cause, replace(finding, **change), set(cause.named))
    other = set(range(cause.planted.loop.ranks)) - set(cause.ranks)
    assert "ranks" in benchmark.find_fault(cause, finding, other)  # in the sentence alone
    onset = replace(finding, first_instance=cause.first + cause.tolerance)
    assert benchmark.find_fault(cause, onset, set(cause.named)) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "exact", "met"),
    [(92, 2, 90, (True, True)), (91, 2, 89, (False, False)), (97, 3, 100, (False, True))],
)
def test_requirements_for_a_hundred_causes(
    right: int, wrong: int, exact: int, met: tuple[bool, bool]
) -> None:
    cause = next(planted_causes(families=("onset",)))
    results = [benchmark.RIGHT] * right + [benchmark.WRONG] * wrong
    results += [benchmark.UNSURE] * (100 - len(results))
    judgements = [
        benchmark.Judgement(cause, result, "", 1.09 if i < exact else 1.11, "")
        for i, result in enumerate(results)
    ]
    first, costs = benchmark.cause_rows(judgements)
    assert (first.holds, costs.holds) == met
    unsure = 100 - right - wrong
    assert first.measured == f"{right} of 100 right, {unsure} unsure, {wrong} wrong"


@pytest.mark.heavy
def test_only_a_cause_is_accused(tmp_path: Path) -> None:
    loops = [loop for _, loop in noise_loops(1, 1)]
    cause = list(planted_causes(families=("onset",)))[2]
    for loop, expected in ((loops[0], False), (cause.planted, True)):
        trace = mpiprof.open(loop.build().write(tmp_path / f"trace-{expected}"))
        assert bool(benchmark.accusation(trace)) == expected
