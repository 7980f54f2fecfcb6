"""What is known of a part of the instances only is scaled, and stays possible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.testing.synthetic import CHUNK, RECORD_TYPE, chunks
from mpiprof.trace.types import CALL

MS = 1_000_000
CALLS, EVERY = 3000, 100


def sampled(folder: Path) -> Path:
    """Write 2 ranks that are in barriers 99 % of the time, of which one in 100 is recorded."""
    made = Synthetic(2)
    number = np.arange(0, CALLS, EVERY)
    arrivals = number[:, None] * MS + made.started_ns + np.array([0, MS // 2])
    begin, end = arrivals[:, :1], np.repeat(number[:, None] * MS + made.started_ns, 2, 1)
    made.collective("barrier", arrivals, end + 995_000)
    for records in made.records.values() if isinstance(made.records, dict) else made.records:
        records[0]["sequence"] = number
    made.meta["sample"] = EVERY
    made.ended_ns = made.started_ns + CALLS * MS
    assert len(begin) == CALLS // EVERY
    return made.write(folder)


def test_the_sums_of_a_sample_are_of_all_instances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 is in each for 995 us, rank 1 for 495 us, and 500 us are waiting."""
    path = sampled(tmp_path / "t")
    row = mpiprof.open(path).callsites.iloc[0]
    assert row["instances"] == CALLS // EVERY
    assert row["total_elapsed_ns"] == pytest.approx(CALLS * 1_490_000, rel=0.04)
    assert row["total_wait_ns"] == pytest.approx(CALLS * 500_000, rel=0.04)
    assert row["wait_ns"] == 500_000
    assert main(["report", str(path)]) == 0
    text = capsys.readouterr().out
    share = int(text.split("in collectives  ")[1].split(" %")[0])
    assert 71 <= share <= 75
    assert "one instance in 100: sums are estimated from these" in text


def test_what_is_recorded_always_is_not_scaled(tmp_path: Path) -> None:
    """A single operation stands for itself, however rarely instances are recorded."""
    made = Synthetic(2)
    at = np.full((1, 2), made.started_ns + MS)
    made.collective("barrier", at, at + MS)
    made.meta["sample"] = EVERY
    made.ended_ns = made.started_ns + 10 * MS
    row = mpiprof.open(made.write(tmp_path / "t")).callsites.iloc[0]
    assert row["total_elapsed_ns"] == 2 * MS


def test_shares_of_threads_are_of_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three threads of one rank are in collectives of their own for most of the run."""
    made = Synthetic(1)
    made.ended_ns = made.started_ns + 100 * MS
    extra = []
    for thread in range(3):
        name = f"own {thread}"
        made.communicator(name, [0])
        shape = made.shape(0, "barrier", name)
        record = np.zeros(1, RECORD_TYPE)
        record["enter_ns"], record["exit_ns"] = made.started_ns, made.started_ns + 90 * MS
        record["shape"], record["kind"], record["thread"] = shape, CALL, thread
        extra.append(record)
    folder = made.write(tmp_path / "t")
    log = folder / "rank-000000.log"
    parts = [chunks(record, 0, thread, 0, window=True) for thread, record in enumerate(extra)]
    log.write_bytes(log.read_bytes()[:CHUNK] + b"".join(parts))
    trace = mpiprof.open(folder)
    assert trace.threads == 3 and trace.process_time_ns == 300 * MS
    assert main(["report", str(folder)]) == 0
    assert "90 % (270 ms) of all 3 threads' time" in capsys.readouterr().out
