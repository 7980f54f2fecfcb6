"""Loops for `--switch auto`, with checked results: selection_loops.py WHAT [COUNT [SIGN]].

sites and sums go on after COUNT turns until the file SIGN exists.

sites    ranks reach one instance from different lines
brief    communicators that are made, used a little, and freed
threads  threads with a communicator each
abort    rank 1 aborts in instance COUNT
cut      MPI_Finalize after COUNT turns
moving   rank 0 is late, from the middle on rank 1
long     many instances of one key
sums     COUNT reductions of 256 KB
later    the same, beside a communicator that is made at some later time
rested   the same, 8 s after MPI_Init
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

WORLD: Any = MPI.COMM_WORLD
LAST = 255


def is_last(turn: int, turns: int, sign: str) -> bool:
    """Return whether rank 0 makes this turn the last one."""
    return WORLD.rank == 0 and turn + 1 >= turns and (not sign or Path(sign).exists())


def exchange(comm: Any, turn: int, length: int = 100_000) -> None:
    """One all-to-all."""
    mine = np.repeat(np.arange(comm.size) + 10 * comm.rank + turn, length).astype(np.uint8)
    theirs = np.zeros_like(mine)
    comm.Alltoall(mine, theirs)
    expected = np.repeat(10 * np.arange(comm.size) + comm.rank + turn, length).astype(np.uint8)
    assert np.array_equal(theirs, expected)


def sites(turns: int, sign: str = "") -> None:
    """Every other turn, each rank chooses one of two lines by its own number.

    The broadcast of the last turn has a value of its own.
    """
    for turn in itertools.count():
        if (WORLD.rank + turn // 3) % 2:
            exchange(WORLD, turn)
        else:
            exchange(WORLD, turn)
        data = np.full(10_000, LAST if is_last(turn, turns, sign) else turn % 200, np.uint8)
        if WORLD.rank == 0:
            WORLD.Bcast(data)
        else:
            data[:] = 0
            WORLD.Bcast(data)
        if data[0] == LAST:
            assert (data == LAST).all()
            return
        assert (data == turn % 200).all()


def brief(turns: int) -> None:
    """The parent settles on an algorithm, and its duplicates begin with that algorithm."""
    sites(100)
    for turn in range(turns):
        made = WORLD.Dup()
        assert made.allreduce(1) == made.size
        if turn % 100 == 0:
            exchange(made, turn)
        made.Free()


def threads(turns: int) -> None:
    """The same keys at once, on communicators of their own."""
    assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
    made = [WORLD.Dup() for _ in range(3)]
    failed: list[int] = []

    def work(number: int) -> None:
        try:
            for turn in range(turns):
                exchange(made[number], turn)
                # Not mpi4py's allreduce: it duplicates the communicator, holding Python's lock.
                total = np.zeros(100, np.int64)
                made[number].Allreduce(np.full(100, turn), total)
                assert (total == turn * WORLD.size).all()
        except AssertionError:
            failed.append(number)

    started = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in started:
        one.start()
    for one in started:
        one.join()
    assert not failed


def abort(turns: int) -> None:
    """Rank 1 aborts, and the other ranks wait for it."""
    for turn in range(turns + 1):
        if turn == turns and WORLD.rank == 1:
            WORLD.Abort(7)
        exchange(WORLD, turn)


def cut(turns: int) -> None:
    """A window is never full at the end."""
    for turn in range(turns):
        exchange(WORLD, turn)
        WORLD.Bcast(np.zeros(200_000, np.uint8), turn % WORLD.size)
        assert WORLD.allreduce(1) == WORLD.size


def moving(turns: int) -> None:
    """One rank comes 3 ms late, far more than the operation takes."""
    for turn in range(turns):
        if WORLD.rank == (0 if turn < turns // 2 else 1):
            time.sleep(3e-3)
        exchange(WORLD, turn)


def long(turns: int) -> None:
    """Nothing but one call site."""
    for turn in range(turns):
        exchange(WORLD, turn)


def sums(turns: int, sign: str = "") -> None:
    """Integers: their sums do not depend on the order.

    The first sum of the last turn is greater by 1.
    """
    total = np.zeros(1 << 15, np.int64)
    for turn in itertools.count():
        mine = np.arange(total.size) + turn * WORLD.rank
        mine[0] += is_last(turn, turns, sign)
        WORLD.Allreduce(mine, total)
        turns_of_all = turn * WORLD.size * (WORLD.size - 1) // 2
        last = int(total[0]) - turns_of_all
        total[0] -= last
        assert np.array_equal(total, np.arange(total.size) * WORLD.size + turns_of_all)
        if last == 1:
            return


def later(turns: int) -> None:
    """Settings made while other communicators are created must not apply to them."""
    made, request = WORLD.Idup()
    sums(turns)
    request.Wait()
    made.Free()


def rested(turns: int) -> None:
    """As in a program that reads its data first."""
    time.sleep(8)
    sums(turns)


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 100, *sys.argv[3:])
