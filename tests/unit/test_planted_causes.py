"""The benchmark of planted causes: its requirements, and its judgement of fair programs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import planted_causes as benchmark
from support.cause_judgement import INEXACT, RIGHT, UNSURE, WRONG, Report, stated_run_ns
from support.cause_loops import make_loop
from support.cause_specs import Result, Truth
from support.fair_judgement import find_false_accusation
from support.spec_files import STEPS, find_spec

import mpiprof
from mpiprof.causes.finding import Finding

SPEC = find_spec("delay_steps", "Onset")
FINDING = Finding("rank", 109, 0.5, (0,), (3,), saved_ns=109.0)
RESULT = Result(SPEC, Truth(300, 100, 100), Report([], "", FINDING), RIGHT)
FAR = replace(RESULT, judgement=INEXACT, truth=Truth(300, 90, 90))


@pytest.mark.parametrize(
    ("right", "wrong", "exact", "met"),
    [
        (92, 2, 90, [True, True, True]),
        (91, 2, 80, [False, False, False]),
        (97, 3, 97, [False, True, True]),
    ],
)
def test_requirements_for_a_hundred_causes(
    right: int, wrong: int, exact: int, met: list[bool]
) -> None:
    results = [RESULT] * exact + [FAR] * (right - exact)
    results += [replace(RESULT, judgement=f"{WRONG}: ranks")] * wrong
    results += [replace(RESULT, judgement=UNSURE)] * (100 - len(results))
    *rows, agreement = benchmark.cause_rows(results)
    assert agreement.measured == "0 of 0"
    assert [row.holds for row in rows] == met
    unsure = 100 - right - wrong
    assert rows[0].measured == f"{right} of 100 right, {unsure} unsure, {wrong} wrong"


def test_a_part_of_the_record_has_its_tolerance() -> None:
    case = SPEC.make_case(1)
    complete, sampled, ring = (
        benchmark.Recording(**options).limit(case).expected
        for options in ({}, {"sample": 2}, {"ring": 50})
    )
    assert complete == case.expected
    assert sampled.tolerance == case.expected.tolerance + 3 * benchmark.SAMPLED_TOLERANCE
    assert ring.tolerance > STEPS and ring.calls == case.expected.calls
    assert benchmark.Recording(ring=50).limit(SPEC.make_case(0)).expected.calls == ()
    assert benchmark.Recording(sample=3).options == {"sample": 3}
    assert benchmark.Recording().options == {}


@pytest.mark.parametrize(
    ("sentence", "ns"),
    [
        ("Half of it. Without that, the run would take 0.49 s instead of 0.97 s.", 0.49e9),
        ("With equal work, the run would take about 153 ms instead of 301 ms.", 153e6),
        ("Without that, the run would take 870 µs instead of 1.00 ms.", 870e3),
    ],
)
def test_the_stated_run_time_is_read(sentence: str, ns: float) -> None:
    assert stated_run_ns(sentence) == pytest.approx(ns)
    unstated = stated_run_ns("Rank 1 works longer.")
    assert math.isnan(unstated) and not benchmark.is_exact(unstated)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "title", "is_accused"),
    [("fair_loops", "Any noise beside messages", False), ("delay_steps", "Onset", True)],
)
def test_only_a_cause_is_accused(file: str, title: str, is_accused: bool, tmp_path: Path) -> None:
    case = find_spec(file, title).make_case(2)
    loop = make_loop(**{**case.parameters, **case.planted})
    trace = mpiprof.open(loop.build().write(tmp_path / "t"))
    assert bool(find_false_accusation(trace, loop)) == is_accused


@pytest.mark.parametrize(("predicted_ns", "is_met"), [(1.492e8, True), (1.60e8, False)])
def test_sentences_state_the_time_of_the_what_if(predicted_ns: float, is_met: bool) -> None:
    report = Report([], "the run would take 149 ms instead of 387 ms", FINDING, "", predicted_ns)
    *_, agreement = benchmark.cause_rows([replace(RESULT, report=report)])
    assert agreement.holds == is_met
