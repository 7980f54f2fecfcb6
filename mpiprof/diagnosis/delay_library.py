"""Passes over all waits or events of a run in C: their order is that of time, so numpy cannot.

Sources: core/python_api/{delays,replay}.c.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.interface.installation import load_library

Array = NDArray[Any]
COUNTS = ("groups", "wait_key", "stride", "origin", "reach")
# The arrays of `struct run`, in its order.
ARRAYS = {
    **dict.fromkeys(("order", "first", "member", "awaited", "since_ns", "until_ns"), np.int64),
    **dict.fromkeys(("rank", "begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("item_begin", "item_end", "item_index"), np.int64),
    "item_key": np.int32,
    **dict.fromkeys(("item_first", "cursor"), np.int64),
    "done": np.uint8,
    **dict.fromkeys(("direct", "cost", "interval_cost", "interval_direct", "rest"), np.float64),
    **dict.fromkeys(("late", "usual", "beyond"), np.float64),
    "count": np.int64,
    "used": np.int32,
}


class Run(ctypes.Structure):
    """The arrays of a run, as delays.c describes them."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in COUNTS),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


@cache
def _load_delays() -> ctypes.CDLL:
    """Return the C library of delays, loaded once."""
    loaded = load_library("libmpiprof-delays.so")
    loaded.delays_divide_costs.restype = None
    loaded.delays_divide_costs.argtypes = [ctypes.POINTER(Run)]
    loaded.replay_advance.restype = None
    loaded.replay_advance.argtypes = [ctypes.c_int64, *[ctypes.c_void_p] * 6]
    return loaded


def divide_costs(counts: dict[str, int], arrays: dict[str, Array]) -> None:
    """Divide the costs of all groups of waits among their causes.

    counts, arrays: the fields of Run without `done` and the sums by key. The results are added to
    the arrays cost, interval_cost, interval_direct and rest.
    """
    keys = counts["wait_key"] + 1
    by_key = {name: np.zeros(keys, ARRAYS[name]) for name in ("late", "usual", "beyond")}
    by_key |= {name: np.zeros(keys, ARRAYS[name]) for name in ("count", "used")}
    own = {"done": np.zeros(counts["groups"], np.uint8), **by_key}
    typed = {
        name: np.ascontiguousarray(values, ARRAYS[name]) for name, values in (arrays | own).items()
    }
    addresses = {name: values.ctypes.data for name, values in typed.items()}
    _load_delays().delays_divide_costs(ctypes.byref(Run(**counts, **addresses)))


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
    _load_delays().replay_advance(len(rank), *addresses)
    return leads
