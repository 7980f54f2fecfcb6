"""What Measure gives of instances: which call site they are of, and a row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mpiprof.analysis.operations import Volume
from mpiprof.analysis.waits import Group
from mpiprof.trace.types import Bool, Float, Int


@dataclass(frozen=True)
class Signature:
    """What instances with equal shapes have in common; `present`: rows that took part."""

    callsite: int
    algorithm: int
    base: str
    state: str | None
    group: Group
    present: Bool
    comparable: bool  # all members are known and call the same operation
    sent: Int
    received: Int
    peers: Float
    volume: Volume
    message_time: float


@dataclass(frozen=True)
class CallsiteKey:
    """What makes a call site: the operation and the sites of all ranks.

    started: its instances are starts of a persistent operation, whose init `operation` names.
    """

    operation: str
    sites: frozenset[int]
    started: bool


@dataclass
class Rows:
    """One value an instance; NaN (or -1 for ranks and times) where it is not defined."""

    callsite: Int
    algorithm: Int
    complete: Bool
    left: Bool  # by a rank at least: those started count, though nobody has completed them
    arrived: Bool  # all members came, so that imbalance is defined
    first_arrival: Int
    last_arrival: Int
    first_rank: Int
    last_rank: Int
    average_imbalance: Float
    worst_imbalance: Float
    message_bytes: Float
    message_time: Float
    average_factor: Float
    worst_factor: Float
    exit_imbalance: Float  # last less first exit of a complete instance
    exit_factor: Float
    elapsed: Float  # sum over ranks of what is closed
    mean_elapsed: Float
    waits: dict[str, Float]  # by wait state, of complete instances; absent: 0 everywhere
    wait: Float
    skew: Float
    last_exit: Int
    bytes: Float
    bytes_min: Float
    bytes_max: Float


def empty_rows(n: int) -> Rows:
    """Return rows of so many instances of which nothing is known yet."""
    unknown: dict[str, Callable[[], Any]] = {
        "Int": lambda: np.full(n, -1, np.int64),
        "Float": lambda: np.full(n, np.nan),
        "Bool": lambda: np.zeros(n, np.bool_),
    }
    return Rows(**{one.name: unknown.get(str(one.type), dict)() for one in fields(Rows)})
