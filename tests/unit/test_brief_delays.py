"""Delays in few steps: an onset in a short run or shortly before its end, and a few long breaks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.planted_loops import Delay, PlantedLoop

import mpiprof
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.trace.types import Float

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("error")]
BOTH = pytest.mark.parametrize("messages", [True, False])
BREAK_MS = 120.0


def first_finding(late_ms: Float, messages: bool, folder: Path) -> tuple[Finding, str, float]:
    """Return the first finding, its sentences, and its cost over the true one."""
    steps, ranks = late_ms.shape
    loop = loops.halo(ranks) if messages else loops.collectives(ranks, "allreduce", "alltoall")
    noise = planted.make_noise("quiet", (steps, len(loop.places), ranks), steps)
    program = PlantedLoop(loop, noise, (Delay(0, late_ms),))
    trace = mpiprof.open(program.build().write(folder))
    findings = trace.findings()
    text = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    true_ns = program.cost_ns(np.flatnonzero(late_ms.any(0)).tolist())
    return findings[0], text, findings[0].cost_ns / true_ns


def late_in(steps: int, ranks: int, late_steps: Collection[int], ms: float) -> Float:
    """Return a delay of the middle rank in some steps, steps x ranks in ms."""
    late = np.zeros((steps, ranks))
    late[list(late_steps), ranks // 2] = ms
    return late


@BOTH
@pytest.mark.parametrize(("steps", "onset", "ranks"), [(12, 4, 2), (15, 10, 8), (48, 43, 4)])
def test_an_onset_with_few_steps_around_it_is_named(
    steps: int, onset: int, ranks: int, messages: bool, tmp_path: Path
) -> None:
    late = late_in(steps, ranks, range(onset, steps), 5.0)
    finding, text, ratio = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("rank", (ranks // 2,))
    assert f", in steps {onset} to the end." in text
    assert ratio == pytest.approx(1, abs=0.1)


@BOTH
@pytest.mark.parametrize(
    ("steps", "breaks", "ranks", "words"),
    [
        (100, (11, 47, 83), 8, "in steps 11, 47 and 83."),
        (14, (3, 9), 8, "in steps 3 and 9."),
        (100, (11, 47, 83, 84, 91), 4, "in 5 of 100 steps: 11, 47, 83 to 84 and 91."),
        (100, (11, 47, 83, 84, 91), 2, "in 5 of 100 steps: 11, 47, 83 to 84 and 91."),
    ],
)
def test_a_few_long_breaks_of_one_rank_are_named(
    steps: int, breaks: tuple[int, ...], ranks: int, words: str, messages: bool, tmp_path: Path
) -> None:
    late = late_in(steps, ranks, breaks, BREAK_MS)
    finding, text, ratio = first_finding(late, messages, tmp_path / "t")
    assert finding.ranks == (ranks // 2,)
    assert words in text
    assert ratio == pytest.approx(1, abs=0.1)


@BOTH
def test_a_few_long_breaks_of_different_ranks_accuse_nobody(messages: bool, tmp_path: Path) -> None:
    late = np.zeros((100, 8))
    late[[11, 47, 70, 83], [2, 5, 1, 7]] = BREAK_MS
    finding, _, _ = first_finding(late, messages, tmp_path / "t")
    assert not finding.ranks


REPEATED: list[tuple[str, list[int], str]] = [
    (
        "rank",
        [*range(10, 20), *range(30, 40), *range(50, 60)],
        ", in steps 10 to 19, 30 to 39 and 50 to the end.",
    ),
    ("periodic", list(range(30, 60, 3)), ", in every 3rd step from step 30 on."),
]


@BOTH
@pytest.mark.parametrize(("cause", "late_steps", "words"), REPEATED)
def test_a_delay_in_phases_of_one_rank_alone_is_named(
    cause: str, late_steps: list[int], words: str, messages: bool, tmp_path: Path
) -> None:
    """Ranks that wander have such phases, too, but then other ranks wander as well."""
    late = late_in(60, 8, late_steps, 8.0)
    finding, text, ratio = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == (cause, (4,))
    assert words in text
    assert ratio == pytest.approx(1, abs=0.1)


@BOTH
def test_a_delay_that_decays_is_named(messages: bool, tmp_path: Path) -> None:
    late = late_in(60, 8, range(60), 20.0) * np.exp(-np.arange(60) / 10)[:, None]
    finding, text, _ = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks, finding.first_instance) == ("rank", (4,), 0)
    assert ", in steps 0 to " in text
