"""Call site of a finding: the one with most of its waiting, which blames the same ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.headline_situations import CAUSE, MESSAGES, SITE
from support.neighbours import make_ring
from support.page_traces import write_damaged
from support.program import Program
from support.spec_files import Spec, read_specs

import mpiprof
from mpiprof.causes.arrival_statistics import find_late_rank
from mpiprof.causes.finding import Finding, HabitEvidence, WaitSite, find_causes_at, is_blamed
from mpiprof.reports import callsite_table, json
from mpiprof.reports.words.callsite_sentences import (
    Phrases,
    callsite_headline,
    join_phrases,
    message_headline,
    name_causes,
)
from mpiprof.reports.words.finding_sentences import describe_saving
from mpiprof.trace import Trace

MS = 1_000_000
RANKS, LATE = 8, 3
SPECS_WITH_PAGES = [
    spec
    for spec in read_specs()
    if spec.file in ("late_rank_messages", "late_ranks", "delay_steps") and spec.has_cause
]


def make_headline(trace: Trace, callsite: int | tuple[str, int]) -> Phrases:
    """Return the headline of the page of a call site, given all findings of the run."""
    causes = find_causes_at(trace.findings(), callsite)
    if isinstance(callsite, int):
        row: Any = dict(trace.callsites.loc[callsite])
        return callsite_headline(row, find_late_rank(trace, callsite), 0.0, causes)
    table = trace.message_callsites
    mine = (table["operation"] == callsite[0]) & (table["site_id"] == callsite[1])
    return message_headline(dict(table[mine].iloc[0]), causes)


def name_ranks(phrases: Phrases) -> set[int]:
    """Return the ranks that a headline blames."""
    blamed = " ".join(text for text, style in phrases if style == "late")
    if blamed == "Each rank in turn":
        return set(range(RANKS))
    ranks: set[int] = set()
    for word in blamed.replace(",", " ").split():
        first, _, last = word.partition("-")
        if first.isdigit():
            ranks |= set(range(int(first), int(last or first) + 1))
    return ranks


def write_halo(folder: Path, every: int, steps: int = 60) -> Trace:
    """Write a ring of ranks, of which LATE works 5 ms longer in each step with a reduction.

    Only every `every`-th step has a reduction, so that the neighbours wait for messages before it.
    """
    program, random = Program(RANKS), np.random.default_rng(1)
    for step in range(steps):
        work = random.integers(2 * MS, 2 * MS + 50_000, RANKS)
        work[LATE] += 5 * MS * (step % 5 == 2)
        program.halo(make_ring(RANKS), own_ns=work)
        if step % every == 0:
            program.collective("allreduce", "app.py:1:main", random.integers(0, 20_000, RANKS))
    return mpiprof.open(program.write(folder))


def test_waiting_for_messages_leads_to_their_call_site(tmp_path: Path) -> None:
    """The neighbours of the late rank wait in Waitall, and their neighbours for them."""
    trace = write_halo(tmp_path / "trace", every=4)
    first = trace.findings()[0]
    assert first.ranks == (LATE,)
    assert first.main_callsite is not None and not isinstance(first.main_callsite, int)
    assert first.main_callsite[0] == "waitall"
    headline = make_headline(trace, first.main_callsite)
    assert name_ranks(headline) == {LATE}
    assert f"Rank {LATE} causes" in join_phrases(headline)


def test_the_waiting_of_a_finding_is_divided_among_call_sites(tmp_path: Path) -> None:
    """All waiting of the run is caused by work, nearly all of it by that of the late rank."""
    trace = write_halo(tmp_path / "trace", every=1)
    sites = {at.callsite: at for at in trace.findings()[0].waits_at}
    table = trace.message_callsites
    for callsite, at in sites.items():
        if isinstance(callsite, int):
            total = float(trace.callsites["total_wait_ns"][callsite])
        else:
            mine = (table["operation"] == callsite[0]) & (table["site_id"] == callsite[1])
            total = float(table.loc[mine, "total_wait_ns"].iloc[0])
        assert at.wait_ns == pytest.approx(at.share * total, rel=1e-3)
        assert 0 < at.share <= 1 + 1e-9
    assert len(sites) == 2
    listed = json.finding_as_data(trace, trace.findings()[0])["waits_at"]
    assert [at["wait_ns"] for at in listed] == [round(at.wait_ns) for at in sites.values()]
    assert {at["operation"] for at in listed} == {"allreduce", "waitall"}
    assert all(at["sites"][0]["file"] for at in listed)
    # The terminal's tables name the same rank in their column of causes.
    for table in (trace.callsites, trace.message_callsites):
        *_, column = callsite_table.with_cause([], table, trace.findings())
        assert f"{LATE} in" in " ".join(column.cells)
    assert sum(at.wait_ns for at in sites.values()) >= 0.95 * trace.findings()[0].cost_ns


def test_a_smaller_cause_is_named_beside_the_rank_that_is_waited_for_most() -> None:
    """A root that receives in order waits most for the first rank, but for the last one longest."""
    cause = replace(CAUSE, waits_at=(WaitSite(0, 20.0, 0.9), WaitSite(SITE, 9.0, 0.44)))
    row = MESSAGES | {"awaited_rank": 1, "awaited_share": 0.56}
    direct = "Rank 1 is waited for most, in 56 % of the waiting."
    assert join_phrases(message_headline(row, [], [cause])) == (
        f"{direct} Rank 3 causes 44 % of the waiting here."
    )
    small = replace(CAUSE, waits_at=(WaitSite(0, 20.0, 0.9), WaitSite(SITE, 1.0, 0.05)))
    assert join_phrases(message_headline(row, [], [small])) == direct


def test_the_cause_of_waiting_for_messages_is_named() -> None:
    cause = replace(CAUSE, waits_at=(WaitSite(SITE, 9.0, 0.9),))
    assert name_causes([cause]) == {"waitall:2": "3 in 90 %"}


@pytest.mark.parametrize(
    ("saved_ns", "certainty", "work_ns", "texts"),
    [
        (0.0, 0.9, 0.0, ("nothing alone", "–", "other ranks are as late")),
        (40e6, 0.9, 0.0, ("40.0 ms", "10 %", "")),
        (40e6, 0.1, 0.0, ("up to 40.0 ms", "10 %", "")),
        (40e6, 0.9, 5e6, ("40.0 ms", "10 %", "35.0 ms of waiting, 5.00 ms of work")),
    ],
)
def test_a_saving_is_divided_into_waiting_and_work(
    saved_ns: float, certainty: float, work_ns: float, texts: tuple[str, str, str], tmp_path: Path
) -> None:
    trace = write_halo(tmp_path / "trace", every=1, steps=2)
    vars(trace)["run_ns"] = 400e6
    evidence = HabitEvidence(saved_work_ns=work_ns)
    finding = replace(CAUSE, saved_ns=saved_ns, certainty=certainty, evidence=evidence)
    assert astuple(describe_saving(trace, finding)) == texts


def test_a_damaged_trace_does_not_show_what_a_repair_saves(tmp_path: Path) -> None:
    write_damaged(tmp_path)
    assert describe_saving(mpiprof.open(tmp_path), CAUSE).text == "unknown"


def list_contradictions(trace: Trace, findings: Sequence[Finding]) -> list[str]:
    """Return findings that blame ranks, whose page blames only others."""
    wrong = []
    for finding in findings:
        if not is_blamed(finding) or finding.main_callsite is None:
            continue
        causes = find_causes_at(findings, finding.main_callsite)
        headline = make_headline(trace, finding.main_callsite)
        if finding not in causes or not name_ranks(headline) & set(causes[0].ranks):
            wrong.append(f"{finding.ranks}, {finding.main_callsite}: {join_phrases(headline)}")
    return wrong


def check_savings(trace: Trace, findings: Sequence[Finding]) -> None:
    """A repair saves no more than the waiting and the work that it removes, as means of ranks."""
    waiting = float(trace.run_times.total_wait.value) / trace.ranks
    for finding in findings:
        work = finding.evidence.saved_work_ns
        assert finding.saved_ns <= 1.01 * waiting + work + 1000, (finding.cause, finding.ranks)


@pytest.mark.heavy
@pytest.mark.parametrize("spec", SPECS_WITH_PAGES, ids=str)
def test_the_page_of_a_finding_blames_its_ranks(spec: Spec, tmp_path: Path) -> None:
    """Planted causes with messages, several ranks or few steps."""
    case = spec.make_case()
    trace = mpiprof.open(case.build(**case.planted).write(tmp_path))
    findings = trace.findings()
    assert list_contradictions(trace, findings) == []
    check_savings(trace, findings)
