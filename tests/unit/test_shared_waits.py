"""The time of a Wait call is shared by all operations that it completed, across reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.trace import Trace
from mpiprof.trace.types import COMPLETION

US, MS = 1_000, 1_000_000
WAIT = 100 * US


def waiting(folder: Path, waits: int, each: int, extended: bool = False) -> Path:
    """Write Waits of 100 us on two ranks that complete `each` nonblocking calls or starts each."""
    synthetic = Synthetic(2)
    for rank in range(2):
        shape = synthetic.add_shape(rank, "iallreduce", "world", sent=8, received=8)
        for wait in range(waits):
            numbers, at = wait * each + np.arange(each), MS * (wait + 1)
            synthetic.add(
                rank, shape, numbers, at + np.arange(each) * 10, at + np.arange(each) * 10 + 5
            )
            for number in numbers.tolist():
                if extended:
                    synthetic.add_extension(rank, 1, 1 << 33)  # more than fits a record
                synthetic.add(rank, shape, number, at + MS // 2, at + MS // 2 + WAIT, COMPLETION)
    synthetic.ended_ns = MS * (waits + 2)
    return synthetic.write(folder)


@pytest.mark.heavy
@pytest.mark.parametrize(("waits", "each"), [(1, 1), (90, 100), (1, 9_000), (3, 9_000)])
@pytest.mark.parametrize("extended", [False, True])
def test_reported_time_does_not_exceed_the_time_of_the_call(
    tmp_path: Path, waits: int, each: int, extended: bool
) -> None:
    """Even if a Wait has more completions than one read."""
    trace = mpiprof.open(waiting(tmp_path / "t", waits, each, extended))
    spent = 2 * waits * (each * 5 + each * (WAIT // each))
    assert trace.callsites["total_elapsed_ns"].tolist() == [spent]
    assert not trace.problems


@pytest.mark.parametrize("count", [1, 2, 7, 64, 4_096])
def test_blocks_have_equal_shares(tmp_path: Path, count: int) -> None:
    stream = Trace(waiting(tmp_path / "t", 20, 13)).open_stream(0)
    shares = [block.share[block.kind == COMPLETION] for block in stream.iterate_blocks(count)
              if block.share is not None and block.kind is not None]  # fmt: skip
    assert np.concatenate(shares).tolist() == [13] * 260
