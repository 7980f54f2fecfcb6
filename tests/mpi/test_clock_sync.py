"""Clocks with offsets of seconds and drift are corrected within the printed bound.

The ranks of one machine stand for several nodes (MPIPROF_NODE). A shim shifts the clock that
mpiprof reads, so the true time is known exactly.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.mpis import wheel_mpi
from support.virtual_clock import build, record

from mpiprof.trace import Trace
from mpiprof.trace.types import Int

SHARE = 100  # the bound is at most 1/SHARE of the offset between two clocks
ROUNDING_NS = 3  # rounding of the shim's clock and of the fitted clock


@dataclass(frozen=True)
class Case:
    """A run: its MPI, its ranks, and each emulated node's offset (ns) and gain (ns/s).

    killed: the job is killed before MPI_Finalize. alone: no operation synchronises the ranks.
    """

    mpi: str
    ranks: int
    nodes: tuple[tuple[int, int], ...]
    killed: bool = False
    alone: bool = False

    def __str__(self) -> str:
        end = (", killed" if self.killed else "") + (", broadcasts only" if self.alone else "")
        return f"{self.mpi}, {self.ranks} ranks on {len(self.nodes)} nodes{end}"


TWO = ((3 * 10**9, 10_000), (-7 * 10**9, -10_000))
THREE = ((0, 0), (5 * 10**9, 10_000), (-2 * 10**9, -8_000))
CASES = [
    Case("mpich", 2, TWO),
    Case("mpich", 2, TWO, killed=True),
    Case("openmpi", 4, TWO),
    Case("openmpi", 4, TWO, killed=True),
    Case("openmpi", 3, THREE),
    Case("openmpi", 3, THREE, killed=True),
    Case("openmpi", 2, TWO, alone=True),
    Case("openmpi", 2, TWO, killed=True, alone=True),
]


@dataclass(frozen=True)
class Run:
    """A recorded run, and the time at which its clocks start to drift."""

    case: Case
    trace: Trace
    base: int

    def shifted(self, true: Int, node: int) -> Int:
        """Return a node's clock readings at true times."""
        offset, gain = self.case.nodes[node]
        return true + offset + (true - self.base) * gain // 10**9

    def true(self, local: Int, node: int) -> Int:
        """Return the true times of a node's clock readings."""
        offset, gain = self.case.nodes[node]
        since = local - offset - self.base
        return self.base + since - since * gain // (10**9 + gain)


@pytest.fixture(scope="module", params=CASES, ids=str)
def drifting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    case: Case = request.param
    folder: Path = tmp_path_factory.mktemp("clocks")
    mpi = wheel_mpi(case.mpi)
    program = build(mpi, folder, "clock_rounds")
    base = time.monotonic_ns()
    clocks = {
        "VIRTUAL_CLOCK": "real",
        "VIRTUAL_BASE": str(base),
        "VIRTUAL_NODES": ",".join(f"{offset}:{gain}" for offset, gain in case.nodes),
    }
    arguments = ["100", "kill" if case.killed else "end", *(["bcast"] if case.alone else [])]
    trace = record(mpi, case.ranks, program, arguments, clocks, case.killed)
    return Run(case, trace, base)


def test_the_shift_can_be_taken_back() -> None:
    run = Run(CASES[0], None, 10**12)  # type: ignore[arg-type]
    times = 10**12 + np.arange(0, 10**10, 10**7, dtype=np.int64)
    for node in (0, 1):
        assert np.abs(run.true(run.shifted(times, node), node) - times).max() <= 1


def test_the_bound_is_sensible(drifting: Run) -> None:
    """The bound is far below the corrected offset; benchmarks.arrival_error measures it."""
    assert drifting.trace.node_count == len(drifting.case.nodes)
    offsets = [offset for offset, _ in drifting.case.nodes]
    assert 0 < drifting.trace.clock_error_ns < (max(offsets) - min(offsets)) / SHARE
    assert drifting.trace.is_complete == (not drifting.case.killed)


def test_times_are_true_within_the_bound(drifting: Run) -> None:
    trace, nodes = drifting.trace, len(drifting.case.nodes)
    pairs = zip(trace.batches(local_times=True), trace.batches(), strict=True)
    compared, furthest = 0, 0
    for local, corrected in pairs:
        for row, rank in enumerate(local.communicator.ranks.tolist()):
            bound = trace.clock_of(rank).error_ns + ROUNDING_NS
            for before, after in (
                (local.arrival_ns[row], corrected.arrival_ns[row]),
                (local.exit_ns[row], corrected.exit_ns[row]),
            ):
                closed = before > 0
                truth = drifting.shifted(drifting.true(before[closed], rank % nodes), 0)
                error = np.abs(after[closed] - truth)
                assert error.max(initial=0) <= bound
                furthest = max(furthest, int(error.max(initial=0)))
                compared += int(closed.sum())
    assert compared >= (100 if drifting.case.alone else 300) * 2 * drifting.case.ranks
    assert furthest <= trace.clock_error_ns


def test_nobody_leaves_a_barrier_before_the_last_came(drifting: Run) -> None:
    """Up to the bound, no rank leaves a barrier before the last arrival in the report."""
    table = drifting.trace.callsites
    for callsite in table.loc[table["operation"].isin(["barrier", "allreduce"]), "callsite"]:
        arrivals, exits = drifting.trace.matrix(callsite)
        whole = (exits > 0).all(1)
        early = arrivals[whole].max(1) - exits[whole].min(1)
        assert early.max(initial=0) <= drifting.trace.clock_error_ns + ROUNDING_NS
