"""Planted hangs in calls on windows, files, communicators etc.: class, odd rank and function.

The program names its calls. Rank 0 sleeps in all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.faults import Case
from support.fault_programs import watch
from support.mpis import LONG_WITH_MPICH, Mpi

# Ranks 1 and 2 wait for rank 0 in a call of all members.
OF_ALL = (
    *("win_fence", "win_free", "win_create", "win_allocate", "win_allocate_shared"),
    *("win_create_dynamic", "comm_split", "comm_split_type", "comm_dup", "comm_create"),
    *("cart_create", "intercomm_merge", "file_open", "file_write_all", "file_read_at_all"),
    *("file_set_size", "file_write_ordered", "comm_spawn", "comm_accept"),
)
EPOCH = ("MPI_Win_start", "MPI_Put", "MPI_Get", "MPI_Win_complete")
LOCKED = ("MPI_Win_lock", "MPI_Put", "MPI_Win_unlock", "MPI_Win_flush")
LOCKED_ALL = ("MPI_Win_lock_all", "MPI_Put", "MPI_Win_unlock_all", "MPI_Win_flush_all")
# Rank 1 waits for rank 0 in one of these functions, as the library chooses, and rank 2 for rank 1.
ALONE = {
    "win_wait": ("MPI_Win_wait",),
    "win_start": EPOCH,
    "win_get": EPOCH,
    "win_unlock": LOCKED,
    "win_lock_shared": LOCKED,
    "win_unlock_all": LOCKED_ALL,
    "win_flush": LOCKED,
    "win_flush_all": LOCKED_ALL,
    "fetch_and_op": (*LOCKED, "MPI_Fetch_and_op"),
    "compare_and_swap": (*LOCKED, "MPI_Compare_and_swap"),
    "comm_create_group": ("MPI_Comm_create_group",),
    "comm_free": ("MPI_Comm_free",),  # in a callback that has made another call
    "comm_create_from_group": ("MPI_Comm_create_from_group",),
}
OFTEN = (
    *("win_fence", "file_write_ordered"),
    *("win_wait", "win_unlock_all", "comm_create_group", "comm_free"),
)


def names(calls: Any) -> list[Any]:
    """Return parameters, of which all but a few are long tests."""
    marks = {True: (), False: (pytest.mark.everything,)}
    return [pytest.param(name, marks=marks[name in OFTEN]) for name in calls]


def verdict(name: str, mpi: Mpi, folder: Path) -> dict[str, Any]:
    return watch(Case(name, "", 3, 1), mpi, folder, "hang_planted_calls.c")[-1]


@LONG_WITH_MPICH
@pytest.mark.parametrize("name", names(OF_ALL))
def test_the_rank_that_is_missing_in_a_call_is_named_on_3_ranks(
    name: str, mpi: Mpi, tmp_path: Path
) -> None:
    last = verdict(name, mpi, tmp_path)
    assert (last["class"], last["odd_ranks"]) == ("missing", [0]), last["text"]
    assert f" in {name} at " in last["text"], last["text"]


@pytest.mark.parametrize("name", names(ALONE))
def test_the_function_of_a_blocked_rank_is_named_on_3_ranks(
    name: str, mpi: Mpi, tmp_path: Path
) -> None:
    last = verdict(name, mpi, tmp_path)
    assert (last["class"], last["odd_ranks"]) == ("blocked", [1]), last["text"]
    text = last["text"]
    assert any(f"Rank 1 has been in {function} " in text for function in ALONE[name]), text
    assert "Rank 2 has waited" in text and "Rank 0 is outside MPI, last seen after barrier" in text


def test_a_buffer_that_is_never_flushed_is_named_on_3_ranks(mpich: Mpi, tmp_path: Path) -> None:
    """Only MPI libraries of MPI 4.1 have the function."""
    last = verdict("buffer_flush", mpich, tmp_path)
    assert (last["class"], last["odd_ranks"]) == ("blocked", [1]), last["text"]
    assert "Rank 1 has been in MPI_Buffer_flush " in last["text"], last["text"]


@pytest.mark.everything
def test_a_server_without_clients_is_named_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """MPICH has no ports here."""
    last = verdict("comm_accept_alone", openmpi, tmp_path)
    assert (last["class"], last["odd_ranks"]) == ("blocked", [1]), last["text"]
    assert "Rank 1 has been in MPI_Comm_accept " in last["text"], last["text"]


@pytest.mark.everything
def test_a_partitioned_message_that_is_never_ready_is_named_on_3_ranks(
    mpi: Mpi, tmp_path: Path
) -> None:
    last = verdict("partitioned", mpi, tmp_path)
    assert (last["class"], last["odd_ranks"]) == ("missing", [0]), last["text"]
    assert "Rank 1 has waited" in last["text"] and "precv_init at" in last["text"]


@pytest.mark.everything
@pytest.mark.parametrize("name", ["intercomm_create", "user_reduction"])
def test_no_rank_is_accused_without_evidence_on_3_ranks(
    name: str, mpi: Mpi, tmp_path: Path
) -> None:
    """The records do not show the other side's group, and which rank's reduction does not end."""
    last = verdict(name, mpi, tmp_path)
    function = name.replace("user_reduction", "allreduce")
    assert (last["class"], last["odd_ranks"]) == ("undecided", []), last["text"]
    assert f" in {function} at " in last["text"], last["text"]
