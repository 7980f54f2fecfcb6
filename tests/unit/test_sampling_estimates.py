"""Sums of a sample of the instances are scaled, and remain possible."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from mpiprof.dashboard.callsite_table import callsite_facts
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.instance_rows import CallsiteKey, Rows
from mpiprof.account.sampling_estimates import SampledInstances
from mpiprof.causes.compare import compare
from mpiprof.causes.compare_verdict import judge_difference
from mpiprof.trace.batch import Batch
from mpiprof.trace.types import CALL, Bool, Int
from mpiprof.trace.writer import CHUNK_BYTES, RECORD_TYPE, make_chunks

MS = 1_000_000
CALLS, EVERY = 3000, 100


def sampled(folder: Path, late: int = MS // 2) -> Path:
    """Write 2 ranks in barriers for 99 % of the time, with one barrier in 100 recorded.

    late: lateness of rank 1 in ns.
    """
    synthetic = Synthetic(2)
    number = np.arange(0, CALLS, EVERY)
    arrivals = number[:, None] * MS + synthetic.started_ns + np.array([0, late])
    begin, end = arrivals[:, :1], np.repeat(number[:, None] * MS + synthetic.started_ns, 2, 1)
    synthetic.add_collective("barrier", arrivals, end + 995_000)
    for records in synthetic.records:
        records[0]["sequence"] = number
    synthetic.meta["sample"] = EVERY
    synthetic.ended_ns = synthetic.started_ns + CALLS * MS
    assert len(begin) == CALLS // EVERY
    return synthetic.write(folder)


def test_the_sums_of_a_sample_are_of_all_instances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each barrier, rank 0 is for 995 us and rank 1 for 495 us; 500 us are wait."""
    path = sampled(tmp_path / "t")
    row = mpiprof.open(path).callsites.iloc[0]
    assert row["instances"] == CALLS // EVERY
    assert row["total_instances"] == pytest.approx(CALLS, rel=0.04)
    assert row["total_elapsed_ns"] == pytest.approx(CALLS * 1_490_000, rel=0.04)
    assert row["total_wait_ns"] == pytest.approx(CALLS * 500_000, rel=0.04)
    assert row["wait_ns"] == 500_000
    assert main(["report", str(path)]) == 0
    text = capsys.readouterr().out
    share = int(text.split("in collectives  ")[1].split(" %")[0])
    assert 71 <= share <= 75
    assert "one instance in 100: sums are estimated from these" in text


def test_all_outputs_state_the_same_number_of_instances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every hundredth of 3000 is recorded: the last one is the 2901st, and 99 follow."""
    path = str(sampled(tmp_path / "t"))
    reported = {}
    for words in ((), ("--json",), ("--by", "routine"), ("--site", "barrier"), ("-o", "t.html")):
        name = words[-1] if words else "table"
        if name == "t.html":
            words = ("-o", str(tmp_path / name))
        assert main(["report", path, *words]) == 0
        reported[name] = capsys.readouterr().out
    (row,) = json.loads(reported["--json"])["callsites"]
    assert (row["instances"], row["complete_instances"], row["total_instances"]) == (30, 30, 3000)
    table = reported["table"].partition("Call sites by total waiting time")[2]
    head, line = (
        next(line for line in table.splitlines() if line.startswith(f"  {word} "))
        for word in ("operation  call site", "barrier")
    )
    assert head.split()[3:5] == ["instances", "known"] and " ~3 000     30 " in line
    assert "  all operations     ~3 000 " in reported["table"] and " ~3 000 " in reported["routine"]
    assert ": about 3 000 instances, of which 30 recorded" in reported["barrier"]
    assert "<td>~3 000</td><td>30</td>" in (tmp_path / "t.html").read_text()
    known = dict(callsite_facts(mpiprof.open(path).callsites.iloc[0].to_dict()))
    assert known["instances (~ estimated)"] == "~3 000"


def test_a_sample_is_compared_with_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same instances, once all recorded, once one in a hundred."""
    synthetic = Synthetic(2)
    begin = np.arange(CALLS)[:, None] * MS + synthetic.started_ns
    synthetic.add_collective(
        "barrier", begin + np.array([0, MS // 2]), np.repeat(begin, 2, 1) + 995_000
    )
    synthetic.ended_ns = synthetic.started_ns + CALLS * MS
    traces = [synthetic.write(tmp_path / "all"), sampled(tmp_path / "sampled")]
    for words in (traces, traces[::-1]):
        assert main(["compare", *map(str, words)]) == 0
        text = capsys.readouterr().out
        assert "ime" in text and "slower" not in text and "faster" not in text
        assert ("3 000 → ~3 000" if words == traces else "~3 000 → 3 000") in text
    # Its rank 1 is in the call for longer.
    early = mpiprof.open(sampled(tmp_path / "early", MS // 4))
    for other in map(mpiprof.open, traces):
        changed = judge_difference(compare([other, early]))
        assert changed.effect_ns == pytest.approx(CALLS * MS / 4, rel=0.04)


def test_what_is_recorded_always_is_not_scaled(tmp_path: Path) -> None:
    """The init of a persistent operation counts once; each recorded start represents several."""
    synthetic = Synthetic(2)
    starts = 40 * EVERY
    retained = np.flatnonzero(np.random.default_rng(5).random(starts) < 1 / EVERY) + 1
    for rank in range(2):
        shape = synthetic.add_shape(rank, "barrier_init", "world")
        synthetic.add(rank, shape, 0, synthetic.started_ns + MS, synthetic.started_ns + 2 * MS)
        for nth in retained.tolist():
            at = synthetic.started_ns + (10 + nth) * MS
            synthetic.add_start(rank, shape, 0, nth, at, (at + 1000, at + 2000))
    synthetic.meta["sample"] = EVERY
    synthetic.ended_ns = synthetic.started_ns + 10_000 * MS
    table = mpiprof.open(synthetic.write(tmp_path / "t")).callsites
    init, start = (table[table["started"] == started].iloc[0] for started in (False, True))
    for name in ("total_elapsed_ns", "total_elapsed_low_ns", "total_elapsed_high_ns"):
        assert init[name] == 2 * MS
    truth = 2 * 1000 * starts
    assert start["total_elapsed_low_ns"] <= truth <= start["total_elapsed_high_ns"]
    assert start["total_elapsed_ns"] == pytest.approx(truth, rel=0.1)


def test_there_is_one_finalize(tmp_path: Path) -> None:
    """It represents no other call, and its time is not scaled."""
    synthetic = Synthetic(2)
    retained = np.flatnonzero(np.random.default_rng(6).random(40 * EVERY) < 1 / EVERY)
    at = synthetic.started_ns + retained[:, None] * MS + np.zeros((1, 2), np.int64)
    synthetic.add_collective("barrier", at, at + MS // 2)
    for records in synthetic.records:
        records[-1]["sequence"] = retained
    synthetic.meta["sample"] = EVERY
    ends = synthetic.started_ns + 40 * EVERY * MS
    synthetic.add_collective("finalize", [[ends, ends]], [[ends + 50 * MS] * 2])
    for records in synthetic.records:
        records[-1]["sequence"] = 40 * EVERY
    synthetic.ended_ns = ends + 60 * MS
    table = mpiprof.open(synthetic.write(tmp_path / "t")).callsites.set_index("operation")
    assert table.loc["finalize", "total_instances"] == 1
    for name in ("total_elapsed_ns", "total_elapsed_low_ns", "total_elapsed_high_ns"):
        assert table.loc["finalize", name] == 100 * MS
    assert table.loc["barrier", "total_instances"] == pytest.approx(40 * EVERY, abs=3 * EVERY)


def test_a_single_instance_gives_no_interval(tmp_path: Path) -> None:
    """It is certainly in the sum, which cannot exceed the run."""
    synthetic = Synthetic(2)
    at = np.full((1, 2), synthetic.started_ns + MS)
    synthetic.add_collective("barrier", at, at + MS)
    synthetic.meta["sample"] = EVERY
    synthetic.ended_ns = synthetic.started_ns + 10 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    row = trace.callsites.iloc[0]
    assert row["total_elapsed_low_ns"] == 2 * MS
    assert row["total_elapsed_ns"] <= row["total_elapsed_high_ns"] == trace.process_time_ns
    assert trace.run_times.collective.high == trace.process_time_ns


@pytest.mark.heavy
def test_many_communicators_of_few_operations(tmp_path: Path) -> None:
    """Most have no instance in the sample.

    The communicators with instances also represent the others.
    """
    synthetic, random = Synthetic(2), np.random.default_rng(6)
    count, every, each = 3000, 10, 3
    retained = random.random((count, each)) < 1 / every
    for number in np.flatnonzero(retained.any(1)).tolist():
        synthetic.add_communicator(f"number {number}", [0, 1])
        sequence = np.flatnonzero(retained[number])
        at = (
            synthetic.started_ns
            + (number * each + sequence[:, None]) * MS
            + np.zeros((1, 2), np.int64)
        )
        synthetic.add_collective("barrier", at, at + 500_000, f"number {number}")
        for records in synthetic.records:
            records[-1]["sequence"] = sequence
    synthetic.meta["sample"] = every
    synthetic.ended_ns = synthetic.started_ns + count * each * MS
    elapsed = mpiprof.open(synthetic.write(tmp_path / "t")).run_times.collective
    truth = count * each * 2 * 500_000
    assert elapsed.low <= truth <= elapsed.high
    assert elapsed.value == pytest.approx(truth, rel=0.1)


# ---- coverage of the interval

LONG, KEPT_OF, RUNS, TRACES = 3000, 20, 1500, 40


def hashed(identity: int, sequence: Int, every: int) -> Bool:
    """Return which instances the recorder samples (core/record/record.h, base/hash.c)."""
    with np.errstate(over="ignore"):
        x = np.uint64(identity) * np.uint64(0x9E3779B97F4A7C15) ^ sequence.astype(np.uint64)
        for again in (False, True):
            if again:  # with a start of 0
                x = x * np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
            x = x ^ x >> np.uint64(31)
    return np.asarray(x % np.uint64(every) == 0)


def lateness(kind: str, random: np.random.Generator) -> Int:
    """Return the lateness of rank 1 in each instance in ns."""
    if kind == "alike":
        values = np.full(LONG, 50_000.0)
    elif kind == "exponential":
        values = random.exponential(50_000, LONG)
    else:  # neighbours are correlated: the logarithm is AR(0.9)
        noise = random.normal(0, 0.19**0.5, LONG)
        walk = itertools.accumulate(noise.tolist(), lambda before, new: 0.9 * before + new)
        values = 50_000 * np.exp(list(walk))
    return values.astype(np.int64)


KINDS = pytest.mark.parametrize("kind", ["alike", "exponential", "lasting"])


@pytest.mark.heavy
@KINDS
def test_the_interval_contains_the_true_value(kind: str) -> None:
    """In about 95 of 100 runs: all wait, and a call site with a third of the instances."""
    hits, number = Counter[str](), np.arange(LONG)
    often, rarely = (CallsiteKey("barrier", frozenset([site]), False) for site in (1, 2))
    rare = number % 3 == 0
    for run in range(RUNS):
        random = np.random.default_rng((8, run))
        late = lateness(kind, random).astype(np.float64)
        retained = np.flatnonzero(hashed(int(random.integers(1 << 62)), number, KEPT_OF))
        found = SampledInstances(KEPT_OF)
        batch = SimpleNamespace(
            communicator=SimpleNamespace(index=0), sequence=retained, start=np.zeros_like(retained)
        )
        rows = SimpleNamespace(
            callsite=rare[retained].astype(int), elapsed=late[retained], wait=late[retained]
        )
        found.add(cast(Batch, batch), cast(Rows, rows), [often, rarely])
        scale = found.estimate_scales(2, 1e18)
        sums = (
            np.array([late[retained][~rare[retained]].sum(), late[retained][rare[retained]].sum()])
            * scale
        )
        low, high = found.estimate_interval("wait", sums.sum(), [0, 1], 1e18)
        hits["all"] += low <= late.sum() <= high
        low, high = found.estimate_interval("wait", sums[1], [1], 1e18)
        hits["rare"] += low <= late[rare].sum() <= high
    assert all(0.92 <= hits[name] / RUNS <= 0.97 for name in ("all", "rare")), hits


@pytest.mark.heavy
@KINDS
def test_the_interval_of_traces_contains_the_true_value(kind: str, tmp_path: Path) -> None:
    """The same for traces, also for time in the calls; fewer runs, so within three deviations."""
    hits = Counter[str]()
    for run in range(TRACES):
        random = np.random.default_rng((9, run))
        late = lateness(kind, random)
        rare = np.arange(LONG) % 3 == 0
        synthetic = Synthetic(2)
        retained = hashed(int(random.integers(1 << 62)), np.arange(LONG), KEPT_OF)
        for site, of in (("app.py:1:often", ~rare), ("app.py:2:rarely", rare)):
            number = np.flatnonzero(retained & of)
            first = synthetic.started_ns + number * 10 * MS
            arrivals = np.stack([first, first + late[number]], 1)
            synthetic.add_collective(
                "barrier", arrivals, arrivals.max(1)[:, None] + [[9, 9]], site=site
            )
            for records in synthetic.records:
                records[-1]["sequence"] = number
        synthetic.meta["sample"] = KEPT_OF
        synthetic.ended_ns = synthetic.started_ns + LONG * 10 * MS
        trace = mpiprof.open(synthetic.write(tmp_path / f"{run}"))
        whole, table = trace.run_times, trace.callsites
        row = table.loc[table.index[[site[0]["line"] == 2 for site in table["sites"]]][0]]
        inside = late.sum() + 2 * 9 * LONG
        hits["wait"] += whole.total_wait.low <= late.sum() <= whole.total_wait.high
        hits["elapsed"] += whole.collective.low <= inside <= whole.collective.high
        hits["rare"] += row["total_wait_low_ns"] <= late[rare].sum() <= row["total_wait_high_ns"]
    least = 0.95 * TRACES - 3 * (TRACES * 0.95 * 0.05) ** 0.5
    assert min(hits[name] for name in ("wait", "elapsed", "rare")) >= least, hits


def test_shares_of_threads_are_of_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three threads of one rank are in separate collectives for most of the run."""
    synthetic = Synthetic(1)
    synthetic.ended_ns = synthetic.started_ns + 100 * MS
    extra = []
    for thread in range(3):
        name = f"own {thread}"
        synthetic.add_communicator(name, [0])
        shape = synthetic.add_shape(0, "barrier", name)
        record = np.zeros(1, RECORD_TYPE)
        record["enter_ns"], record["exit_ns"] = synthetic.started_ns, synthetic.started_ns + 90 * MS
        record["shape"], record["kind"], record["thread"] = shape, CALL, thread
        extra.append(record)
    folder = synthetic.write(tmp_path / "t")
    log = folder / "rank-000000.log"
    parts = [make_chunks(record, 0, thread, 0, window=True) for thread, record in enumerate(extra)]
    log.write_bytes(log.read_bytes()[:CHUNK_BYTES] + b"".join(parts))
    trace = mpiprof.open(folder)
    assert trace.thread_count == 3 and trace.process_time_ns == 300 * MS
    assert main(["report", str(folder)]) == 0
    assert "90 % (270 ms) of all 3 threads' time" in capsys.readouterr().out
