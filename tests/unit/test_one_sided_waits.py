"""Wait states of calls on windows, against times by hand."""

from __future__ import annotations

import itertools

from mpiprof.account.one_sided_waits import WindowCall, find_window_waits
from mpiprof.trace.messages import EXCLUSIVE, SHARED


class Window:
    """Calls on a window, in the order of their rows."""

    def __init__(self) -> None:
        self.calls: list[WindowCall] = []
        self.rows = itertools.count()
        self.epochs: dict[tuple[int, str], int] = {}

    def add(
        self,
        rank: int,
        operation: str,
        enter: int,
        left: int,
        *,
        peer: int = -1,
        members: tuple[int, ...] = (),
        lock: int = 0,
    ) -> None:
        """Add a call."""
        key, epoch = (rank, operation), 0
        if operation in ("win_post", "win_start"):
            epoch = self.epochs[key] = self.epochs.get(key, 0) + 1
        row = next(self.rows)
        self.calls.append(
            WindowCall(row, rank, 0, operation, enter, left, peer, members, epoch, lock)
        )

    def epoch(self, rank: int, times: tuple[int, int], members: tuple[int, ...]) -> None:
        """Add an access epoch that blocks in MPI_Win_complete."""
        begin, end = times
        self.add(rank, "win_start", begin, begin + 1, members=members)
        self.add(rank, "win_complete", begin + 1, end)

    def lock(self, rank: int, times: tuple[int, int, int, int], kind: int = EXCLUSIVE) -> None:
        """Add an epoch of a lock on rank 0."""
        self.add(rank, "win_lock", times[0], times[1], peer=0, lock=kind)
        self.add(rank, "win_unlock", times[2], times[3], peer=0)

    def waits(self) -> list[tuple[int, int, str, str, int]]:
        """Return rank, awaited rank, operation, state and time of each wait, by rank and time."""
        found = sorted(find_window_waits(self.calls), key=lambda w: (w.call.rank, w.call.enter_ns))
        return [
            (w.call.rank, w.awaited, w.call.operation, w.state, w.until_ns - w.call.enter_ns)
            for w in found
        ]


def test_an_origin_waits_for_the_last_post() -> None:
    window = Window()
    window.epoch(0, (100, 950), (1, 2))
    for rank, posted in ((1, 500), (2, 900)):
        window.add(rank, "win_post", posted, posted + 1, members=(0,))
        window.add(rank, "win_wait", posted + 1, 960)
    assert window.waits() == [
        (0, 2, "win_complete", "late_post", 799),
        (1, 0, "win_wait", "late_complete", 399),  # through rank 0 until rank 2 has posted
    ]


def test_an_operation_waits_for_its_target_only() -> None:
    window = Window()
    window.add(0, "win_start", 100, 110, members=(1, 2))
    window.add(0, "put", 110, 520, peer=1)
    window.add(0, "win_complete", 520, 560)
    for rank, posted in ((1, 500), (2, 900)):
        window.add(rank, "win_post", posted, posted + 1, members=(0,))
    assert window.waits() == [(0, 1, "put", "early_transfer", 390)]


def test_a_target_waits_for_the_last_origin() -> None:
    window = Window()
    window.add(0, "win_post", 0, 5, members=(1, 2))
    window.add(0, "win_wait", 5, 710)
    for rank, completed in ((1, 300), (2, 700)):
        window.add(rank, "win_start", 20, 21, members=(0,))
        window.add(rank, "win_complete", completed, completed + 2)
    assert window.waits() == [(0, 2, "win_wait", "late_complete", 695)]


def test_epochs_of_a_pair_match_by_number() -> None:
    """Rank 0 starts an epoch with rank 2, then two with rank 1."""
    window = Window()
    window.epoch(0, (0, 10), (2,))
    window.epoch(0, (100, 310), (1,))
    window.epoch(0, (400, 420), (1,))
    window.add(1, "win_post", 300, 301, members=(0,))
    window.add(1, "win_post", 405, 406, members=(0,))
    assert window.waits() == [
        (0, 1, "win_complete", "late_post", 199),
        (0, 1, "win_complete", "late_post", 4),
    ]


def test_epochs_after_a_missing_record_are_not_matched() -> None:
    window = Window()
    window.epoch(0, (100, 310), (1,))
    window.epochs[1, "win_post"] = 1  # the first post is not recorded
    window.add(1, "win_post", 300, 301, members=(0,))
    assert window.waits() == []


def test_ranks_wait_for_the_holder_of_an_exclusive_lock() -> None:
    """Each rank waits for the one before it in the queue."""
    window = Window()
    window.lock(1, (0, 1, 500, 501))
    window.lock(2, (100, 502, 700, 701))
    window.lock(3, (200, 702, 703, 704))
    assert window.waits() == [
        (2, 1, "win_lock", "lock_contention", 400),
        (3, 2, "win_lock", "lock_contention", 500),
    ]


def test_shared_locks_do_not_exclude_each_other() -> None:
    window = Window()
    window.lock(1, (0, 1, 500, 501), SHARED)
    window.lock(2, (100, 600, 700, 701), SHARED)
    window.lock(3, (200, 702, 703, 704))
    assert window.waits() == [(3, 2, "win_lock", "lock_contention", 500)]


def test_a_lock_may_be_acquired_in_unlock() -> None:
    """Both unlocks block. Rank 2 obtains the lock when rank 1 has it no more."""
    window = Window()
    window.lock(3, (0, 1, 800, 801))
    window.lock(1, (100, 101, 110, 810))
    window.lock(2, (100, 101, 120, 820))
    assert window.waits() == [
        (1, 3, "win_unlock", "lock_contention", 690),
        (2, 1, "win_unlock", "lock_contention", 690),
    ]


def test_the_holder_does_not_wait_for_the_next_rank() -> None:
    """MPI_Win_unlock of rank 1 returns after that of rank 2, which got the lock later."""
    window = Window()
    window.lock(1, (0, 1, 500, 900))
    window.lock(2, (100, 502, 700, 701))
    assert window.waits() == [(2, 1, "win_lock", "lock_contention", 400)]


def test_lock_all_is_shared_on_every_target() -> None:
    window = Window()
    window.add(1, "win_lock_all", 0, 1, lock=SHARED)
    window.add(1, "win_unlock_all", 500, 502)
    window.lock(2, (100, 501, 700, 701))
    assert window.waits() == [(2, 1, "win_lock", "lock_contention", 400)]
