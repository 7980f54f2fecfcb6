"""The specifications of causes in tests/causes, and their judgement."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import spec_files
from support.cause_judgement import (
    INEXACT,
    RIGHT,
    UNSURE,
    WRONG,
    Expected,
    Report,
    judge,
    list_ranks,
    make_expected,
    named_ranks,
    stated_run_ns,
)
from support.cause_specs import Result, Truth, renew, run_spec
from support.spec_files import Spec, read_specs

from mpiprof.causes.finding import CAUSES, Finding, HabitEvidence, WorkLocation
from mpiprof.causes.findings import make_verdict
from mpiprof.reports import json
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace

SPECS = read_specs()
MIN_COST = 0.05  # of the run time, so that a cause is no chance
MIN_SMALL_COST = 0.02  # the same of small delays, whose subject is how little they save
MAX_TEXT, MAX_TITLE = 600, 120  # characters of a finding, which fits a screen
PROBLEM = "Half of it: rank 3 works 2 ms longer between gather at a.py:20 and bcast at a.py:30."
EXPECTED = Expected(
    *(("rank",), (3,)),
    place=("a.py:20", "a.py:30"),
    says="works .* longer",
    omits="grows",
    calls=("gather", "bcast"),
    first=7,
)


def make_evidence(before: str, after: str) -> HabitEvidence:
    """Return evidence with work between two calls."""
    return HabitEvidence((WorkLocation({"operation": before}, {"operation": after}, False),))


FINDING = Finding(
    *("rank", 600, 0.5, (0,), (3,)),
    first_instance=8,
    saved_ns=100.0,
    evidence=make_evidence("gather", "bcast"),
)
REPORT = Report(["All wait.", PROBLEM], PROBLEM, FINDING)


@pytest.mark.heavy
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_report_is_that_of_the_file(spec: Spec, tmp_path: Path) -> None:
    """`python -m support.cause_specs --renew` writes a changed report into the file."""
    result = run_spec(spec, tmp_path / "trace")
    assert result.is_as_marked, f"{result.judgement}; the file has the mark {spec.today!r}"
    assert result.recorded.strip() == spec.recorded
    least = MIN_SMALL_COST if spec.file == "small_delays" else MIN_COST
    assert not spec.has_cause or result.truth.saved_ns > least * result.truth.run_ns
    check_what_if(result.report)
    assert result.trace is not None
    check_statements(result.trace)


def check_statements(trace: Trace) -> None:
    """Check that no statement on a trace is impossible, too long, or differs in JSON."""
    findings = trace.findings()
    for finding in findings:
        assert finding.cause in CAUSES
        assert 0 <= finding.share <= 1 and 0 <= finding.certainty <= 1
        text = finding_sentences.finding_text(trace, finding)
        assert not re.search(r"\bnan\b| -\d|None", text)
        assert (
            len(text) < MAX_TEXT
            and len(finding_sentences.finding_title(trace, finding)) < MAX_TITLE
        )
        late = getattr(finding.evidence, "late_instances", None)
        assert late is None or 0 < late <= finding.habit.instances
    verdict = make_verdict(trace, findings)
    reported = json.verdict_as_data(trace, verdict)
    assert reported["text"] == conclusion.verdict_lines(trace, verdict)
    assert reported["cause"] == verdict.cause


def check_what_if(report: Report) -> None:
    """Check that the first sentence about a cause and --what-if state one run time."""
    if not math.isnan(report.predicted_ns):
        stated_ns = stated_run_ns(report.problem)
        if math.isnan(stated_ns):
            assert report.finding is not None and report.finding.saved_ns == 0, report.problem
        else:
            assert stated_ns == pytest.approx(report.predicted_ns, rel=0.006)  # three digits


def test_each_cause_has_a_plant_a_kind_and_a_title_of_its_own() -> None:
    assert [name for name, count in Counter(map(str, SPECS)).items() if count > 1] == []
    for spec in SPECS:
        assert spec.has_cause == ("kinds" in spec.fields.get("expected", {})), spec
        assert not spec.today or spec.today.split(": ")[0] in (INEXACT, UNSURE, WRONG), spec


WRONG_REPORTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ranks": (WRONG, {"finding": replace(FINDING, ranks=(2,))}),
    "too many ranks": (WRONG, {"finding": replace(FINDING, ranks=(2, 3))}),
    "ranks of the sentence": (WRONG, {"problem": PROBLEM.replace("rank 3", "ranks 3-5")}),
    "kind": (WRONG, {"finding": replace(FINDING, cause="node")}),
    "place": (WRONG, {"problem": PROBLEM.replace("a.py:20", "a.py:201")}),
    "words": (WRONG, {"problem": PROBLEM.replace("longer", "shorter")}),
    "omitted words": (WRONG, {"details": "Its delay grows."}),
    "calls": (WRONG, {"finding": replace(FINDING, evidence=make_evidence("scan", "bcast"))}),
    "period": (WRONG, {"finding": replace(FINDING, period=5)}),
    "first step": (WRONG, {"finding": replace(FINDING, first_instance=9)}),
    "nobody": (UNSURE, {"finding": replace(FINDING, ranks=())}),
    "nothing": (UNSURE, {"finding": None}),
    "chance": (UNSURE, {"problem": PROBLEM.replace("of it", "of it has no sure cause")}),
    "saving": (INEXACT, {"finding": replace(FINDING, saved_ns=89.0)}),
}


@pytest.mark.parametrize("part", WRONG_REPORTS)
def test_each_fault_of_a_report_is_found(part: str) -> None:
    assert judge(EXPECTED, REPORT, 100.0) == RIGHT
    result, change = WRONG_REPORTS[part]
    judgement = judge(EXPECTED, replace(REPORT, **change), 100.0)
    assert judgement.startswith(f"{result}: ")


def test_a_fair_program_has_no_accused_rank() -> None:
    fair = Report(["All wait.", "No rank causes it."], "No rank causes it.", None)
    assert judge(Expected(), fair, None) == RIGHT
    assert judge(Expected(), REPORT, None) == "wrong: names ranks [3]"
    named_later = replace(fair, sentences=[*fair.sentences, "Besides, rank 2 is late."])
    assert judge(Expected(), named_later, None) == "wrong: names ranks [2]"


def test_a_cause_without_ranks_has_a_kind_and_a_saving() -> None:
    expected = Expected(("wavefront",))
    sweep = Finding("wavefront", 600, 0.5, (0,), saved_ns=100.0)
    fair = Report(["All wait.", "It is the sweep."], "It is the sweep.", sweep)
    assert judge(expected, fair, 100.0) == RIGHT
    assert judge(expected, fair, 120.0).startswith(INEXACT)
    noise = replace(fair, finding=replace(sweep, cause="noise"))
    assert judge(expected, noise, 100.0) == "unsure: noise for wavefront"
    assert judge(expected, REPORT, 100.0).startswith(WRONG)


def test_one_of_several_ranks_is_enough() -> None:
    expected = make_expected({"among": "3 to 5"})
    assert judge(expected, REPORT, None) == RIGHT
    other = replace(REPORT, finding=replace(FINDING, ranks=(2,)))
    assert judge(expected, other, None) == "wrong: ranks [2, 3] for [3, 4, 5]"
    assert list_ranks([1, 7]) == [1, 7]


@pytest.mark.parametrize(
    ("today", "judgement", "is_as_marked"),
    [
        ("", RIGHT, True),
        ("", "wrong: ranks [1] for [2]", False),
        ("wrong: ranks [1] for [2]", "wrong: ranks [3] for [2]", True),
        ("wrong: ranks [1] for [2]", "unsure: no sure cause", False),
        ("wrong: ranks [1] for [2]", RIGHT, False),
    ],
)
def test_a_mark_must_be_of_the_class_of_the_judgement(
    today: str, judgement: str, is_as_marked: bool
) -> None:
    result = Result(replace(SPECS[0], fields={"today": today}), Truth(3, 2, 1), REPORT, judgement)
    assert result.is_as_marked == is_as_marked


def test_expressions_of_a_case() -> None:
    """Names under `draw` are computed in their order, and differ between cases and seeds."""
    fields = {
        "cases": 2,
        "draw": {"random": "=generator(seed, case)", "rank": "=random.integers(1000)"},
        "program": "planted_loop",
        "ranks": "=pick(4, 8)",
        "planted": {"delays": [{"late": ["=rank"], "ms": 5}]},
        "expected": {"kinds": ["rank"], "ranks": ["=rank"]},
    }
    spec = Spec("file", "title", fields, "")
    first, second, other = spec.make_case(0), spec.make_case(1), spec.make_case(0, seed=2)
    assert (first.parameters, second.parameters) == ({"ranks": 4}, {"ranks": 8})
    ranks = [case.expected.ranks for case in (first, second, other)]
    assert len(set(ranks)) == 3
    assert first.planted == {"delays": [{"late": list(ranks[0]), "ms": 5}]}


def test_ranks_of_a_sentence() -> None:
    sentence = "Two thirds of it: ranks 3, 5-7 and 4 more work longer than rank 12."
    assert named_ranks(sentence) == {3, 5, 6, 7, 12}


def test_renewal_changes_the_reports_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong report in a file is replaced; heading, prose, YAML and other sections stay."""
    name = "coarse_level.md"
    before = (spec_files.FOLDER / name).read_text()
    (tmp_path / name).write_text(before.replace("run time saved", "run time lost"))
    monkeypatch.setattr(spec_files, "FOLDER", tmp_path)
    results = [run_spec(spec, tmp_path / spec.title) for spec in read_specs()]
    assert not any(result.recorded.strip() == result.spec.recorded for result in results)
    renew(results)
    assert (tmp_path / name).read_text() == before
