"""Ranks that stay in calls on windows or communicators: `status` names the function."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.faults import Case
from support.fault_programs import watch
from support.mpis import Mpi

FUNCTIONS = {
    "win_wait": {"MPI_Win_wait"},
    "win_start": {"MPI_Win_start", "MPI_Put", "MPI_Win_complete"},  # as the library chooses
    "win_unlock": {"MPI_Win_lock", "MPI_Put", "MPI_Win_unlock"},
    "comm_create_group": {"MPI_Comm_create_group"},
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_function_of_a_blocked_rank_is_named_on_3_ranks(
    function: str, openmpi: Mpi, tmp_path: Path
) -> None:
    """Rank 1 is in the call, rank 0 sleeps, rank 2 waits in a barrier."""
    case = Case(function, "", 3, 1)
    last = watch(case, openmpi, tmp_path, "hang_local_calls.c")[-1]
    assert (last["class"], last["odd_ranks"]) == ("blocked", [1]), last["text"]
    text = last["text"]
    assert any(f"Rank 1 has been in {name} " in text for name in FUNCTIONS[function]), text
    assert "Rank 2 has waited" in text and "Rank 0 is outside MPI, last seen after barrier" in text
