"""Delays that move over the ranks at a changing speed, or to and fro like a load in a box."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.planted_loops import MS, Delay, PlantedLoop

import mpiprof
from mpiprof.diagnosis.costliest_set import MAX_P
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.uneven_fronts import find_uneven_front
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.trace.types import Float

BOTH = pytest.mark.parametrize("messages", [True, False])


def swing(steps: int, ranks: int, stay: int, width: float, random: np.random.Generator) -> Float:
    """Return delays in ms, whose centre moves to and fro; width: 0 for a single rank."""
    phase = (np.arange(steps) // stay + random.integers(ranks)) % (2 * ranks - 2)
    centre = np.abs(phase - (ranks - 1))[:, None]
    if not width:
        return np.where(np.arange(ranks) == centre, 4.0, 0.0)
    return np.asarray(4 * np.exp(-(((np.arange(ranks) - centre) / width) ** 2)), np.float64)


def first_finding(
    late_ms: Float, messages: bool, seed: int, folder: Path
) -> tuple[Finding, str, float]:
    """Return the first finding, its sentences, and its cost over the true one."""
    steps, ranks = late_ms.shape
    loop = loops.halo(ranks) if messages else loops.collectives(ranks, "allreduce", "alltoall")
    noise = planted.make_noise("quiet", (steps, len(loop.places), ranks), seed)
    program = PlantedLoop(loop, noise, (Delay(0, late_ms),))
    trace = mpiprof.open(program.build().write(folder))
    findings = trace.findings()
    sentence = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    true_ns = program.cost_ns(range(ranks))
    return findings[0], sentence, findings[0].cost_ns / true_ns


@BOTH
@pytest.mark.parametrize(("ranks", "stay", "width"), [(9, 1, 0.0), (6, 5, 0.0), (20, 2, 2.0)])
def test_a_front_that_reverses_is_found(
    ranks: int, stay: int, width: float, messages: bool, tmp_path: Path
) -> None:
    late = swing(100, ranks, stay, width, np.random.default_rng(ranks))
    finding, sentence, cost = first_finding(late, messages, 3, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("moving", tuple(range(ranks)))
    assert (finding.first_instance, finding.last_instance) == (0, 99)
    assert "in turn" in sentence and ", to and fro" in sentence
    assert cost == pytest.approx(1, abs=0.1)


@BOTH
def test_a_front_that_slows_down_is_found(messages: bool, tmp_path: Path) -> None:
    centre = 15 * np.sqrt(np.arange(90) / 89)[:, None]
    late: Float = 4 * np.exp(-(((np.arange(16) - centre) / 2) ** 2))
    finding, sentence, cost = first_finding(late, messages, 3, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("moving", tuple(range(16)))
    assert "in turn" in sentence and "to and fro" not in sentence
    assert cost == pytest.approx(1, abs=0.1)


@BOTH
def test_a_rank_that_is_always_late_takes_no_turns(messages: bool, tmp_path: Path) -> None:
    """Another rank is later in every fifth step. The latest ranks alone look like turns."""
    late = planted.constant(100, 8, [5], 2.0)
    late[3::5, 2] = 8.0
    finding, sentence, _ = first_finding(late, messages, 5, tmp_path / "t")
    assert finding.ranks in ((2,), (5,))
    assert "in turn" not in sentence


@pytest.mark.parametrize("kind", ["normal", "pareto", "correlated 0.9", "correlated 0.99", "node"])
def test_noise_is_no_front(kind: str) -> None:
    for seed in range(30):
        ranks = (4, 8, 16)[seed % 3]
        noise = planted.make_noise(kind, (150, 1, ranks), seed, nodes=ranks // 4)
        front = find_uneven_front(noise[:, 0].T * MS)
        assert front is None or front.p > MAX_P
