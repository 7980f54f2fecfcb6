"""Rows and states of the timeline: maps ranks to rows, and shapes to classes and states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mpiprof.trace import Trace
from mpiprof.trace.types import Float, Int

from .tiles import MAX_CLASSES, MAX_ROWS

COLOURS = ("operation", "algorithm", "waiting")
SORTS = ("rank", "late", "node", "nodes", "switches")  # last two: one row per node or switch
MAX_STATES = 12  # if there are more, the least frequent share one
OTHER = "other"
WAITING, NOT_WAITING = "waiting", "not waiting"  # states of colour "waiting"
MAX_NAMED_CLASSES = MAX_CLASSES - 24  # the rest is for classes that join all others of an operation


@dataclass(frozen=True)
class Classes:
    """Classes for filtering and colouring segments; `of_shape` is the class of each shape, or -1.

    Communicator -1 stands for several communicators and algorithms.
    """

    operation: list[str]
    communicator: list[int]
    algorithm: list[str]
    of_shape: Int


@dataclass(frozen=True)
class States:
    """Names of the states, and the state of each class (negative if hidden)."""

    names: list[str]
    of_class: Int


@dataclass(frozen=True)
class TimelineRows:
    """The ranks of each row, from the top, and the row of each rank (-1 if hidden).

    drawn: the rank that a row shows. It is the latest rank on average: a mean of ranks would hide
    the one that the others wait for.
    """

    ranks: list[Int]
    of_rank: Int
    drawn: Int

    @property
    def has_single_ranks(self) -> bool:
        """Return whether each row is one rank."""
        return all(len(r) == 1 for r in self.ranks)

    @cached_property
    def of_drawn(self) -> Int:
        """The row of each drawn rank; -1 for all other ranks."""
        rows = np.full(len(self.of_rank), -1, np.int64)
        rows[self.drawn] = np.arange(len(self.drawn))
        return rows


def classify_shapes(trace: Trace, calls: Int, only: Collection[int] | None = None) -> Classes:
    """Return the classes of a trace's shapes.

    calls: number on the timeline, by shape. only: communicators to include. Other shapes, and
    shapes without calls, such as calls for messages, get -1. If there are too many classes, the
    rarest are joined by operation.
    """
    keys = [
        (s.operation, s.communicator, s.algorithm.partition(":")[0]) for s in trace.tables.shapes
    ]
    called = [*(calls[: len(keys)] > 0).tolist(), *[False] * (len(keys) - len(calls))]
    shape_keys = [
        good and (only is None or key[1] in only) for key, good in zip(keys, called, strict=True)
    ]
    counts: dict[tuple[str, int, str], int] = {}
    for key, count, good in zip(keys, calls.tolist(), shape_keys, strict=False):
        if good:
            counts[key] = counts.get(key, 0) + count
    max_classes = MAX_CLASSES if len(counts) <= MAX_CLASSES else MAX_NAMED_CLASSES
    largest = set(sorted(counts, key=lambda k: -counts[k])[:max_classes])
    number: dict[tuple[str, int, str], int] = {}
    of_shape = np.full(max(len(keys), 1), -1, np.int64)
    for i, (key, good) in enumerate(zip(keys, shape_keys, strict=True)):
        if not good:
            continue
        if key not in largest:
            key = (key[0], -1, OTHER)
            if key not in number and len(number) >= MAX_CLASSES - 1:
                key = (OTHER, -1, OTHER)
        of_shape[i] = number.setdefault(key, len(number))
    return Classes([k[0] for k in number], [k[1] for k in number], [k[2] for k in number], of_shape)


def distinguishes_communicators(
    classes: Classes, communicators: Collection[int], trace: Trace
) -> bool:
    """Return whether classes distinguish these communicators' segments from all others."""
    present = {s.communicator for s in trace.tables.shapes}
    return all(c in classes.communicator for c in communicators if c in present)


def make_states(
    classes: Classes,
    colour: str,
    communicators: Collection[int] | None,
    operations: Collection[str],
) -> States:
    """Return the states of a colour, for the classes that pass the filters."""
    passing = [
        (communicators is None or c in communicators) and (not operations or o in operations)
        for c, o in zip(classes.communicator, classes.operation, strict=True)
    ]
    if colour == "waiting":
        return States([WAITING, NOT_WAITING], np.array(passing, np.int64) - 1)
    values = classes.algorithm if colour == "algorithm" else classes.operation
    names = list(dict.fromkeys(values))
    if len(names) > MAX_STATES:
        names = [*names[: MAX_STATES - 1], OTHER]
    number = {name: i for i, name in enumerate(names)}
    of_class = [
        number.get(value, len(names) - 1) if good else -1
        for value, good in zip(values, passing, strict=True)
    ]
    return States(names, np.array(of_class, np.int64))


def sort_ranks(trace: Trace, ranks: Int, sort: str, lateness: Float) -> Int:
    """Return ranks in display order."""
    if sort == "late":
        late = np.nan_to_num(lateness[ranks], nan=-np.inf)
        return ranks[np.argsort(-late, kind="stable")]
    if len(ranks) and (group_of := sort_groups(trace, sort)) is not None:
        position = {group: i for i, group in enumerate(dict.fromkeys(group_of.values()))}
        group_position = np.array(
            [position.get(group_of.get(r, ""), len(position)) for r in ranks.tolist()]
        )
        return ranks[np.argsort(group_position, kind="stable")]
    return ranks


def sort_groups(trace: Trace, sort: str) -> dict[int, str] | None:
    """Return the node or switch of each rank for sorting, or None for other sort orders."""
    if sort == "switches":
        return trace.switches
    return trace.node_ids if sort in ("node", "nodes") else None


def make_rows(trace: Trace, ranks: Int, lateness: Float, sort: str = SORTS[0]) -> TimelineRows:
    """Return one row per rank, node or switch; beyond MAX_ROWS rows, neighbours are joined.

    lateness: mean lateness of each rank, which chooses the drawn rank of a row.
    """
    edges = np.arange(len(ranks) + 1)
    if sort in ("nodes", "switches"):
        group_of = sort_groups(trace, sort) or {}
        rank_group = np.array([group_of.get(r, "") for r in ranks.tolist()])
        edges = np.flatnonzero(np.concatenate([[True], rank_group[1:] != rank_group[:-1], [True]]))
    group = 1
    while -(-(len(edges) - 1) // group) > MAX_ROWS:
        group *= 2
    starts = edges[:-1][::group]
    groups = np.split(ranks, starts[1:]) if len(ranks) else []
    of_rank = np.full(trace.ranks, -1, np.int64)
    for row, members in enumerate(groups):
        of_rank[members] = row
    late = np.nan_to_num(lateness, nan=-np.inf)
    drawn = np.array([members[late[members].argmax()] for members in groups], np.int64)
    return TimelineRows(groups, of_rank, drawn)


def label_ranks(ranks: Sequence[int] | Int) -> str:
    """Return a row's label: a rank, or the ranks of a group."""
    if len(ranks) == 1:
        return str(int(ranks[0]))
    low, high = int(min(ranks)), int(max(ranks))
    if high - low + 1 == len(ranks):
        return f"{low}–{high}"
    return f"{int(ranks[0])} +{len(ranks) - 1}"
