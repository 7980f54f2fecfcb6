"""Evaluation of max-plus systems: how leads pass from rank to rank (core/python_api/replay.c)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.launch.library import load_library

Array = NDArray[Any]


@cache
def _load_replay() -> ctypes.CDLL:
    """Return the C library of the replay, loaded once."""
    loaded = load_library("libmpiprof-replay.so")
    loaded.replay_advance.restype = None
    loaded.replay_advance.argtypes = [ctypes.c_int64, *[ctypes.c_void_p] * 6]
    return loaded


def advance_leads(
    rank: Array, dependence: Array, gap: Array, removed: Array, dependences: int, ranks: int
) -> Array:
    """Return the lead of each rank after all events.

    One value per event, in order of time: rank, dependence, gap and removed, as replay.c describes.
    dependences: their number.
    """
    if len(rank) and not 0 <= rank.min() <= rank.max() < ranks:
        raise ValueError(f"events of ranks that are not below {ranks}")
    ends, leads = np.full(dependences, np.inf), np.zeros(ranks)
    typed = zip((rank, dependence, gap, removed), (np.int32, np.int64, float, float), strict=True)
    columns = [np.ascontiguousarray(values, dtype) for values, dtype in typed]
    addresses = [array.ctypes.data for array in (*columns, ends, leads)]
    _load_replay().replay_advance(len(rank), *addresses)
    return leads
