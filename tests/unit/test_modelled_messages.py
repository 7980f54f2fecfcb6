"""The modelled messages of an instance are within the recorded calls of their ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mpiprof.dashboard import instance_messages
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build
from dashboard.timeline.window import Timeline
from mpiprof.formats import cache

RANKS = 8
US = 1_000


def timeline(folder: Path, took_ns: int, leaves_early: int = -1) -> Timeline:
    """Return one allreduce by recursive doubling with rank 5 last.

    All ranks leave after `took_ns`.
    """
    synthetic = Synthetic(RANKS)
    came = np.full((1, RANKS), 1_000_000)
    came[0, 5] += 200 * US
    left = np.full((1, RANKS), int(came.max()) + took_ns)
    if leaves_early >= 0:
        left[0, leaves_early] = came[0, 5] - 100 * US
    synthetic.add_collective(
        "allreduce", came, left, sent=64, received=64, algorithm="recursive_doubling"
    )
    trace = mpiprof.open(synthetic.write(folder))
    key = cache.compute_key(trace)
    return Timeline(trace, build.open_or_build(trace, key), key)


@pytest.mark.parametrize(("took_us", "scale"), [(40, 1.0), (15, 0.5), (3, 0.1)])
def test_messages_are_fitted(tmp_path: Path, took_us: int, scale: float) -> None:
    """Three rounds and their reductions take about 30 us; shorter calls scale the model."""
    found = timeline(tmp_path / "t", took_us * US)
    printed = instance_messages.model_messages(found, 0)
    assert printed["scale"] == pytest.approx(scale, rel=0.02)
    events, _ = found.events.read_members(0)
    begin = found.events.begin_ns
    ends = [m[3] for m in printed["messages"]]
    assert len(ends) == 24 and max(ends) <= int(events["exit"].max()) - begin
    late = 1_000_000 + 200 * US - begin  # no message of rank 5 starts before its arrival
    assert all(m[2] >= late for m in printed["messages"] if 5 in m[:2])
    if scale < 1:
        assert max(ends) == pytest.approx(events["exit"].max() - begin, abs=0.02 * took_us * US)


def test_what_cannot_be_is_left_out(tmp_path: Path) -> None:
    """Rank 2 left before rank 5 arrived but has its data: a clock error or another algorithm."""
    with pytest.raises(instance_messages.NotModelledError, match="ranks left before the model"):
        instance_messages.model_messages(timeline(tmp_path / "t", 40 * US, leaves_early=2), 0)
