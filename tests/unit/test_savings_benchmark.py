"""The benchmark of predicted run times: its judgement of known right and known wrong results."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import savings
from support import loop_programs as loops
from support.cause_judgement import stated_run_ns
from support.planted_loops import Delay, PlantedLoop, constant, make_noise

import mpiprof
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports.conclusion import verdict_lines

STEPS, RANKS, LATE_MS = 24, 4, 5.0
SOUND = savings.Result(300e6, 104e6, 95e6, 100e6, 100e6)


def test_errors_are_relative_to_the_measured_time() -> None:
    assert SOUND.errors == pytest.approx((0.04, -0.05))
    assert str(SOUND) == "+4.0 %, sentence -5.0 % (100 ms, 300 ms with the delay)"
    assert "sentence none" in str(savings.Result(300e6, 104e6, math.nan, 100e6, 100e6))


def test_sentences_are_compared_with_usual_work() -> None:
    result = savings.Result(300e6, 104e6, 84e6, 100e6, 80e6)
    assert result.errors == pytest.approx((0.04, 0.05))
    assert str(result).endswith("(100 ms, 300 ms with the delay, 80 ms with usual work)")


@pytest.mark.parametrize(
    ("error", "right"), [(0.0, True), (0.09, True), (-0.09, True), (0.11, False), (-0.11, False)]
)
def test_an_error_of_ten_per_cent_is_right(error: float, right: bool) -> None:
    assert savings.is_right(error) == right
    assert not savings.is_right(math.nan)


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
    assert math.isnan(stated_run_ns("Rank 1 works longer."))


@pytest.mark.heavy
def test_the_sentence_of_a_report_is_read(tmp_path: Path) -> None:
    """The late rank costs its delay in each step."""
    late = constant(STEPS, RANKS, [2], LATE_MS)
    loop = loops.collectives(RANKS, "allreduce", "alltoall")
    noise = make_noise("quiet", (STEPS, len(loop.places), RANKS), 1)
    planted = PlantedLoop(loop, noise, (Delay(0, late),))
    trace = mpiprof.open(planted.build().write(tmp_path / "t"))
    lines = verdict_lines(trace, make_verdict(trace, trace.findings()))
    expected = trace.run_ns - STEPS * LATE_MS * 1e6
    assert stated_run_ns(lines[1]) == pytest.approx(expected, rel=0.05)


def test_programs_have_the_medians_of_their_runs() -> None:
    runs = [savings.Result(*(1e6 * np.array(of))) for of in ((3, 1, 2, 1, 1), (5, 3, 4, 2, 2))]
    unstated = savings.Result(4e6, 2e6, math.nan, 9e6, 9e6)
    assert savings.summarise([*runs, unstated]) == savings.Result(4e6, 2e6, 3e6, 2e6, 2e6)
    assert math.isnan(savings.summarise([runs[0], unstated, unstated]).stated_ns)


@pytest.mark.parametrize(("wrong", "met"), [(0, True), (1, True), (2, False)])
@pytest.mark.parametrize("field", ["predicted_ns", "stated_ns"])
def test_nine_of_ten_programs_must_be_right(field: str, wrong: int, met: bool) -> None:
    """Predictions and sentences are counted separately."""
    faulty = replace(SOUND, **{field: 150e6})
    results = {f"program {i}": faulty if i < wrong else SOUND for i in range(10)}
    rows = list(savings.requirement_rows(results))
    judged = rows[field == "stated_ns"]
    assert judged.holds == met and judged.measured == f"{10 - wrong} of 10"
    assert rows[field != "stated_ns"].holds


def test_each_program_has_a_repair() -> None:
    source = savings.SOURCE.read_text(encoding="utf-8")
    assert set(re.findall(r"PROGRAM\((\w+)\)", source)) - {"name"} == set(savings.CHANGES)
    assert set(savings.OTHER_REPAIR) < set(savings.CHANGES)
