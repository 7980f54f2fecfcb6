"""Arrival matrix: sampled arrivals of a call site, ranks x instances in the order of the run."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.diagnosis.sampling import Sample, SamplePart
from mpiprof.metrics.instance_rows import Signature
from mpiprof.metrics.wait_states import Group, awaited_rows, compute_waits
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

MAX_ARRIVALS = 1 << 20  # maximum number of cells: ranks x instances
MAX_INSTANCES = 1 << 15


@dataclass(frozen=True)
class Block:
    """Instances (columns) that the same ranks (rows) call in the same roles."""

    rows: Int
    columns: Int
    group: Group


class ArrivalMatrix(ABC):
    """Times of ranks (rows) in instances (columns) in ns; their excess over others causes waits.

    - ranks: world ranks of the rows, ascending.
    - number: number of each column's instance. first_ns: its begin.
    - arrival: the times; NaN for ranks that do not take part.
    - blocks: instances with equal ranks and roles, if the times are arrivals.
    - node: index into `nodes` for each row.
    - least_ns: the clock error, at least 1 us. Smaller differences are not significant.
    """

    arrival: Float
    blocks: Sequence[Block] = ()

    def __init__(self, trace: Trace, ranks: Int, number: Int, first_ns: Int) -> None:
        """Prepare the rows and columns; a subclass adds `arrival`."""
        self.ranks, self.number, self.first_ns = ranks, number, first_ns
        self.least_ns = max(float(trace.clock_error_ns), 1_000.0)
        self.nodes, self.node = number_nodes(trace, ranks)

    @property
    def instance_count(self) -> int:
        """Number of instances."""
        return len(self.number)

    @abstractmethod
    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns, summed over the ranks of each instance, for given times."""

    def compute_excess(self, ranks: Sequence[int], columns: Int) -> Float:
        """Return the values of some ranks beyond the median of the others in the column, else 0.

        Without ranks, or without others, all ranks are compared with the median of all.
        """
        rows = np.isin(self.ranks, ranks)
        if rows.all() or not rows.any():
            rows[:] = True
        others = self.arrival[:, columns] if rows.all() else self.arrival[np.ix_(~rows, columns)]
        cells = np.ix_(rows, columns)
        excess = np.zeros_like(self.arrival)
        excess[cells] = np.maximum(self.arrival[cells] - column_medians(others), 0.0)
        return np.nan_to_num(excess)

    def compute_caused_waits(self, mean: Float) -> Float:
        """Return the wait in ns that each row causes in rooted operations, for mean arrivals."""
        caused = np.zeros(len(mean))
        for block in self.blocks:
            if block.group.root < 0:
                continue
            at: Any = mean[block.rows][:, None]
            waited = compute_waits(at, at, np.full_like(at, np.inf), block.group)
            who = block.rows[awaited_rows(at, block.group)[:, 0]]
            np.add.at(caused, who, waited[:, 0] * len(block.columns))
        return caused


class CallsiteArrivals(ArrivalMatrix):
    """Arrivals of a call site after the first arrival of each instance, from a sample."""

    def __init__(self, trace: Trace, sample: Sample) -> None:
        parts = [part for part in sample.parts if part.signature.state and len(part.ranks) > 1]
        ranks = union_of_ranks(parts)
        first = concatenate([part.arrival_ns.min(0) for part in parts])
        order = np.argsort(first, kind="stable")
        most = min(MAX_ARRIVALS // max(len(ranks), 1), MAX_INSTANCES)
        every = max(-(-len(first) // max(most, 1)), 1)
        column_of = np.full(len(first), -1, np.int64)
        chosen = order[::every]
        column_of[chosen] = np.arange(len(chosen))
        super().__init__(trace, ranks, _instance_numbers(sample, first[chosen]), first[chosen])
        self.arrival = np.full((len(ranks), len(chosen)), np.nan)
        self.blocks = list(self._make_blocks(parts, column_of))

    def _make_blocks(self, parts: list[SamplePart], column_of: Int) -> Iterator[Block]:
        """Fill in the arrivals, and yield the blocks of instances with equal ranks and roles."""
        groups: dict[object, list[tuple[Signature, Int, Int]]] = {}
        edge = 0
        for part in parts:
            columns = column_of[edge : edge + part.arrival_ns.shape[1]]
            edge += len(columns)
            in_matrix = columns >= 0
            if not in_matrix.any():
                continue
            rows = np.searchsorted(self.ranks, part.ranks)
            arrival = part.arrival_ns[:, in_matrix]
            self.arrival[np.ix_(rows, columns[in_matrix])] = arrival - arrival.min(0)
            role = part.signature.group
            key = (part.communicator, role.rule, role.root, role.through)
            groups.setdefault(key, []).append((part.signature, rows, columns[in_matrix]))
        for of in groups.values():
            signature, rows, _ = of[0]
            columns = np.concatenate([columns for _, _, columns in of])
            yield Block(rows, columns, signature.group)

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns, summed over the ranks of each instance, for given arrivals.

        Waits follow from the operation's semantics (metrics/wait_states.py).
        """
        wait_ns = np.zeros(self.instance_count)
        for block in self.blocks:
            mine: Any = arrival[np.ix_(block.rows, block.columns)]
            forever: Any = np.full_like(mine, np.inf)  # no call ends before the last arrival
            waited = compute_waits(mine, mine, forever, block.group)
            wait_ns[block.columns] = waited.sum(0)
        return wait_ns


def column_medians(values: Float) -> Float:
    """Return the median of the known values of each column; NaN for a column without values."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about columns without values
        return np.asarray(np.nanmedian(values, 0))


def union_of_ranks(parts: Sequence[SamplePart]) -> Int:
    """Return the world ranks that take part in any of some instances, ascending."""
    return np.unique(concatenate([part.ranks for part in parts]))


def number_nodes(trace: Trace, ranks: Int) -> tuple[list[str], Int]:
    """Return the names of the nodes of some ranks, and the index of each rank's node."""
    names = [trace.node_ids.get(rank, "?") for rank in ranks.tolist()]
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(index), np.array([index[name] for name in names], np.int64)


def find_host(trace: Trace, node: str | None) -> str | None:
    """Return the host name of a node, or the node itself if it has none."""
    hosts = (p["host"] for p in trace.tables.processes.values() if p["node"] == node)
    return next(hosts, node)


def concatenate(parts: list[Int]) -> Int:
    """Return the concatenation of integer vectors; an empty vector if there are none."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _instance_numbers(sample: Sample, first: Int) -> Int:
    """Return the numbers of instances, looked up by their first arrival."""
    first_arrivals = sample.series["first_arrival_ns"].to_numpy(np.float64)
    number = sample.series["number"].to_numpy(np.int64)
    if not len(first_arrivals):
        return np.arange(len(first))
    at = np.minimum(np.searchsorted(first_arrivals, first), len(first_arrivals) - 1)
    return np.asarray(number[at])
