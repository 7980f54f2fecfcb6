"""Proofs of every algorithm on many problems, and failures of intentionally broken schedules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from support.round_counts import every_size

from mpiprof.collectives.schedule import (
    OUT,
    RECEIVE,
    SEND,
    Algorithm,
    Problem,
    Schedule,
    find,
    load_catalogue,
)
from mpiprof.collectives.verify import BrokenScheduleError, verify

Spoiler = Callable[[NDArray[np.int64]], None]


def test_alltoall_costs_agree_with_the_formula() -> None:
    bruck = verify(find("alltoall", "bruck"), Problem(13, 5))
    assert (bruck.rounds, bruck.conflicts) == (4, 0)
    ring = verify(find("alltoall", "ring"), Problem(13, 5))
    assert (ring.rounds, ring.sent, ring.conflicts) == (12, 60, 0)
    simple = verify(find("alltoall", "simple"), Problem(13, 5))
    assert (simple.rounds, simple.conflicts) == (1, 1)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "algorithm",
    [a for a in load_catalogue() if a.operation == "alltoall"],
    ids=lambda a: f"{a.operation}-{a.name}",
)
@every_size
def test_alltoall(algorithm: Algorithm, sizes: list[int]) -> None:
    for size in sizes:
        if algorithm.name.startswith("pair") and size & (size - 1):
            continue
        for block in (0, 1, size - 1 if size < 34 else 2):
            verify(algorithm, Problem(size, block))


def broken(monkeypatch: pytest.MonkeyPatch, spoil: Spoiler) -> str:
    """Verify ring alltoall on 4 processes with changed steps of rank 2 in round 1."""
    honest = Schedule.read_steps

    def steps(self: Schedule, first: int, last: int) -> object:
        rows = honest(self, first, last)
        if self.rank == 2:
            spoil(rows)
        return rows

    monkeypatch.setattr(Schedule, "read_steps", steps)
    with pytest.raises(BrokenScheduleError) as error:
        verify(find("alltoall", "ring"), Problem(4, 8))
    return str(error.value)


def test_a_wrong_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == SEND), 4] = 0

    text = broken(monkeypatch, spoil)
    assert "wrong data at the end (rank 3" in text
    assert "OUT [16, 17)" in text


def test_a_short_message_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == SEND), 5] = 7

    assert "rank 2 sends 7 in round 1" in broken(monkeypatch, spoil)


def test_a_second_write_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == RECEIVE), 4] = 16

    assert "writes into OUT a second time (rank 2, round 1, OUT [16, 24))" in broken(
        monkeypatch, spoil
    )


def test_a_range_outside_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == SEND), 4] = 32

    assert "outside of IN, 32 long" in broken(monkeypatch, spoil)


def test_a_read_of_missing_data_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == SEND), 3] = OUT

    assert "reads data that was never written" in broken(monkeypatch, spoil)


def test_a_lost_partner_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(rows: NDArray[np.int64]) -> None:
        rows[(rows[:, 0] == 1) & (rows[:, 1] == SEND), 2] = 0

    assert "waits forever" in broken(monkeypatch, spoil)
