"""Traces that cover a part of a run: their figures are for that part, and state it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.interval_records import interval
from support.jobs import run_verb
from support.message_traces import call
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account.coverage import LOST_REASON
from mpiprof.causes.compare import compare
from mpiprof.causes.compare_verdict import judge_difference
from mpiprof.reports.words.compare_sentences import verdict_paragraphs as in_words
from mpiprof.trace import Trace

MS = 1_000_000


def half_waited(folder: Path, count: int, limit_ns: int | None = None, late: int = MS) -> Trace:
    """Write 2 ranks with an allreduce every 2 ms of 200, in which rank 0 waits; `count` are logged.

    limit_ns: time at which the logs reached their limit.
    """
    synthetic = Synthetic(2)
    synthetic.started_ns = 0
    at = 2 * MS * np.arange(count)[:, None] + np.array([[0, late]])
    synthetic.add_collective("allreduce", at, np.repeat(at[:, 1:], 2, 1), site="app.py:3:main")
    synthetic.ended_ns = 200 * MS
    if limit_ns is not None:
        for rank in range(2):
            limit = {"at_ns": int(synthetic.to_local(rank, limit_ns)), "bytes": 1 << 20}
            synthetic.lines[rank].append({"rank": rank, "limit": limit})
    return mpiprof.open(synthetic.write(folder))


def test_shares_are_of_the_time_until_the_limit(tmp_path: Path) -> None:
    """Rank 0 waits half of the time, a quarter of all ranks' time: in the whole run or a fifth."""
    whole = half_waited(tmp_path / "whole", 100)
    cut = half_waited(tmp_path / "cut", 20, 40 * MS)
    for trace, length in ((whole, 200 * MS), (cut, 40 * MS)):
        assert trace.run_ns == 200 * MS
        assert trace.duration_ns == length
        assert trace.run_times.total_wait.value / trace.process_time_ns == 0.25
    assert whole.derive("coverage") is None
    coverage = cut.derive("coverage")
    assert (coverage.reason, coverage.since_ns, coverage.recorded_ns) == ("--limit", 0, 40 * MS)
    assert (coverage.instances, coverage.total, coverage.first) == (20, None, (0,))
    code, text, _ = run_verb("report", tmp_path / "cut")
    assert code == 0
    assert "25 % of all ranks' time is waiting" in text
    assert "recorded        the first 40.0 ms, 20 instances (--limit)" in text
    assert "run time        200 ms" in text


def test_shares_are_of_the_time_until_the_disk_was_full(tmp_path: Path) -> None:
    """Rank 0 waits half of a fifth of the run; later records could not be written."""
    trace = half_waited(tmp_path / "t", 20)
    for path in (tmp_path / "t").glob("*.tables"):
        path.write_text(path.read_text().replace('"dropped": 0', '"dropped": 80'))
    trace = mpiprof.open(tmp_path / "t")
    last = 38 * MS + MS  # both ranks leave the last logged allreduce
    assert trace.dropped_records == 160 and trace.duration_ns == last
    assert trace.derive("coverage").reason == LOST_REASON
    code, text, _ = run_verb("report", tmp_path / "t")
    assert code == 0 and "26 % of all ranks' time is waiting" in text
    assert "the first 39.0 ms, 20 instances (later records could not be written)" in text
    assert text.count("160 records") == 1
    code, text, _ = run_verb("status", tmp_path / "t")
    assert "Records of ranks 0-1 are missing" in text


def test_a_partial_run_is_not_reported_as_faster_than_a_whole_run(tmp_path: Path) -> None:
    """It takes half as long per call, but the rest is unknown, so there is no advice to keep it."""
    a = half_waited(tmp_path / "a", 100)
    b = half_waited(tmp_path / "b", 40, 80 * MS, MS // 2)
    verdict = judge_difference(compare([a, b]))
    lines = in_words(verdict, [b], before=[a])
    assert verdict.outcome == "faster"
    assert lines[-1] == (
        "b holds the first 80.0 ms of 200 ms (--limit). The rest is not compared, and may differ: "
        "record whole runs to tell."
    )
    assert in_words(verdict, [a], before=[a])[-1] == "Keep what was changed in B."


def test_calls_after_the_end_of_the_first_log_do_not_count(tmp_path: Path) -> None:
    """The log of rank 1 ends after 40 ms, and that of rank 0 has the whole run."""
    synthetic = Synthetic(2)
    synthetic.started_ns = 0
    arrivals = 2 * MS * np.arange(100)[:, None] + np.array([[0, MS]])
    exits = np.repeat(arrivals[:, 1:], 2, 1)
    arrivals[20:, 1] = -1
    synthetic.add_collective("allreduce", arrivals, exits, site="app.py:3:main")
    synthetic.ended_ns = 200 * MS
    limit = {"at_ns": int(synthetic.to_local(1, 40 * MS - 1)), "bytes": 1 << 20}
    synthetic.lines[1].append({"rank": 1, "limit": limit})
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    assert trace.callsites["instances"].tolist() == [20]
    assert trace.run_times.collective.value == 20 * MS
    _, text, _ = run_verb("report", tmp_path / "t")
    assert "is in collectives of which not all ranks' calls are in the trace" not in text


def test_messages_and_intervals_after_the_end_of_the_first_log_do_not_count(tmp_path: Path) -> None:
    """The log of rank 1 ends after 40 ms. An interval that ends later counts neither."""
    synthetic = Synthetic(2)
    synthetic.started_ns = 0
    at = 2 * MS * np.arange(20)[:, None] + np.array([[0, MS]])
    synthetic.add_collective("allreduce", at, np.repeat(at[:, 1:], 2, 1), site="app.py:3:main")
    synthetic.ended_ns = 200 * MS
    wait = synthetic.add_shape(0, "wait", "world", site="app.py:5:main", peer=None)
    for begin in (10, 38, 60):
        work = interval(wait, wait, begin * MS, (begin + 3) * MS)
        synthetic.add_messages(0, work)
        synthetic.add_messages(0, call(wait, (begin + 3) * MS, (begin + 4) * MS))
    limit = {"at_ns": int(synthetic.to_local(1, 40 * MS)), "bytes": 1 << 20}
    synthetic.lines[1].append({"rank": 1, "limit": limit})
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    assert (trace.intervals["begin_ns"] - trace.run_start_ns).tolist() == [10 * MS]
    assert (trace.message_calls["enter_ns"] - trace.run_start_ns).tolist() == [13 * MS]
