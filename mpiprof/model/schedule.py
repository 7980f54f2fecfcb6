"""The schedules of the catalogue's algorithms, as the C core generates them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mpiprof.errors import MpiprofError
from mpiprof.model.catalogue import Algorithm as Algorithm
from mpiprof.model.catalogue import catalogue as catalogue
from mpiprof.model.catalogue import find as find
from mpiprof.model.catalogue import library as _library

SEND, RECEIVE, COPY, REDUCE, BARRIER = range(5)
IN, OUT, SCRATCH = range(3)
TOKEN, REMOTE, RIGHT = 1, 2, 4
TURN_FACTS = 5  # target, bytes, source, bytes reduced, more than that
ORDERS = ("ranks", "spread", "nodes", "both")


@dataclass(frozen=True)
class Problem:
    """What an operation shall do, in bytes; `counts` and its like by rank.

    `late` is the rank that is expected to come last;
    `rows` (alltoallv) is size x size: what row's rank sends to column's.
    """

    size: int
    bytes: int = 0
    root: int = 0
    remote_size: int = 0
    remote_bytes: int = 0
    unit: int = 1
    counts: tuple[int, ...] = ()
    remote_counts: tuple[int, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    nodes: tuple[int, ...] = ()
    alpha: float = 0.0
    beta: float = 0.0
    block_size: int = 0
    order: str = "ranks"
    equal_blocks: bool = False
    late: int = 0
    first_group: bool = True


@lru_cache(maxsize=4)
def _shared(numbers: tuple[int, ...]) -> NDArray[np.int64]:
    # The same array for all ranks of one problem: p arrays of p numbers are too many.
    return np.array(numbers, np.int64)


@cache
def columns() -> tuple[str, ...]:
    """Return the names of the columns of `Schedule.steps`."""
    return tuple(_library().schedule_columns().decode().split())


@dataclass
class Schedule:
    """One rank's part in an algorithm; a resource: close it, or use it in `with`."""

    algorithm: Algorithm
    problem: Problem
    rank: int
    _handle: int = field(default=0, repr=False)
    _arrays: list[NDArray[np.int64] | NDArray[np.int32] | None] = field(
        default_factory=list, repr=False
    )

    def __post_init__(self) -> None:
        p = self.problem
        if self.algorithm.operation in ("gatherv", "scatterv") and self.rank != p.root:
            p = replace(p, bytes=p.counts[self.rank], counts=())  # all that it knows
        if p.remote_size and p.counts and not self.algorithm.needs_counts:
            p = replace(p, bytes=p.counts[self.rank], counts=())
        numbers = np.array(
            [
                p.size,
                p.remote_size,
                p.root,
                p.bytes,
                p.remote_bytes,
                p.unit,
                p.block_size,
                ORDERS.index(p.order),
                p.first_group,
                p.equal_blocks,
                p.late,
            ],
            np.int64,
        )
        sends: Sequence[int] = p.rows[self.rank] if p.rows else p.counts
        receives = [row[self.rank] for row in p.rows] if p.rows else p.remote_counts
        self._arrays = [
            numbers,
            _shared(tuple(sends)) if len(sends) else None,
            np.array(receives, np.int64) if len(receives) else None,
            np.array(p.nodes, np.int32) if p.nodes else None,
        ]
        addresses = [None if a is None else a.ctypes.data for a in self._arrays]
        self._handle = (
            _library().schedule_open(self.algorithm.index, self.rank, *addresses, p.alpha, p.beta)
            or 0
        )
        if not self._handle:
            raise MpiprofError(
                f"{self.algorithm.operation} {self.algorithm.name} does not apply to "
                f"{p.size} processes: {self.algorithm.restrictions}"
            )

    def __enter__(self) -> Schedule:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the context back."""
        if self._handle:
            _library().schedule_close(self._handle)
            self._handle = 0

    @property
    def handle(self) -> int:
        """The address that `traffic` takes."""
        return self._handle

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return int(_library().schedule_rounds(self._handle))

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return int(_library().schedule_scratch(self._handle))

    def steps(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the steps of rounds first .. last - 1, one a row; see `columns`."""
        room = 64
        while True:
            rows = np.empty((room, len(columns())), np.int64)
            count = _library().schedule_steps(self._handle, first, last, rows.ctypes.data, room)
            if count < 0:
                raise MpiprofError("no memory for the schedule's steps")
            if count <= room:
                return rows[:count]
            room = int(count)

    def by_round(self) -> Iterator[NDArray[np.int64]]:
        """Yield the steps of each round in turn."""
        rows = self.steps(0, self.rounds)
        edges = np.searchsorted(rows[:, 0], np.arange(self.rounds + 1))
        for i in range(self.rounds):
            yield rows[edges[i] : edges[i + 1]]


@cache
def _turns() -> Callable[..., bool]:
    function = _library().schedule_turns
    function.restype = ctypes.c_bool
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3]
    return cast(Callable[..., bool], function)


def turns(
    handles: NDArray[np.uint64], rounds: NDArray[np.int64], firsts: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return what each process does in a round of its own: a row of `schedule_turns` (door.c)."""
    rows = np.empty((len(handles), TURN_FACTS), np.int64)
    given = (array.ctypes.data for array in (rounds, firsts, rows))
    if not _turns()(handles.ctypes.data, len(handles), *given):
        raise MpiprofError("no memory for the schedule's steps")
    return rows


@cache
def _traffic() -> Callable[..., int]:
    function = _library().schedule_traffic
    function.restype = ctypes.c_int64
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int64,
        *[ctypes.c_int] * 2,
        *[ctypes.c_void_p] * 3,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    return cast(Callable[..., int], function)


def traffic(
    handles: NDArray[np.uint64],
    r: int,
    first: int,
    remote_first: int,
    arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]],
    balance: NDArray[np.uint64],
) -> int:
    """Fill (facts, peers, lengths) with round r of a group; see schedule_traffic in schedule.c.

    Returns how many sends there are, which may be more than there is room for.
    """
    facts, peers, lengths = (a.ctypes.data for a in arrays)
    count = _traffic()(
        handles.ctypes.data,
        len(handles),
        r,
        first,
        remote_first,
        facts,
        peers,
        lengths,
        len(arrays[1]),
        balance.ctypes.data,
    )
    if count < 0:
        raise MpiprofError("no memory for the schedule's steps")
    return int(count)
