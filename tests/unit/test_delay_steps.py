"""The steps that a sentence names are the steps in which a rank is late."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.program import Program
from support.random_work import MS, Noise

import mpiprof
from mpiprof.causes.finding import Finding
from mpiprof.reports.words import finding_sentences

pytestmark = pytest.mark.heavy
Late = Callable[[int], tuple[int, int]]  # rank and delay in ns of a step


def first_finding(folder: Path, steps: int, late: Late) -> tuple[Finding, str]:
    """Return the first finding of a program of 4 ranks, and its text."""
    program, noise = Program(4, intervals=True), Noise(4)
    for step in range(steps):
        work = noise.work()
        rank, delay_ns = late(step)
        work[rank] += delay_ns
        program.work(work)
        program.collective("allreduce", "app.py:1:main")
    trace = mpiprof.open(program.write(folder / "t"))
    finding = trace.findings()[0]
    return finding, finding_sentences.finding_text(trace, finding)


def late_in(steps: set[int]) -> Late:
    return lambda step: (2, 5 * MS if step in steps else 0)


def test_each_step_is_said_only_of_all_steps(tmp_path: Path) -> None:
    """The delay of rank 2 is random, so it is half of its mean or more in a part of the steps."""
    delays = np.random.default_rng(3).exponential(4 * MS, 50).astype(int).tolist()
    finding, text = first_finding(tmp_path, 50, lambda step: (2, delays[step]))
    assert finding.cause == "rank" and finding.ranks == (2,)
    late, count = finding.habit.late_instances, finding.habit.instances
    assert 0 < late < count == 50
    assert "in each step" not in text
    assert text.count(f"{late} of {count} steps") == 1


@pytest.mark.parametrize("steps", [range(0, 100, 10), [*range(10, 100, 10), 99]])
def test_steps_at_equal_distances_are_named_by_their_distance(
    tmp_path: Path, steps: list[int]
) -> None:
    _, text = first_finding(tmp_path, 100, late_in(set(steps)))
    assert "..." not in text
    first = f"step from step {steps[0]} on"
    assert re.search(rf"every 10th (from 10 to 90, and 99|{first})", text)


def test_an_ellipsis_stands_for_two_spans_or_more(tmp_path: Path) -> None:
    finding, text = first_finding(tmp_path, 90, lambda s: (2, 5 * MS if s // 10 % 2 else 0))
    assert finding.period or "10 to 19, 30 to 39, 50 to 59 and 70 to 79" in text
    assert "..." not in text


def test_a_moving_delay_names_the_shortest_and_the_longest_stay(tmp_path: Path) -> None:
    finding, text = first_finding(tmp_path, 240, lambda s: ((s >= 120) + (s >= 180), 3 * MS))
    assert finding.cause == "moving"
    assert "60 to 120 steps each" in text
    assert "This holds in 240 of 240 steps." in text
