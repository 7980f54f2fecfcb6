"""Delays of one of two or three ranks: evidence comes from repetition, not from other ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import loop_programs as loops
from support import planted_loops as planted
from support.planted_loops import MS, Delay, PlantedLoop

import mpiprof
from mpiprof.diagnosis.delay_findings import find_delay_findings
from mpiprof.diagnosis.rotation import find_rotation
from mpiprof.diagnosis.significance import p_above, p_of_levels
from mpiprof.testing.program import Program
from mpiprof.trace.types import Float

SURE = 0.0005  # for two ranks, which are tested both
STEPS, LATE_MS = 30, 8.0


def correlated(kept: float, count: int, length: int) -> Float:
    """Return rows of values that keep a share of their predecessor."""
    return planted.correlate(np.random.default_rng(5), length, count, kept).T


@pytest.mark.heavy
def test_a_constant_delay_under_heavy_tails_is_significant() -> None:
    """60 delays of twice the noise's unit, with the difference of two Pareto variables as noise."""
    random = np.random.default_rng(4)
    noise = random.pareto(1.5, (100, 60)) - random.pareto(1.5, (100, 60))
    assert (p_above(noise + 2) < SURE).mean() > 0.9
    assert (p_above(noise) < SURE).mean() < 0.02


@pytest.mark.heavy
def test_a_delay_far_beyond_slow_fluctuations_is_significant() -> None:
    """The fluctuations keep 90 % from step to step, and are a tenth of the delay."""
    assert (p_above(correlated(0.9, 100, 200) + 10) < SURE).mean() > 0.9


@pytest.mark.heavy
@pytest.mark.parametrize(("kept", "most"), [(0.5, 0.01), (0.8, 0.01), (0.9, 0.02), (0.99, 0.05)])
@pytest.mark.parametrize("length", [30, 60, 200])
def test_slow_fluctuations_alone_are_rarely_significant(
    kept: float, most: float, length: int
) -> None:
    assert (p_above(correlated(kept, 100, length)) < SURE).mean() <= most


@pytest.mark.heavy
def test_the_highest_stretch_of_slow_fluctuations_is_not_significant() -> None:
    """The best of all divisions in three is taken, as a search for phases does."""
    accused = 0
    for values in correlated(0.99, 40, 48):
        cuts = [(a, b) for a in range(8, 33, 4) for b in range(a + 8, 41, 4)]
        a, b = max(cuts, key=lambda cut: values[cut[0] : cut[1]].mean())
        accused += p_of_levels(values, [a, b])[1] < SURE
    assert accused <= 1


@pytest.mark.heavy
def test_a_level_of_a_step_is_significant() -> None:
    noise = np.random.default_rng(6).normal(0, 1, (50, 48))
    found = sum(p_of_levels(row + 8 * (np.arange(48) >= 36), [36])[1] < SURE for row in noise)
    assert found >= 48


def test_two_ranks_that_take_turns_irregularly_are_no_rotation() -> None:
    """The next of two ranks is always the other one, so only the time of the change may be due."""
    lengths = [13, 5, 9, 30, 4, 21, 7, 11]
    last = np.repeat([3, 7] * 4, lengths)
    waits = np.ones(len(last))
    assert find_rotation(last, np.arange(len(last)), waits, 8) is None


@pytest.mark.heavy
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_delay_is_found_beside_random_work_at_other_calls(ranks: int, tmp_path: Path) -> None:
    """Before four of five exchanges the ranks work for 1 to 10 ms, as on a busy machine."""
    loop = loops.halo(ranks, exchanges=5)
    for seed in range(4):
        noise = planted.make_noise("quiet", (STEPS, 5, ranks), seed)
        noise[:, 1:] += 2 * planted.make_noise("lognormal", (STEPS, 4, ranks), seed)
        delay = Delay(0, planted.constant(STEPS, ranks, [1], LATE_MS))
        program = PlantedLoop(loop, noise, (delay,)).build()
        trace = mpiprof.open(program.write(tmp_path / f"{ranks}-{seed}"))
        first = trace.findings()[0]
        assert (first.cause, first.ranks) == ("rank", (1,))
        assert first.certainty > 0.99
        work = first.evidence["work"][0]
        assert (work["before"]["operation"], work["after"]["operation"]) == loop.places[0]
        assert first.evidence["late_ns"] == pytest.approx(LATE_MS * MS, rel=0.5)


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
