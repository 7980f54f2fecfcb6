"""The report of Faraj et al.: known answers of its algorithms."""

from __future__ import annotations

import pytest
from support.paper_claims import judge_claim, judge_rule, show_exhibit

from mpiprof.collectives.papers.harness.figures import Lines, Panels
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    Results,
    read_paper_values,
)


def make_results(run: str, rows: list[Row]) -> Results:
    return Results({run: rows}, read_paper_values("faraj"))


def make_impact(times: dict[int, dict[str, float]]) -> Results:
    rows: list[Row] = [
        {"operation": "alltoall", "bytes": 1, "MAX_IF": most, "algorithm": name}
        | {"mean ms": ms, "± ms": 0.1}
        for most, several in times.items()
        for name, ms in several.items()
    ]
    return make_results("Lemieux", rows)


def test_speed_ups_are_native_over_robust() -> None:
    """Tables 9 and 10 are copied without error, except for two cells that the paper misprints."""
    values = read_paper_values("faraj")
    wrong = set()
    for table in ("Table 9", "Table 10"):
        for column in {value.column for value in values.of_exhibit(table)}:
            numbers = values.column(table, column)
            for machine in ("LEMIEUX", "UC-TG", "AVIDD-T", "AURORA"):
                found = numbers[f"{machine} NATIVE"] / numbers[f"{machine} ROBUST"] - 1
                if abs(found * 100 - numbers[f"{machine} speed-up"]) > 1:
                    wrong.add((machine, column))
    assert wrong == {("UC-TG", "MAX_IF 10"), ("UC-TG", "MAX_IF 50")}


def test_an_algorithm_leads_only_if_no_other_is_as_fast() -> None:
    results = make_impact({1: {"pair": 1.0, "ring": 1.0}, 2: {"pair": 1.0, "ring": 2.0}})
    verdict = judge_rule("faraj", results, "fastest", "Lemieux", "alltoall", 1, "pair", 1, 2)
    assert verdict.state == IN_PART and verdict.reason.startswith("1 of 2 values of MAX_IF")
    assert verdict.reason.endswith("at the others: 1 (pair, 1)")


def test_times_are_similar_if_those_of_the_exception_differ_twice_as_much() -> None:
    rows = make_impact({257: {"pair": 1.0, "ring": 1.2}}).rows["Lemieux"]
    for ratio, state in ((1.3, FAILS), (1.5, HOLDS)):
        other = make_impact({257: {"pair": 1.0, "ring": ratio}}).rows["Lemieux"]
        exception: list[Row] = [row | {"bytes": 64 << 10} for row in other]
        runs: dict[str, list[Row]] = {"Lemieux": [*rows, *exception], "Beowulf": []}
        results = Results(runs, read_paper_values("faraj"))
        verdict = judge_claim("faraj", "alltoall: at MAX_IF 257 all", results)
        assert verdict.state == state
        assert verdict.reason.endswith(f"Lemieux, 1 B: 1.2; {ratio:.3g} in the exception")


def test_an_algorithm_overtakes_once() -> None:
    slow, fast = {"flat": 2.0, "tree": 1.0}, {"flat": 1.0, "tree": 2.0}
    cases = (
        ((slow, slow, fast), HOLDS),
        ((fast, fast, fast), FAILS),
        ((slow, slow, slow), FAILS),
        ((slow, fast, slow), FAILS),
        ((slow, fast, slow, fast), FAILS),
    )
    for times, state in cases:
        results = make_impact(dict(enumerate(times, 1)))
        arguments = ("overtaking", "Lemieux", "alltoall", 1, "flat")
        assert judge_rule("faraj", results, *arguments).state == state


def test_times_that_fall_or_part() -> None:
    times = {
        1: {"flat": 3.0, "tree": 2.0},
        2: {"flat": 2.0, "tree": 2.1},
        3: {"flat": 2.5, "tree": 5.0},
    }
    results = make_impact(times)

    def judge(rule: str, *arguments: object) -> str:
        return judge_rule("faraj", results, rule, "Lemieux", "alltoall", 1, *arguments).state

    assert judge("fall", "flat", 2) == HOLDS
    assert judge("fall", "flat", 3) == IN_PART
    assert judge("fall", "tree", 3) == FAILS
    assert judge("widening", "flat") == HOLDS
    assert judge("widening", "tree") == FAILS


@pytest.mark.parametrize(("late_ms", "state"), [(3.0, HOLDS), (1.0, FAILS)])
def test_the_best_of_balanced_arrivals_changes(late_ms: float, state: str) -> None:
    times = {1: {"pair": 1.0, "simple": 2.0}, 257: {"pair": late_ms, "simple": 2.0}}
    results = make_impact(times)
    assert judge_rule("faraj", results, "change", "Lemieux", "alltoall", 1).state == state


def test_plots_over_the_imbalance() -> None:
    results = make_impact({1: {"pair": 1.0}, 9: {"pair": 2.0}})
    content = show_exhibit("faraj", "Figure 7", results)
    (figure,) = content.figures
    assert isinstance(figure, Panels)
    small = figure.figures[0]
    assert isinstance(small, Lines)
    assert (small.series[0].x, small.series[0].y) == ([1, 9], [1.0, 2.0])
