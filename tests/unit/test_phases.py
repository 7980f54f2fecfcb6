"""Phases and periods of lateness: planted ones are found, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, noise, one_site
from support.planted_loops import correlate
from support.synthetic import Synthetic

from mpiprof.causes.phases import find_change_points
from mpiprof.reports.words import callsite_sentences, finding_sentences


def test_a_change_of_phase_and_a_period(tmp_path: Path) -> None:
    late = noise(200, 8, 0.05)
    late[:120, 5] += 3
    late[120:, 2] += 3
    late[3::10, 0] += 6
    trace = one_site(tmp_path, Synthetic(8), late)
    phases = trace.phases(0)
    assert phases[["first_instance", "last_instance"]].to_numpy().tolist() == [[0, 119], [120, 199]]
    assert phases["latest_rank"].tolist() == [5, 2]
    assert set(phases["period"]) == {10} and set(phases["period_offset"]) == {3}
    assert phases["period_worst_imbalance_ns"].mean() == pytest.approx(6.1 * MS, rel=0.03)
    total = trace.callsites["total_wait_ns"].iloc[0]
    assert phases["total_wait_ns"].sum() == pytest.approx(total)
    # Systematic during a phase; lateness in every tenth instance is not.
    assert trace.arrival_statistics(0).by_rank.value > 0.6
    assert "Every 10th instance (3, 13, 23, ...)" in callsite_sentences.period_sentence(phases)
    reported = [
        (one.cause, one.ranks, one.first_instance, one.last_instance, one.period)
        for one in trace.findings()
    ]
    assert reported == [("moving", (5, 2), 0, 199, None), ("periodic", (0,), 3, 193, 10)]
    text = finding_sentences.finding_text(trace, trace.findings()[0])
    assert text.startswith("Ranks 2, 5 in turn work 3.00 ms longer") and "80 to 120 steps" in text


@pytest.mark.parametrize("count", [60, 5000])
def test_the_begin_of_a_phase_is_exact(tmp_path: Path, count: int) -> None:
    late = noise(count, 4, 0.1)
    late[count // 3 :, 1] += 2
    phases = one_site(tmp_path, Synthetic(4), late).phases(0)
    assert phases["first_instance"].tolist() == [0, count // 3]
    assert phases["instances"].sum() == count


def test_outliers_are_no_phases(tmp_path: Path) -> None:
    late = noise(300, 4, 0.1)
    late[[50, 51, 130, 222], 2] += 30
    assert len(one_site(tmp_path, Synthetic(4), late).phases(0)) == 1


@pytest.mark.parametrize("length", [2, 3, 7])
def test_periods(tmp_path: Path, length: int) -> None:
    late = noise(150, 4, 0.2)
    late[1::length, 2] += 4
    (phase,) = one_site(tmp_path, Synthetic(4), late).phases(0).to_dict("records")
    assert phase["period"] == length
    assert length == 2 or phase["period_offset"] == 1


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("traces", [100, pytest.param(1000, marks=pytest.mark.everything)])
def test_slow_fluctuations_are_no_change_of_phase(kept: float, traces: int) -> None:
    changed = 0
    for seed in range(traces):
        values = correlate(np.random.default_rng(seed), 400, 8, kept)
        spread = np.log(np.ptp(values, axis=1))
        changed += len(find_change_points(spread, values.argmax(1))) > 0
    assert changed <= traces // 20
