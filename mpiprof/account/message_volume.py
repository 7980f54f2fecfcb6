"""Message sizes of each operation, and the time of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.collectives.machine import find_pace
from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.types import Array, Float, Int


@dataclass(frozen=True)
class Volume:
    """Bytes of instances; NaN if unknown."""

    bytes: Float  # sent by each rank (ranks, or ranks x instances)
    message: Float  # size of the message of time T (one value, or one per instance)


def volume(base: str, sent: Array, received: Array, root: int, peers: Float) -> Volume:
    """Return the bytes that ranks send and the message size, from the recorded bytes.

    sent, received: bytes, ranks first (ranks, or ranks x instances), -1 if unknown. root: row of
    the root, or -1. peers: in an all-to-all, number of ranks that each rank sends to, including
    itself.
    """
    nan = np.nan
    s = np.where(sent >= 0, sent, nan).astype(np.float64)
    r = np.where(received >= 0, received, nan).astype(np.float64)
    if base == "barrier" or base in MANAGEMENT_COLLECTIVES:
        return Volume(np.zeros_like(s), np.zeros(s.shape[1:]))
    if base == "bcast":
        vector = np.fmax.reduce(np.fmax(s, r), axis=0)
        return Volume(np.broadcast_to(vector, s.shape), vector)
    if base in ("scatter", "scatterv"):
        return _scatter(s, r, root)
    if base in ("alltoall", "alltoallv", "alltoallw") or base.startswith("neighbor_alltoall"):
        messages = float(peers.sum())
        return Volume(s, s.sum(0) / messages if messages else column_means(s))
    return Volume(s, column_means(s))


def _scatter(s: Float, r: Float, root: int) -> Volume:
    """Return each rank's share. The root's share is the whole minus the other ranks' shares."""
    share = r.copy()
    if root >= 0:
        root_bytes = s[root]
        other_shares = np.nansum(np.delete(r, root, 0), 0)
        is_known = ~np.isnan(root_bytes) & ~np.isnan(np.delete(r, root, 0)).any(0)
        share[root] = np.where(is_known, np.maximum(root_bytes - other_shares, 0), r[root])
        message = np.where(np.isnan(root_bytes), column_means(share), root_bytes / len(s))
    else:
        message = column_means(share)
    return Volume(share, message)


def column_means(values: Float) -> Float:
    """Return the mean of the known values of each column; NaN for a column without values."""
    is_known = ~np.isnan(values)
    count = is_known.sum(0)
    total = np.where(is_known, values, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def message_time(
    machine: object, nodes: Mapping[int, str], communicator: Communicator, size: Float
) -> Float:
    """Return T(m) in ns for message sizes in bytes, from the machine table; NaN without a table.

    nodes: node of each world rank.
    """
    if not isinstance(machine, Mapping):
        return np.full(np.shape(size), np.nan)
    between = len({nodes.get(rank) for rank in communicator.ranks.tolist()}) > 1
    return message_time_on_link(choose_link(machine, between=between), size)


def choose_link(machine: Mapping[str, Any], *, between: bool) -> Any:
    """Return the link of a machine table that applies within a node or between nodes."""
    return (machine.get("between") if between else None) or machine.get("within")


def message_time_on_link(link: object, size: Float) -> Float:
    """Return T(m) in ns for message sizes in bytes on a link; NaN if it has no measured times.

    T is linear between measured sizes. Beyond the last size, bytes take the link's pace.
    """
    unknown: Float = np.full(np.shape(size), np.nan)
    if not isinstance(link, Mapping):
        return unknown
    try:
        sizes = np.array(link["sizes"], np.float64)
        times = np.array(link["one_way_ns"], np.float64)
        per_byte = find_pace(link)
    except (KeyError, TypeError, ValueError):
        return unknown
    good = sizes.ndim == 1 and sizes.shape == times.shape and len(sizes) > 0
    if not good or not (np.diff(sizes) > 0).all() or not (times > 0).all():
        return unknown
    beyond = np.maximum(size - sizes[-1], 0.0) * per_byte
    return np.where(np.isnan(size), np.nan, np.interp(size, sizes, times) + beyond)


def count_peers(
    base: str, communicator: Communicator, destinations: Mapping[tuple[int, int], Int]
) -> Float:
    """Return the number of ranks each row sends to: the (remote) group, or its `destinations`."""
    if base.startswith("neighbor"):
        keys = [(communicator.index, rank) for rank in communicator.ranks.tolist()]
        return np.array([len(destinations.get(key, ())) for key in keys], np.float64)
    lengths = [len(group) for group in communicator.groups]
    sizes = [communicator.size] if communicator.is_local else lengths[::-1]
    return np.repeat(np.array(sizes, np.float64), lengths)
