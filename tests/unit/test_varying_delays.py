"""Late ranks whose delay varies: the whole delay is theirs, accidents and noise are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted

import mpiprof
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.varying_delays import varies
from mpiprof.reports.delay_sentences import delay_clause
from mpiprof.trace.types import Float

STEPS = 60
LATE_RANK = 1


def find_causes(
    late_ms: Float, noise: str, path: Path, loop: loops.Loop | None = None
) -> tuple[list[Finding], float, mpiprof.Trace]:
    """Return the findings of a loop with a delay, its true cost in ns, and the trace."""
    steps, ranks = late_ms.shape
    loop = loop or loops.collectives(ranks, "allreduce", "alltoall")
    factors = planted.make_noise(noise, (steps, len(loop.places), ranks), 1)
    made = planted.PlantedLoop(loop, factors, (planted.Delay(0, late_ms),))
    trace = mpiprof.open(made.build().write(path / "trace"))
    return list(trace.findings()), made.cost_ns([LATE_RANK]), trace


def list_ranks(findings: Sequence[Finding]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.cause, one.ranks) for one in findings]


@pytest.mark.parametrize("kind", planted.VARYING)
@pytest.mark.parametrize(("ranks", "noise"), [(2, "quiet"), (3, "normal"), (8, "quiet")])
def test_a_rank_bears_all_of_its_varying_delay(
    kind: str, ranks: int, noise: str, tmp_path: Path
) -> None:
    """The usual delay alone is a tenth to a half of the cost."""
    random = np.random.default_rng(7)
    late = 5 * planted.varying(kind, STEPS, ranks, LATE_RANK, random)
    findings, cost_ns, _ = find_causes(late, noise, tmp_path)
    assert list_ranks(findings) == [("rank", (LATE_RANK,))]
    assert findings[0].cost_ns == pytest.approx(cost_ns, rel=0.1)


def test_a_varying_delay_in_a_pipeline(tmp_path: Path) -> None:
    late = 5 * planted.varying("pareto", STEPS, 16, LATE_RANK, np.random.default_rng(2))
    findings, cost_ns, _ = find_causes(late, "normal", tmp_path, loops.pipeline(16))
    assert findings[0].ranks == (LATE_RANK,)
    assert findings[0].cost_ns == pytest.approx(cost_ns, rel=0.1)


def test_the_sentence_states_the_mean_and_the_largest_delay(tmp_path: Path) -> None:
    late = 5 * planted.varying("exponential", STEPS, 3, LATE_RANK, np.random.default_rng(7))
    findings, _, trace = find_causes(late, "quiet", tmp_path)
    mean_ns = late[:, LATE_RANK].mean() * 1e6
    expected = [mean_ns, late.max() * 1e6]
    assert findings[0].evidence["varies"] == pytest.approx(expected, rel=0.02)
    clause = delay_clause(trace, findings[0])
    assert clause.startswith("rank 1 works on average 4.89 ms and at most 19.0 ms longer than the ")


def test_ranks_without_work_in_the_columns_are_not_compared() -> None:
    random = np.random.default_rng(1)
    work_ns = 1e6 + 1e4 * random.standard_normal((6, 40))
    work_ns[1] += 1e6 * random.exponential(1.0, 40)
    work_ns[4] = np.nan
    assert varies(work_ns, np.array([1]))
    assert not varies(work_ns, np.array([2]))
    assert not varies(work_ns[[1]], np.array([0]))


@pytest.mark.parametrize("noise", ["quiet", "normal", "pareto", "lognormal", "spikes"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_constant_delay_does_not_bear_the_noise(ranks: int, noise: str, tmp_path: Path) -> None:
    late = planted.constant(STEPS, ranks, [LATE_RANK], 5.0)
    findings, cost_ns, _ = find_causes(late, noise, tmp_path)
    mine = [one for one in findings if one.ranks == (LATE_RANK,)]
    assert [one.cause for one in mine] == ["rank"]
    assert mine[0].cost_ns == pytest.approx(cost_ns, rel=0.1)
    assert mine[0].evidence["varies"] is None


@pytest.mark.parametrize("ranks", [2, 8])
def test_an_accident_of_a_late_rank_stays_a_cause_of_its_own(ranks: int, tmp_path: Path) -> None:
    late = planted.constant(STEPS, ranks, [LATE_RANK], 5.0)
    late[33, LATE_RANK] = 500.0
    findings, _, _ = find_causes(late, "quiet", tmp_path)
    assert list_ranks(findings) == [("outlier", (LATE_RANK,)), ("rank", (LATE_RANK,))]


@pytest.mark.parametrize("ranks", [4, 8, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_varying_delay_in_noise_is_one_cause(ranks: int, seed: int, tmp_path: Path) -> None:
    """The largest delays are found first. They are no cause of their own, nor in other steps."""
    random = np.random.default_rng(seed)
    late = 2 * planted.varying("exponential", 80, ranks, LATE_RANK, random)
    findings, cost_ns, trace = find_causes(late, "normal", tmp_path)
    assert [one.ranks for one in findings if one.ranks] == [(LATE_RANK,)]
    assert findings[0].cost_ns == pytest.approx(cost_ns, rel=0.1)
    assert findings[0].evidence["instances"] == 80
    late_steps = findings[0].evidence["late_instances"]
    assert delay_clause(trace, findings[0]).endswith(f"in {late_steps} of 80 steps")
