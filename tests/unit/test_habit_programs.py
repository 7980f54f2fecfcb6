"""Delays and noise whose finding depends on other ranks, on short work, or on memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.late_traces import one_site
from support.neighbours import make_grid, make_ring
from support.program import Program
from support.random_work import MS, Noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.delay_findings import find_delay_findings
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion

STEPS, LATE_RANK = 60, 2


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


def test_the_place_of_unexplained_waiting_has_most_of_it(tmp_path: Path) -> None:
    """Nearly all waiting is for messages, so the collective is not named."""
    program, noise = Program(8, intervals=True), Noise(8)
    for _ in range(STEPS):
        program.halo(make_ring(8), noise.work(spread=0.5))
        program.halo(make_ring(8), noise.work(spread=0.5))
        program.collective("allreduce", "app.c:9:step")
    trace = mpiprof.open(program.write(tmp_path / "t"))
    findings = trace.findings()
    assert [finding.cause for finding in findings] == ["noise"]
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    of_messages = trace.message_waits["wait_ns"].sum() / findings[0].cost_ns
    assert ("allreduce" in lines[1]) == (of_messages < 0.5)


def test_work_that_is_too_short_to_be_recorded_does_not_limit_the_cost(tmp_path: Path) -> None:
    """Intervals of work from 200 us on have a record; every message has one."""
    ranks, late_ms, every = 16, 12, 10
    totals = []
    for of_late in (late_ms, 0):
        random = np.random.default_rng(1)
        program, grid = Program(ranks, intervals=True), make_grid((4, 4))
        for step in range(STEPS):
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
    factors = planted.make_noise("pareto", (2 * STEPS, len(loop.places), 16), 4)
    delay = planted.Delay(0, planted.constant(2 * STEPS, 16, [LATE_RANK], 2.0))
    program = planted.PlantedLoop(loop, factors, (delay,))
    trace = mpiprof.open(program.build().write(tmp_path / "t"))
    text = " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))
    assert text.index("has no sure cause") < text.index("has a sure cause: rank 2 works ")
    assert "another sure cause" not in text


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [0.5, 0.9, 0.99])
def test_a_constant_delay_in_noise_does_not_grow(kept: float, tmp_path: Path) -> None:
    grown = 0
    for seed in range(40):
        series = planted.correlate(np.random.default_rng(seed), STEPS, 8, kept)
        late = 20 + series
        late[:, 3] += 8.0
        trace = one_site(tmp_path / str(seed), Synthetic(8), late)
        grown += any(getattr(one.evidence, "grows", None) for one in trace.findings())
    assert grown <= 1


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [0.0, 0.9, 0.99])
def test_noise_is_no_front(kept: float, tmp_path: Path) -> None:
    found = 0
    for seed in range(40):
        late = 20 + planted.correlate(np.random.default_rng(seed), STEPS, 12, kept)
        trace = one_site(tmp_path / str(seed), Synthetic(12), late)
        found += any(one.cause == "moving" for one in trace.findings())
    assert found <= 1
