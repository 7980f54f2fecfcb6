"""Nonblocking and persistent collectives have a call, starts and completions. All on 2 ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run
from support.mpis import Mpi, wheel_mpi

from mpi.test_communicators import recorded

LATE_NS = 200_000_000  # as in requests_completion.c
Event = tuple[str, str, int, int]  # kind, operation, sequence, n-th start


@pytest.fixture(scope="module", params=["mpich", "openmpi", "mpiabi"])
def trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> raw_trace.Raw:
    """Return the recording of requests_completion.c."""
    mpi = wheel_mpi("mpich" if request.param == "mpiabi" else request.param)
    folder = tmp_path_factory.mktemp("requests")
    compiler = f"{mpi.mpicc}{'_abi' if request.param == 'mpiabi' else ''}"
    program = compiled(mpi, "requests_completion.c", "-O1", compiler=compiler)
    return recorded(mpi, 2, [program, folder / "signs"], folder / "trace")[0]


def part(trace: raw_trace.Raw, name: str, rank: int) -> list[raw_trace.Record]:
    """Return the records of the communicator with this name."""
    own = [line for line in trace.lines if line["rank"] == rank]
    (number,) = (line["communicator"] for line in own if line.get("name") == name)
    return [r for r in trace.records if (r.rank, r.communicator) == (rank, number)]


def events(records: list[raw_trace.Record]) -> list[Event]:
    return [(r.kind, r.operation, r.sequence, r.start) for r in records]


ONE_BY_ONE = {
    "Wait": 1,
    "Waitany": 3,
    "Waitsome": 3,
    "Test": 1,
    "Testany": 3,
    "Testsome": 3,
    "Request_get_status": 1,
}
TOGETHER = {"Waitall": 3, "Waitall of many": 12, "Waitall among others": 1, "Testall": 3}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", [*ONE_BY_ONE, *TOGETHER])
def test_each_call_is_completed_once(name: str, rank: int, trace: raw_trace.Raw) -> None:
    count = (ONE_BY_ONE | TOGETHER)[name]
    found = part(trace, name, rank)
    calls, completions = found[:count], found[count:]
    assert events(calls) == [("call", "iallreduce", i, 0) for i in range(count)]
    # Waitany and similar functions may complete requests in any order.
    expected = [("completion", "iallreduce", i, 0) for i in range(count)]
    assert sorted(events(completions)) == expected
    assert all(r.bytes == (4, 4) and r.flags == {"nonblocking"} for r in found)
    for r in completions:
        call = calls[r.sequence]
        assert call.enter_ns <= call.exit_ns <= r.enter_ns <= r.exit_ns
    if name in TOGETHER:
        assert len({(r.enter_ns, r.exit_ns) for r in completions}) == 1


def test_completions_in_opposite_orders(trace: raw_trace.Raw) -> None:
    for rank in (0, 1):
        found = part(trace, "Waits in opposite orders", rank)
        assert [r.sequence for r in found if r.kind == "call"] == [0, 1]
        assert [r.sequence for r in found if r.kind == "completion"] == [rank, 1 - rank]


@pytest.mark.parametrize("rank", [0, 1])
def test_starts_have_the_sequence_of_their_init(rank: int, trace: raw_trace.Raw) -> None:
    names = ["allreduce_init", "bcast_init"]
    expected: list[Event] = [("call", name, i, 0) for i, name in enumerate(names)]
    for n in (1, 2, 3):
        order = (0, 1) if n == 3 else (rank, 1 - rank)
        expected += [("start", names[i], i, n) for i in order]
        expected += [("completion", names[i], i, n) for i in (0, 1)]
    expected.append(("call", "barrier_init", 2, 0))
    expected += [(kind, "barrier_init", 2, 1) for kind in ("start", "completion")]
    found = part(trace, "persistent", rank)
    assert events(found) == expected
    assert {r.flags for r in found} == {frozenset({"persistent"})}
    for start, end in [(2, 4), (3, 5)] if rank == 0 else [(3, 4), (2, 5)]:
        assert found[start].sequence == found[end].sequence
        assert found[start].exit_ns <= found[end].enter_ns


@pytest.mark.parametrize("rank", [0, 1])
def test_requests_that_the_library_shares(rank: int, trace: raw_trace.Raw) -> None:
    found = part(trace, f"shared by {rank}", rank)
    assert [r.kind for r in found] == ["call"] * 3 + ["completion"] * 3 + ["call"] * 2 + [
        "completion"
    ] * 2
    assert [r.sequence for r in found[:6]] == [0, 1, 2] * 2
    assert sorted(r.sequence for r in found[8:]) == [3, 4]


@pytest.mark.parametrize("rank", [0, 1])
def test_sequence_numbers_count_ordered_requests(rank: int, trace: raw_trace.Raw) -> None:
    found = part(trace, "sequences", rank)
    calls = [(r.operation, r.sequence) for r in found if r.kind == "call"]
    assert calls == [
        ("barrier", 0),
        ("barrier_init", 1),
        ("ibarrier", 2),
        ("barrier", 3),  # 4 is the duplicate
        ("barrier", 5),  # 6 and 7 were called while paused, so they have no record
        ("barrier", 8),  # calls that fail their argument check are not counted
        ("barrier", 9),
    ]
    assert [r.sequence for r in found if r.kind == "completion"] == [1, 2]
    assert not [r for r in found if "error" in r.flags]


def test_the_wait_is_where_the_time_goes(trace: raw_trace.Raw) -> None:
    """Rank 1 starts the operation LATE_NS after rank 0 has left the call that starts it."""
    call, completion, barrier = part(trace, "late", 0)
    assert call.exit_ns < part(trace, "late", 1)[0].enter_ns
    waited = completion.exit_ns - completion.enter_ns
    assert waited > 0.5 * LATE_NS
    # Time in Wait is recorded once, as time outside collectives.
    outside = completion.outside_ns + barrier.outside_ns
    assert waited <= outside < 1.5 * waited


def test_a_wait_of_nothing_pending_is_not_recorded(mpi: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("""#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, in, out = 3;
    MPI_Request r[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Irecv(&in, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&out, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return in != 3;
}
""")
    program = tmp_path / "plain"
    run([mpi.mpicc, "-o", program, source], check=True)
    trace, _ = recorded(mpi, 2, [program], tmp_path / "trace")
    assert [r.operation for r in trace.records] == ["barrier"] * 2
    assert all(r.outside_ns > 0 for r in trace.records)
