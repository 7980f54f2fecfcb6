"""Costs of small delays in programs with messages, of whose waiting the noise causes most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.planted_programs import MS

import mpiprof
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.testing.neighbours import make_grid
from mpiprof.testing.program import Program
from mpiprof.trace.types import Float

STEPS, LATE_RANK = 120, 2


def noise(kind: str, shape: tuple[int, int, int], seed: int) -> Float:
    if kind != "small":
        return planted.make_noise(kind, shape, seed)
    return 1 + 0.05 * np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("ranks", "late_ms", "kind"), [(12, 0.1, "quiet"), (8, 0.15, "small"), (8, 3.0, "pareto")]
)
def test_the_cost_is_the_waiting_that_would_vanish(
    ranks: int, late_ms: float, kind: str, seed: int, tmp_path: Path
) -> None:
    """Without the delay, ranks wait for others that are nearly as late."""
    loop = loops.halo(ranks) if seed else loops.sendrecv_ring(ranks)
    factors = noise(kind, (STEPS, len(loop.places), ranks), seed)
    late = planted.constant(STEPS, ranks, [LATE_RANK], late_ms)
    program = planted.PlantedLoop(loop, factors, (planted.Delay(0, late),))
    findings = mpiprof.open(program.build().write(tmp_path / "t")).findings()
    (found,) = [one for one in findings if one.ranks]
    assert (found.cause, found.ranks) == ("rank", (LATE_RANK,))
    assert found.cost_ns == pytest.approx(program.cost_ns([LATE_RANK]), rel=0.2)


@pytest.mark.parametrize("case", ["gradient", "two ranks"])
def test_the_noise_of_the_compared_ranks_is_no_cost(case: str, tmp_path: Path) -> None:
    ranks = 24 if case == "gradient" else 2
    loop = loops.halo(ranks)
    factors = 1 + 0.06 * np.random.default_rng(3).standard_normal((STEPS, len(loop.places), ranks))
    late = planted.constant(STEPS, ranks, [1], 0.6)
    if case == "gradient":
        late[:] = np.linspace(0, 0.5, ranks)
    program = planted.PlantedLoop(loop, factors, (planted.Delay(0, late),))
    found = mpiprof.open(program.build().write(tmp_path / "t")).findings()[0]
    assert found.cause == ("gradient" if case == "gradient" else "rank")
    cost_ns = program.cost_ns(range(ranks) if case == "gradient" else [1])
    assert found.cost_ns == pytest.approx(cost_ns, rel=0.1)


def test_work_that_is_too_short_to_be_recorded_does_not_limit_the_cost(tmp_path: Path) -> None:
    """Intervals of work from 200 us on have a record; every message has one."""
    ranks, late_ms, every = 16, 12, 10
    totals = []
    for of_late in (late_ms, 0):
        random = np.random.default_rng(1)
        program, grid = Program(ranks, intervals=True), make_grid((4, 4))
        for step in range(STEPS // 2):
            work = 2 * MS * random.normal(1, 0.4, ranks).clip(0.02)
            work[LATE_RANK] = 2 * MS + of_late * MS
            program.halo(grid, work.astype(np.int64))
            if step % every == every - 1:
                program.collective("allreduce")
        totals.append(float(program.make_truth()["wait_ns"].sum()))
        trace = mpiprof.open(program.write(tmp_path / f"late-{of_late}"))
        if of_late:
            found = trace.findings()[0]
    assert (found.cause, found.ranks) == ("rank", (LATE_RANK,))
    assert found.cost_ns == pytest.approx(totals[0] - totals[1], rel=0.1)


def test_the_only_sure_cause_is_not_another_one(tmp_path: Path) -> None:
    """The finding without a sure cause comes first if it costs far more."""
    loop = loops.halo(16)
    factors = noise("pareto", (STEPS, len(loop.places), 16), 4)
    delay = planted.Delay(0, planted.constant(STEPS, 16, [LATE_RANK], 2.0))
    program = planted.PlantedLoop(loop, factors, (delay,))
    trace = mpiprof.open(program.build().write(tmp_path / "t"))
    text = " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))
    assert text.index("has no sure cause") < text.index("has a sure cause: rank 2 works ")
    assert "another sure cause" not in text
