"""If records could not be written, neither the state of ranks nor their end is stated."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from support.hang_traces import HERE, THERE, call, drop, job
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import job_verdict, rank_state, status
from mpiprof.hang.detector import HangDetector, HangRequest
from mpiprof.hang.node_processes import Node
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.summary_writer import SummaryWriter
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text as words
from mpiprof.launch import job as jobs
from mpiprof.trace import Trace

GONE = JobProcesses(10_000, dict.fromkeys(range(3), False))
NOT_KNOWN = "It is not known how the job ended: records of rank 1 could not be written"


def write(synthetic: Synthetic, folder: Path, finished: bool | list[int] = False) -> Trace:
    """Write a trace in which some records of rank 1 could not be written."""
    for rank in range(synthetic.ranks):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    drop(synthetic.write(folder, finished=finished), 1)
    return mpiprof.open(folder)


def conclude(trace: Trace, processes: JobProcesses) -> tuple[HangVerdict, str]:
    """Return the verdict on a trace, and its text."""
    states, pending = rank_state.find(trace)
    one = job_verdict.conclude(trace, states, pending, processes)
    return one, words.format_verdict(trace, states, one)


def test_a_missing_end_record_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = write(job(3), tmp_path / "t")
    verdict, text = conclude(trace, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("undecided", ()) and text.startswith(NOT_KNOWN)
    monkeypatch.setattr(status, "find_alive", lambda _: GONE.alive)
    shown = status.status_text(trace, *rank_state.find(trace), verdict)
    assert "before MPI_Finalize" not in shown and "No collective is pending" not in shown
    assert "Records of rank 1 could not be written: their later calls" in shown
    assert any(
        "or their last records could not be written" in problem for problem in trace.problems
    )


def test_nor_does_one_of_some_ranks(tmp_path: Path) -> None:
    """Rank 1 ended in MPI_Finalize, but the disk was full; the other ranks recorded their end."""
    trace = write(job(3), tmp_path / "t", finished=[0, 2])
    verdict, text = conclude(trace, GONE)
    assert verdict.kind == "undecided" and text.startswith(NOT_KNOWN)


def test_who_is_missing_may_have_come(tmp_path: Path) -> None:
    synthetic = job(3)
    for rank in (0, 2):
        call(synthetic, rank, "barrier", site=HERE)
    trace = write(synthetic, tmp_path / "t")
    alive = dict.fromkeys(range(3), True)
    still = JobProcesses(10**12, alive, still=frozenset([1]))
    assert conclude(trace, still)[0].kind == "none"
    assert conclude(trace, GONE)[0].kind == "undecided"


def test_who_has_finished_may_have_taken_part(tmp_path: Path) -> None:
    synthetic = job(3)
    call(synthetic, 0, "barrier", site=HERE)
    trace = write(synthetic, tmp_path / "t", finished=[1, 2])
    assert conclude(trace, JobProcesses(10_000, {0: True, 1: False, 2: False}))[0].kind == "none"


def test_written_records_are_still_used(tmp_path: Path) -> None:
    synthetic = job(3)
    for rank in range(3):
        call(synthetic, rank, "bcast", root=int(rank == 2), site=HERE, ends=9_100)
    assert conclude(write(synthetic, tmp_path / "t"), GONE)[0].kind == "root"
    synthetic = job(3)
    synthetic.signal = [15, 11, 15]
    verdict, text = conclude(write(synthetic, tmp_path / "dead"), GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,))
    assert text.startswith("Rank 1 died of SIGSEGV before MPI_Finalize. ")


def test_report_and_json_state_lost_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_verdict, "sample_processes", lambda *_: GONE)
    write(job(3), tmp_path / "t")
    first = " ".join(run_verb("report", tmp_path / "t")[1].split("\n\n")[0].split())
    assert first.startswith(f"UNDECIDED: {NOT_KNOWN}")
    reported = json.loads(run_verb("status", tmp_path / "t", "--json")[1])
    assert [one["state"] for one in reported["ranks"]] == ["outside", "unknown", "outside"]


def test_watch_reports_an_unknown_state(tmp_path: Path) -> None:
    synthetic = job(3)
    for rank in (0, 2):
        call(synthetic, rank, "barrier", site=THERE)
    write(synthetic, tmp_path / "t")
    here = jobs.read_process(1)
    assert here is not None
    hangs = HangDetector(HangRequest(1.0), tmp_path / "t", Node(here), True)
    (line,) = hangs.check_silence(time.monotonic() - 5, {})
    assert (
        "the state of the ranks is unknown, because records of rank 1 could not be written" in line
    )


def test_a_summary_is_not_reported_as_killed(tmp_path: Path) -> None:
    write(job(3), tmp_path / "t")
    SummaryWriter(tmp_path / "s.json", tmp_path / "t", "").write()
    assert json.loads((tmp_path / "s.json").read_text())["state"] == "unknown"
