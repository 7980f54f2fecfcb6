"""What was said wrongly of slow programs whose fault is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.late import MS
from support.synthetic import Synthetic

import mpiprof
from mpiprof.reports import sentences
from mpiprof.trace import Trace
from mpiprof.trace.types import Float


def pairs(folder: Path, late: Float) -> Trace:
    """Return a trace of one call site on communicators of two ranks each: instances x ranks, ms."""
    ranks = late.shape[1]
    made, random, now = Synthetic(ranks), np.random.default_rng(2), 10 * MS
    for first in range(0, ranks, 2):
        made.communicator(f"pair{first}", [first, first + 1])
    for row in late:
        came = now + np.rint(row * MS).astype(np.int64) + random.integers(0, 20_000, ranks)
        for first in range(0, ranks, 2):
            mine = came[first : first + 2]
            left = np.full(2, mine.max() + 10_000)
            made.collective("allreduce", mine, left, f"pair{first}", site="md.py:6:pair")
        now = int(came.max()) + MS
    made.ended_ns = now + MS
    return mpiprof.open(made.write(folder / "t"))


@pytest.mark.parametrize(
    ("lateness", "named"),
    [((0, 6, 3, 3), (1,)), ((0, 6, 3, 3, 2, 2), (1,)), ((0, 6, 0, 6), (1, 3)), ((0, 6), (1,))],
)
def test_a_rank_is_late_by_what_those_know_who_met_it(
    tmp_path: Path, lateness: tuple[float, ...], named: tuple[int, ...]
) -> None:
    """Those who are in other pairs come whenever they like: that makes no lateness smaller."""
    trace = pairs(tmp_path, np.tile(np.array(lateness, np.float64), (100, 1)))
    (one,) = trace.findings()
    assert (one.cause, tuple(sorted(one.ranks))) == ("rank", named)
    assert one.evidence["late_ns"] == pytest.approx(6 * MS, rel=0.01)
    assert one.cost_ns == pytest.approx(len(named) * 100 * 6 * MS, rel=0.02)
    assert " 6.0" in sentences.what(trace, one)
