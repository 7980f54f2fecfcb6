"""The wait matrix, against the sums by rank, and against known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account.rank_pairs import assign_rows

MS = 1_000_000


def mixed(folder: Path, ranks: int) -> mpiprof.Trace:
    """Return a trace with operations of all wait states, on the world and on half of it."""
    random, synthetic = np.random.default_rng(ranks), Synthetic(ranks)
    synthetic.add_communicator("half", list(range(ranks // 2)))
    for number, (operation, root, where) in enumerate(
        [
            ("barrier", None, "world"),
            ("allreduce", None, "half"),
            ("bcast", 1, "world"),
            ("reduce", 0, "world"),
            ("scan", None, "half"),
        ]
    ):
        size = ranks if where == "world" else ranks // 2
        begins = (np.arange(1, 21)[:, None] + 20 * number) * 10 * MS
        arrivals = begins + random.integers(0, 3 * MS, (20, size))
        exits = arrivals.max(1, keepdims=True) + random.integers(0, 9_000, (20, size))
        place = f"app.py:{number + 1}:main"
        synthetic.add_collective(operation, arrivals, exits, where, root=root, site=place)
    return mpiprof.open(synthetic.write(folder))


@pytest.mark.parametrize("ranks", [4, 7, 150])
def test_rows_are_waiting_and_columns_are_caused_waiting(tmp_path: Path, ranks: int) -> None:
    trace = mixed(tmp_path, ranks)
    found, row = trace.waiting_for(), assign_rows(trace, 64)
    totals = trace.rank_totals.groupby("rank")[["total_wait_ns", "caused_ns"]].sum()
    assert found.ranks[0][0] == 0 and found.ranks[-1][1] == ranks - 1
    for axis, name in ((1, "total_wait_ns"), (0, "caused_ns")):
        expected = np.bincount(row, totals[name].to_numpy(np.float64))
        assert np.array_equal(found.total_wait_ns.sum(axis), expected)
    parts = sum(trace.waiting_for((c,)).total_wait_ns for c in trace.callsites["callsite"])
    assert np.array_equal(parts, found.total_wait_ns)


def test_a_late_rank_is_a_column(tmp_path: Path) -> None:
    synthetic = Synthetic(4)
    arrivals = np.arange(1, 11)[:, None] * 10 * MS + np.array([0, 0, 2 * MS, 0])
    synthetic.add_collective("barrier", arrivals, arrivals.max(1, keepdims=True) + 0 * arrivals)
    matrix = mpiprof.open(synthetic.write(tmp_path)).waiting_for().total_wait_ns
    expected = np.zeros((4, 4))
    expected[[0, 1, 3], 2] = 10 * 2 * MS
    assert np.array_equal(matrix, expected)
