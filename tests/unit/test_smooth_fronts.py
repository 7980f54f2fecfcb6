"""Delays that move smoothly over the ranks: a bump wider than a rank, or one that moves slowly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.late_traces import one_site
from support.planted_loops import Delay, PlantedLoop
from support.synthetic import Synthetic

import mpiprof
from mpiprof.diagnosis.fronts import FINE_SPEEDS, MIN_TURN_LENGTH, find_motion
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.trace.types import Float

STEPS, LATE_MS = 80, 8.0


def bump(ranks: int, width: float, speed: float) -> Float:
    """Return a delay with its maximum at a rank that grows by `speed` per step, in ms."""
    centre = np.arange(STEPS) * speed % ranks
    distance = np.abs(np.arange(ranks) - centre[:, None])
    distance = np.minimum(distance, ranks - distance)
    return np.asarray(LATE_MS * np.exp(-(distance**2) / (2 * width**2)))


@pytest.mark.parametrize("messages", [True, False])
@pytest.mark.parametrize(
    ("ranks", "width", "speed"), [(16, 1.5, 0.4), (24, 2.0, 0.7), (12, 0.7, 0.3), (12, 1.0, -0.45)]
)
def test_the_cost_of_a_smooth_front_is_found(
    ranks: int, width: float, speed: float, messages: bool, tmp_path: Path
) -> None:
    loop = loops.halo(ranks) if messages else loops.collectives(ranks, "allreduce", "alltoall")
    noise = planted.make_noise("quiet", (STEPS, len(loop.places), ranks), 4)
    program = PlantedLoop(loop, noise, (Delay(0, bump(ranks, width, speed)),))
    trace = mpiprof.open(program.build().write(tmp_path / "t"))
    findings = trace.findings()
    first = findings[0]
    assert (first.cause, sorted(first.ranks)) == ("moving", list(range(ranks)))
    assert first.cost_ns == pytest.approx(program.cost_ns(range(ranks)), rel=0.1)
    assert first.evidence["speed"] == pytest.approx(speed, abs=0.02)
    sentence = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    assert f"by {abs(first.evidence['speed']):.2g} ranks per step" in sentence


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [0.0, 0.9, 0.99])
def test_noise_is_no_front(kept: float, tmp_path: Path) -> None:
    found = 0
    for seed in range(40):
        late = 20 + planted.correlate(np.random.default_rng(seed), STEPS, 12, kept)
        trace = one_site(tmp_path / str(seed), Synthetic(12), late)
        found += any(one.cause == "moving" for one in trace.findings())
    assert found <= 1


@pytest.mark.parametrize("seed", range(8))
def test_the_speed_of_a_front_is_that_of_the_largest_sum(seed: int) -> None:
    """Compare with one sum over all instances for each speed."""
    random = np.random.default_rng(seed)
    rows, count = int(random.integers(4, 20)), int(random.integers(24, 200))
    number = (
        np.sort(random.choice(2 * count, count, replace=False)) if seed % 2 else np.arange(count)
    )
    late = random.standard_exponential((rows, count))
    since = number - number[0]
    fine = FINE_SPEEDS * (int(since[-1]) + 1)
    speeds = np.arange(-fine, fine + 1) / (2 * fine) * rows
    speeds = speeds[np.abs(speeds) * MIN_TURN_LENGTH <= 1]
    turn = 2j * np.pi / rows
    harmonic = np.exp(turn * np.arange(rows)) @ late
    sums = np.exp(-turn * speeds[:, None] * since) @ harmonic
    best = int(np.argmax(np.abs(sums)))
    expected = np.angle(sums[best]) * rows / (2 * np.pi) + speeds[best] * since
    speed, centre = find_motion(late, number)
    assert speed == pytest.approx(float(speeds[best]), abs=1e-9)
    distance = np.mod(centre - expected + rows / 2, rows) - rows / 2
    assert np.abs(distance).max() < 1e-6
