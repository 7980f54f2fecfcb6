"""The first steps of a program are complete; any collectives of all ranks show them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mpis import Mpi
from support.virtual_clock import build, record

STEPS, STEP_NS, COLLECTIVES = 24, 50_000_000, 10  # as in message_epochs_collectives.c
FIRST_NS = 120 // COLLECTIVES * STEP_NS
EPOCH_NS = 100_000_000


@pytest.mark.parametrize("communicator", ["world", "dup", "idup", "short", "cart", "self"])
def test_collectives_of_all_ranks_end_the_first_steps_on_2_ranks(
    communicator: str, mpi: Mpi, tmp_path: Path
) -> None:
    program = build(mpi, tmp_path, "message_epochs_collectives")
    trace = record(mpi, 2, program, [communicator], {"VIRTUAL_CLOCK": "virtual"})
    windows = trace.complete_windows
    assert windows is not None
    first_ns = windows[0][1] - windows[0][0]
    if communicator == "self":  # then the first steps may take 3 s
        assert len(windows) == 1 and first_ns >= STEPS * STEP_NS
    else:
        # The budget is exceeded in two epochs before the level changes.
        assert FIRST_NS <= first_ns <= FIRST_NS + 4 * EPOCH_NS < STEPS * STEP_NS
