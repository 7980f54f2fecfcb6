"""Rules of claims and views of exhibits: known answers on a few rows."""

from __future__ import annotations

import dataclasses

import pytest

from mpiprof.collectives.papers.harness.figures import Lines, Panels
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import PAPERS
from mpiprof.collectives.papers.reports.claim_rules import ClaimRule, judge_cases
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    ClaimVerdict,
    PaperValue,
    PaperValues,
    Results,
)
from mpiprof.collectives.papers.reports.paper_file import make_claim, read_file
from mpiprof.collectives.papers.reports.views import show_view

ROWS: list[Row] = [
    {"name": "ring", "c": 1, "ms": 2.0},
    {"name": "pair", "c": 2048, "ms": 3.0},
    {"name": "pair", "c": 1 << 20, "ms": 4.123456},
]
VALUES = PaperValues((PaperValue("Table 1", "ring", "time", 1.0, "ms", "Table 1"),))
RESULTS = Results({"run": ROWS}, VALUES)


def judge(rule: ClaimRule, rows: list[Row] = ROWS) -> ClaimVerdict:
    return judge_cases(RESULTS, rule, lambda _: rows)


@pytest.mark.parametrize("name", PAPERS)
def test_every_field_of_a_paper_is_read(name: str) -> None:
    """An unknown field would be ignored."""
    fields = {field.name for field in dataclasses.fields(ClaimRule)} | {"cases"}
    stored = read_file(name)
    assert all(rule.keys() <= fields | {"parameters"} for rule in stored["rules"].values())
    for exhibit in stored["exhibits"]:
        parts = {"exhibit", "section", "shows", "runs", "optional runs", "show", "claims"}
        assert exhibit.keys() <= parts
        for claim in exhibit.get("claims", ()):
            assert claim.keys() in ({"text", "check"}, {"text", "rule"}) or (
                claim.keys() <= fields | {"text"} and {"cases", "reason"} <= claim.keys()
            ), claim
        view = exhibit.get("show", {})
        if isinstance(view, dict):
            drawn = {"figure", "table", "columns", "note", "missing"}
            assert view.keys() <= {"cases", "paper", "let", "where"} | drawn, exhibit["exhibit"]


def test_a_reason_describes_the_cases_of_the_claim_and_those_left_out() -> None:
    rule = ClaimRule(
        "cases; {min[ms]:.3g} to {max[ms]}, {at_max[ms][c]:size}, {distinct}, {each:; }",
        agrees="ms > 3",
        where="c > 1",
        each="{name}",
        if_wrong="; not {wrong.each}",
        if_rest="; without {rest.each}",
    )
    verdict = judge(rule)
    assert verdict.state == IN_PART
    expected = "1 of 2 cases; 3 to 4.123, 1 MB, pair, pair; pair; not pair; without ring"
    assert verdict.reason == expected


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (ClaimRule(agrees="ms >= 2", otherwise=FAILS), HOLDS),
        (ClaimRule(agrees="ms > 2", otherwise=FAILS), FAILS),
        (ClaimRule(agrees="ms.diff().fillna(0) >= 0"), HOLDS),
        (ClaimRule(agrees="ms < 2"), FAILS),
        (ClaimRule(where="c > 9e9", missing="no rows"), NOT_REPRODUCED),
        (ClaimRule(known=["name"], missing="no numbers"), NOT_REPRODUCED),
        (ClaimRule(agrees="ms < 0", state=NOT_REPRODUCIBLE), NOT_REPRODUCIBLE),
    ],
)
def test_states(rule: ClaimRule, state: str) -> None:
    assert judge(rule).state == state


def test_numbers_of_the_paper_and_computed_columns() -> None:
    """The paper has no number of `pair`, so that its case is left out."""
    rule = ClaimRule(
        "cases: {each}",
        agrees="ratio == 2",
        paper={"paper": ["Table 1", "{name}", "time"]},
        let={"ratio": "ms / paper"},
        where="paper == paper",
        each="{name} {ratio} ({paper})",
    )
    assert judge(rule) == ClaimVerdict(HOLDS, "1 of 1 cases: ring 2 (1)")


def test_a_verdict_in_place_of_cases_is_that_of_the_claim() -> None:
    verdict = ClaimVerdict(NOT_REPRODUCED, "no times")
    assert judge_cases(RESULTS, ClaimRule(), lambda _: verdict) is verdict


def test_a_rule_with_parameters() -> None:
    rules = {
        "most": {
            "parameters": ["run", "limit"],
            "cases": ["find", "$run"],
            "agrees": "ms < $limit",
            "reason": "times below $limit ms",
        }
    }
    functions = {"find": lambda results, run: results.rows[run]}
    claim = make_claim({"text": "It is fast.", "rule": ["most", "run", 4]}, rules, functions)
    assert claim.check(RESULTS) == ClaimVerdict(IN_PART, "2 of 3 times below 4 ms")


def test_a_view_has_a_panel_and_a_table_for_each_text() -> None:
    view = {
        "figure": {
            "title": "Times",
            "columns": 2,
            "panels": "{name}",
            "sort": "name",
            "x": "c",
            "lines": [{"name": "{name}, here", "y": "ms"}],
            "axes": ["c", "ms"],
            "ticks": "size",
        },
        "table": "Times of {name}",
        "columns": {"size": "{c:size}", "time": "ms"},
        "missing": "no rows",
    }
    content = show_view(RESULTS, view, ClaimRule(), lambda _: ROWS)
    (panels,) = content.figures
    assert isinstance(panels, Panels) and [p.title for p in panels.figures] == ["pair", "ring"]
    first = panels.figures[0]
    assert isinstance(first, Lines) and first.series[0].name == "pair, here"
    assert (first.series[0].x, first.series[0].y) == ([2048, 1 << 20], [3.0, 4.123456])
    ring, _ = content.tables
    assert (ring.title, ring.rows) == ("Times of ring", [{"size": "1 B", "time": 2.0}])
    assert show_view(RESULTS, view, ClaimRule(), lambda _: []).notes == ["no rows"]
