"""Delays in traces with a part of the calls: samples, rings, sums of messages, very long runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import planted_loops as planted
from support.loop_programs import Loop, collectives, halo
from support.planted_loops import Delay, PlantedLoop
from support.program import Program
from support.random_work import Noise

import mpiprof
from mpiprof.account.record_gaps import find_record_gaps
from mpiprof.causes import delay_matrix
from mpiprof.causes.delay_matrix import choose_columns
from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion
from mpiprof.reports.words.finding_sentences import saving_sentence
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

MS = planted.MS
LATE_MS = 5.0


def plant(loop: Loop, late_ms: Float, place: int = 0, **limits: int) -> PlantedLoop:
    """Return a loop with one delay; limits: sample or ring."""
    noise = planted.make_noise("quiet", (len(late_ms), len(loop.places), loop.ranks), 1)
    return PlantedLoop(loop, noise, (Delay(place, late_ms),), **limits)


def first_finding(of: PlantedLoop, folder: Path) -> tuple[Finding, Trace]:
    """Write the trace of a loop, and return its first finding."""
    trace = mpiprof.open(of.build().write(folder))
    return trace.findings()[0], trace


def operations(finding: Finding) -> tuple[str, str]:
    """Return the operations of the calls around the late work."""
    work = finding.habit.work[0]
    return work.before["operation"], work.after["operation"]


@pytest.mark.heavy
@pytest.mark.parametrize("onset", [0, 100])
@pytest.mark.parametrize("operations_of_loop", [("allreduce",), ("allreduce", "alltoall")])
def test_arrivals_in_a_sample_show_work_if_all_ranks_meet(
    operations_of_loop: tuple[str, ...], onset: int, tmp_path: Path
) -> None:
    """One of 4 instances is recorded; the cost is that of the whole run."""
    late = planted.constant(240, 8, [3], LATE_MS)
    late[:onset] = 0
    loop = plant(collectives(8, *operations_of_loop), late, sample=4)
    first, trace = first_finding(loop, tmp_path / "t")
    assert (first.cause, first.ranks) == ("rank", (3,)) and first.certainty > 0.99
    assert operations(first) == loop.loop.places[0]
    assert first.first_instance is not None and abs(first.first_instance - onset) <= 16
    assert first.cost_ns == pytest.approx(loop.cost_ns([3]), rel=0.15)
    assert first.saved_ns == pytest.approx((240 - onset) * LATE_MS * MS, rel=0.25)
    assert "rank 3 works 5.0" in conclusion.verdict_lines(trace, make_verdict(trace, [first]))[1]


@pytest.mark.heavy
@pytest.mark.parametrize("place", [0, 1])
def test_delays_before_messages_are_followed_in_the_recorded_steps(
    place: int, tmp_path: Path
) -> None:
    """One of 3 instances of the allreduce is recorded, and all messages."""
    late = planted.constant(240, 8, [3], LATE_MS)
    loop = plant(halo(8), late, place, sample=3)
    first, _ = first_finding(loop, tmp_path / "t")
    assert (first.cause, first.ranks) == ("rank", (3,)) and first.certainty > 0.99
    assert operations(first) == loop.loop.places[place]
    assert first.cost_ns == pytest.approx(loop.cost_ns([3]), rel=0.15)


def test_a_sample_without_consecutive_calls_names_nobody(tmp_path: Path) -> None:
    """In a reduce only the root waits, so lateness may come from missing calls."""
    late = planted.constant(24, 4, [2], LATE_MS)
    loop = plant(collectives(4, "reduce", "bcast"), late, sample=16)
    trace = mpiprof.open(loop.build().write(tmp_path / "t"))
    lines = conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert not any(one.ranks for one in trace.findings())
    assert "the records do not show the cause of the waiting" in lines[1]
    assert lines[2].startswith("Record a larger part of the calls")


def test_gaps_of_a_sample_are_the_times_of_its_missing_calls(tmp_path: Path) -> None:
    program = Program(2, sample=3)
    program.synthetic.add_communicator("pair", [0, 1])
    for _ in range(40):
        program.collective("bcast", own_ns=[MS, 2 * MS], communicator="pair")
    trace = mpiprof.open(program.write(tmp_path / "t"))
    gaps = find_record_gaps(trace)
    calls = [call for call in program.calls if call.operation == "bcast"]
    recorded = set(trace.events.query("operation == 'bcast'")["sequence"])
    assert 0 < len(recorded) < 40
    for number, call in enumerate(calls[1 : max(recorded) + 1], 1):
        before = calls[number - 1].exit_ns
        hidden = gaps.overlap(call.ranks, before, call.enter_ns)
        is_whole = {number - 1, number} <= recorded
        assert hidden.tolist() == [not is_whole] * 2


@pytest.mark.heavy
def test_a_ring_shows_the_delays_of_its_last_steps(tmp_path: Path) -> None:
    """A ring retains 50 of 200 steps, and the first late one has its number in the whole run."""
    late = planted.constant(200, 4, [1], LATE_MS)
    late[:175] = 0
    first, trace = first_finding(plant(collectives(4, "allreduce"), late, ring=50), tmp_path / "t")
    assert (first.cause, first.ranks, first.first_instance) == ("rank", (1,), 175)
    assert first.cost_ns == pytest.approx(25 * 3 * LATE_MS * MS, rel=0.1)
    lines = conclusion.verdict_lines(trace, make_verdict(trace, [first]))
    assert ", in steps 175 to the end" in lines[1] and "the recorded part would take" in lines[1]


def test_time_in_messages_without_records_is_no_work(tmp_path: Path) -> None:
    """Rank 2 works longer, and all other ranks may wait for its messages."""
    late = planted.constant(60, 4, [2], LATE_MS)
    loop = plant(halo(4), late, place=1, ring=1000)
    trace = mpiprof.open(loop.build().write(tmp_path / "t"))
    assert {rank for one in trace.findings() for rank in one.ranks} <= {2}


def test_columns_of_a_long_run_are_runs_of_steps_and_the_costly_ones() -> None:
    random = np.random.default_rng(3)
    wait = random.exponential(1.0, 100_000)
    wait[[77_777, 5]] = 1e5
    index, scale = choose_columns(wait, 4_096)
    assert len(index) <= 4_096 + delay_matrix.MAX_COSTLY
    assert {5, 77_777} <= set(index.tolist()) and (scale[np.isin(index, [5, 77_777])] == 1).all()
    assert wait[index] @ scale == pytest.approx(wait.sum())
    lengths = np.diff(np.flatnonzero(np.diff(index, prepend=-9, append=-9) != 1))
    assert np.median(lengths) == 64


@pytest.mark.heavy
@pytest.mark.parametrize(("period", "onset"), [(None, 500), (7, 3)])
def test_a_long_run_is_represented_by_some_of_its_steps(
    period: int | None, onset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_matrix, "MAX_INSTANCES", 256)
    late = planted.constant(1_000, 4, [1], LATE_MS)
    late[np.arange(1_000) % 7 != 3 if period else np.arange(1_000) < onset] = 0
    loop = plant(collectives(4, "allreduce"), late)
    first, _ = first_finding(loop, tmp_path / "t")
    assert (first.ranks, first.period) == ((1,), period)
    assert first.first_instance is not None and abs(first.first_instance - onset) <= 16
    assert first.cost_ns == pytest.approx(loop.cost_ns([1]), rel=0.1)
    assert first.saved_ns == pytest.approx(late.sum() * MS, rel=0.1)
    assert first.habit.instances == 1_000


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        ({}, r"Without that, the run would take [\d.]+ m?s instead"),
        ({"sample": 4}, r"Without that, the run would take about [\d.]+ m?s instead of [\d.]+ s\."),
        ({"ring": 200}, r"Without that, the recorded part would take [\d.]+ m?s instead"),
    ],
)
def test_the_saving_states_its_part_of_the_run(
    options: dict[str, Any], stated: str, tmp_path: Path
) -> None:
    program, noise = Program(4, **options), Noise(4)
    for _ in range(240):
        own_ns = noise.work(5 * MS, 0.1)
        own_ns[1] += 3 * MS
        program.collective("allreduce", "app.py:12:main", own_ns)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    assert re.search(stated, saving_sentence(trace, trace.findings()[0]))
