"""Ranks that are blocked while another rank works: they are named, and no work is moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program
from support.random_work import MS, Noise

import mpiprof
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion, finding_sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

pytestmark = pytest.mark.heavy
RANKS, STEPS, LONGER_MS = 4, 60, 8
LONGER_BUT_RANK_0 = np.tile([0, *[LONGER_MS] * (RANKS - 1)], (STEPS, 1))
BOTH = pytest.mark.parametrize("messages", [True, False])


def record(waits_ms: Int, messages: bool, folder: Path, *, blocked: bool) -> Trace:
    """Return a trace of steps with waits for a lock (steps x ranks), in which ranks are blocked.

    Otherwise these times are work on the processor.
    """
    program, noise = Program(RANKS, intervals=True), Noise(RANKS)
    for of_step in waits_ms:
        work = noise.work() + of_step * MS
        if messages:
            program.halo(make_ring(RANKS), work)
        program.collective("allreduce", "lock.c:12:sum", work * (not messages))
    trace = mpiprof.open(program.write(folder))
    table = trace.intervals
    length = table["end_ns"] - table["begin_ns"]
    table["processor_ns"] = length.clip(upper=MS) if blocked else length
    for name in ("queue_ns", "minor_faults", "major_faults", "untracked_ns", "gc_ns", "gap_ns"):
        table[name] = 0
    table["voluntary"] = 1
    return trace


def lines_of(trace: Trace) -> str:
    findings = trace.findings()
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    return " ".join([*lines, *(finding_sentences.finding_text(trace, one) for one in findings)])


@BOTH
def test_ranks_that_wait_for_a_lock_are_named(messages: bool, tmp_path: Path) -> None:
    trace = record(LONGER_BUT_RANK_0, messages, tmp_path / "t", blocked=True)
    first = trace.findings()[0]
    assert (first.cause, sorted(first.ranks)) == ("rank", [1, 2, 3])
    text = lines_of(trace)
    assert "longer than rank 0 between " in text and ", in each step." in text
    assert "Time off the processor: sleeping, or waiting for files or locks." in text
    assert "Look for a file or a lock that ranks 1-3 wait for between these calls." in text
    assert "of the work" not in text


@BOTH
def test_a_rank_with_less_work_gets_more(messages: bool, tmp_path: Path) -> None:
    trace = record(LONGER_BUT_RANK_0, messages, tmp_path / "t", blocked=False)
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("early", (0,))
    assert "Give rank 0 more of the work" in lines_of(trace)


@BOTH
def test_ranks_that_wait_for_a_lock_in_any_order(messages: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    waits = np.array([random.permutation(RANKS) * 2 for _ in range(STEPS)])
    trace = record(waits, messages, tmp_path / "t", blocked=True)
    assert not any(one.ranks for one in trace.findings())
    text = lines_of(trace)
    assert "Ranks are off the processor between " in text
    assert "Look for a file or a lock that the ranks share there." in text
