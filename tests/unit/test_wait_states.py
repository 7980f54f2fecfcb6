"""Wait states by hand-computed examples; no wait exceeds the time in the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.facts.operations import WAIT_STATES

# Four ranks; the last arrives 6000 ns after the first; all leave 500 ns after that.
ARRIVALS = np.array([[10_000, 11_000, 14_000, 16_000]])
EXITS = np.array([[16_500, 16_500, 16_500, 16_500]])


def waits(tmp_path: Path, trace: Synthetic) -> dict[str, float]:
    row = mpiprof.open(trace.write(tmp_path / "trace")).instances.iloc[-1]
    found = {s: row[f"wait_{s}_ns"] for s in WAIT_STATES if row[f"wait_{s}_ns"] != 0}
    assert row["wait_ns"] == sum(found.values())
    return found


def one(operation: str, **more: Any) -> Synthetic:
    trace = Synthetic(4)
    trace.add_collective(operation, ARRIVALS, EXITS, **more)
    return trace


@pytest.mark.parametrize(
    "operation",
    [
        "allgather",
        "allgatherv",
        "allreduce",
        "alltoall",
        "alltoallv",
        "alltoallw",
        "reduce_scatter",
        "reduce_scatter_block",
    ],
)
def test_all_wait_for_the_last(tmp_path: Path, operation: str) -> None:
    assert waits(tmp_path, one(operation)) == {"nxn": 6000 + 5000 + 2000}


def test_barrier(tmp_path: Path) -> None:
    assert waits(tmp_path, one("barrier")) == {"barrier": 13_000}


@pytest.mark.parametrize("operation", ["bcast", "scatter", "scatterv"])
def test_receivers_wait_for_a_late_root(tmp_path: Path, operation: str) -> None:
    # The root is third: the first two wait for it, the last does not.
    assert waits(tmp_path, one(operation, root=2)) == {"late_root": 4000 + 3000}


@pytest.mark.parametrize("operation", ["bcast", "reduce"])
def test_nobody_waits_where_the_order_is_right(tmp_path: Path, operation: str) -> None:
    root = 0 if operation == "bcast" else 3
    assert waits(tmp_path, one(operation, root=root)) == {}


@pytest.mark.parametrize("operation", ["reduce", "gather", "gatherv"])
def test_an_early_root_waits_for_its_last_sender(tmp_path: Path, operation: str) -> None:
    assert waits(tmp_path, one(operation, root=1)) == {"early_root": 5000}


@pytest.mark.parametrize("operation", ["scan", "exscan"])
def test_a_scan_waits_for_the_ranks_before(tmp_path: Path, operation: str) -> None:
    trace = Synthetic(4)
    # Rank 1 waits for 0 (3000), 2 for 0 (1000), 3 for no rank.
    trace.add_collective(operation, [[14_000, 11_000, 13_000, 16_000]], EXITS)
    assert waits(tmp_path, trace) == {"early_scan": 3000 + 1000}


def test_a_wait_is_never_longer_than_the_time_inside(tmp_path: Path) -> None:
    trace = Synthetic(4)
    trace.add_collective("allreduce", ARRIVALS, [[10_100, 16_500, 16_500, 16_500]])
    assert waits(tmp_path, trace) == {"nxn": 100 + 5000 + 2000}


def test_completion_skew_is_apart_from_the_waits(tmp_path: Path) -> None:
    trace = Synthetic(4)
    trace.add_collective("allreduce", ARRIVALS, [[16_500, 16_700, 16_500, 17_000]])
    row = mpiprof.open(trace.write(tmp_path / "t")).instances.iloc[0]
    assert row["completion_skew_ns"] == 200 + 500
    assert row["wait_ns"] == 13_000


def test_nonblocking_waits_are_the_time_in_the_wait_call(tmp_path: Path) -> None:
    trace = Synthetic(4)
    trace.add_collective(
        "iallreduce",
        ARRIVALS,
        ARRIVALS + 10,
        # Rank 0 computed until 15000 and then blocked 1000 of its 2000 ns for the last arrival.
        completions=([[15_000, 16_200, 14_500, 16_100]], [[17_000, 17_000, 17_000, 17_000]]),
    )
    assert waits(tmp_path, trace) == {"nxn": 1000 + 1500}


def test_one_wait_call_for_two_operations_is_counted_once(tmp_path: Path) -> None:
    trace = Synthetic(2)
    shapes = [trace.add_shape(r, "ibarrier", "world") for r in range(2)]
    for rank, arrival in ((0, 10_000), (1, 20_000)):
        for number in (0, 1):
            trace.add(rank, shapes[rank], number, arrival + number, arrival + number + 1)
        for number in (0, 1):  # one Waitall
            trace.add(rank, shapes[rank], number, arrival + 100, 30_100, kind=3)
    table = mpiprof.open(trace.write(tmp_path / "t")).callsites
    # Rank 0 blocked 20000 ns in all, rank 1 10000; plus 4 calls of 1 ns.
    assert table["total_elapsed_ns"].tolist() == [30_004]
    assert table["total_wait_ns"].iloc[0] <= 20_000


def test_neighbours_wait_for_their_sources_only(tmp_path: Path) -> None:
    trace = Synthetic(4)
    ring = {r: ([(r - 1) % 4], [(r + 1) % 4]) for r in range(4)}
    trace.add_communicator("ring", [0, 1, 2, 3], how="cart", topology=ring)
    trace.add_collective("neighbor_allgather", ARRIVALS, EXITS, "ring")
    # 0 waits for 3 (6000); 1, 2 and 3 arrive after their sources.
    assert waits(tmp_path, trace) == {"neighbor": 6000}


def inter(operation: str, root: Any = None, **more: Any) -> Synthetic:
    trace = Synthetic(4)
    trace.add_communicator("inter", [0, 3], [1, 2])
    # Members in order 0, 3, 1, 2.
    trace.add_collective(
        operation, [[10_000, 16_000, 11_000, 14_000]], EXITS, "inter", root=root, **more
    )
    return trace


def test_across_an_intercommunicator_the_other_group_is_waited_for(tmp_path: Path) -> None:
    # 0 waits for {1, 2} (4000), 3 for no rank, 1 and 2 for {0, 3}: 5000 and 2000.
    assert waits(tmp_path, inter("allgather")) == {"nxn": 4000 + 5000 + 2000}


def test_broadcast_across_an_intercommunicator(tmp_path: Path) -> None:
    # Rank 3 is MPI_ROOT, rank 0 takes no part; 1 and 2 wait for 3.
    trace = inter("bcast", root={3: -3, 0: -2, 1: 1, 2: 1})
    assert waits(tmp_path, trace) == {"late_root": 5000 + 2000}


def test_gather_across_an_intercommunicator(tmp_path: Path) -> None:
    # Rank 0 is the root and waits for the last of {1, 2} at 14000.
    trace = inter("gather", root={0: -3, 3: -2, 1: 0, 2: 0}, sent={1: 100, 2: 300})
    assert waits(tmp_path, trace) == {"early_root": 4000}
    assert mpiprof.open(tmp_path / "trace").instances["message_bytes"].iloc[0] == 200


def test_starts_of_a_persistent_operation(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("barrier_init", [[1000, 1100]], [[1200, 1200]])
    for rank in (0, 1):
        shape = trace.add_shape(
            rank,
            "barrier_init",
            "world",
            flags=["persistent"],
            sent=8,
            received=8,
            root=None,
            site="app.py:1:main",
        )
        for nth in (1, 2):
            begin = 10_000 * nth + 1000 * rank
            wait = (begin + 100, 10_000 * nth + 1500)
            trace.add_start(rank, shape, 0, nth, begin, wait)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    table = opened.callsites
    assert table["started"].tolist() == [False, True]
    assert table["instances"].tolist() == [1, 2]
    # Each time rank 0 blocked from +100 to +1500; rank 1 started at +1000.
    assert opened.instances["wait_ns"].tolist() == [0, 900, 900]
    assert opened.instances["start"].tolist() == [0, 1, 2]
