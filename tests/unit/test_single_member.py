"""Calls on communicators of one rank are no instances: they count in no column but the time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build, find
from dashboard.timeline.window import Timeline
from mpiprof.__main__ import main
from mpiprof.account.callsites import average_factors, join_by_routine
from mpiprof.formats import cache

MS = 1_000_000
NUMBERS = ("instances", "complete_instances", "total_instances")
MEANS = (
    *("bytes", "message_bytes", "mean_elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns"),
    *("message_time_ns", "average_factor", "worst_factor", "exit_imbalance_ns", "exit_factor"),
    *("wait_ns", "total_wait_ns", "latest_rank", "latest_share", "balanced_share"),
    *("bytes_min", "bytes_max", "elapsed_p50_ns", "wait_p90_ns", "worst_factor_max", "algorithms"),
)


def write_trace(folder: Path, alone: int, *, machine: bool = True, world: int = 4) -> Path:
    """Write a trace of 2 ranks: `world` barriers of both, `alone` allreduces of each by itself."""
    trace = Synthetic(2) if machine else Synthetic(2, machine=None)
    for rank in range(2):
        trace.add_communicator(f"self {rank}", [rank])
    arrivals = np.arange(1, world + 1)[:, None] * 10 * MS + np.array([0, 3 * MS])
    exits = arrivals.max(1, keepdims=True) + np.array([10_000, 20_000])
    if world:
        trace.add_collective("allreduce", arrivals, exits, sent=100)
    for rank in range(2):
        if alone:
            begins = 50 * MS + np.arange(alone)[:, None] * 1000
            trace.add_collective("allreduce", begins, begins + 500, f"self {rank}", sent=8)
    return trace.write(folder)


def test_calls_of_one_rank_change_no_column_but_the_time(tmp_path: Path) -> None:
    bare = mpiprof.open(write_trace(tmp_path / "bare", 0)).callsites.iloc[0]
    mixed = mpiprof.open(write_trace(tmp_path / "mixed", 100)).callsites.iloc[0]
    for name in (*NUMBERS, *MEANS):
        assert mixed[name] == pytest.approx(bare[name], nan_ok=True), name
    assert mixed["instances"] == 4
    assert mixed["total_elapsed_ns"] == bare["total_elapsed_ns"] + 2 * 100 * 500


def test_unknown_message_times_give_no_factors(tmp_path: Path) -> None:
    trace = mpiprof.open(write_trace(tmp_path / "t", 100, machine=False))
    row = trace.callsites.iloc[0]
    for name in ("average_factor", "worst_factor", "exit_factor", "balanced_share"):
        assert np.isnan(row[name]), name
    assert np.isnan(list(average_factors(trace.callsites).values())).all()
    assert join_by_routine(trace.callsites)["count"].tolist() == [4]


def test_tables_of_instances_contain_only_instances(tmp_path: Path) -> None:
    trace = mpiprof.open(write_trace(tmp_path / "t", 100))
    assert len(trace.instances) == 4
    assert len(trace.series(0)[0]) == 4
    arrivals, _ = trace.matrix(0)
    assert arrivals.shape == (4, 2)
    assert len(trace.events) == 2 * 104
    totals = trace.rank_totals.groupby("rank")[["instances", "calls"]].sum()
    assert totals["instances"].tolist() == [4, 4]
    assert totals["calls"].tolist() == [104, 104]


def test_a_call_site_of_one_rank_alone_has_time_and_no_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_trace(tmp_path / "t", 100, world=0)
    trace = mpiprof.open(folder)
    row = trace.callsites.iloc[0]
    assert [row[name] for name in NUMBERS] == [0, 0, 0]
    assert row["total_elapsed_ns"] == 2 * 100 * 500
    assert not len(trace.instances)
    for arguments in ([], ["--all"], ["--json"], ["--by", "routine"], ["--rank", "0"]):
        assert main(["report", str(folder), *arguments]) == 0
    assert main(["report", str(folder), "--site", "app.py:1"]) == 0
    assert main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 0
    assert main(["compare", str(folder), str(folder)]) == 0
    assert main(["tune", str(folder)]) in (0, 2)
    text = capsys.readouterr().out
    assert "not known" not in text
    assert "communicators of one rank" in text


def test_the_report_shows_no_factors_where_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_trace(tmp_path / "t", 1000, machine=False)
    assert main(["report", str(folder), "--all"]) == 0
    text = capsys.readouterr().out
    assert "no factors" in text
    assert "Imbalance factors" not in text
    assert "δ/T" not in text.partition("Time by operation")[0]
    assert main(["report", str(folder), "-o", str(tmp_path / "r.json")]) == 0
    data: dict[str, Any] = json.loads((tmp_path / "r.json").read_text())
    assert data["callsites"][0]["worst_factor"] is None
    assert data["callsites"][0]["balanced_share"] is None
    assert data["callsites"][0]["instances"] == 4


def test_the_timeline_numbers_instances_like_their_table(tmp_path: Path) -> None:
    trace = mpiprof.open(write_trace(tmp_path / "t", 3))
    key = cache.compute_key(trace)
    timeline = Timeline(trace, build.open_or_build(trace, key), key)
    details = [find.describe_instance(timeline, i) for i in range(timeline.events.instances)]
    assert [one["instance"] for one in details if one["size"] == 2] == [0, 1, 2, 3]
    assert {one["of"] for one in details} == {4}
    assert {one["instance"] for one in details if one["size"] == 1} == {-1}
    assert {one["factor"] for one in details if one["size"] == 1} == {None}
