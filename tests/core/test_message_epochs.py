"""Windows in which every message call is recorded, by a virtual clock: whole steps, budget."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.compilation import of_the_core

from mpiprof.trace.types import Float

START_MS = 1000
PARTS = ("record/message_epochs", "base/text", "base/memory")
RECORD_COST_MS = 20e-6


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("epochs") / "message_epochs"
    return of_the_core(path, PARTS, source="message_epochs.c")


def find_stretches(program: Path, rate: int, steps: int, collectives: int, step_ms: int) -> Float:
    """Return the begin and the end in ms of each complete stretch, from the start of the run."""
    words = [str(of) for of in (program, rate, steps, collectives, step_ms)]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == ["begin", "end"] * (len(lines) // 2)
    times = np.array([float(line.split()[1]) for line in lines]).reshape(-1, 2) - START_MS
    assert (np.diff(times.ravel()) >= 0).all()
    return times


def count_whole_steps(stretches: Float, steps: int, step_ms: int) -> int:
    """Return the number of steps that lie in one of the stretches."""
    begins = np.arange(steps) * step_ms
    inside = [(begins >= begin) & (begins + step_ms <= end) for begin, end in stretches]
    return int(np.any(inside, axis=0).sum())


@pytest.mark.parametrize(
    ("rate", "steps", "collectives", "step_ms"),
    [(2_000_000, 60, 1, 150), (4_000_000, 40, 4, 250), (4_900_000, 500, 3, 70)],
)
def test_the_first_30_steps_are_complete(
    program: Path, rate: int, steps: int, collectives: int, step_ms: int
) -> None:
    stretches = find_stretches(program, rate, steps, collectives, step_ms)
    assert stretches[0, 0] == 0 and stretches[0, 1] >= 30 * step_ms
    assert count_whole_steps(stretches, steps, step_ms) >= 30


@pytest.mark.parametrize("rate", [2_000_000, 10_000_000, 100_000_000])
@pytest.mark.parametrize("step_ms", [10, 400])
def test_long_runs_have_whole_steps_without_collectives(
    rate: int, step_ms: int, program: Path
) -> None:
    """At least one epoch in 16 is complete."""
    steps = 1000
    stretches = find_stretches(program, rate, steps, 0, step_ms)
    assert count_whole_steps(stretches, steps, step_ms) >= 30
    assert (stretches[:, 1] - stretches[:, 0]).sum() >= 0.05 * steps * step_ms


@pytest.mark.parametrize("collectives", [0, 1, 100])
@pytest.mark.parametrize("rate", [500_000, 1_500_000, 12_000_000])
def test_recording_takes_two_percent_of_a_long_run(
    rate: int, collectives: int, program: Path
) -> None:
    steps, step_ms = 200, 1000
    stretches = find_stretches(program, rate, steps, collectives, step_ms)
    complete_ms = (stretches[:, 1] - stretches[:, 0]).sum()
    # The first steps may take 10 % for 30 s, and for 3 s in a program without collectives.
    spent_ms = complete_ms * rate / 1000 * RECORD_COST_MS
    first_ms = 0.1 * (30_000 if collectives else 3_000)
    assert spent_ms <= 0.02 * steps * step_ms + first_ms
    if rate <= 1_000_000:
        assert complete_ms == steps * step_ms
