"""Lateness of one rank that changes over the run: steadily, or from one level to another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, noise, one_site
from support.synthetic import Synthetic

from mpiprof.reports import sentences

COUNT = 200


@pytest.mark.parametrize(
    ("first", "last", "printed"),
    [
        (0, 10, "The delay grows steadily, from "),
        (5, 10, "The delay grows steadily, from "),
        (10, 0, "The delay shrinks steadily, from "),
    ],
)
def test_lateness_that_changes_steadily_has_a_rank(
    tmp_path: Path, first: float, last: float, printed: str
) -> None:
    late = noise(COUNT, 4, 0.1)
    late[:, 2] += np.linspace(first, last, COUNT)
    trace = one_site(tmp_path, Synthetic(4), late)
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("rank", (2,)) and one.certainty > 0.99
    assert one.habit.grows == pytest.approx([first * MS, last * MS], abs=0.1 * MS)
    assert one.cost_ns == pytest.approx(COUNT * 3 * (first + last) / 2 * MS, rel=0.05)
    text = sentences.finding_text(trace, one)
    assert printed in text and "works up to " in text and "This holds in" not in text
    assert ("Look for what grows there" in text) == (last > first)


@pytest.mark.heavy
def test_who_wanders_is_named_no_more_often_for_its_levels(tmp_path: Path) -> None:
    """Hardly any random walk of 8 ranks has phases with sharp edges, or a flat phase."""
    named = 0
    for seed in range(1000, 1040):
        random = np.random.default_rng(seed)
        walk = np.cumsum(random.normal(0, 0.1, (300, 8)), 0) + random.normal(0, 0.1, (300, 8))
        trace = one_site(tmp_path / str(seed), Synthetic(8), 20 + walk)
        named += any(one.ranks for one in trace.findings())
    assert named <= 1


@pytest.mark.heavy
def test_who_wanders_does_not_grow(tmp_path: Path) -> None:
    """A rank on a random walk has no steady direction."""
    grown = 0
    for seed in range(60):
        walk = np.cumsum(np.random.default_rng(seed).normal(0, 0.2, (COUNT, 4)), 0)
        trace = one_site(tmp_path / str(seed), Synthetic(4), 15 + walk)
        grown += any(getattr(one.evidence, "grows", None) for one in trace.findings())
    assert grown <= 1


@pytest.mark.parametrize("levels", [(8, 4), (8, 1), (2, 6)])
def test_lateness_of_two_levels_is_that_of_one_rank(
    tmp_path: Path, levels: tuple[float, float]
) -> None:
    late = noise(COUNT, 4, 0.1)
    late[:100, 2] += levels[0]
    late[100:, 2] += levels[1]
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("rank", (2,)) and one.certainty > 0.99
    assert one.cost_ns == pytest.approx(100 * 3 * sum(levels) * MS, rel=0.05)
    begins = [first for first, _, _ in one.habit.levels]
    assert begins == [0, 100]
    text = sentences.finding_text(trace, one)
    assert " in steps 0 to 99, then " in text and " in steps 100 to 199. " in text
    assert f"works up to {max(levels) - 1}.9" in text or f"works up to {max(levels)}.0" in text


def test_who_else_comes_last_ends_no_phase(tmp_path: Path) -> None:
    """Rank 3 is always early; the last of the other ranks varies."""
    late = noise(150, 4, 0.01) + 6
    late[:53, 1] += 0.2
    late[53:, 0] += 0.2
    late[:, 3] -= 6
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert (one.cause, one.ranks) == ("early", (3,)) and one.certainty > 0.99
    assert one.cost_ns == pytest.approx(150 * 6 * MS, rel=0.05)


def test_lateness_that_grows_in_every_second_instance_has_a_rank(tmp_path: Path) -> None:
    late = noise(COUNT, 4, 0.05)
    late[::2, 2] += np.linspace(0, 10, COUNT // 2)
    trace = one_site(tmp_path, Synthetic(4), late)
    one = trace.findings()[0]
    assert (one.cause, one.ranks, one.period) == ("periodic", (2,), 2)
    assert one.cost_ns == pytest.approx(COUNT / 2 * 3 * 5 * MS, rel=0.05)
    text = sentences.finding_text(trace, one)
    assert ", in every 2nd step from step 0 on: " in text
    assert "Rank 2 works up to 1" in text or "Rank 2 works up to 9.9" in text
    assert "The delay grows steadily, from " in text
