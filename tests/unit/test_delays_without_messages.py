"""Delays in runs without messages: the planted causes of arrivals are found in work as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import planted_traces
from support.planted_traces import MS, STEP, Planted

import mpiprof
from mpiprof.diagnosis.delay_findings import find_delay_findings
from mpiprof.testing.program import Program

# A rank that hides the delay of another one is named with it. The root of a reduction waits by its
# role, so it is not early.
EXPECTED: dict[str, tuple[str, tuple[int, ...]]] = {
    "two-ranks": ("rank", (3, 6)),
    "reduce-root": ("noise", ()),
}


def is_possible(planted: Planted) -> bool:
    """Return whether no rank enters an instance before it has left the one before."""
    return float(planted.late.max()) * MS < STEP


CASES = [planted for planted in planted_traces.planted() if is_possible(planted)]


@pytest.mark.heavy
@pytest.mark.parametrize("planted", CASES, ids=lambda one: one.name)
def test_a_planted_cause_is_found_in_work(planted: Planted, tmp_path: Path) -> None:
    trace = mpiprof.open(planted.write(tmp_path / "trace"))
    first = find_delay_findings(trace)[0]
    cause, ranks = EXPECTED.get(planted.name, (planted.cause, planted.ranks))
    assert first.cause == cause
    if ranks is not None:
        assert sorted(first.ranks) == sorted(ranks)
    if planted.first is not None and cause != "noise":
        assert first.first_instance is not None
        assert abs(first.first_instance - planted.first) <= 3
    assert first.period == planted.period or planted.period is None
    waiting = float(trace.callsites["total_wait_ns"].sum())
    assert first.cost_ns <= waiting * 1.001


@pytest.mark.parametrize(("second_ms", "ranks"), [(3, [1]), (12, [1, 2])])
def test_a_rank_that_is_late_behind_a_later_one(
    second_ms: int, ranks: list[int], tmp_path: Path
) -> None:
    """The repair of rank 1, 24 ms late, gains nearly everything if rank 2 is only 3 ms late."""
    program = Program(8)
    random = np.random.default_rng(2)
    for _ in range(30):
        own_ns = random.normal(MS, MS / 50, 8)
        own_ns[[1, 2]] += (24 * MS, second_ms * MS)
        program.collective("allreduce", own_ns=own_ns.astype(np.int64))
    trace = mpiprof.open(program.write(tmp_path / "trace"))
    assert sorted(find_delay_findings(trace)[0].ranks) == ranks
