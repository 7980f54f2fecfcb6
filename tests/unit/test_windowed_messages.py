"""Programs beyond the budget of messages: exact in windows, scaled outside, never guessed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program

import mpiprof
from mpiprof.account.message_callsite_sums import find_located_waits, weigh_waits
from mpiprof.account.message_waits import UNKNOWN
from mpiprof.account.record_gaps import find_record_gaps
from mpiprof.causes.finding import MIN_CERTAINTY
from mpiprof.reports import message_table, text
from mpiprof.reports.words import trace_sentences
from mpiprof.trace import Trace

MS = 1_000_000
RANKS, STEPS, STEPS_PER_EPOCH, LATE_RANK = 8, 240, 20, 3
LATE_NS = 5 * MS


def record(folder: Path, *, every: int, marks: bool = True, late_ns: int = LATE_NS) -> Program:
    """Write the trace of a halo exchange that logs one of `every` epochs completely, 0: none.

    marks: the complete stretches are marked, as in all but old traces.
    """
    program, ring = Program(RANKS, intervals=True), make_ring(RANKS)
    random = np.random.default_rng(1)
    stretches: list[tuple[int, int]] = []
    for step in range(STEPS):
        if step % STEPS_PER_EPOCH == 0:
            epoch = step // STEPS_PER_EPOCH
            program.log.is_complete = every > 0 and epoch % every == 0
            begin_ns = int(program.now_ns.max())
        work = 2 * MS * random.normal(1, 0.02, RANKS).clip(0.5)
        work[LATE_RANK] += late_ns
        program.halo(ring, work.astype(np.int64))
        program.collective("allreduce")
        if program.log.is_complete and step % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1:
            stretches.append((begin_ns, int(program.now_ns.min())))
    program.write(folder)
    for rank in range(RANKS if marks else 0):
        with (folder / f"rank-{rank:06d}.tables").open("a") as file:
            for begin_ns, end_ns in stretches:
                for name, time_ns in (("begin_ns", begin_ns), ("end_ns", end_ns)):
                    file.write(json.dumps({"rank": rank, "complete": {name: time_ns}}) + "\n")
    return program


def find_message_wait(program: Program) -> int:
    """Return the true waiting in calls on messages."""
    truth = program.make_truth()
    return int(truth["wait_ns"][truth["operation"] == "waitall"].sum())


def has_unknown_waits(trace: Trace) -> bool:
    """Return whether a call may have waited for a message without a known time."""
    return bool((trace.derive("postings").state == UNKNOWN).any())


def test_sums_of_waits_are_scaled_from_the_windows(tmp_path: Path) -> None:
    program = record(tmp_path / "t", every=4)
    trace = mpiprof.open(tmp_path / "t")
    share = trace.complete_share
    assert share == pytest.approx(0.25, abs=0.02) and len(trace.complete_windows or ()) == 3
    assert has_unknown_waits(trace)
    expected = pytest.approx(find_message_wait(program), rel=0.02)
    assert trace.run_times.message_wait_ns == expected
    assert trace.message_callsites["total_wait_ns"].sum() == expected
    assert find_located_waits(trace)["wait_ns"].sum() == expected
    # Single waits are those that happened.
    lengths = trace.message_waits["until_ns"] - trace.message_waits["begin_ns"]
    assert (trace.message_waits["wait_ns"] == lengths).all()
    record_rows = [row for name, row in text.fact_rows(trace)[1] if name == "messages"]
    assert record_rows == [trace_sentences.message_record(trace)]
    assert "scaled" in record_rows[0]


def test_windows_name_the_late_rank_and_its_cost(tmp_path: Path) -> None:
    program = record(tmp_path / "late", every=4)
    usual = record(tmp_path / "usual", every=4, late_ns=0)
    trace = mpiprof.open(tmp_path / "late")
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (LATE_RANK,)) and first.certainty > 0.99
    totals = [int(of.make_truth()["wait_ns"].sum()) for of in (program, usual)]
    assert first.cost_ns == pytest.approx(totals[0] - totals[1], rel=0.1)
    assert first.saved_ns == pytest.approx(STEPS * LATE_NS, rel=0.1)


def test_only_waits_in_windows_count(tmp_path: Path) -> None:
    record(tmp_path / "t", every=2)
    trace = mpiprof.open(tmp_path / "t")
    windows, share = trace.complete_windows, trace.complete_share
    assert windows is not None and share is not None
    begin, end = windows[1]
    times = np.array([begin, begin + 1, end, end + 1])
    assert weigh_waits(trace, times).tolist() == [0, 1 / share, 1 / share, 0]


@pytest.mark.parametrize("every", [0, 2])
def test_an_old_trace_names_its_gaps_and_accuses_nobody_falsely(every: int, tmp_path: Path) -> None:
    """Before complete stretches were marked, short calls had no records."""
    record(tmp_path / "t", every=every, marks=False)
    trace = mpiprof.open(tmp_path / "t")
    assert trace.complete_windows is None and has_unknown_waits(trace)
    gaps = find_record_gaps(trace)
    assert set(gaps.rank.tolist()) == set(range(RANKS)) - {LATE_RANK}
    (sentence,) = [row for name, row in text.fact_rows(trace)[1] if name == "messages"]
    assert sentence.startswith("The waiting in calls that took ") and "is unknown" in sentence
    assert message_table.message_facts(trace).endswith("the waiting in it is not known")
    accused = {
        rank for of in trace.findings() if of.certainty >= MIN_CERTAINTY for rank in of.ranks
    }
    assert accused <= {LATE_RANK}


def test_a_complete_trace_has_no_gap(tmp_path: Path) -> None:
    program = record(tmp_path / "t", every=1)
    trace = mpiprof.open(tmp_path / "t")
    assert not has_unknown_waits(trace) and not len(find_record_gaps(trace).rank)
    assert trace.run_times.message_wait_ns == pytest.approx(find_message_wait(program), rel=1e-3)
    assert trace_sentences.unknown_message_waits(trace) == ""
