"""Windows of a run: the same waits, costs and findings as from the whole run at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import random_work
from support.neighbours import make_ring
from support.program import Program
from support.small_chunks import write_small_chunks

import mpiprof
from dashboard.timeline import message_marks
from dashboard.timeline.message_marks import read_message_marks
from mpiprof.account import analysis_memory, run_windows
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs
from mpiprof.account.shape_names import name_shapes
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.causes.what_if import parse_change, predict_run
from mpiprof.interface.progress import listen_to_progress
from mpiprof.trace import Trace, writer
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.types import END_NS, START_NS, Int

RANKS, MS = 8, 1_000_000
DELAY_KEYS = ["rank", "before_id", "after_id"]


def halo(steps: int = 90, late_from: int = 0) -> Program:
    """Return halo exchanges with a late rank, and an allreduce in each step."""
    program, noise = Program(RANKS, intervals=True), random_work.Noise(RANKS)
    for step in range(steps):
        for exchange in range(3):
            own = noise.work(spread=0.1)
            own[3] += 4 * MS * (exchange == 0 and step >= late_from)
            program.halo(make_ring(RANKS), own_ns=own)
        program.collective("allreduce")
    return program


def random_messages(steps: int = 80) -> Program:
    """Return blocking messages of random pairs, some of them synchronous, and a barrier."""
    program, noise = Program(RANKS, intervals=True), random_work.Noise(RANKS)
    for _ in range(steps):
        for _ in range(3):
            program.work(noise.work(spread=0.5))
            senders, receivers = noise.random.permutation(RANKS).reshape(2, -1)
            synchronous = bool(noise.random.random() < 0.3)
            tag = int(noise.random.integers(3))
            program.message(senders, receivers, tag=tag, synchronous=synchronous)
        program.collective("barrier")
    return program


def rooted_calls(steps: int = 60) -> Program:
    """Return calls with a root, also on communicators that overlap, and messages along a ring."""
    program, noise = Program(RANKS, intervals=True), random_work.Noise(RANKS)
    for name, members in (("low", [0, 1, 2, 3, 4]), ("high", [3, 4, 5, 6, 7])):
        program.synthetic.add_communicator(name, members)
    right = (np.arange(RANKS) + 1) % RANKS
    for _ in range(steps):
        program.collective("bcast", "app.py:11:main", noise.work(spread=0.3), root=2)
        program.sendrecv(right, np.argsort(right), noise.work(spread=0.3))
        for name in ("low", "high"):
            program.collective("allreduce", "app.py:12:main", communicator=name)
        program.collective("reduce", "app.py:13:main", noise.work(spread=0.3), root=5)
        program.collective("allgather", "app.py:14:main")
    return program


def only_collectives(steps: int = 120, late_from: int = 0) -> Program:
    """Return collectives, some of them nonblocking, with a late rank and without messages."""
    program, noise = Program(RANKS), random_work.Noise(RANKS)
    for step in range(steps):
        own = noise.work(spread=0.1)
        own[3] += 4 * MS * (step >= late_from)
        program.collective("allreduce", "app.py:11:main", own)
        program.collective("bcast", "app.py:12:main", noise.work(spread=0.1), root=1)
        program.collective("barrier", "app.py:13:main", noise.work(spread=0.1))
    return program


PROGRAMS = {
    **{"halo": halo, "random messages": random_messages, "rooted calls": rooted_calls},
    "only collectives": only_collectives,
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_chunks(monkeypatch)


def open_in_windows(whole: Trace, monkeypatch: pytest.MonkeyPatch, count: int) -> Trace:
    """Return the same trace, opened as if its records did not fit in memory."""
    monkeypatch.setattr(analysis_memory, "memory_limit_bytes", lambda: 1)
    monkeypatch.setattr(run_windows, "count_windows", lambda _: count)
    trace = mpiprof.open(whole.path)
    windows = run_windows.divide_run(trace)
    assert len(windows) == count
    ends = [end for _, end in windows[:-1]]
    assert [run_windows.find_meeting(trace, end - 1, end + 1) for end in ends] == ends
    return trace


def as_rows(waits: pd.DataFrame) -> Int:
    """Return waits as sorted rows without the row of their call."""
    names = ("rank", "awaited", "begin_ns", "until_ns", "wait_ns")
    table = np.stack([*(waits[name] for name in names), waits["state"].cat.codes], axis=1)
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_sums_over_windows_are_those_of_the_run(
    build: Callable[[], Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(build().write(tmp_path / "t"))
    known: dict[str, Any] = {
        "message_callsites": whole.message_callsites,
        "message_matrix": whole.message_matrix,
        "pairs": list_waiting_pairs(find_located_waits(whole)),
        "delays": whole.delays.set_index(DELAY_KEYS).sort_index(),
    }
    wait = whole.run_times.total_wait
    assert len(whole.message_waits) > 100 or build is only_collectives
    trace = open_in_windows(whole, monkeypatch, 2)
    assert trace.run_times.total_wait == wait
    found: dict[str, Any] = {
        "message_callsites": trace.message_callsites,
        "message_matrix": trace.message_matrix,
        "pairs": list_waiting_pairs(find_located_waits(trace)),
        "delays": trace.delays.set_index(DELAY_KEYS).sort_index(),
    }
    for name, table in known.items():
        pd.testing.assert_frame_equal(found[name], table, rtol=1e-9, obj=name)
    assert len(trace.message_waits) == 0 and "parts of the run" in trace.problems[0]


def test_windows_read_their_own_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mpiprof.open(halo(steps=180).write(tmp_path / "t"))
    waits = as_rows(whole.message_waits)
    margin = run_windows.count_margin_bytes(whole)
    needed = analysis_memory.count_analysis_bytes(whole) / 2.5 + margin
    limit = needed / analysis_memory.MAX_MEMORY_SHARE
    with monkeypatch.context() as patched:
        patched.setattr(analysis_memory, "memory_limit_bytes", lambda: limit)
        assert run_windows.count_windows(whole) == 3
    trace = open_in_windows(whole, monkeypatch, 4)
    windows = [TraceWindow(trace, *of, DERIVED) for of in run_windows.divide_run(trace)]
    assert all(len(of.message_calls) < 0.6 * len(whole.message_calls) for of in windows)
    for window in windows:
        calls = window.message_calls
        assert (calls["exit_ns"] >= window.begin_ns - window.margin_ns).all()
        assert (calls["enter_ns"] < window.end_ns + window.margin_ns).all()
    columns = [as_rows(of.message_waits) for of in windows]
    assert all(len(of) > 0.1 * len(waits) for of in columns)
    assert abs(sum(map(len, columns)) - len(waits)) <= 0.01 * len(waits)


def test_margins_of_windows_have_no_memory_for_intervals(tmp_path: Path) -> None:
    program = Program(2, intervals=True, counters=True)
    for _ in range(200):
        program.collective("allreduce", "a.py:1:f", 1_000_000)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    assert analysis_memory.count_message_bytes(trace) > 0
    assert run_windows.count_margin_bytes(trace) == 0


def test_findings_of_windows_are_one_finding_with_the_steps_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(halo(late_from=40).write(tmp_path / "t"))
    first = whole.findings()[0]
    known = make_verdict(whole, [first])
    trace = open_in_windows(whole, monkeypatch, 3)
    found = trace.findings()[0]
    assert (found.cause, found.ranks, found.callsites) == ("rank", (3,), first.callsites)
    assert found.habit.spans == first.habit.spans == ((40, 89),)
    assert (found.first_instance, found.last_instance) == (40, 89)
    assert found.habit.late_instances == first.habit.late_instances == 50
    verdict = make_verdict(trace, [found])
    assert verdict.waiting_for_messages == pytest.approx(known.waiting_for_messages)
    assert [at.callsite for at in found.waits_at] == [at.callsite for at in first.waits_at]
    for at, of_run in zip(found.waits_at, first.waits_at, strict=True):
        assert at.wait_ns == pytest.approx(of_run.wait_ns, rel=0.01)
        assert at.share == pytest.approx(of_run.share, rel=0.01)
    assert found.cost_ns == pytest.approx(first.cost_ns, rel=0.01)
    assert found.saved_ns == pytest.approx(first.saved_ns, rel=0.01)
    assert found.habit.late_ns == pytest.approx(first.habit.late_ns, rel=0.05)
    assert found.habit.work[0].after == first.habit.work[0].after


class PickledWorkers:
    """Workers in this process, to which functions and items are sent as to others."""

    def threads(self) -> int:
        """Return the number of items processed at a time."""
        return 1

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of a function."""
        for item in items:
            sent, argument = pickle.loads(pickle.dumps((function, item)))
            yield sent(argument)


def test_workers_analyse_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mpiprof.open(random_messages(steps=40).write(tmp_path / "t"))
    alone = open_in_windows(whole, monkeypatch, 2)
    shared = Trace(whole.path, {**DERIVED, "shapes": name_shapes}, PickledWorkers())
    pd.testing.assert_frame_equal(shared.delays, alone.delays)
    pd.testing.assert_frame_equal(shared.message_callsites, alone.message_callsites)
    assert shared.findings() == alone.findings()


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (halo, "rank 3 = median"),
        (only_collectives, "rank 3 = median"),
        (halo, "network = ideal"),
        (only_collectives, "site app.py:13 = balanced"),
    ],
)
def test_a_replay_of_windows_saves_as_much(
    build: Callable[[], Program], change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(build().write(tmp_path / "t"))
    known = predict_run(whole, [parse_change(change)])
    trace = open_in_windows(whole, monkeypatch, 3)
    found = predict_run(trace, [parse_change(change)])
    assert found.run_ns == known.run_ns > known.predicted_ns
    saved = known.run_ns - known.predicted_ns
    assert found.run_ns - found.predicted_ns == pytest.approx(saved, rel=0.02)
    assert found.work_ns == pytest.approx(known.work_ns, rel=0.02)
    assert found.calls_ns == pytest.approx(known.calls_ns, rel=0.02)


def test_efficiencies_of_windows_are_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(halo(late_from=45).write(tmp_path / "t"))
    known = whole.efficiencies
    assert len(known) > 1 and known["transfer"].notna().all()  # the run and its phases
    trace = open_in_windows(whole, monkeypatch, 3)
    pd.testing.assert_frame_equal(trace.efficiencies, known, rtol=1e-9)


def test_windows_blame_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mpiprof.open(only_collectives().write(tmp_path / "t"))
    known = whole.derive("blamed_work")
    assert len(known) >= 100
    trace = open_in_windows(whole, monkeypatch, 3)
    shares: list[float] = []
    with listen_to_progress(shares.append):
        found = trace.derive("blamed_work")
    assert shares[:3] == [1 / 3, 2 / 3, 1.0] and shares[-1] == 1.0  # of several passes
    for name in ("finding", "rank", "end_ns"):
        assert found[name].tolist() == known[name].tolist()
    assert found["cost_ns"].to_numpy() == pytest.approx(known["cost_ns"].to_numpy(), rel=1e-6)
    assert found["begin_ns"].to_numpy() == pytest.approx(known["begin_ns"].to_numpy(), abs=MS // 10)


def test_calls_of_collectives_need_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mpiprof.open(only_collectives().write(tmp_path / "t"))
    calls = len(whole.events)
    needed = analysis_memory.count_analysis_bytes(whole)
    assert calls <= needed / analysis_memory.BYTES_PER_CALL_RECORD <= 1.1 * calls
    monkeypatch.setattr(analysis_memory, "MAX_BYTES", needed)
    assert run_windows.divide_run(whole) == [(START_NS, END_NS)] and not whole.problems
    monkeypatch.setattr(analysis_memory, "MAX_BYTES", needed / 3.5)
    assert len(run_windows.divide_run(whole)) == 4 and "too large" in whole.problems[0]


def test_windows_need_about_equally_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second chunk of each thread has one seventh of the records of the first.
    program = Program(4)
    for _ in range(8 * writer.RECORDS_PER_CHUNK // 7):
        program.collective("allreduce", own_ns=MS)
    whole = mpiprof.open(program.write(tmp_path / "t"))
    assert {len(chunks) for chunks in whole.logs.threads.values()} == {2}
    trace = open_in_windows(whole, monkeypatch, 2)
    (_, cut_ns), _ = trace.derive("run_windows")
    share = (cut_ns - whole.calls_start_ns) / whole.duration_ns
    assert share == pytest.approx(0.5, abs=0.02)


def test_windows_have_the_same_marks_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(random_messages().write(tmp_path / "t"))
    known = read_message_marks(whole)
    trace = open_in_windows(whole, monkeypatch, 3)
    found = read_message_marks(trace)
    names = ["rank", "enter_ns", "exit_ns", "operation", "site"]
    assert as_texts(found.calls[names]) == as_texts(known.calls[names])
    names = ["rank", "awaited", "begin_ns", "wait_ns", "operation", "end_ns", "source", "tag"]
    assert as_texts(found.waits[names]) == as_texts(known.waits[names])
    assert found.calls["call"].is_unique
    assert set(found.waits["call"]) <= set(found.calls["call"])
    monkeypatch.setattr(message_marks, "MAX_MARKS", 10)
    least = read_message_marks(open_in_windows(whole, monkeypatch, 3))
    assert len(least.calls) == len(least.waits) == 30


def as_texts(table: pd.DataFrame) -> list[str]:
    """Return the rows of a table as texts, in order."""
    return sorted(map(str, table.astype(object).itertuples(index=False)))
