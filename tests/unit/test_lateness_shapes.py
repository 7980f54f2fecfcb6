"""Delays that change gradually: their onset, the step in which they become constant, their cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.late_traces import one_site
from support.planted_loops import MS, Delay, PlantedLoop
from support.synthetic import Synthetic

import mpiprof
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion, sentences
from mpiprof.trace.types import Float

STEPS = 72
BOTH = pytest.mark.parametrize("messages", [True, False])


def ramp(first: int, last: int) -> Float:
    """Return a line from 0 to 1 between two steps, constant before and after."""
    return np.clip((np.arange(STEPS) - first) / (last - first), 0.0, 1.0)


def saturate(first: int, steps: float) -> Float:
    """Return the exponential approach to 1 from a step on."""
    return 1 - np.exp(-np.maximum(np.arange(STEPS) - first, 0) / steps)


def square(first: int) -> Float:
    """Return a square from 0 to about 1 between a step and the end."""
    return (np.maximum(np.arange(STEPS) - first, 0.0) / (STEPS - first)) ** 2


def first_finding(
    late_ms: Float, messages: bool, folder: Path, nodes: int = 1
) -> tuple[Finding, str, float]:
    """Return the first finding, its sentences, and its cost over the true one."""
    ranks = late_ms.shape[1]
    loop = loops.halo(ranks) if messages else loops.collectives(ranks, "allreduce", "alltoall")
    noise = planted.make_noise("quiet", (STEPS, len(loop.places), ranks), 3)
    program = PlantedLoop(loop, noise, (Delay(0, late_ms),), nodes)
    trace = mpiprof.open(program.build().write(folder))
    findings = trace.findings()
    text = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    text += " " + sentences.finding_text(trace, findings[0])
    true_ns = program.cost_ns(np.flatnonzero(late_ms.any(0)).tolist())
    return findings[0], text, findings[0].cost_ns / true_ns


# Delay in ms by step, first step with it, and words of the sentences.
SHAPES: dict[str, tuple[Float, int, str]] = {
    "saturates": (8 * saturate(0, 8), 0, "is nearly constant then."),
    "saturates later": (8 * saturate(24, 7), 24, ", in steps 2"),
    "ramp": (8 * ramp(20, 40), 20, "and is constant then."),
    "ramp from the start": (8 * ramp(0, 30), 0, "and is constant then."),
    "square": (12 * square(0), 0, "The delay grows faster and faster, from "),
    "square from the middle": (12 * square(32), 32, "The delay grows faster and faster, from "),
    "decays": (20 * (1 - saturate(0, 12)), 0, "The delay shrinks more and more slowly, from "),
    "shrinks to nothing": (9 * (1 - ramp(0, 45)), 0, "The delay shrinks steadily, from "),
}


@BOTH
@pytest.mark.parametrize("name", SHAPES)
def test_a_gradual_change_has_its_onset_and_cost(name: str, messages: bool, tmp_path: Path) -> None:
    shape, onset, words = SHAPES[name]
    late = np.zeros((STEPS, 8))
    late[:, 3] = shape
    finding, text, ratio = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("rank", (3,))
    assert finding.first_instance == pytest.approx(onset, abs=STEPS // 12)
    first, last = finding.evidence["grows"]
    assert first == pytest.approx(shape[0] * MS, abs=0.06 * shape.max() * MS)
    assert last == pytest.approx(shape[-1] * MS, abs=0.06 * shape.max() * MS)
    assert ratio == pytest.approx(1, abs=0.05)
    assert words in text


def test_the_step_in_which_growth_ends_is_named(tmp_path: Path) -> None:
    late = np.zeros((STEPS, 8))
    late[:, 3] = 8 * ramp(20, 40)
    finding, text, _ = first_finding(late, False, tmp_path / "t")
    assert finding.evidence["until"] == pytest.approx(40, abs=2)
    assert f" to the end, growing until step {finding.evidence['until']}." in text


@BOTH
def test_all_ranks_of_a_node_grow(messages: bool, tmp_path: Path) -> None:
    late = np.zeros((STEPS, 16))
    late[:, 8:12] = 6 * saturate(0, 10)[:, None]
    finding, _, ratio = first_finding(late, messages, tmp_path / "t", nodes=4)
    assert finding.cause in ("node", "rank") and sorted(finding.ranks) == [8, 9, 10, 11]
    assert finding.first_instance == 0 and finding.evidence["grows"]
    assert ratio == pytest.approx(1, abs=0.05)


CONSTANT: dict[str, Callable[[], Any]] = {
    "constant": lambda: np.full(STEPS, 5.0),
    "from the middle": lambda: 5.0 * (np.arange(STEPS) >= 30),
    "until the middle": lambda: 5.0 * (np.arange(STEPS) < 30),
    "two levels": lambda: np.where(np.arange(STEPS) < 30, 3.0, 7.0),
    "in phases": lambda: 5.0 * (np.arange(STEPS) // 12 % 2),
}


@BOTH
@pytest.mark.parametrize("name", CONSTANT)
def test_levels_are_no_growth(name: str, messages: bool, tmp_path: Path) -> None:
    late = np.zeros((STEPS, 8))
    late[:, 3] = CONSTANT[name]()
    finding, text, ratio = first_finding(late, messages, tmp_path / "t")
    assert finding.ranks == (3,) and not finding.evidence["grows"]
    assert "grow" not in text and "shrink" not in text
    assert ratio == pytest.approx(1, abs=0.05)


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [0.5, 0.9, 0.99])
def test_a_constant_delay_in_noise_does_not_grow(kept: float, tmp_path: Path) -> None:
    grown = 0
    for seed in range(40):
        series = planted.correlate(np.random.default_rng(seed), STEPS, 8, kept)
        late = 20 + series
        late[:, 3] += 8.0
        trace = one_site(tmp_path / str(seed), Synthetic(8), late)
        grown += any(one.evidence.get("grows") for one in trace.findings())
    assert grown <= 1


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_a_short_begin_is_no_growth(messages: bool, seed: int, tmp_path: Path) -> None:
    """The delay is constant, after three shorter ones."""
    late = np.zeros((STEPS, 4))
    late[:, 1 + seed] = 4 + 0.2 * np.random.default_rng(seed).standard_normal(STEPS)
    late[:3, 1 + seed] /= 2
    finding, text, cost = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("rank", (1 + seed,))
    assert finding.evidence["grows"] is None
    assert "grow" not in text
    assert cost == pytest.approx(1, abs=0.1)
