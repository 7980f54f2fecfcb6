"""Values of studies have the digits of their intervals, and each study states its conditions."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from support.uniform_machine import make_uniform

from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.conditions import TIMER, list_conditions
from mpiprof.collectives.papers.harness.intervals import (
    FEWEST_VALUES,
    IntervalEstimate,
    estimate_quotient,
    estimate_within,
    format_time_within,
    format_within,
    median_interval,
)
from mpiprof.collectives.papers.harness.processors import RankProcessors, find_most_used
from mpiprof.collectives.papers.harness.study import (
    CaseResult,
    Report,
    Setup,
    format_cell,
    make_row,
    write,
)
from mpiprof.collectives.schedule import Problem

NAN = float("nan")
SETUP = Setup(16, Options(), make_uniform(2000.0, 0.1), laps=7)


# ---- digits


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (13.7214, 0.3, "13.7"),
        (4.0213, 0.09, "4.02"),
        (0.99912, 0.002, "0.999"),
        (48356, 30000, "50000"),
        (48356, 1500, "48000"),
        (12.34567, 0.0996, "12.3"),  # half of the width rounds to 0.1
        (34.5, 400, "30"),  # less than the error: one digit
        (-5.03, 0.1, "-5.0"),
        (1.0, 0.0001, "1.000"),  # at most four digits
        (0.12345678, 0, "0.1235"),  # exact
        (48356, 0, "48356"),
        (NAN, 1, ""),
    ],
)
def test_digits_end_at_the_first_digit_of_the_error(value: float, half: float, text: str) -> None:
    assert format_within(value, 2 * half) == text
    assert format_cell(estimate_within(value, half)) == text


def test_an_estimate_computes_as_its_value() -> None:
    ratio = IntervalEstimate(13.7214, 13.42, 14.03)
    assert ratio == 13.7214 and ratio * 2 == 27.4428 and f"{ratio:.3f}" == "13.721"
    assert str(ratio) == "13.7" and ratio.interval_text == "13.4 to 14.0"
    assert (ratio.scale(2).low, ratio.scale(2).high) == (26.84, 28.06)
    assert format_cell(ratio.margin) == "0.3"
    assert str(IntervalEstimate(1 / 3, 1 / 3, 1 / 3)) == str(1 / 3)  # exact


def test_times_have_the_digits_of_their_interval() -> None:
    assert format_time_within(estimate_within(12_345_678.0, 200_000)) == "12.3 ms"
    assert format_time_within(estimate_within(12_345_678.0, 2_000_000)) == "12 ms"
    assert format_time_within(estimate_within(12_000_000.0, 0)) == "12.0 ms"


def test_relative_errors_of_a_quotient_add_in_squares() -> None:
    quotient = estimate_quotient(estimate_within(200.0, 6.0), estimate_within(100.0, 4.0))
    assert quotient == 2.0 and quotient.width / 2 == pytest.approx(2 * 0.05)
    assert np.isnan(estimate_quotient(estimate_within(1.0, 0.0), IntervalEstimate(0.0, 0.0, 0.0)))


# ---- intervals


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 9, 10, 15, 20, 100, 3200])
def test_the_interval_of_a_median_has_its_coverage(count: int) -> None:
    """The number of values below the true median has a binomial distribution."""
    found = median_interval(np.arange(count, dtype=np.float64)[::-1])
    assert found == (count - 1) / 2 and found.high == count - 1 - found.low

    def coverage(skipped: int) -> float:
        outside = 2 * sum(comb(count, i) for i in range(skipped + 1))
        return 1 - float(Fraction(outside, 2**count))

    skipped = int(found.low)
    assert coverage(skipped) >= 0.95 or skipped == 0
    assert coverage(skipped) >= 0.95 or count < FEWEST_VALUES
    assert coverage(skipped + 1) < 0.95  # and it is the narrowest


def test_a_row_has_the_interval_of_its_median() -> None:
    case = Case({"algorithm": "ring"}, "bcast", "ring", Problem(2, 8))
    laps = np.array([10.1, 10.3, 10.2, 10.15, 10.25, 10.4]) * 1e6
    ring = CaseResult(case, laps, laps, laps)
    slow = replace(ring, case=replace(case, labels={"algorithm": "native"}), total=2 * laps)
    row = make_row(ring, [ring, slow], {"native": "native", "other": "other"})
    assert format_cell(row["median ms"]) == "10.2" and row["95 %"] == "10.1 to 10.4"
    assert row["native / this"] == 2.0 and np.isnan(row["other / this"])
    (one,) = (replace(ring, total=laps[:1]),)
    assert "95 %" not in make_row(one, [one], {})


# ---- files


def test_each_file_has_the_conditions_and_the_certain_digits(tmp_path: Path) -> None:
    conditions = {"processes": "16 ranks share 2 processors"}
    row = {"name": "a", "ms": IntervalEstimate(13.7214, 13.42, 14.03), "none": NAN}
    report = Report(("name", "ms", "none"), [row], ["a note"], conditions=conditions)
    write(report, "A study", tmp_path / "r")
    with (tmp_path / "r.csv").open() as file:
        assert [line["ms"] for line in csv.DictReader(file)] == ["13.7"]
    page = (tmp_path / "r.html").read_text()
    assert "<td>13.7</td>" in page
    assert "<dt>processes<dd>16 ranks share 2 processors" in page
    assert json.loads((tmp_path / "r.json").read_text()) == {
        "title": "A study",
        "conditions": conditions,
        "notes": ["a note"],
        "columns": ["name", "ms", "none"],
        "rows": [{"name": "a", "ms": {"value": 13.7214, "interval": [13.42, 14.03]}, "none": None}],
    }


# ---- conditions


def test_the_conditions_of_ranks() -> None:
    setup = replace(SETUP, processors=RankProcessors(16, 2), computation=TIMER)
    assert list_conditions(setup) == {
        "processes": "16 ranks share 2 processors",
        "computation": "a timer, because ranks share processors",
        "message times": "2.00 µs and 0.1 ns a byte, measured on these ranks",
        "repetitions": "7 of each case",
    }
    file = replace(setup, options=Options(machine=Path("machine.json")), laps=3)
    assert list_conditions(file)["message times"].endswith(", from machine.json")
    here = replace(setup, options=replace(file.options, is_calibrated=True))
    source = "measured by `calibrate` on these ranks"
    assert list_conditions(here)["message times"].endswith(f", {source}")
    assert "an interval of 95 % needs 6" in list_conditions(file)["repetitions"]


def test_impossible_message_times_are_refused() -> None:
    times = list_conditions(replace(SETUP, fault="1 ns for an empty message"))["message times"]
    assert times == "refused, 1 ns for an empty message; 2.00 µs and 0.1 ns a byte assumed"


def test_the_conditions_of_a_simulation() -> None:
    found = list_conditions(replace(SETUP, simulated=True, laps=1))
    assert found["processes"] == "16, simulated" and found["computation"] == "none"
    assert found["message times"].startswith("simulated with 2.00 µs")
    assert found["repetitions"].startswith("none")
    half = replace(SETUP.machine, one_way_beta=0.5)
    found = list_conditions(replace(SETUP, simulated=True, machine=half))
    assert found["message times"].endswith("a message, 1 and 0.5 times that one way")


def test_bound_ranks_have_their_own_processors() -> None:
    """A launcher that binds each rank to one processor does not make them share it."""
    bound = find_most_used([("a", [0]), ("a", [1]), ("b", [0, 1])])
    assert str(bound) == "2 ranks have 2 processors" and not bound.is_shared
    crowded = find_most_used([("a", [0, 1])] * 5 + [("b", [0, 1, 2, 3])] * 4)
    assert str(crowded) == "5 ranks share 2 processors" and crowded.is_shared
