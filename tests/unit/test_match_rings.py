"""Instances missing from some rings: lost by a ring, or never made by a rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.synthetic import Synthetic

from mpiprof.trace import Trace
from mpiprof.trace.match import Matcher
from mpiprof.trace.types import COMPLETION, Problems


def test_a_call_with_a_missing_rank_is_retained(tmp_path: Path) -> None:
    """Nonblocking calls on two communicators; rank 2's ring has lost the first call on each.

    On the first communicator it made one more call, but not the last; on the second it made no
    other.
    """
    synthetic = Synthetic(3)
    synthetic.add_communicator("seldom", [0, 1, 2])
    for rank in range(3):
        for name, numbers in (("world", range(3)), ("seldom", range(2))):
            shape = synthetic.add_shape(rank, "ibarrier", name)
            here = np.array([n for n in numbers if rank < 2 or (name, n) == ("world", 1)], np.int64)
            synthetic.add(rank, shape, here, 100 * here + 10 + rank, 100 * here + 15 + rank)
            done = here[here < 2]
            synthetic.add(rank, shape, done, 100 * done + 50, 100 * done + 60, COMPLETION)
    trace = Trace(synthetic.write(tmp_path / "t"))
    passed = {(2, 0): 1, (2, 1): 0} | {(rank, 0): 2 for rank in (0, 1)}
    tables, streams = trace.tables, {rank: trace.open_stream(rank) for rank in range(3)}
    found = [
        (batch.communicator.index, number, here)
        for batch in Matcher(
            streams, tables.communicators, tables.shapes, Problems(), passed=passed
        )
        for number, here in zip(batch.sequence.tolist(), (batch.shape >= 0).T.tolist(), strict=True)
    ]
    assert found == [
        (0, 1, [True, True, True]),
        (0, 2, [True, True, False]),
        (1, 1, [True, True, False]),
    ]
