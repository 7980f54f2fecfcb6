"""The verdict on ranks that disagree or wait in a circle: one synthetic trace for each class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hang_traces import HERE, SECOND, THERE, call, conclude, job, now, places

import mpiprof
from mpiprof.hang import job_verdict, rank_state

DISAGREEMENTS: list[tuple[str, str, dict[str, Any], dict[str, Any], tuple[str, str]]] = [
    ("root", "bcast", {"root": 0}, {"root": 1}, ("root 0", "root 1")),
    ("count", "allreduce", {"sent": 8}, {"sent": 80}, ("8 B", "80 B")),
    (
        "type",
        "allreduce",
        {"sent": 8, "type": "MPI_INT"},
        {"sent": 16, "type": "MPI_DOUBLE"},
        ("MPI_INT", "MPI_DOUBLE"),
    ),
    (
        "reduction",
        "reduce",
        {"root": 0, "sent": 8, "reduction": "MPI_SUM"},
        {"root": 0, "sent": 8, "reduction": "MPI_MAX"},
        ("MPI_SUM", "MPI_MAX"),
    ),
]


@pytest.mark.parametrize(
    ("kind", "operation", "most", "odd", "printed"), DISAGREEMENTS, ids=lambda v: str(v)[:12]
)
@pytest.mark.parametrize("ranks", [2, 5])
def test_disagreement(
    kind: str,
    operation: str,
    most: dict[str, Any],
    odd: dict[str, Any],
    printed: tuple[str, str],
    ranks: int,
    tmp_path: Path,
) -> None:
    synthetic = job(ranks)
    for rank in range(ranks - 1):
        call(synthetic, rank, operation, site=HERE, **most)
    call(synthetic, ranks - 1, operation, site=THERE, **odd)
    verdict, text = conclude(synthetic, tmp_path, now(*range(ranks)))
    assert verdict.kind == kind
    assert verdict.odd_ranks == ((0, 1) if ranks == 2 else (4,))
    assert sorted(places(verdict, tmp_path)) == [5, 9]
    if ranks == 5:
        assert places(verdict, tmp_path) == [9, 5]
    assert printed[0] in text and printed[1] in text


def test_operation(tmp_path: Path) -> None:
    synthetic = job(4)
    for rank in (0, 1, 3):
        call(synthetic, rank, "allreduce", site=HERE)
    call(synthetic, 2, "barrier", site=THERE)
    verdict, text = conclude(synthetic, tmp_path, now(*range(4)))
    assert (verdict.kind, verdict.odd_ranks) == ("operation", (2,))
    assert "ranks 0-1, 3 call allreduce at app.py:5 main" in text
    assert "rank 2 calls barrier at app.py:9 step" in text


def test_a_mismatched_completed_call_is_reported_after_the_hang(tmp_path: Path) -> None:
    """The first instance in which members disagree counts, although all ranks have left it."""
    synthetic = job(3)
    for rank in range(3):
        call(synthetic, rank, "bcast", root=int(rank == 1), sent=8, received=8, ends=9_100)
        call(synthetic, rank, "allreduce", sequence=4, sent=8 + rank)
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2))
    assert (verdict.kind, verdict.odd_ranks) == ("root", (1,))


SOUND: list[tuple[str, list[dict[str, Any]]]] = [
    # The root has the total, the other ranks their block.
    ("gather", [{"sent": 8, "received": 24}, {"sent": 8}, {"sent": 8}]),
    ("scatter", [{"sent": 24, "received": 8}, {"received": 8}, {"received": 8}]),
    ("bcast", [{"sent": 8}, {"received": 8}, {"received": 8}]),
    # Each rank has a different share.
    ("gatherv", [{"sent": 8, "received": 60}, {"sent": 20}, {"sent": 32}]),
    # One rank uses a datatype of the program.
    ("bcast", [{"sent": 8, "type": "MPI_INT"}, {}, {"received": 8, "type": "MPI_INT32_T"}]),
    # Two numbers sent as one complex, and both ranks have left.
    (
        "bcast",
        [
            {"sent": 16, "type": "MPI_DOUBLE", "ends": 9_500},
            {"received": 16, "type": "MPI_C_DOUBLE_COMPLEX", "ends": 9_500},
            {"received": 16, "type": "MPI_BYTE", "ends": 9_500},
        ],
    ),
]


@pytest.mark.parametrize(("operation", "given"), SOUND)
def test_sound_members_agree(operation: str, given: list[dict[str, Any]], tmp_path: Path) -> None:
    synthetic = job(3)
    for rank, more in enumerate(given):
        call(synthetic, rank, operation, root=0, **more)
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2))
    assert verdict.kind == "none"


@pytest.mark.parametrize("members", [2, 3])
def test_crossed_communicators(members: int, tmp_path: Path) -> None:
    synthetic = job(members)
    for name in ("first", "second"):
        synthetic.add_communicator(name, list(range(members)))
    for rank in range(members - 1):
        call(synthetic, rank, "barrier", communicator="first", sequence=0, site=HERE)
    call(synthetic, members - 1, "barrier", communicator="second", sequence=0, site=THERE)
    verdict, text = conclude(synthetic, tmp_path, now(*range(members)))
    assert (verdict.kind, verdict.odd_ranks) == ("order", (0, 1) if members == 2 else (2,))
    assert sorted(places(verdict, tmp_path)) == [5, 9]
    assert f"for rank {members - 1}" in text and "for rank 0" in text


def test_circle_of_three_communicators(tmp_path: Path) -> None:
    synthetic = job(3)
    for rank in range(3):
        synthetic.add_communicator(f"c{rank}", [rank, (rank + 1) % 3])
    for rank in range(3):
        call(synthetic, rank, "barrier", communicator=f"c{rank}", sequence=0)
    verdict, text = conclude(synthetic, tmp_path, now(0, 1, 2))
    assert (verdict.kind, verdict.odd_ranks) == ("order", (0, 1, 2))
    assert text.count("for rank") == 3


def test_a_rank_with_a_thread_to_spare_is_in_no_circle(tmp_path: Path) -> None:
    """Rank 2's other thread is in a correct call for a moment.

    Its first one has skipped the barrier.

    Without that thread it would be a circle: rank 2 waits for rank 0, which waits for rank 2.
    """
    synthetic = job(3)
    synthetic.add_communicator("sound", [0, 1, 2])
    for rank in (0, 1):
        call(synthetic, rank, "barrier", site=HERE)
    call(synthetic, 2, "barrier", communicator="sound", sequence=0, site=THERE)
    for rank in range(3):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    trace = mpiprof.open(synthetic.write(tmp_path / "t", finished=False))
    states, pending = rank_state.find(trace)
    assert [one.free for one in states] == [0, 0, 0]
    assert job_verdict.conclude(trace, states, pending, now(0, 1, 2)).kind == "order"
    states[2].free = 1
    assert job_verdict.conclude(trace, states, pending, now(0, 1, 2)).kind == "none"
    (sound,) = [one for one in pending if one.missing == [0, 1]]
    later = replace(sound, since_ns=10_000 + 19 * SECOND)
    pending = [later if one is sound else one for one in pending]
    still = now(0, 1, 2, after=20, still=frozenset([2]))
    verdict = job_verdict.conclude(trace, states, pending, still)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (2,))


def test_a_root_that_is_only_sending_is_no_circle(tmp_path: Path) -> None:
    """It waits for no rank in a broadcast that the other rank reaches after its barrier."""
    synthetic = job(2)
    synthetic.add_communicator("other", [0, 1])
    call(synthetic, 0, "bcast", communicator="other", sequence=0, root=0)
    call(synthetic, 1, "barrier")
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1))
    assert verdict.kind == "none"
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, after=20))
    assert verdict.kind == "order"


@pytest.mark.parametrize(("source", "kind"), [(1, "order"), (2, "none")])
def test_a_neighbourhood_collective_waits_for_its_sources(
    source: int, kind: str, tmp_path: Path
) -> None:
    """Rank 1 is in another collective, for which rank 0 is missing; rank 2 is in none."""
    synthetic = job(3)
    neighbours = {0: ([source], [source]), 1: ([0], [0]), 2: ([0], [0])}
    synthetic.add_communicator("graph", [0, 1, 2], how="dist_graph_create", topology=neighbours)
    call(synthetic, 0, "neighbor_allgather", communicator="graph", sequence=0)
    call(synthetic, 1, "barrier")
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2))
    assert verdict.kind == kind


@pytest.mark.parametrize(("groups", "kind"), [(([0], [1]), "order"), (([0, 1], [2]), "none")])
def test_a_collective_between_groups_waits_for_the_other_group(
    groups: tuple[list[int], list[int]], kind: str, tmp_path: Path
) -> None:
    """Rank 1 is in another collective, for which rank 0 is missing."""
    synthetic = job(3)
    synthetic.add_communicator("inter", *groups)
    call(synthetic, 0, "allgather", communicator="inter", sequence=0)
    call(synthetic, 1, "barrier")
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2))
    assert verdict.kind == kind
