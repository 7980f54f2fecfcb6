"""The report of Faraj et al.: known answers about message times, programs and arrivals."""

from __future__ import annotations

import math
from functools import partial

import pytest
from support.paper_claims import judge_claim, judge_rule, show_exhibit

from mpiprof.account.aggregate import RANGE_NAMES
from mpiprof.collectives.papers.harness.figures import Bars, Lines, Panels
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import faraj, faraj_programs, import_paper
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    Results,
    read_paper_values,
)
from mpiprof.collectives.papers.reports.paper_report import compose_report
from mpiprof.collectives.papers.reports.runs import RunResult
from mpiprof.collectives.papers.studies.apps import ALL, WHOLE
from mpiprof.collectives.papers.studies.arrival import JOINED, KINDS


def make_results(**tables: list[Row]) -> Results:
    rows = {name.replace("_", " "): rows for name, rows in tables.items()}
    return Results(rows, read_paper_values("faraj"))


# ---- message times


def test_simulated_message_times_are_near_the_paper_s() -> None:
    """The fit is exact for the smallest and the largest message, and near elsewhere."""
    results = make_results(message_times=faraj_programs.compute_message_times(True))
    rows = faraj_programs.compare_message_times(results)
    ratios = {(row["machine"], row["size"]): row["ratio"] for row in rows}
    assert len(ratios) == 16
    assert ratios["Lemieux", "128 KB"] == pytest.approx(1, abs=0.01)
    assert ratios["Beowulf", "4 B"] == pytest.approx(1, abs=0.01)
    assert all(0.5 < ratio < 1.5 for ratio in ratios.values())
    assert judge_claim("faraj", "The bandwidths follow", results).state == HOLDS


def test_measured_times_of_all_sizes_of_table_1() -> None:
    """Sizes that the paper's table lacks are left out, and the empty message has no bandwidth."""
    times = [
        {"link": "between nodes", "bytes": n, "time ms": 0.01 + n * 1e-6, "MB/s": n}
        for n in (0, 2, *faraj_programs.SIZES.values(), 1 << 20)
    ]
    simulated = faraj_programs.compute_message_times(True)
    results = make_results(message_times=simulated, apps_messages=times)
    assert judge_claim("faraj", "The bandwidth grows", results).reason.startswith("7 of 7 steps")
    table = faraj_programs.show_table_1(results).tables[0]
    assert [row["size"] for row in table.rows] == list(faraj_programs.SIZES)
    absent = judge_claim("faraj", "The bandwidth grows", make_results(message_times=simulated))
    assert absent.state == NOT_REPRODUCED


# ---- programs


def make_programs(seconds: float) -> list[Row]:
    """Return rows of all stand-ins: 10 s, and so many seconds of them in collectives."""
    return [
        {"program": name, "routine": routine, "native s": s, "δ/T": 1.0, "ω/T": 9.0}
        for name in faraj_programs.STAND_INS
        for routine, s in ((WHOLE, 10.0), (ALL, seconds))
    ]


@pytest.mark.parametrize(("seconds", "state"), [(0.26, HOLDS), (0.24, FAILS)])
def test_programs_spend_the_paper_s_least_share_in_collectives(seconds: float, state: str) -> None:
    """1.5 of 59.5 s in NBODY."""
    assert (
        judge_claim("faraj", "All programs spend", make_results(apps=make_programs(seconds))).state
        == state
    )


def test_tables_2_and_4_have_a_row_per_program() -> None:
    lines: list[Row] = [{"program": name, "lines": 100} for name in faraj_programs.STAND_INS]
    results = make_results(apps=make_programs(1), apps_programs=lines)
    (second,) = show_exhibit("faraj", "Table 2", results).tables
    assert [row["for"] for row in second.rows] == list(faraj_programs.STAND_INS.values())
    assert second.rows[0]["comm. share"] == "10 %" and second.rows[0]["paper's share"] == "62 %"
    (fourth,) = show_exhibit("faraj", "Table 4", results).tables
    assert fourth.rows[0]["worst ω/T"] == 9.0 and fourth.rows[0]["Lemieux worst"] == 652
    assert judge_claim("faraj", "Arrivals of every program", results).state == HOLDS


def make_routine(program: str, routine: str, factor: float = 5.0) -> Row:
    cells = {"calls": 3, "message bytes": 8.0, "least bytes": 4.0, "most bytes": 12.0}
    factors = {"share of time": 0.5, "δ/T": 1.0, "ω/T": factor}
    return {"program": program, "routine": routine, **cells, **factors}


def test_routines_are_those_of_the_replaced_programs() -> None:
    rows = [make_routine("ft", "alltoall"), make_routine("is", "alltoallv", 0.5)]
    results = make_results(apps_collectives=rows)
    verdict = judge_claim("faraj", "The programs call", results)
    assert verdict.state == IN_PART and verdict.reason.startswith("2 of 13 routines")
    assert "FT reduce" in verdict.reason and "FT alltoall" not in verdict.reason
    (table,) = show_exhibit("faraj", "Table 3", results).tables
    assert table.rows[0]["bytes"] == "4 to 12" and table.rows[0]["bytes, paper"] == "131076"
    assert faraj_programs.find_paper_bytes(results, "LAMMPS bcast") == "4 to 704"
    assert judge_claim("faraj", "Only the alltoallv", results).state == HOLDS
    (fifth,) = show_exhibit("faraj", "Table 5", results).tables
    assert [row["Beowulf worst"] for row in fifth.rows] == [124, 0.8]
    rows[1]["ω/T"] = 1.5
    assert "not IS alltoallv 1.5" in judge_claim("faraj", "Only the alltoallv", results).reason


def test_the_place_of_a_measurement_is_that_of_its_notes() -> None:
    """A quick report measures the programs on an emulated cluster, if that is possible."""
    rows: list[Row] = [{"program": "ft", "routine": ALL, "δ/T": 54.01, "ω/T": 196.5}]
    cluster = "emulated cluster of 8 nodes at 100 Mbit/s"
    for notes, place in (((f"{cluster}, Open MPI",), cluster), ((), "this machine")):
        result = RunResult(rows, 1.0, notes=notes)
        paper = import_paper("faraj")
        (fourth,) = [e for e in paper.exhibits if e.number == "Table 4"]
        (section,) = compose_report(paper, [fourth], {"apps": result}, True).sections
        (table,) = section.content.tables
        assert table.title == f"Factors of all collectives on {place}"
        # One run allows two digits.
        assert [str(table.rows[0][c]) for c in ("average δ/T", "worst ω/T")] == ["54", "200"]


def test_few_operations_are_balanced() -> None:
    rows: list[Row] = [
        {"messages": size, "ω/T": name, "share": share}
        for size, balanced in (("≤ 1000 B", 0.1), ("> 1000 B", 0.3))
        for name, share in (("<1", balanced), ("1-8", 1 - balanced))
    ]
    results = make_results(apps_distribution=rows)
    few = judge_claim("faraj", "At most 21 %", results)
    assert few.state == IN_PART and "10 % ≤ 1000 B, 30 % > 1000 B" in few.reason
    assert judge_claim("faraj", "Operations with small", results).state == HOLDS
    (panels,) = faraj_programs.show_figure_2(results).figures
    assert isinstance(panels, Panels) and isinstance(panels.figures[0], Bars)
    assert panels.figures[0].series["> 1000 B"] == [0.3, 0.7]
    assert judge_claim("faraj", "At most 21 %", make_results()).state == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("large", "state"),
    [
        ((0.0, 0.4, 0.4, 0.2, 0.0, 0.0), HOLDS),
        ((0.0, 0.1, 0.9, 0.0, 0.0, 0.0), IN_PART),  # fewer below 8, and more below 32
        ((0.0, 0.2, 0.3, 0.5, 0.0, 0.0), FAILS),  # equal distributions
    ],
)
def test_larger_messages_are_less_imbalanced_below_each_limit(
    large: tuple[float, ...], state: str
) -> None:
    """No operation is balanced here."""
    small = (0.0, 0.2, 0.3, 0.5, 0.0, 0.0)
    rows: list[Row] = [
        {"messages": size, "ω/T": name, "share": share}
        for size, shares in (("≤ 1000 B", small), ("> 1000 B", large))
        for name, share in zip(RANGE_NAMES, shares, strict=True)
    ]
    verdict = judge_claim("faraj", "Operations with small", make_results(apps_distribution=rows))
    assert verdict.state == state and "≤ 1000 B: 0 %, 20 %, 50 %, 100 %, 100 %; " in verdict.reason


def test_most_instances_are_near_the_median() -> None:
    rows: list[Row] = [
        {"program": name, "routine": "alltoall", "instance": i, "δ/T": 1.0, "ω/T": factor}
        for name, factors in (("ft", (10, 12, 9, 900)), ("nbody", (1, 10, 100, 1000)))
        for i, factor in enumerate(factors, 1)
    ]
    results = make_results(apps_instances=rows)
    verdict = judge_claim("faraj", "Most instances", results)
    assert verdict.state == IN_PART and "3 of 4 in FT, 1 of 4 in NBODY" in verdict.reason
    (panels,) = faraj_programs.show_figure_3(results).figures
    assert isinstance(panels, Panels) and len(panels.figures) == 2
    first = panels.figures[0]
    assert isinstance(first, Lines) and list(first.series[0].y) == [10, 12, 9, 900]
    assert faraj_programs.show_figure_3(make_results()).notes


# ---- arrivals


def make_arrivals(*factors: tuple[float, float, float]) -> list[Row]:
    """Return rows of exit, computation and arrival factors."""
    rows: list[Row] = []
    for ms, values in zip((50, 200, 800), factors, strict=False):
        row: Row = {"computation ms": ms, "instances": 20, "processor share": 1.0}
        for kind, value in zip(KINDS, values, strict=True):
            row |= {f"{kind} ω/T": value, f"{kind} ±": 0.25}
        rows.append(row | {f"{JOINED} ω/T": row["computation ω/T"]})
    return rows


ORDER = "The factors of computation"
CHECKS = [
    partial(judge_claim, "faraj", text)
    for text in (
        "Arrivals are imbalanced after",
        "The imbalance of computation grows",
        "Arrivals are at least as imbalanced",
        "Computation causes more",
        ORDER,
    )
]


def test_the_paper_s_own_numbers_pass_its_claims() -> None:
    """Table 6: at 50, 200 and 800 ms."""
    numbers = ((15.2, 23.4, 32.5), (15.0, 87.4, 92.7), (15.0, 320.0, 322.0))
    results = make_results(arrival=make_arrivals(*numbers))
    assert [check(results).state for check in CHECKS] == [HOLDS] * 5
    content = faraj.show_causes(results, "Table 6")
    assert content.tables[0].rows[0]["computation"] == "23.4 ± 0.2"
    assert content.tables[0].rows[0]["computation, paper"] == "23.4 ± 0.3"


def test_a_network_that_decides_fails_the_claim() -> None:
    results = make_results(arrival=make_arrivals((9.0, 0.2, 9.1), (9.0, 0.3, 0.5), (9.0, 9.5, 9.9)))
    states = [check(results).state for check in CHECKS]
    assert states == [IN_PART, HOLDS, HOLDS, IN_PART, IN_PART]


def test_factors_of_two_nodes_count_if_they_are_known() -> None:
    """Messages through memory take less, so that 1000 is out of the paper's range."""
    fast, slow = make_arrivals((1.0, 1000.0, 1001.0)), make_arrivals((1.0, 30.0, 31.0))
    both = make_results(arrival=fast, **{"arrival on the cluster": slow})
    assert judge_claim("faraj", ORDER, both).state == HOLDS
    unusable = make_arrivals((math.nan, math.nan, math.nan))
    alone = make_results(arrival=fast, **{"arrival on the cluster": unusable})
    assert judge_claim("faraj", ORDER, alone).state == FAILS


def test_work_of_other_processes_is_stated() -> None:
    """It moves ranks apart, too."""
    results = make_results(arrival=make_arrivals((1.0, 900.0, 901.0)))
    assert "other processes" not in judge_claim("faraj", ORDER, results).reason
    results.rows["arrival"][0]["processor share"] = 0.6
    verdict = judge_claim("faraj", ORDER, results)
    assert verdict.reason.endswith("; other processes had 40 % of the processors")


def test_two_nodes_are_judged_if_the_times_through_memory_are_not_usable() -> None:
    unusable = make_arrivals((math.nan, math.nan, math.nan))
    nodes = make_arrivals((1.0, 30.0, 31.0), (1.0, 60.0, 61.0))
    results = make_results(arrival=unusable, **{"arrival on the cluster": nodes})
    assert [check(results).state for check in CHECKS] == [HOLDS] * 5
    instances: list[Row] = [{"instance": 1, "δ/T": 0.5, "ω/T": 2.0}]
    on_nodes = make_results(**{"arrival on the cluster instances": instances})
    assert judge_claim("faraj", "Arrivals are imbalanced in each", on_nodes).state == HOLDS


@pytest.mark.parametrize("unknown", ["", math.nan])
def test_without_factors_there_is_no_verdict(unknown: float) -> None:
    """Neither without message times, nor about computation that is a timer."""
    results = make_results(arrival=make_arrivals((unknown, unknown, unknown)))
    assert {check(results).reason for check in CHECKS} == {faraj_programs.NO_TIMES}
    results = make_results(arrival=make_arrivals((2.0, unknown, 3.0)))
    assert CHECKS[0](results).state == HOLDS
    assert {check(results).reason for check in CHECKS[1:]} == {faraj.TIMER}
    assert faraj.show_causes(results, "Table 7").tables[0].rows[0]["computation"] == ""


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [(15.23, 0.7, "15.2 ± 0.7"), (320.4, 3.6, "320 ± 4"), (14.18, 0.02, "14.18 ± 0.02")],
)
def test_no_more_digits_than_the_interval_allows(value: float, half: float, text: str) -> None:
    assert faraj.format_interval(value, half) == text


def test_single_instances_after_computation() -> None:
    rows: list[Row] = [{"instance": i, "δ/T": 0.5, "ω/T": w} for i, w in ((1, 2.0), (2, 0.5))]
    results = make_results(arrival_instances=rows)
    assert judge_claim("faraj", "Arrivals are imbalanced in each", results).state == IN_PART
    (figure,) = faraj.show_instances(results).figures
    assert isinstance(figure, Lines) and list(figure.series[1].y) == [0.5, 0.5]


# ---- applications


def test_message_sizes_of_table_11() -> None:
    results = make_results(message_sizes=faraj.compute_message_sizes(True))
    verdict = judge_claim("faraj", "A message has the problem", results)
    assert verdict.state == HOLDS and verdict.reason.startswith("16 of 16")


def test_table_12_has_the_paper_s_columns() -> None:
    cells = {"native s": 8.0, "native ±": 0.2, "auto s": 4.0, "native / auto": 2.0}
    cells |= {"robust s": 5.0, "native / robust": 1.6}
    whole = {"native s": 20.0, "native ±": 0.5, "auto s": 20.4, "native / auto": 0.98}
    whole |= {"robust s": 20.2, "native / robust": 0.99}
    chosen = {"algorithm": "ring", "robust algorithm": "simple"}
    rows: list[Row] = [
        {"program": "hydro", "routine": "alltoall", "instances": 81, **chosen, **cells},
        {"program": "hydro", "routine": WHOLE, **dict.fromkeys(chosen, ""), **whole},
    ]
    results = make_results(apps=rows)
    measured, paper = faraj.show_table_12(results).tables
    assert list(measured.columns) == ["program", "implem.", "comm.", "total"]
    assert [row["implem."] for row in measured.rows] == [
        "NATIVE", *("ROBUST", "speed-up", "algorithm"), *("auto", "speed-up", "algorithm")
    ]  # fmt: skip
    times = [row["comm."] for row in measured.rows]
    assert times == ["8 s ± 0.2", "5 s", "60 %", "simple", "4 s", "100 %", "ring"]
    assert (measured.rows[2]["total"], measured.rows[5]["total"]) == ("-1 %", "-2 %")
    assert paper.rows[2]["LEMIEUX comm."] == "2495 s" and len(paper.rows) == 8
    gain = judge_rule("faraj", results, "program gain", WHOLE)
    assert gain.state == NOT_REPRODUCIBLE and gain.reason.endswith("robust is VH-1 0.99")
    assert judge_claim("faraj", "`auto` is not behind it", results).state == HOLDS
    rows[0]["auto s"] = 5.1  # within the difference of two native runs
    assert judge_claim("faraj", "`auto` is not behind it", results).state == HOLDS
    rows[0]["auto s"] = 5.3
    assert judge_claim("faraj", "`auto` is not behind it", results).state == FAILS
    rows[0]["instances"] = 80  # all of them probes
    assert judge_claim("faraj", "`auto` is not behind it", results).state == NOT_REPRODUCED
