"""One score: the analysis, `tune`, the studies and the recorder rate an instance equally.

programs/selection_score.c feeds arrivals and exits to core/selection/online/arrival.c, without MPI.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.recorder_score import recorded, score_program

from mpiprof.account.wait_states import Group, compute_waits, score_instances
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.papers.harness.loop import score_ns
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune.replay.imposed_arrivals import ReplayMeasurement, Task
from mpiprof.facts.operations import OPERATIONS, WaitRule

Int = NDArray[np.int64]
# Only the analysis knows the neighbours in a topology.
KINDS = [n for n, o in OPERATIONS.items() if o.wait_rule is not WaitRule.RANK_FOR_SOURCES]
SIDES = [name for name in KINDS if OPERATIONS[name].synchronises]
CASES = [(name, 4, 0) for name in KINDS] + [(name, 2, 3) for name in SIDES]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return score_program(tmp_path_factory.mktemp("score"))


@pytest.mark.heavy
@pytest.mark.parametrize(("operation", "size", "remote"), CASES)
def test_all_give_the_same_score(operation: str, size: int, remote: int, recorder: Path) -> None:
    """20 instances, with arrivals within 1000 ns and calls of up to 1500 ns."""
    generator, members, root = np.random.default_rng(3), size + remote, 2 if not remote else -1
    arrival = generator.integers(0, 1000, (members, 20))
    finish = arrival + generator.integers(0, 1500, (members, 20))
    problem = Problem(size, 8, root=max(root, 0), remote_size=remote)
    wanted = score_instances(operation, arrival, finish, problem)

    here = recorded(recorder, operation, (size, remote), root, arrival, finish)
    assert here[:, 0].tolist() == np.floor(wanted + 1e-6).tolist()
    group = Group(OPERATIONS[operation].wait_rule, (size, remote), root)
    waited = compute_waits(arrival, arrival, finish, group)
    assert here[:, 1].tolist() == waited.sum(0).tolist()
    after = finish.mean(0) - arrival.max(0)
    assert np.abs(here[:, 2] - after).max() <= 2  # two means, each rounded to ns

    case = Case({}, operation, "native", problem)
    assert score_ns(case, arrival.T, finish.T) == pytest.approx(wanted)
    task = Task(operation, ("native",), (problem,), (), tuple(range(members)))
    for i, value in enumerate(wanted.tolist()):
        shot = ReplayMeasurement(0, 0, arrival[:, i], finish[:, i], 0)
        assert task.score_shot(shot) == pytest.approx(value)


@pytest.mark.parametrize(
    ("operation", "sizes", "root", "arrivals", "exits", "expected"),
    [
        ("allgatherv", (2, 0), 0, [0, 100], [10, 110], 5),  # the first left before its wait
        ("alltoall", (3, 0), 0, [10, 50, 20], [60, 55, 65], 10),  # all wait for the last
        ("bcast", (3, 0), 0, [10, 50, 20], [60, 55, 65], 100 / 3),  # root or itself
        ("reduce", (3, 0), 1, [10, 50, 20], [15, 80, 30], 15),  # the root alone waits
        ("scan", (3, 0), 0, [10, 50, 20], [15, 55, 65], 25 / 3),  # a rank waits for lower ranks
        ("allgather", (2, 2), 0, [0, 5, 2, 9], [10, 11, 12, 13], 3.5),  # for the other group
    ],
)
def test_known_scores(
    operation: str,
    sizes: tuple[int, int],
    root: int,
    arrivals: list[int],
    exits: list[int],
    expected: float,
    recorder: Path,
) -> None:
    arrival, finish = np.array(arrivals), np.array(exits)
    problem = Problem(sizes[0], 8, root=root, remote_size=sizes[1])
    assert score_instances(operation, arrival, finish, problem) == pytest.approx(expected)
    here = recorded(recorder, operation, sizes, root, arrival[:, None], finish[:, None])
    assert here[0, 0] == int(expected)
