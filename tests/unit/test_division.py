"""The division of a run's time: known times of planted programs, sums, and levels of the record."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.neighbours import make_ring
from support.page_traces import write_summary
from support.program import Program
from support.simulation import Network
from support.small_chunks import write_small_chunks

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account import analysis_memory
from mpiprof.account.division import COLUMNS, Division, divide_time
from mpiprof.reports.words.division import division_as_data, division_sentences, round_shares
from mpiprof.trace import Trace

MS = 1_000_000
RANKS, STEPS = 4, 40


def _simulate(folder: Path, **options: Any) -> tuple[Trace, Program]:
    """Return a program in which rank 2 works 5 ms in each step, and the other ranks 1 ms."""
    program, ring = Program(RANKS, **options), make_ring(RANKS)
    work = np.where(np.arange(RANKS) == 2, 5 * MS, MS)
    for _ in range(STEPS):
        program.halo(ring, own_ns=work)
        program.collective("allreduce")
    return mpiprof.open(program.write(folder)), program


def _write_sends(folder: Path, delays_ns: list[int]) -> Trace:
    """Return a program whose large messages take longer than its work; delays_ns: of each send."""
    program = Program(2, Network(bytes_per_ns=1.0))
    for delay_ns in delays_ns:
        program.work(MS)
        program.network.slow_links.update({(0, 1): delay_ns})  # type: ignore[attr-defined]
        program.message(0, 1, bytes_=4 * MS)
    return mpiprof.open(program.write(folder))


def test_the_work_is_that_of_the_program(tmp_path: Path) -> None:
    trace, program = _simulate(tmp_path / "t")
    division, truth = divide_time(trace), program.make_truth()
    assert division.work_ns == STEPS * (3 + 5) * MS
    # A late message is transferred in the wait for it, and each call takes its own time.
    waits = truth.groupby("operation")["wait_ns"].sum()
    assert division.collective_wait_ns == waits["allreduce"] + waits["finalize"]
    assert division.message_wait_ns == pytest.approx(waits["waitall"], rel=1e-3)
    assert division.whole_ns == trace.process_time_ns


def test_each_rank_has_its_part(tmp_path: Path) -> None:
    trace, _ = _simulate(tmp_path / "t")
    assert divide_time(trace, [2]).work_ns == STEPS * 5 * MS
    assert divide_time(trace, [0, 1, 3]).work_ns == STEPS * 3 * MS
    assert divide_time(trace, [2]).whole_ns == trace.duration_ns


def test_the_sums_of_the_recorder_give_the_same_division(tmp_path: Path) -> None:
    """The path of traces without a record of each call, on one that has all."""
    trace, _ = _simulate(tmp_path / "t")
    exact = divide_time(trace)
    trace = mpiprof.open(tmp_path / "t")
    trace._derived["ledger_sums"] = lambda _: None
    sums = divide_time(trace)
    assert sums.whole_ns == exact.whole_ns
    for name in ("message_ns", "collective_ns", "message_wait_ns", "collective_wait_ns"):
        assert getattr(sums, name) == pytest.approx(getattr(exact, name), rel=1e-6), name
    assert sums.work_ns == pytest.approx(exact.work_ns + exact.unrecorded_ns)


@pytest.mark.parametrize("seed", range(20))
def test_shares_sum_to_100_percent(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [field.name for field in fields(Division)]
    times = {name: random.exponential() for name in names[:5]}
    waits = {name: 0.1 * random.random() for name in names[5:]}
    shares = round_shares(Division(**times, **waits))
    assert sum(shares.values()) == 1000


def test_the_report_begins_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, _ = _simulate(tmp_path / "t")
    assert main(["report", str(tmp_path / "t")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    expected = division_sentences(trace)
    assert expected.startswith("Of 200 ms, ranks compute 39.9 %, wait 59.9 % (")
    assert text.index(expected) < text.index("of all ranks' time is waiting")
    assert main(["report", str(tmp_path / "t"), "-o", str(tmp_path / "t.md")]) == 0
    assert expected in (tmp_path / "t.md").read_text().replace("\\", "")
    capsys.readouterr()
    assert main(["report", str(tmp_path / "t"), "--json"]) == 0
    division = json.loads(capsys.readouterr().out)["division"]
    assert division["whole_ns"] == sum(part["time_ns"] for part in division["parts"].values())
    assert sum(part["share"] for part in division["parts"].values()) == pytest.approx(1)


def test_a_slow_call_is_named_though_nobody_is_late(tmp_path: Path) -> None:
    trace = _write_sends(tmp_path / "t", [0] * 50)
    assert not trace.findings()
    largest = division_as_data(trace)["largest"]
    assert largest["place"] in ("of send at app.py:3 main", "of recv at app.py:4 main")
    assert largest["share"] == pytest.approx(0.4, abs=0.01)
    assert "is inside the call of " in division_sentences(trace)


def test_transfers_beyond_the_usual_time_are_unexplained(tmp_path: Path) -> None:
    """Two of 50 messages take 25 ms longer than the usual 4 ms, on both ranks."""
    delays = [25 * MS * (number in (20, 33)) for number in range(50)]
    division = divide_time(_write_sends(tmp_path / "t", delays))
    assert division.message_unexplained_ns == pytest.approx(2 * 2 * 25 * MS, rel=0.01)
    assert divide_time(_write_sends(tmp_path / "u", [0] * 50)).message_unexplained_ns == 0


def test_a_run_in_windows_has_the_division_of_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transfers of one kind take longer in a part of the run that is more than one window."""
    write_small_chunks(monkeypatch)
    random = np.random.default_rng(5)
    program = Program(4, Network(bytes_per_ns=1.0))
    for step in range(300):
        program.work(random.integers(MS // 2, MS, 4))
        is_slow = random.random() < (0.7 if 100 <= step < 200 else 0.05)
        delay_ns = round(MS * random.exponential(25.0 if is_slow else 0.1))
        program.network.slow_links.update({(0, 1): delay_ns})  # type: ignore[attr-defined]
        program.message([0, 3], [1, 2], bytes_=4 * MS)
        program.collective("allreduce")
    trace = mpiprof.open(program.write(tmp_path / "t"))
    exact, max_bytes = divide_time(trace), analysis_memory.count_analysis_bytes(trace) / 3.5
    assert exact.message_unexplained_ns > 0.2 * exact.whole_ns
    monkeypatch.setattr(analysis_memory, "MAX_BYTES", max_bytes)
    trace = mpiprof.open(tmp_path / "t")
    assert len(trace.derive("run_windows")) > 3
    in_windows = divide_time(trace).parts
    for name, time_ns in exact.parts.items():
        assert in_windows[name] == pytest.approx(time_ns, abs=0.01 * exact.whole_ns), name
    assert " (computing is 100 % minus the other shares)." in division_sentences(trace)


def test_a_ring_accounts_for_the_stretch_that_it_holds(tmp_path: Path) -> None:
    program = Program(2, ring=100)
    for step in range(400):
        program.collective("allreduce", own_ns=[MS, 3 * MS if step >= 200 else MS])
    trace = mpiprof.open(program.write(tmp_path / "t"))
    division = divide_time(trace)
    assert division.whole_ns == trace.process_time_ns < 2 * trace.run_ns / 2
    assert division.work_ns / division.whole_ns == pytest.approx(2 / 3, abs=0.01)
    assert "Of the recorded " in division_sentences(trace)


def test_a_sample_is_scaled_and_says_so(tmp_path: Path) -> None:
    exact = divide_time(_simulate(tmp_path / "t")[0])
    trace, _ = _simulate(tmp_path / "s", sample=4)
    sampled = divide_time(trace)
    assert sampled.whole_ns == exact.whole_ns
    assert sampled.collective_wait_ns == pytest.approx(exact.collective_wait_ns, rel=0.3)
    basis = "(collectives scaled from one instance in 4, computing is 100 % minus the other shares)"
    assert basis in division_sentences(trace)
    assert not division_as_data(trace)["exact"]


def test_windows_scale_the_waits_and_say_so(tmp_path: Path) -> None:
    """Messages are recorded completely in the first half of the run."""
    exact = divide_time(_simulate(tmp_path / "t")[0])
    folder = tmp_path / "w"
    trace, _ = _simulate(folder)
    begin, half = trace.run_start_ns, trace.run_start_ns + trace.run_ns // 2
    for rank in range(RANKS):
        with (folder / f"rank-{rank:06d}.tables").open("a") as file:
            for name, time_ns in (("begin_ns", begin), ("end_ns", half)):
                file.write(json.dumps({"rank": rank, "complete": {name: time_ns}}) + "\n")
    trace = mpiprof.open(folder)
    windows = divide_time(trace)
    assert windows.whole_ns == exact.whole_ns
    assert windows.message_wait_ns == pytest.approx(exact.message_wait_ns, rel=0.1)
    basis = "waiting for messages scaled from 50 % of the run"
    remaining = "computing is 100 % minus the other shares"
    assert f"({basis}, {remaining})" in division_sentences(trace)


def test_a_summary_has_the_division_without_causes(tmp_path: Path) -> None:
    trace = mpiprof.open(write_summary(tmp_path / "t"))
    division, inside_ns = divide_time(trace), float(trace.summary["total_ns"].sum())
    assert inside_ns > 0
    assert division.collective_ns == pytest.approx(inside_ns)
    assert division.work_ns == pytest.approx(trace.process_time_ns - inside_ns)
    basis = "(from sums, without causes, computing is 100 % minus the other shares)"
    assert basis in division_sentences(trace)


def test_the_basis_of_computing_is_stated_only_with_its_share(tmp_path: Path) -> None:
    program = Program(2, start_ns=0)
    program.collective("allreduce", own_ns=[0, MS])
    trace = mpiprof.open(program.write(tmp_path / "t"))
    trace._derived["ledger_sums"] = lambda _: None
    in_collectives = pd.DataFrame([[0.0, 1.0, *[0.0] * 8]], columns=COLUMNS)
    trace._derived["rank_times"] = lambda _: in_collectives
    assert " ranks communicate in collectives 100.0 %. The " in division_sentences(trace)


def test_message_calls_without_records_have_unknown_waiting(tmp_path: Path) -> None:
    """A ring has sums of messages; they neither transfer nor wait for a known time."""
    program, ring = Program(RANKS, ring=100), make_ring(RANKS)
    for _ in range(STEPS):
        program.halo(ring, own_ns=[MS, MS, 5 * MS, MS])
        program.collective("allreduce")
    sentences = division_sentences(mpiprof.open(program.write(tmp_path / "t")))
    assert re.search(r"are in calls on messages [\d.]+ % \(waiting unknown\)", sentences)
    assert "transfer messages" not in sentences
