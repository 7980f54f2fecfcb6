"""Results of account/instance_metrics.py: the signature and row of each instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mpiprof.account.message_volume import Volume
from mpiprof.account.wait_states import Group
from mpiprof.trace.types import Bool, Float, Int


@dataclass(frozen=True)
class Signature:
    """Common properties of instances with equal shapes; `present` marks rows that took part."""

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

    @property
    def is_whole(self) -> bool:
        """Return whether all members took part, and called the same operation."""
        return self.comparable and bool(self.present.all())


@dataclass(frozen=True)
class CallsiteKey:
    """Identity of a call site: the operation and the sites of all ranks."""

    operation: str
    sites: frozenset[int]
    started: bool  # its instances are starts of a persistent operation; `operation` is the init


@dataclass
class Rows:
    """One value per instance; NaN (-1 for ranks and times) if undefined."""

    callsite: Int
    algorithm: Int
    complete: Bool
    left: Bool  # by at least one rank; started operations count without completion
    arrived: Bool  # all members arrived, so imbalance is defined
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
    exit_imbalance: Float  # last exit minus first exit of a complete instance
    exit_factor: Float
    elapsed: Float  # sum over ranks with closed calls
    mean_elapsed: Float
    waits: dict[str, Float]  # by wait state, of complete instances; an absent state is 0
    wait: Float
    skew: Float
    last_exit: Int
    bytes: Float
    bytes_min: Float
    bytes_max: Float

    def wait_in(self, state: str) -> Float:
        """Return the wait in one wait state; NaN unless complete."""
        values = self.waits.get(state, np.zeros(len(self.complete)))
        return np.where(self.complete, values, np.nan)


def make_empty_rows(n: int) -> Rows:
    """Return rows for `n` instances with all values unknown."""
    unknown: dict[str, Callable[[], Any]] = {
        "Int": lambda: np.full(n, -1, np.int64),
        "Float": lambda: np.full(n, np.nan),
        "Bool": lambda: np.zeros(n, np.bool_),
    }
    return Rows(**{field.name: unknown.get(str(field.type), dict)() for field in fields(Rows)})
