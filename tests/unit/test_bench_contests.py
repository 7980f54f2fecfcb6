"""Contests of the selector with fixed choices: ratios, and the studies' requirements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.uniform_machine import make_uniform

from mpiprof.collectives.papers.harness import loop
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.loop import Behaviour, Loop, LoopTimes, Phase
from mpiprof.collectives.papers.harness.study import Setup
from mpiprof.collectives.papers.studies import adaptive, auto_robustness, contest
from mpiprof.collectives.schedule import Problem
from mpiprof.facts.operations import AUTO, ROBUST

MACHINE = make_uniform(60e3, 83.9)
SETUP = Setup(16, Options(), MACHINE, "openmpi")
MS = 1_000_000


def case(choice: str) -> Case:
    return Case({}, "alltoall", choice, Problem(2, 64 << 10))


def looped(choices: dict[str, list[float]], part: str = "before", /, **more: object) -> LoopTimes:
    """Return a loop on two ranks that arrive together, from the ms of each choice's instances."""
    cases = tuple(replace(case(c), labels=dict(more)) for c in choices)
    exits = np.array([[[int(ms * MS)] * 2 for ms in several] for several in choices.values()])
    laps = exits.shape[1]
    phases = (Phase(0, (0, 0)), Phase(laps // 2, (0, 1)))
    none = np.zeros_like(exits)
    labels = dict(more) | {"part": part}
    return LoopTimes(Loop(labels, cases, laps, phases=phases), none, none, exits)


def a_contest(chosen_ms: float, **labels: object) -> contest.Contest:
    """Return a contest: native takes 100 ms, ring 80 ms.

    Auto has 40 probes of 120 ms, then `chosen_ms`.
    """
    fixed = {"native": [100.0] * 10, "ring": [80.0] * 10, "pair": [130.0] * 10}
    auto = looped({AUTO: [120.0] * 40 + [chosen_ms] * 260}, AUTO, **labels)
    choices = ("probe",) * 40 + ("chosen",) * 260
    chose = Behaviour(("native",) * 40 + ("ring",) * 260, choices, (0,), (8,))
    parts = [looped(fixed, "before", **labels), auto, looped(fixed, "after", **labels)]
    (found,) = contest.contests(parts, [Behaviour(), chose, Behaviour()])
    return found


def test_a_contest_s_ratios() -> None:
    found = a_contest(81)
    assert found.best == "ring"
    assert found.over_best == pytest.approx(81 / 80)
    whole = (40 * 120 + 260 * 81) / 300
    assert found.against("native", loop.total_ns) == pytest.approx(100 / whole)
    assert contest.medians_text(found) == "ring 80, native 100, pair 130"


def test_runs_that_alternate_with_auto_are_compared_in_pairs() -> None:
    drift = np.linspace(1, 2, 300)
    auto = looped({AUTO: list(110 * drift), "native": list(100 * drift)}, AUTO)
    before, after = (
        looped({"native": [90.0] * 10, "ring": [95.0] * 10}, part) for part in ("before", "after")
    )
    chosen = Behaviour(("pair",) * 300, ("chosen",) * 300)
    (found,) = contest.contests([before, auto, after], [Behaviour(), chosen, Behaviour()])
    against = found.against("native", loop.total_ns)
    assert (against.low, against, against.high) == pytest.approx((100 / 110,) * 3)
    assert found.best == "native"
    assert (found.over_best.low, found.over_best.high) == pytest.approx((1.1, 1.1))
    assert found.against("ring", loop.total_ns) == pytest.approx(95 / 165)


def test_choices_before_a_change_do_not_count_after_it() -> None:
    measured = a_contest(81)
    assert measured.selection.chosen_instances(300) == slice(40, 300)
    # The arrivals of `looped` change after half of the instances.
    assert measured.chosen_instances == slice(150, 300)


def test_the_line_of_a_robust_setting() -> None:
    labels = {"operation": "alltoall", "bytes": 64 << 10, "computation ms": 50, "MAX_IF": 1}
    row = auto_robustness.make_row(a_contest(81, **labels))
    assert row["native ms"] == 100 and row["auto ms"] == 81 and row["best ms"] == 80
    assert (row["algorithm"], row["best"], row["probes"]) == ("ring", "ring", "40")
    assert row["native / auto"] == pytest.approx(100 / 81) and row["holds"] == "NO: best, probes"
    assert auto_robustness.make_row(a_contest(80.5, **labels))["holds"] == "NO: probes"


def test_auto_is_compared_with_the_paper_s_routine() -> None:
    """Both alternate with native, which takes 100 ms beside auto and 110 ms beside robust."""
    labels = {"operation": "alltoall", "bytes": 64 << 10, "computation ms": 50, "MAX_IF": 1}
    fixed = {"native": [100.0] * 10, "ring": [80.0] * 10}
    auto = looped({AUTO: [120.0] * 8 + [81.0] * 192, "native": [100.0] * 200}, AUTO, **labels)
    robust = looped(
        {ROBUST: [150.0] * 80 + [99.0] * 120, "native": [110.0] * 200}, ROBUST, **labels
    )
    selections = [
        Behaviour(("ring",) * 200, ("probe",) * count + ("chosen",) * (200 - count))
        for count in (8, 80)
    ]
    before, after = (looped(fixed, part, **labels) for part in ("before", "after"))
    parts = [before, auto, robust, after]
    found = contest.contests(parts * 2, [Behaviour(), *selections, Behaviour()] * 2)
    assert len(found) == 2
    row = auto_robustness.make_row(found[1])
    assert row["robust ms"] == 99 and row["robust probes"] == 80 and row["probes"] == "8"
    assert row["native / robust"] == pytest.approx(110 / 99)
    assert row["auto / robust"] == pytest.approx((81 / 100) / (99 / 110))
    assert auto_robustness.robust_columns(a_contest(81, **labels)) == {}


@pytest.mark.parametrize(
    ("only", "quick", "laps"),
    [
        (("alltoall",), False, {contest.ROBUST_LAPS}),
        (("alltoall",), True, {contest.QUICK_ROBUST_LAPS}),
        (("alltoall", "bcast"), True, set()),
    ],
)
def test_only_a_study_of_all_to_all_includes_robust(
    only: tuple[str, ...], quick: bool, laps: set[int]
) -> None:
    """After its 80 probes, both numbers leave instances of its choice."""
    setup = replace(SETUP, laps=60, options=Options(only=only, quick=quick))
    loops = auto_robustness.make_loops(setup)
    assert {one.laps for one in loops if one.labels["part"] == ROBUST} == laps


def test_the_goals_over_all_settings() -> None:
    """Native takes 100 ms; auto 40 times 120 and then 80.5 or 90, and the best choice 80."""
    near, median = (
        auto_robustness.overall_rows([a_contest(80.5), a_contest(90)]),
        f"{(80.5 + 90) / 2 / 80:.3g}",
    )
    after = "after probing at most 1.01 of the best: 1 of 2 settings, surely not 1; median "
    assert near[0] == after + median
    least = 300 * 100 / (40 * 120 + 260 * 90)
    assert near[1].startswith(
        f"whole run at least 0.99 of native: 2 of 2; the least {least:.3g}, 95 % "
    )
    assert near[2] == "probing instances, median: 40, asked 10: NO"


def test_library_algorithms_are_rivals_if_mpiprof_lacks_them() -> None:
    found = contest.candidates(SETUP, "allreduce", Problem(16, 1 << 14, unit=8), from_library=True)
    added = [choice for choice in found if choice.startswith("native:")]
    assert added == [
        *("native:basic_linear", "native:nonoverlapping"),
        *("native:ring", "native:segmented_ring"),
    ]
    assert "native:two_proc" not in contest.candidates(
        SETUP, "alltoall", Problem(16, 1 << 14), from_library=True
    )
    assert not [c for c in contest.candidates(SETUP, "bcast", Problem(16, 8)) if "native:" in c]


@pytest.mark.parametrize(
    ("number", "ratio", "low", "whole", "probes", "laps", "expected"),
    [
        (16 << 10, 1.01, 1.005, 1.0, [10, 10], 300, "yes"),
        (16 << 10, 1.02, 0.9, 1.0, [], 300, "NO: best"),
        (1, 1.5, 0.99, 0.99, [10], 300, "yes"),
        (1, 1.5, 1.01, 1.0, [11], 300, "NO: best, probes"),
        (64 << 10, 1.0, 1.0, 0.98, [1], 300, "NO: native"),
        (64 << 10, 1.0, 1.0, 0.5, [1], 100, "yes"),
    ],
)
def test_requirements_of_a_robust_setting(
    number: int, ratio: float, low: float, whole: float, probes: list[int], laps: int, expected: str
) -> None:
    assert auto_robustness.judge_row(number, ratio, low, whole, probes, laps) == expected


def test_the_lines_of_an_adaptive_case() -> None:
    rows = adaptive.make_rows(a_contest(81, name="late", title="t"), "openmpi")
    found = {row["compared"].partition(":")[0]: row for row in rows}
    assert found["native / auto"]["took"] == "30.0 s / 25.9 s"
    assert found["native / auto"]["measured"] == pytest.approx(300 * 100 / 25860)
    assert found["pair / auto"]["holds"] == "yes" and found["pair / auto"]["asked"].endswith("1.3")
    assert found["after probing"]["measured"] == pytest.approx(81 / 80)
    assert found["probing instances"]["measured"] == 40
    slow = adaptive.make_rows(a_contest(130, name="intergroup", title="t"), "mpich")
    assert slow[0]["asked"] == "at least 4" and slow[0]["holds"] == "NO"


@pytest.mark.parametrize(
    ("phases", "windows", "measured", "holds"),
    [
        ((0, 160), (8, 8), 160, "yes"),
        ((0, 170), (8, 8), 170, "NO"),
        ((0, 160), (0, 0), 160, ""),
        ((0, 140), (8, 8), None, "NO"),
        ((), (), None, ""),
    ],
)
def test_when_a_change_was_noticed(
    phases: tuple[int, ...], windows: tuple[int, ...], measured: float | None, holds: str
) -> None:
    one = a_contest(81, name="ends", title="t")
    row = adaptive.detection_row(replace(one, selection=Behaviour(phases=phases, windows=windows)))
    assert row["holds"] == holds
    assert np.isnan(row["measured"]) if measured is None else row["measured"] == measured


def test_the_arrivals_of_the_adaptive_cases() -> None:
    setup = replace(SETUP, laps=300)
    autos = {
        one.labels["name"]: one for one in adaptive.make_loops(setup) if one.labels["part"] == AUTO
    }
    assert set(autos) == set(adaptive.PARTS)
    message = 60e3 + 64 * 1024 * 83.9
    late = {name: np.array([p.late_ns for p in one.phases]) for name, one in autos.items()}
    assert late["late"].sum() == pytest.approx(4 * message, rel=1e-6)
    assert [int(v.argmax()) for v in late["moves"]] == [4, 12]
    for name in ("ends", "late_ends"):
        assert late[name][1].sum() == 0 < late[name][0].sum()
    assert int(late["late_reduce"][0].argmax()) == 15
    first = next(one for one in adaptive.make_loops(setup) if one.labels["name"] == "late_reduce")
    assert "late_last:late=15" in [case.choice for case in first.cases]
    assert autos["moves"].phases[1].since == 150
    assert autos["intergroup"].cases[0].members == "8+8"
