"""Delays whose sentences once named the wrong ranks, with messages and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.planted_programs import MS, Noise

import mpiprof
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion, sentences
from mpiprof.testing.neighbours import make_grid, make_ring
from mpiprof.testing.program import Program
from mpiprof.trace.types import Float, Int

pytestmark = pytest.mark.heavy
BOTH = pytest.mark.parametrize("messages", [True, False])
STEPS = 48
PAIRED = "app.c:21:couple"


class Reported:
    """The report on a program: its findings, and the lines of its verdict."""

    def __init__(self, program: Program, folder: Path) -> None:
        trace = mpiprof.open(program.write(folder))
        self.findings: list[Finding] = trace.findings()
        self.lines = conclusion.verdict_lines(trace, make_verdict(trace, self.findings))
        texts = [sentences.finding_text(trace, finding) for finding in self.findings]
        self.text = " ".join([*self.lines, *texts])

    @property
    def first(self) -> Finding:
        """Return the first finding."""
        return self.findings[0]


def program_of(ranks: int, nodes: int = 1) -> Program:
    of_rank = [rank * nodes // ranks for rank in range(ranks)]
    program = Program(
        ranks, intervals=True, nodes=of_rank, offsets=(0,) * nodes, drifts=(0.0,) * nodes
    )
    for first in (0, 1):
        for low in range(first, ranks - 1, 2):
            program.synthetic.add_communicator(f"pair-{low}", [low, low + 1])
    return program


def couple(program: Program, messages: bool, work_ns: Int) -> None:
    """Let each rank work and meet both neighbours, by messages or in collectives of pairs."""
    if messages:
        program.halo(make_ring(program.ranks, periodic=False), work_ns)
        return
    program.work(work_ns)
    for first in (0, 1):
        for low in range(first, program.ranks - 1, 2):
            program.collective("allreduce", PAIRED, communicator=f"pair-{low}")


def at(ranks: int, late: int | list[int], ms: float) -> Int:
    """Return a delay of some ranks in ns."""
    return np.where(np.isin(np.arange(ranks), late), int(ms * MS), 0)


@BOTH
def test_ranks_that_inherit_lateness_are_not_told_to_work_more(
    messages: bool, tmp_path: Path
) -> None:
    program, noise = program_of(16), Noise(16, seed=11)
    for _ in range(STEPS):
        couple(program, messages, noise.work() + at(16, 6, 7.5))
        program.collective("allreduce", "app.c:30:main", noise.work(50_000))
    report = Reported(program, tmp_path / "t")
    assert (report.first.cause, report.first.ranks) == ("rank", (6,))
    assert not any(finding.cause == "early" for finding in report.findings)
    assert "less" not in report.text and "more of the work" not in report.text


@BOTH
def test_a_slow_node_beside_coupled_ranks_is_named(messages: bool, tmp_path: Path) -> None:
    program, noise = program_of(24, nodes=6), Noise(24, seed=12)
    slow = np.arange(24) // 4 == 4
    for _ in range(STEPS):
        couple(program, messages, (noise.work() * np.where(slow, 1.8, 1.0)).astype(np.int64))
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert (report.first.cause, sorted(report.first.ranks)) == ("node", list(range(16, 20)))
    assert "random" not in report.text and "no rank" not in report.text


@BOTH
def test_the_slow_rank_of_a_chain_is_named(messages: bool, tmp_path: Path) -> None:
    """100 ranks in a chain; the neighbours of rank 77 inherit its lateness."""
    program, noise = program_of(100), Noise(100, seed=13)
    for _ in range(30):
        work = noise.work(spread=0.1) + at(100, 77, 4)
        if messages:
            program.pipeline(work)
        else:
            couple(program, False, work)
    report = Reported(program, tmp_path / "t")
    assert report.first.ranks == (77,)
    assert "76" not in report.lines[1] and "varies too much" not in report.text


@BOTH
@pytest.mark.parametrize("ranks", [32, 64])
def test_the_largest_of_static_loads_is_named(ranks: int, messages: bool, tmp_path: Path) -> None:
    """Each rank has a load of its own, with a standard deviation of 15 %."""
    loads = 8 * MS * (1 + 0.15 * np.random.default_rng(14).standard_normal(ranks))
    program, noise = program_of(ranks), Noise(ranks, seed=15)
    for _ in range(STEPS):
        couple(program, messages, (loads * noise.work() / MS).astype(np.int64))
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert report.first.certainty > 0.99
    assert report.first.ranks[0] == loads.argmax()


@BOTH
def test_the_onset_of_growth_is_in_the_words(messages: bool, tmp_path: Path) -> None:
    program, noise = program_of(8), Noise(8, seed=16)
    for step in range(2 * STEPS):
        late = at(8, 5, 0.2 * max(step - STEPS, 0))
        couple(program, messages, noise.work() + late)
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert report.first.ranks == (5,)
    assert report.first.first_instance == pytest.approx(STEPS, abs=6)
    assert f"in steps {report.first.first_instance} to the end" in report.lines[1]


@BOTH
def test_all_waiting_for_a_hot_centre_has_its_cause(messages: bool, tmp_path: Path) -> None:
    side, late_ms = 6, 3.0
    hot = [row * side + column for row in (2, 3) for column in (2, 3)]
    program, noise = program_of(side * side), Noise(side * side, seed=17)
    for _ in range(STEPS):
        work = noise.work() + at(side * side, hot, late_ms)
        if messages:
            program.halo(make_grid((side, side)), work)
        else:
            program.work(work)
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert sorted(report.first.ranks) == hot
    cost = (side * side - len(hot)) * STEPS * late_ms * MS
    assert report.first.cost_ns == pytest.approx(cost, rel=0.1)


@BOTH
def test_the_root_that_waits_for_the_slowest_rank_is_not_accused(
    messages: bool, tmp_path: Path
) -> None:
    program, noise = program_of(8), Noise(8, seed=18)
    for _ in range(STEPS):
        program.work(noise.work() + at(8, 6, 8))
        if messages:
            for rank in range(1, 8):
                program.message(rank, 0)
        else:
            program.collective("reduce", "app.c:20:main")
        program.collective("barrier", "app.c:30:main", noise.work(50_000))
    report = Reported(program, tmp_path / "t")
    assert report.first.ranks == (6,)
    assert not any(0 in finding.ranks for finding in report.findings)


def front(stay: int) -> Callable[[int], Int]:
    return lambda step: at(8, step // stay % 8, 6)


@BOTH
@pytest.mark.parametrize("stay", [1, 20])
def test_a_front_is_no_random_delay(stay: int, messages: bool, tmp_path: Path) -> None:
    program, noise, late = program_of(8), Noise(8, seed=19), front(stay)
    for step in range(max(2 * STEPS, 8 * stay)):
        couple(program, messages, noise.work() + late(step))
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert (report.first.cause, sorted(report.first.ranks)) == ("moving", list(range(8)))
    assert ("20 steps each" in report.lines[1]) == (stay == 20)
    assert "random" not in report.text


def noise_of_all(random: np.random.Generator, ranks: int) -> Float:
    return MS * random.gamma(1.0, 3.0, ranks)


@BOTH
def test_a_sure_cause_comes_before_a_costlier_rest(messages: bool, tmp_path: Path) -> None:
    """Random work of all ranks costs more than the constant delay of rank 9."""
    program, random = program_of(12), np.random.default_rng(20)
    for _ in range(4 * STEPS):
        couple(program, messages, noise_of_all(random, 12).astype(np.int64) + at(12, 9, 5))
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert report.first.ranks == (9,)
    assert report.first.certainty > 0.99
    assert "rank 9 works" in report.lines[1]
    rest = [finding for finding in report.findings if finding.certainty < 0.5]
    assert sum(finding.cost_ns for finding in rest) > report.first.cost_ns


@BOTH
def test_all_of_sixteen_slow_ranks_are_named(messages: bool, tmp_path: Path) -> None:
    program, noise = program_of(64), Noise(64, seed=21)
    for _ in range(STEPS):
        couple(program, messages, noise.work() + at(64, list(range(48, 64)), 3))
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    assert sorted(report.first.ranks) == list(range(48, 64))
    assert "ranks 48 to 63 work" in report.lines[1] or "ranks 48-63 work" in report.lines[1]


@BOTH
def test_delays_of_different_size_are_named_apart(messages: bool, tmp_path: Path) -> None:
    program, noise = program_of(40), Noise(40, seed=22)
    for _ in range(STEPS):
        work = noise.work() + at(40, 10, 3) + at(40, 33, 5)
        couple(program, messages, work)
        program.collective("allreduce", "app.c:30:main")
    report = Reported(program, tmp_path / "t")
    line = report.lines[1]
    assert report.first.ranks[0] == 33
    if 10 in report.first.ranks:
        assert "rank 33 works 5.0" in line
        assert "rank 10 works 3.0" in line


@BOTH
def test_a_method_of_mpi4py_beside_other_calls_is_no_pattern(
    messages: bool, tmp_path: Path
) -> None:
    """comm.bcast sends the size and the data; its root is late before the first call."""
    program, noise = program_of(6), Noise(6, seed=23)
    site = "app.py:30:main"
    for _ in range(STEPS):
        couple(program, messages, noise.work())
        program.collective("bcast", site, noise.work(50_000) + at(6, 0, 6), bytes_=8)
        program.collective("bcast", site, bytes_=5000)
    for of_rank in program.synthetic.lines:
        for line in of_rank:
            if line.get("operation") == "bcast":
                line["type"] = "MPI_COUNT" if line["sent"] == 8 else "MPI_BYTE"
    report = Reported(program, tmp_path / "t")
    assert report.first.ranks == (0,)
    assert "every 2nd" not in report.text
    assert "comm.bcast" in report.lines[1]
