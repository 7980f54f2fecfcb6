"""Ranks that serve messages from any source, and the replay of the order in which they do so.

    clients 1 and 2   work | send to 0 | ── wait ── | recv of 0 | work with the lock | send to 0
    server 0          recv from any (1) | send to 1 | recv of 1 | recv from any (2) | send to 2 ...

A server receives the message that arrives first. Without some work of a client, its requests arrive
earlier, and the server serves them earlier. So the server's events for a message are a block (core/
python_api/services.h), and consecutive blocks change their order with the arrivals of their
messages. A block with messages of several ranks, or in a collective, keeps its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.dependences import Dependences
from mpiprof.trace.types import Float, Int

# Fields of the structs in C, in their order.
EVENTS = {
    "ranks": int,
    "first": np.int64,
    "rank": np.int32,
    "dependence": np.int64,
    **dict.fromkeys(("time_ns", "gap_ns"), np.float64),
    "other": np.int64,
    "is_from_any": np.uint8,
}
BLOCKS = {
    **dict.fromkeys(("begin", "end", "stretch", "stretch_end"), np.int64),
    **dict.fromkeys(("entry_ns", "arrival_ns"), np.float64),
    **dict.fromkeys(("beginning", "served"), np.int64),
}
STEP = np.dtype([("time_ns", "f8"), *((name, "i8") for name in ("kind", "rank", "version"))])
STATE = {
    "leads": np.float64,
    **dict.fromkeys(("at", "until", "stretch", "position", "version", "is_choosing"), np.int64),
    **dict.fromkeys(("begin_ns", "ends"), np.float64),
    **dict.fromkeys(("missing", "waiting", "next_waiting"), np.int64),
    "arrivals": np.float64,
    **dict.fromkeys(("queue", "queued"), np.int64),
    "steps": STEP,
    "count": np.int64,
}
NONE = -1  # no event, block or rank


@dataclass(frozen=True)
class Services:
    """Events of a run by rank and time, and the blocks of servers.

    first: of each rank, and the number of events. missing: number of sources of each dependence.
    """

    events: Struct
    blocks: Struct
    first: Int
    missing: Int
    block_count: int


def find_services(dependences: Dependences, order: Int, ranks: int) -> Services | None:
    """Return the blocks of servers, None without any; order: of the events, by rank and time."""
    if not dependences.from_any.any():
        return None
    rank, time_ns, dependence, gap_ns = (
        getattr(dependences, name)[order] for name in ("rank", "time_ns", "dependence", "gap_ns")
    )
    count = len(rank)
    is_source = dependence >= 0
    number = np.where(is_source, dependence, -1 - dependence)
    missing = np.bincount(number[is_source], minlength=dependences.count)
    other = _find_other_ends(number, is_source, dependences.count)
    first = np.searchsorted(rank, np.arange(ranks + 1))
    values = {"ranks": ranks, "first": first, "rank": rank, "dependence": dependence}
    values |= {"time_ns": time_ns - time_ns.min(), "gap_ns": gap_ns, "other": other}
    values |= {"is_from_any": dependences.from_any[number] & ~is_source & (other >= 0)}
    events = Struct(EVENTS, values)
    most = int(values["is_from_any"].sum())
    of_blocks: dict[str, Any] = {name: np.full(most, NONE) for name in list(BLOCKS)[:6]}
    of_blocks |= {name: np.full(count, NONE) for name in ("beginning", "served")}
    blocks, found = Struct(BLOCKS, of_blocks), np.zeros(1, np.int64)
    call_library("service_blocks_find", events, blocks, found)
    block_count = int(found[0])
    return Services(events, blocks, first, missing, block_count) if block_count else None


def advance_servers(services: Services, removed_ns: Float) -> Float | None:
    """Return the lead of each rank after all events, None if they wait for each other.

    removed_ns: work that is removed before each event.
    """
    first, ranks, blocks = services.first, len(services.first) - 1, services.block_count
    dependences = len(services.missing)
    leads, count = np.zeros(ranks), np.zeros(2, np.int64)
    names = ("position", "version", "is_choosing", "begin_ns")
    values: dict[str, Any] = {name: np.zeros(ranks) for name in names}
    values |= {"leads": leads, "at": first[:-1].copy(), "until": first[:-1].copy()}
    values |= {"stretch": np.full(ranks, NONE), "next_waiting": np.full(ranks, NONE)}
    values |= {"ends": np.full(dependences, np.inf), "missing": services.missing.copy()}
    values |= {"waiting": np.full(dependences, NONE), "arrivals": np.zeros(blocks)}
    values |= {"queue": np.zeros(blocks), "queued": np.zeros(blocks), "count": count}
    state = Struct(STATE, values | {"steps": np.zeros(blocks + 2 * ranks, STEP)})
    call_library("replay_services", services.events, services.blocks, state, removed_ns)
    return leads if count[1] == first[-1] else None


def _find_other_ends(number: Int, is_source: Int, dependences: int) -> Int:
    """Return the event at the other end of each message between two ranks, else NONE.

    number: of the dependence of each event.
    """
    ends = np.full((2, dependences), NONE)
    counts = np.zeros((2, dependences), np.int64)
    for side in (0, 1):
        events = np.flatnonzero(is_source == side)
        ends[side, number[events]] = events
        counts[side] = np.bincount(number[events], minlength=dependences)
    is_message = (counts == 1).all(0)
    other = np.where(is_source, ends[0, number], ends[1, number])
    return np.where(is_message[number], other, NONE)
