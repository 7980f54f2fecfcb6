"""Limits of savings: no repair saves more than the waiting and the work that it removes.

The loops have heavy noise. The same program without its delays shows what a repair would save.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support.planted_loops import Delay, PlantedLoop, constant, make_noise

import mpiprof
from mpiprof.account.row_order import order_by_time
from mpiprof.causes.finding import Finding
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

STEPS, RANKS, LATE, LATE_MS = 120, 12, 4, 40.0
LOOPS = {
    "synchronising": ("alltoallv", "allreduce"),
    "rooted": ("alltoallv", "reduce"),
    "broadcast": ("bcast", "allreduce"),
}


def plant(name: str, kind: str, late_ms: Float, seed: int = 3) -> PlantedLoop:
    """Return a loop of collectives with noise and a delay at its first place."""
    loop = loops.collectives(RANKS, *LOOPS[name])
    noise = 5 * make_noise(kind, (STEPS, len(loop.places), RANKS), seed)
    return PlantedLoop(loop, noise, (Delay(0, late_ms),))


def periodic(period: int) -> Float:
    """Return a delay of one rank in each period."""
    late = np.zeros((STEPS, RANKS))
    late[period - 1 :: period, LATE] = LATE_MS
    return late


def read(planted: PlantedLoop, folder: Path, removed: tuple[int, ...] = ()) -> Trace:
    """Return the trace of a loop, which ends as programs do: in a meeting of all ranks."""
    program = planted.build(removed)
    program.collective("finalize")
    return mpiprof.open(program.write(folder / f"without-{len(removed)}"))


def saved_waiting_ns(finding: Finding) -> float:
    """Return the saved run time that is not work, as a mean of the ranks."""
    return finding.saved_ns - finding.evidence.saved_work_ns


def check_limits(trace: Trace) -> None:
    """The savings agree with the waiting of the trace, each and together."""
    findings = trace.findings()
    waiting_ns = float(trace.run_times.total_wait.value) / trace.ranks
    for one in findings:
        assert saved_waiting_ns(one) <= one.cost_ns / trace.ranks + 1, (one.cause, one.ranks)
    assert sum(map(saved_waiting_ns, findings)) <= waiting_ns + 1000
    # What the run takes without its waiting and the removed work.
    work_ns = sum(one.evidence.saved_work_ns for one in findings)
    left_ns = trace.run_ns - sum(one.saved_ns for one in findings)
    assert left_ns >= trace.run_ns - waiting_ns - work_ns - 1000


@pytest.mark.parametrize("name", LOOPS)
def test_a_replay_of_the_unchanged_run_is_the_recorded_run(name: str, tmp_path: Path) -> None:
    trace = read(plant(name, "pareto", periodic(12)), tmp_path)
    intervals, replay = trace.derive("delays_found").intervals, trace.derive("replay")
    nothing = np.zeros(len(intervals.rank))
    leads = replay.compute_leads(intervals.rank, replay.find_ends(intervals), nothing)
    assert leads.tolist() == [0.0] * RANKS
    order, _ = order_by_time(intervals.rank, intervals.begin_ns, RANKS)
    rank = intervals.rank[order]
    follows = rank[1:] == rank[:-1]
    apart = intervals.begin_ns[order][1:] >= intervals.end_ns[order][:-1]
    assert (apart | ~follows).all()  # no work is counted twice


@pytest.mark.parametrize("kind", ["lognormal", "pareto"])
@pytest.mark.parametrize("name", LOOPS)
def test_findings_save_at_most_the_waiting_that_they_explain(
    name: str, kind: str, tmp_path: Path
) -> None:
    late = periodic(12)
    late[20:50, LATE] += LATE_MS / 2  # another delay, in some of the same steps
    trace = read(plant(name, kind, late), tmp_path)
    assert any(one.ranks == (LATE,) for one in trace.findings())
    check_limits(trace)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["normal", "lognormal"])
@pytest.mark.parametrize("name", ["synchronising", "rooted"])
@pytest.mark.parametrize("is_periodic", [True, False])
def test_the_noise_of_a_late_rank_is_not_saved(
    name: str, kind: str, is_periodic: bool, tmp_path: Path
) -> None:
    """A repaired rank has noise as the others, so the repaired program is the reference."""
    late = periodic(12) if is_periodic else constant(STEPS, RANKS, [LATE], 20.0)
    planted = plant(name, kind, late)
    trace, repaired = read(planted, tmp_path), read(planted, tmp_path, (LATE,))
    saved_ns = sum(one.saved_ns for one in trace.findings() if one.ranks == (LATE,))
    assert saved_ns == pytest.approx(trace.run_ns - repaired.run_ns, rel=0.15)


@pytest.mark.parametrize(
    ("make_loop", "ranks"), [(loops.pipeline, 16), (loops.nonblocking, 8), (loops.workers, 16)]
)
def test_the_late_rank_waits_less_itself(
    make_loop: Callable[[int], loops.Loop], ranks: int, tmp_path: Path
) -> None:
    """So the run saves more than the waiting for it, which was 0.72 and 0.85 of this."""
    loop = make_loop(ranks)
    noise = make_noise("normal", (STEPS, len(loop.places), ranks), 5)
    planted = PlantedLoop(loop, noise, (Delay(0, constant(STEPS, ranks, [1], 3.0)),))
    trace, repaired = read(planted, tmp_path), read(planted, tmp_path, (1,))
    (mine,) = (one for one in trace.findings() if one.ranks == (1,))
    assert mine.saved_ns == pytest.approx(trace.run_ns - repaired.run_ns, rel=0.1)
