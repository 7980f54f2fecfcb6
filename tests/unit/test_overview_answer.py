"""The answer of the overview: whether it promises that nothing is to be gained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mpiprof.dashboard.pages.overview import make_answer
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support.page_traces import write_damaged
from support.program import Program
from support.spec_files import find_spec

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.overview import answer as overview_answer
from mpiprof.reports.words import conclusion
from mpiprof.reports.words.trace_sentences import state_sentence


@pytest.mark.parametrize("is_damaged", [False, True])
def test_only_a_complete_trace_shows_that_nothing_is_to_be_gained(
    is_damaged: bool, tmp_path: Path
) -> None:
    """The damaged trace has lost the calls of a rank, and so the waiting for the late rank."""
    folder = tmp_path / "trace"
    folder.mkdir()
    if is_damaged:
        write_damaged(folder)
    else:
        program = Program(8)
        for _ in range(40):
            program.collective("allreduce", "app.py:1:main", np.full(8, 10_000_000))
        program.write(folder)
    data = TraceData("t", folder)
    assert bool(state_sentence(data.trace)) == is_damaged
    answer = str(make_answer(data, PageState()))
    assert ("Nothing to gain" in answer) == (not is_damaged)


@pytest.mark.parametrize("title", ["Two ranks", "A stop on shared processors", "Other programs"])
def test_the_answer_has_each_sentence_of_the_verdict_once(title: str, tmp_path: Path) -> None:
    case = find_spec("oversubscription", title).make_case()
    case.build(**case.planted).write(tmp_path / "t")
    trace = mpiprof.open(tmp_path / "t")
    verdict = make_verdict(trace, trace.findings())
    lines = conclusion.verdict_lines(trace, verdict)
    answer = overview_answer.make_answer(trace, verdict, tmp_path / "t")
    assert answer is not None and answer.advice
    assert not any(line.startswith(answer.advice) for line in answer.notes)
    assert list(answer.notes) == [line for line in lines[2:] if not line.startswith(answer.advice)]
