"""The report of Faraj et al., Section 7: native, the paper's routine, and `auto`."""

from __future__ import annotations

import pytest
from support.paper_claims import judge_rule

from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import import_paper
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCED,
    NOT_REPRODUCIBLE,
    Exhibit,
    Results,
    read_paper_values,
)

NO_ROWS = "the quick report has no setting of this exhibit"
NUMBERS = {
    "native / robust": 1.2,
    "native / robust 95 %": "1.1 to 1.3",
    "auto / robust": 0.9,
    "robust 95 %": "0.88 to 0.92",
}
TIMES = {"native ms": 12.0, "robust ms": 10.0, "auto ms": 9.0, "best ms": 8.9, "native / auto": 1.3}
CHOICES = {"robust algorithm": "ring", "algorithm": "pair", "best": "pair"}
PROBES: Row = {"robust probes": 80, "probes": "12+4"}


def setting(number: int, computation_ms: int, most: int, **changed: object) -> Row:
    """Return a row of `bench robust`; "_" in a name means a space."""
    row: Row = {"bytes": number, "computation ms": computation_ms, "MAX_IF": most}
    more = {name.replace("_", " "): value for name, value in changed.items()}
    return row | TIMES | NUMBERS | CHOICES | PROBES | more


def results(*rows: Row) -> Results:
    return Results({"robust": list(rows)}, read_paper_values("faraj"))


def list_exhibits() -> list[Exhibit]:
    """Return the exhibits that read the rows of ROBUST."""
    return [exhibit for exhibit in import_paper("faraj").exhibits if "robust" in exhibit.runs]


GRID = (
    *(setting(64 << 10, ms, 1) for ms in (50, 100, 200, 400)),
    *(setting(64 << 10, 200, most) for most in (10, 50, 100)),
    setting(1, 400, 1),
)


def test_tables_9_and_10_have_the_paper_s_columns() -> None:
    by_number = {exhibit.number: exhibit for exhibit in list_exhibits()}
    (table,) = by_number["Table 9"].show(results(*GRID)).tables
    assert [row["computation ms"] for row in table.rows] == [50, 100, 200, 400]
    assert [row["LEMIEUX %"] for row in table.rows] == [31.6, 30.8, 28.9, 27.9]
    (table,) = by_number["Table 10"].show(results(*GRID)).tables
    assert {row["MAX_IF"]: row["AURORA %"] for row in table.rows} == {
        1: 8.3, 10: 27.8, 50: 22.3, 100: 29.1
    }  # fmt: skip
    figure = by_number["Figure 12"].show(results(*GRID)).figures[0]
    assert len(getattr(figure, "figures", ())) == 4


def test_claims_that_hold() -> None:
    """Gains over the libraries of that time are not judged."""
    for exhibit in list_exhibits():
        for claim in exhibit.claims:
            gain = claim.text.startswith("ROBUST is faster")
            wanted = NOT_REPRODUCIBLE if gain else HOLDS
            assert claim.check(results(*GRID)).state == wanted, (exhibit.number, claim.text)


@pytest.mark.parametrize("ratio", [0.5, 1.2])
def test_a_gain_over_old_libraries_is_shown_but_not_judged(ratio: float) -> None:
    row = setting(64 << 10, 50, 1, **{"native_/_robust": ratio})
    verdict = judge_rule("faraj", results(row), "gain", "Table 9")
    assert verdict.state == NOT_REPRODUCIBLE
    assert verdict.reason.endswith(f"native over robust is {ratio:g} (1.1 to 1.3)")


@pytest.mark.parametrize(
    ("number", "claim", "changed"),
    [
        ("ROBUST", 0, {"robust_probes": 50}),
        ("ROBUST", 1, {"probes": "70+10"}),
        ("Figure 12", 0, {"native_/_robust_95_%": "0.95 to 0.99"}),
        ("Table 9", 1, {"auto_/_robust": 1.1, "robust_95_%": "1.01 to 1.2"}),
    ],
)
def test_claims_that_hold_in_part_or_not(
    number: str, claim: int, changed: dict[str, object]
) -> None:
    exhibit = next(exhibit for exhibit in list_exhibits() if exhibit.number == number)
    check = exhibit.claims[claim].check
    wrong, right = (setting(64 << 10, 50, 1, **words) for words in (changed, {}))
    assert check(results(wrong, right)).state == IN_PART
    assert check(results(wrong)).state == FAILS


def test_auto_is_behind_only_if_that_is_sure() -> None:
    """The ratio is printed in any case."""
    close = setting(64 << 10, 50, 1, **{"auto_/_robust": 1.02, "robust_95_%": "0.99 to 1.05"})
    verdict = judge_rule("faraj", results(close), "auto", "Table 9")
    assert verdict.state == HOLDS and verdict.reason.endswith("auto over robust: 1.02")


def test_a_quick_report_lacks_settings() -> None:
    quick = results(setting(64 << 10, 50, 1), setting(64 << 10, 50, 10))
    figure_13 = next(exhibit for exhibit in list_exhibits() if exhibit.number == "Figure 13")
    assert figure_13.show(quick).notes == [NO_ROWS]
    gain, rival = (claim.check(quick) for claim in figure_13.claims)
    assert gain.state == NOT_REPRODUCIBLE and gain.reason.endswith(NO_ROWS)
    assert rival.state == NOT_REPRODUCED
