"""Message time from repetitions, and whether a second measurement would reproduce it.

programs/timing_repetitions.c feeds repetitions to core/timing/repetitions.c, without MPI.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.compilation import of_the_core

from mpiprof.trace.machine import MAX_SPREAD

Float = NDArray[np.float64]
RUNS, ROUNDS = 1000, 64
NEAR, FAR = 125.0, 335.0  # time in ns of an empty message between near and distant processors


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's evaluation of repetitions into a separate program."""
    executable = tmp_path_factory.mktemp("rounds") / "message_rounds"
    return of_the_core(executable, ["timing/repetitions"], source="timing_repetitions.c")


def judged(program: Path, runs: Float) -> tuple[Float, Float]:
    """Return the time and the spread of each run of repetitions."""
    text = "\n".join(" ".join(f"{ns:.1f}" for ns in rounds) for rounds in runs)
    printed = subprocess.run(
        [program], input=text, capture_output=True, text=True, check=True
    ).stdout
    time, spread = np.array([line.split() for line in printed.splitlines()], np.float64).T
    return time, spread


def noisy(level: Float, generator: np.random.Generator) -> Float:
    """Return repetitions around a level; one in ten takes up to five times as long."""
    late = generator.random(level.shape) < 0.1
    stretched = np.where(late, generator.uniform(1, 5, level.shape), 1.0)
    return level * generator.lognormal(0, 0.07, level.shape) * stretched


def stays(mean: float, generator: np.random.Generator) -> Float:
    """Return RUNS series that alternate between two levels of mean length `mean`."""
    changes = generator.random((RUNS, ROUNDS)) < 1 / mean
    begins = generator.integers(0, 2, (RUNS, 1))
    return np.where((begins + changes.cumsum(1)) % 2 == 0, NEAR, FAR)


@pytest.mark.heavy
def test_a_quiet_machine_is_never_flagged(program: Path) -> None:
    for rounds in (12, 32, ROUNDS):
        level = np.full((RUNS, rounds), NEAR)
        time, spread = judged(program, noisy(level, np.random.default_rng(rounds)))
        assert (spread <= MAX_SPREAD).mean() >= 0.999
        assert np.ptp(np.quantile(time, [0.001, 0.999])) < 0.3 * NEAR


@pytest.mark.parametrize("mean", [1.5, 4, 10])
def test_two_levels_that_are_both_met_give_the_lower_one(program: Path, mean: float) -> None:
    """The median repetition would be on either level, depending on the run."""
    generator = np.random.default_rng(5)
    runs = noisy(stays(mean, generator), generator)
    middle = np.median(runs, 1)
    assert (middle < 1.3 * NEAR).mean() < 0.7 and (middle > 0.8 * FAR).mean() > 0.05
    time, spread = judged(program, runs)
    unflagged = time[spread <= MAX_SPREAD]
    assert len(unflagged) >= (0.95 if mean < 10 else 0.75) * RUNS
    assert (np.abs(unflagged / np.median(unflagged) - 1) < 0.3).mean() > 0.98


def test_a_level_that_is_met_for_a_moment_only_is_flagged(program: Path) -> None:
    """A second run would not meet the level, which occurs at the start, within or at the end."""
    for begin, many in ((0, 16), (30, 12), (ROUNDS - 12, 12)):
        level = np.full((RUNS, ROUNDS), FAR)
        level[:, begin : begin + many] = NEAR
        _, spread = judged(program, noisy(level, np.random.default_rng(begin)))
        assert (spread > MAX_SPREAD).mean() > 0.99


def test_a_level_that_is_hardly_met_is_not_taken(program: Path) -> None:
    """The time is that of runs without the level."""
    level = np.full((RUNS, ROUNDS), FAR)
    level[:, 20:23] = NEAR
    time, spread = judged(program, noisy(level, np.random.default_rng(1)))
    assert (spread <= MAX_SPREAD).all() and (np.abs(time / FAR - 1) < 0.3).all()


def test_times_that_drift_are_flagged(program: Path) -> None:
    level = np.linspace(NEAR, FAR, ROUNDS) * np.ones((RUNS, 1))
    _, spread = judged(program, noisy(level, np.random.default_rng(7)))
    assert (spread > MAX_SPREAD).mean() > 0.98


def test_rounds_that_lost_the_core_do_not_count_beside_clean_ones(program: Path) -> None:
    clean = np.array([[NEAR, -1e6, 1.1 * NEAR, -50.0, NEAR, NEAR]])
    assert np.array_equal(judged(program, clean), [[NEAR], [1.0]])
    # Too few clean repetitions, so the others count: the time is their minimum, the spread their
    # median over it.
    few = np.array([[NEAR, *(-400.0, -100.0, -300.0, -200.0)]])
    assert np.array_equal(judged(program, few), [[100.0], [3.0]])


def test_without_rounds_there_is_no_time(program: Path) -> None:
    printed = subprocess.run(
        [program], input="\n", capture_output=True, text=True, check=True
    ).stdout
    assert printed == "0.000 1.0000\n"
