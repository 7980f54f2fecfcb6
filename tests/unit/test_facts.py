"""Facts of a run: single events, work of few ranks, and slow messages, with known answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.neighbours import make_ring
from support.program import Program

import mpiprof
from mpiprof.account import analysis_memory
from mpiprof.account.segments import read_work
from mpiprof.causes import delay_findings, fact_findings, search
from mpiprof.causes.cause import FoundCause, Removal, find_shared_ns, join_removals
from mpiprof.causes.oversubscription import Oversubscription
from mpiprof.causes.single_event import SingleEvent
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

MS = 1_000_000
RANKS, STEPS = 8, 60
REDUCE, CAST = "app.py:1:main", "app.py:2:main"


def write(program: Program, folder: Path) -> Trace:
    return mpiprof.open(program.write(folder / "trace"))


def make_steps(serial_ns: int = 0, stops: dict[int, Int] | None = None) -> Program:
    """Return steps with an allreduce and a bcast. stops: more work of each rank in some steps."""
    program = Program(RANKS, intervals=True, offsets=(0,) * 8, drifts=(0.0,) * 8)
    random = np.random.default_rng(1)
    for step in range(STEPS):
        work = (4 * MS * (1 + 0.02 * random.standard_normal(RANKS))).astype(np.int64)
        program.collective("allreduce", REDUCE, work + (stops or {}).get(step, 0))
        root = np.where(np.arange(RANKS) == 0, 20_000 + serial_ns, 20_000)
        program.collective("bcast", CAST, root)
    return program


def stop(rank: int, ms: int) -> Int:
    work = np.zeros(RANKS, np.int64)
    work[rank] = ms * MS
    return work


def list_facts(trace: Trace) -> list[FoundCause]:
    found: list[FoundCause] = trace.derive("facts")
    return found


def test_work_is_the_time_outside_calls(tmp_path: Path) -> None:
    """The segments of a rank's work are those of the simulated program, to the nanosecond."""
    program = make_steps()
    trace = write(program, tmp_path)
    work, truth = read_work(trace), program.make_truth()
    for rank in range(RANKS):
        of_rank = truth[truth["rank"] == rank]
        assert work.length_ns[work.rank == rank].sum() == of_rank["own_ns"].sum()


def test_an_event_is_a_fact_without_a_test(tmp_path: Path) -> None:
    """One stop saves its whole time beyond the usual work, and is no habit."""
    run_ns = write(make_steps(), tmp_path / "fair").run_ns
    trace = write(make_steps(stops={30: stop(5, 80)}), tmp_path)
    (event,) = list_facts(trace)
    assert event.cause.ranks == (5,) and event.cause.name == "long_work"
    assert event.saving.run_ns == pytest.approx(trace.run_ns - run_ns, rel=0.02)
    assert [finding.ranks for finding in trace.findings() if finding.ranks] == [(5,)]


@pytest.mark.parametrize(
    ("milliseconds", "ranks"),
    [((80, 70), [(0,), (1,)]), ((80, 70, 60, 50), [()]), ((80,) * 9, []), ((10,), [])],
)
def test_events_stand_out(
    milliseconds: tuple[int, ...], ranks: list[tuple[int, ...]], tmp_path: Path
) -> None:
    """Four events of different ranks are no rank's, nine are variation, short ones disturbances."""
    stops = {6 * (i + 1): stop(i % RANKS, ms) for i, ms in enumerate(milliseconds)}
    facts = list_facts(write(make_steps(stops=stops), tmp_path))
    assert [fact.cause.ranks for fact in facts] == ranks


def test_events_of_a_rank_at_a_place_are_one_cause(tmp_path: Path) -> None:
    """The saving is that of all three, and the sentence has their times."""
    run_ns = write(make_steps(), tmp_path / "fair").run_ns
    stops = {10: stop(5, 80), 30: stop(5, 50), 50: stop(5, 70)}
    trace = write(make_steps(stops=stops), tmp_path)
    (event,) = list_facts(trace)
    assert event.saving.run_ns == pytest.approx(trace.run_ns - run_ns, rel=0.02)
    assert event.cause.clause.startswith("3 times, at ")
    assert " rank 5 works up to 84" in event.cause.clause


def test_ranks_that_stop_together_are_one_event(tmp_path: Path) -> None:
    """Either rank alone would save nothing."""
    trace = write(make_steps(stops={30: stop(2, 80) + stop(3, 80)}), tmp_path)
    (event,) = list_facts(trace)
    assert event.cause.ranks == (2, 3) and event.saving.run_ns > 70 * MS


def test_a_stop_stands_out_beside_waits_for_a_processor(tmp_path: Path) -> None:
    """Ranks often wait for a processor, and one rank is stopped once for twice that time."""
    program = Program(RANKS, intervals=True, counters=True)
    for step in range(STEPS):
        program.work(4 * MS)
        program.lose(queue_ns=stop(step % RANKS, 60 if step % 10 == 5 else 0))
        program.lose(off_ns=stop(5, 120 if step == 30 else 0))
        program.collective("allreduce", REDUCE)
    queues, waits, event = list_facts(write(program, tmp_path))
    assert isinstance(event.cause, SingleEvent) and event.cause.ranks == (5,)
    assert event.cause.is_off_processor and event.cause.asleep
    assert isinstance(waits.cause, Oversubscription) and waits.cause.ranks == ()
    assert queues.cause.ranks == ()


def test_work_does_not_explain_a_far_longer_call(tmp_path: Path) -> None:
    """Rank 1 works longer for a tenth of the time for which the send of rank 0 takes longer."""
    program = Program(RANKS, intervals=True, offsets=(0,) * 8, drifts=(0.0,) * 8)
    usual = program.network
    for step in range(STEPS):
        program.work(4 * MS + (stop(1, 50) if step == 30 else 0))
        stop_ns = 500 * MS if step == 30 else 0
        program.network = replace(usual, call_ns=usual.call_ns + stop_ns)
        program.message(0, 2)
        program.network = usual
        program.collective("allreduce", REDUCE)
    (event,) = list_facts(write(program, tmp_path))
    assert event.cause.name == "long_call" and event.cause.ranks == (0,)


@pytest.mark.parametrize("share", [0.5, 1.0, 3.0])
def test_a_serial_section_saves_all_of_its_work(share: float, tmp_path: Path) -> None:
    """It saves its whole work, also if it is shorter than the parallel work."""
    serial_ns = round(share * 4 * MS)
    (serial,) = list_facts(write(make_steps(serial_ns), tmp_path))
    assert serial.cause.name == "serial_section" and serial.cause.ranks == (0,)
    assert serial.saving.run_ns == pytest.approx(STEPS * (serial_ns + 20_000), rel=0.01)


def test_equal_work_is_no_fact(tmp_path: Path) -> None:
    assert list_facts(write(make_steps(), tmp_path)) == []


def test_calls_of_different_lengths_are_no_wavefront(tmp_path: Path) -> None:
    """Ranks exchange halos, and each message takes up to 4 ms at random."""
    program = Program(RANKS, intervals=True, offsets=(0,) * 8, drifts=(0.0,) * 8)
    neighbours, random = make_ring(RANKS), np.random.default_rng(1)
    links = [(rank, (rank + shift) % RANKS) for rank in range(RANKS) for shift in (-1, 1)]
    for _ in range(STEPS):
        slow = {link: int(random.integers(4 * MS)) for link in links}
        program.network = replace(program.network, slow_links=slow)
        program.halo(neighbours, own_ns=4 * MS)
    trace = write(program, tmp_path)
    assert trace.message_waits["wait_ns"].sum() > 0.05 * trace.process_time_ns
    assert list_facts(trace) == []


def test_equal_work_between_different_calls_is_no_fact(tmp_path: Path) -> None:
    """Even ranks send before they receive, odd ones after it. All work equally long on average."""
    program = Program(RANKS, intervals=True, offsets=(0,) * 8, drifts=(0.0,) * 8)
    even, odd, random = np.arange(0, RANKS, 2), np.arange(1, RANKS, 2), np.random.default_rng(3)
    for _ in range(STEPS):
        program.work((4 * MS * np.exp(0.3 * random.standard_normal(RANKS))).astype(np.int64))
        program.message(even, even + 1)
        program.message(odd, (odd + 1) % RANKS)
    names = [one.cause.name for one in list_facts(write(program, tmp_path))]
    assert "unequal_groups" not in names


def test_windows_have_the_facts_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_steps(6 * MS, {30: stop(5, 80)})
    path = program.write(tmp_path / "trace")
    whole = [(one.cause, one.saving) for one in list_facts(mpiprof.open(path))]
    for module in (search, delay_findings, fact_findings, analysis_memory):
        monkeypatch.setattr(module, "fits_in_memory", lambda _: False)
    trace = mpiprof.open(path)
    parts = [(one.cause, one.saving) for one in list_facts(trace)]
    assert [cause.name for cause, _ in parts] == [cause.name for cause, _ in whole]
    for (cause, saving), (of_run, whole_saving) in zip(parts, whole, strict=True):
        assert cause.ranks == of_run.ranks and cause.places == of_run.places
        assert saving.run_ns == pytest.approx(whole_saving.run_ns, rel=0.01)


def make_removal(*rows: tuple[int, int, float]) -> Removal:
    rank, time, removed = zip(*rows, strict=True)
    return Removal(np.array(rank), np.array(time), np.array(removed))


def test_the_same_segment_is_removed_once() -> None:
    first = make_removal((0, 10, 5.0), (1, 10, 2.0))
    second = make_removal((0, 10, 3.0), (0, 20, 4.0))
    joined = join_removals([first, second])
    assert joined.removed_ns.tolist() == [5.0, 4.0, 2.0]
    assert find_shared_ns(first, second) == 3.0
