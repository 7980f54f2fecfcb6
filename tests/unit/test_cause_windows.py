"""Facts of a run that is analysed in windows: those of the run in one piece."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import cause_messages, cause_programs
from support.neighbours import make_grid
from support.program import Program
from support.random_work import MS, Noise
from support.simulation import Network
from support.small_chunks import write_small_chunks

import mpiprof
from mpiprof.account import analysis_memory, run_windows
from mpiprof.causes.cause import FoundCause, RemovedSegment, list_removed_segments

RANKS, STEPS, WINDOWS = 8, 60, 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_chunks(monkeypatch)


def poll_in_steps() -> Program:
    """Return steps in which rank 0 polls for a message of each worker, before a barrier."""
    program, noise = Program(4, intervals=True), Noise(4)
    for _ in range(STEPS):
        program.work(noise.work(3 * MS, 0.2))
        for worker in (1, 2, 3):
            program.poll(worker, 0, 2 * MS)
        program.collective("barrier", "app.py:11:main")
    return program


def link_ranks(slow_steps: int) -> Program:
    """Return a halo exchange; in the first steps, the link between ranks 2 and 3 is slow."""
    program, noise = Program(RANKS, intervals=True), Noise(RANKS)
    for step in range(STEPS):
        slow = {(2, 3): 2 * MS, (3, 2): 2 * MS} if step < slow_steps else {}
        program.network = Network(slow_links=slow)
        program.halo(make_grid((RANKS,)), noise.work(5 * MS))
        program.collective("allreduce", "step.py:31:main")
    return program


# The ranks of these programs meet in each step, so no call is in two windows.
LARGE = 40 << 20
PROGRAMS = {
    "slow link": (link_ranks(STEPS), ["slow_link"]),
    "slow link in most steps": (link_ranks(40), ["slow_link"]),
    "slow link in few steps": (link_ranks(20), []),
    "larger messages": (
        cause_messages.larger_messages(RANKS, STEPS, 5, rank=2, bytes_=LARGE),
        ["larger_messages"],
    ),
    "polls": (poll_in_steps(), ["polling"]),
    "sweeps": (cause_messages.sweeps(3, 20, 4, 1, is_dependent=True), ["wavefront"]),
    "serial section": (
        cause_programs.serial_section(RANKS, STEPS, 5, rank=3, serial_ms=2),
        ["serial_section"],
    ),
}


def find_facts(path: Path) -> tuple[list[FoundCause], list[list[RemovedSegment]]]:
    """Return the facts, and the segments that each of them removes."""
    trace = mpiprof.open(path)
    facts: list[FoundCause] = trace.derive("facts")
    return facts, [list_removed_segments(trace, found.removal, 10_000) for found in facts]


@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_do_not_change_facts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, causes = PROGRAMS[name]
    path = program.write(tmp_path / "t")
    of_run, segments_of_run = find_facts(path)
    assert [found.cause.name for found in of_run] == causes
    monkeypatch.setattr(analysis_memory, "memory_limit_bytes", lambda: 1)
    monkeypatch.setattr(run_windows, "count_windows", lambda _: WINDOWS)
    assert len(run_windows.divide_run(mpiprof.open(path))) == WINDOWS
    in_windows, segments = find_facts(path)
    assert segments == segments_of_run
    for found, known in zip(in_windows, of_run, strict=True):
        assert (found.cause.ranks, found.cause.places) == (known.cause.ranks, known.cause.places)
        assert found.saving.run_ns == pytest.approx(known.saving.run_ns, rel=0.01, abs=1)
        assert found.saving.waiting_ns == pytest.approx(known.saving.waiting_ns, rel=0.01, abs=1)
        assert found.removal.rank.tolist() == known.removal.rank.tolist()
    assert list(map(len, segments)) == [len(found.removal.rank) for found in of_run]
