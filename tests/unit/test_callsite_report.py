"""`report --site`: a call site over its instances and ranks, without all of both in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.dataset_traces import MADE
from support.jobs import run_verb

import mpiprof
from mpiprof.reports import callsite_report
from mpiprof.trace import Trace


@pytest.mark.parametrize("name", ["several", "drifting", "mixed"])
def test_totals_of_ranks_are_those_of_the_matrix(name: str, tmp_path: Path) -> None:
    """For call sites on one communicator, including open calls."""
    trace = mpiprof.open(MADE[name](tmp_path / "job"))
    seen = 0
    for callsite in trace.rank_totals["callsite"].unique().tolist():
        totals = trace.rank_totals[trace.rank_totals["callsite"] == callsite]
        arrivals, exits = trace.matrix(callsite)
        if totals["communicator"].nunique() > 1:
            continue
        totals = totals.sort_values("rank")
        assert (exits > 0).sum(0).tolist() == totals["calls"].tolist()
        whole = (exits > 0).all(1)
        late = arrivals[whole] - arrivals[whole].min(1, keepdims=True)
        if whole.any() and totals["instances"].any():
            assert late.max(0).tolist() == totals["most_late_ns"].tolist()
            assert late.sum(0).tolist() == totals["lateness_ns"].tolist()
            seen += 1
    assert seen


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in MADE if name != "silent"])
def test_no_array_has_ranks_times_instances_elements(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = MADE[name](tmp_path / "job")
    sites = mpiprof.open(folder).callsites["sites"]

    def refused(*_: object) -> None:
        raise AssertionError("all instances are held")

    for held in ("instances", "matrix"):
        monkeypatch.setattr(Trace, held, property(refused))
    for of in sites:
        label = f"{of[0]['file']}:{of[0]['line']}"
        code, out, _ = run_verb("report", folder, "--site", label)
        assert code == 0 and "Its ranks" in out and "Over its instances" in out


def test_sums_of_a_thinned_series_are_scaled_up() -> None:
    """1000 instances, of which every second run of 100 is stored; each waits for 1 ms."""
    number = np.arange(1000)
    number = number[number // 100 % 2 == 0]
    series = pd.DataFrame(
        {
            "number": number + 7,
            "average_imbalance_ns": 1e6,
            "worst_imbalance_ns": 2e6,
            "worst_factor": np.nan,
            "wait_ns": 1e6,
            "last_rank": 3,
            "algorithm": "native",
        }
    )
    lines = callsite_report.instance_table(series, 1000, 5, first=7).splitlines()
    assert [line.split()[0] for line in lines[-5:]] == [
        "7-206", "207-406", "407-606", "607-806", "807-1006"
    ]  # fmt: skip
    assert all("200 ms" in line for line in lines[-5:])


def test_a_run_without_stored_instances_is_reported() -> None:
    series = pd.DataFrame(
        {
            "number": [0, 1],
            "average_imbalance_ns": 1e6,
            "worst_imbalance_ns": 2e6,
            "worst_factor": 3.0,
            "wait_ns": 1e6,
            "last_rank": 3,
            "algorithm": "native",
        }
    )
    last = callsite_report.instance_table(series, 4, 2).splitlines()[-1].split()
    assert last[0] == "2-3" and set(last[1:]) == {"–"}
