"""What records refer to by number: communicators and shapes, and all tables of a trace together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpiprof.trace.types import Int


@dataclass(frozen=True)
class Communicator:
    """A communicator as all its members see it; columns of matrices follow `ranks`.

    `groups` holds the world ranks of the one group, or of the two of an inter-communicator;
    `ranks` is their concatenation. `local`: only this rank's part could be identified.
    """

    index: int
    identity: str
    groups: tuple[Int, ...]
    ranks: Int
    size: int
    local: bool
    inter: bool
    how: str
    parent: str | None

    def column(self, rank: int) -> int:
        """Column of a world rank, -1 when it is no member."""
        found = np.flatnonzero(self.ranks == rank)
        return int(found[0]) if len(found) else -1


@dataclass(frozen=True)
class Shape:
    """What calls have in common; equal on two ranks when everything here is equal.

    `root` is a world rank, -1 without a root, -2 for a process that takes no part; `sent` and
    `received` are bytes, -1 when unknown; `site` is an index into Tables.sites, -1 unknown;
    `type` and `reduction` are names of predefined ones, empty for any other.
    """

    operation: str
    communicator: int
    site: int
    root: int
    sent: int
    received: int
    algorithm: str
    flags: tuple[str, ...]
    type: str = ""
    reduction: str = ""


@dataclass
class Tables:
    """Everything the tables say, with ids that hold for all ranks.

    where: samples and their ns by rank, site left (-1: the start), site entered, and place.
    """

    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    sites: list[tuple[dict[str, Any], ...]] = field(default_factory=list)
    communicators: list[Communicator] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    like: dict[int, int] = field(default_factory=dict)  # what a window or file was made on
    sources: dict[tuple[int, int], Int] = field(default_factory=dict)
    destinations: dict[tuple[int, int], Int] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    shape_ids: dict[int, Int] = field(default_factory=dict)
    where: dict[tuple[int, int, int, int], tuple[int, int]] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)  # of a rank's log that has reached it
    limited_ns: dict[int, int] = field(default_factory=dict)  # when, on its own node's clock
    cut: bool = False

    def shape_map(self, rank: int) -> Int:
        """Array from a rank's shape id to the index in `shapes`, -1 where there is none."""
        return self.shape_ids.get(rank, np.full(1, -1, np.int64))
