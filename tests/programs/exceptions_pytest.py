"""Tests for pytest: only `test_fails_alone` fails, on the last rank."""

from __future__ import annotations

import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD


def check_shape(number: int) -> None:
    raise ValueError(f"bad shape {number}")


def test_an_exception_is_caught() -> None:
    with pytest.raises(ValueError, match="bad"):
        check_shape(1)


@pytest.mark.xfail
def test_an_exception_is_expected() -> None:
    check_shape(2)


def test_skips() -> None:
    pytest.skip("nothing to test")


def test_fails_alone() -> None:
    if comm.rank == comm.size - 1:
        check_shape(3)
    comm.Barrier()


def test_all_meet() -> None:
    comm.Barrier()
