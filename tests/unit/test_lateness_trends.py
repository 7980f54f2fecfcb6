"""Random walks have no trend and no phases, and neither has a last rank that varies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late_traces import MS, noise, one_site
from support.synthetic import Synthetic

COUNT = 200


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
