"""POP efficiencies of traces whose times are computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.message_traces import MessageTrace, call, part
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.efficiencies import RankTimes, compute_efficiencies
from mpiprof.reports.efficiency_table import efficiency_fact
from mpiprof.trace import Trace
from mpiprof.trace.types import RECEIVED_PART, SENT_PART

MS = 1_000_000


def opened(folder: Path, synthetic: Synthetic, end_ms: float) -> Trace:
    """Write a run from 0 to `end_ms`."""
    synthetic.started_ns, synthetic.ended_ns = 0, int(end_ms * MS)
    return mpiprof.open(synthetic.write(folder))


def ms(*times: list[float]) -> np.ndarray:
    """Return times in ns: instances x ranks."""
    return (np.array(times) * MS).astype(np.int64)


def run_row(trace: Trace) -> dict[str, float]:
    """Return the efficiencies of the run."""
    (row,) = trace.efficiencies.to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_imbalance_and_transfer(tmp_path: Path) -> None:
    """Ranks arrive after 40 and 60 of 100 ms, and leave after 70 ms.

    Useful are 70 and 90 ms. Rank 0 waits for 20 ms. Both transfer for 10 ms, so an ideal network
    would take 90 ms.
    """
    synthetic = Synthetic(2)
    synthetic.add_collective("allreduce", ms([40, 60]), ms([70, 70]))
    row = run_row(opened(tmp_path / "t", synthetic, 100))
    assert row["parallel"] == pytest.approx(0.8)
    assert row["load_balance"] == pytest.approx(80 / 90)
    assert row["communication"] == pytest.approx(0.9)
    assert row["serialisation"] == pytest.approx(1.0)
    assert row["transfer"] == pytest.approx(0.9)
    assert row["useful_ns"] == 160 * MS


def test_serialisation(tmp_path: Path) -> None:
    """The ranks work alternately for 30 ms each, so each waits while the other works."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", ms([30, 0], [30, 60]), ms([30, 30], [60, 60]))
    trace = opened(tmp_path / "t", synthetic, 60)
    row = run_row(trace)
    values = [row[name] for name in ("parallel", "load_balance", "serialisation", "transfer")]
    assert values == pytest.approx([0.5, 1.0, 0.5, 1.0])
    fact = "50 %: load balance 100 %, serialisation 50 %, transfer 100 %"
    assert efficiency_fact(trace) == fact


def test_waiting_in_messages_is_bounded_if_it_is_not_known(tmp_path: Path) -> None:
    """Both ranks spend 20 of 100 ms in messages: all of it may be transfer, or all waiting."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", ms([100, 100]), ms([100, 100]))
    for rank in range(2):
        synthetic.records[rank][-1]["outside_ns"] = 20 * MS
    trace = opened(tmp_path / "t", synthetic, 100)
    row = run_row(trace)
    assert (row["parallel"], row["load_balance"], row["communication"]) == (0.8, 1.0, 0.8)
    for name in ("serialisation", "transfer"):
        assert np.isnan(row[name])
        assert [row[f"{name}_low"], row[f"{name}_high"]] == pytest.approx([0.8, 1.0])
    assert efficiency_fact(trace) == "80 %: load balance 100 %, communication 80 %"


def test_waiting_for_a_late_sender_is_no_transfer(tmp_path: Path) -> None:
    """The receive takes from 40 to 92 us of 100; the send is posted at 60 and takes 35 us.

    Useful are 65 and 48 us. Rank 1 waits for 20 us and transfers for 32 us.
    """
    messages = MessageTrace()
    messages.synthetic.started_ns, messages.synthetic.ended_ns = 0, 100_000
    send, recv = messages.shape(0, "send", 1), messages.shape(1, "recv", 0)
    large = 1 << 20
    sent = part(SENT_PART, send, posted=60_000, bytes_=large)
    received = part(RECEIVED_PART, recv, posted=40_000, bytes_=large)
    messages.add_chunk(0, call(send, 60_000, 95_000, sent))
    messages.add_chunk(1, call(recv, 40_000, 92_000, received))
    trace = messages.write(tmp_path / "t")
    trace.spent[["point_to_point", "completion", "one_sided", "files"]] = 0.0
    trace.spent["point_to_point"] = [35_000.0, 52_000.0]
    row = run_row(trace)
    assert row["load_balance"] == pytest.approx(56.5 / 65)
    assert row["serialisation"] == pytest.approx(65 / 68)
    assert row["transfer"] == pytest.approx(0.68)


def test_a_wait_for_a_collective_counts_once(tmp_path: Path) -> None:
    """A Wait of 40 ms for an iallreduce is also in the recorder's sum of completion calls."""
    synthetic = Synthetic(2)
    times = ms([10, 10]), ms([11, 11])
    waits = ms([50, 90]), ms([90, 90])
    synthetic.add_collective("iallreduce", *times, completions=waits)
    synthetic.add_collective("barrier", ms([100, 100]), ms([100, 100]), site="app.py:2:main")
    synthetic.records[0][-1]["outside_ns"] = 40 * MS
    row = run_row(opened(tmp_path / "t", synthetic, 100))
    assert row["useful_ns"] == pytest.approx((59 + 99) * MS)


def test_identities_hold_for_random_times() -> None:
    """Parallel efficiency is the product of its factors, none of which exceeds 1."""
    random = np.random.default_rng(3)
    for _ in range(100):
        mpi = random.uniform(0, 80, (5, 1))
        wait = random.uniform(0, 1, (5, 1)) * mpi
        row = compute_efficiencies(
            np.array([100.0]), RankTimes(np.full((5, 1), 100.0), mpi, wait, wait)
        )
        product = row["load_balance"] * row["serialisation"] * row["transfer"]
        assert row["parallel"] == pytest.approx(product)
        assert row["communication"] == pytest.approx(row["serialisation"] * row["transfer"])
        assert all(0 < row[n] <= 1 for n in ("load_balance", "serialisation", "transfer"))


def two_phases(folder: Path) -> Trace:
    """Record 40 steps in which ranks work 10 and 11 ms, then 40 steps of 10 and 15 ms."""
    late = np.repeat([1.0, 5.0], 40)
    exits = np.cumsum(10 + late)
    starts = np.concatenate([[0.0], exits[:-1]])
    arrivals = np.stack([starts + 10, exits], 1)
    synthetic = Synthetic(2)
    synthetic.add_collective("allreduce", ms(*arrivals), ms(*np.stack([exits, exits], 1)))
    return opened(folder, synthetic, float(exits[-1]))


def test_phases_have_their_own_efficiencies(tmp_path: Path) -> None:
    run, *phases = two_phases(tmp_path / "t").efficiencies.to_dict("records")
    assert run["load_balance"] == pytest.approx((10 + 13) / 2 / 13)
    assert [row["phase"] for row in phases] == [0, 1]
    found = [row["load_balance"] for row in phases]
    assert found == pytest.approx([10.5 / 11, 12.5 / 15], rel=0.02)


def test_report_in_all_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_phases(tmp_path / "t")
    path = str(tmp_path / "t")
    fact = "88 %: load balance 88 %, serialisation 100 %, transfer 100 %"
    assert main(["report", path]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"efficiency {fact}" in printed
    assert "Efficiencies by phase of allreduce at app.py:1 main" in printed
    assert main(["report", path, "--json"]) == 0
    run, first, _ = json.loads(capsys.readouterr().out)["efficiencies"]
    assert (run["phase"], first["phase"]) == (-1, 0)
    assert run["parallel"] == pytest.approx(23 / 26)
    for ending in ("md", "html"):
        assert main(["report", path, "-o", str(tmp_path / f"r.{ending}")]) == 0
        written = (tmp_path / f"r.{ending}").read_text()
        assert fact in written and "Efficiencies by phase" in written


def test_no_efficiencies_without_the_end_of_the_run(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", ms([30, 0]), ms([30, 30]))
    trace = mpiprof.open(synthetic.write(tmp_path / "t", finished=[0]))
    assert not len(trace.efficiencies)
    assert efficiency_fact(trace) == ""
