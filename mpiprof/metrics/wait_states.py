"""Wait states: time that a rank spent in a call only because another rank had not arrived yet.

A rank waits until its earliest possible exit: the last arrival of the ranks that it waits for
(mpiprof.operations.awaited_ranks), whatever the algorithm. If mpiprof's own algorithm ran a
broadcast, reduction or similar, its schedule gives more. In a tree, a rank also waits for the inner
ranks that its data passes through.

The score of an algorithm begins at the same time. It is the time in an instance that a better
algorithm could save: the mean over ranks of exit minus earliest exit. So the score excludes waiting
for other ranks, which no algorithm can shorten. A rank that left earlier counts 0, not less,
because nobody need wait for an empty message. `tune`, the studies and the recorder
(core/selection/online/arrival.c, in whole ns) share this definition.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.model.dependence import Dependence
from mpiprof.model.schedule import Problem
from mpiprof.operations import OPERATIONS, WaitRule, awaited_ranks
from mpiprof.trace.types import Float, Int

Times = NDArray[Any]  # integers or floating-point numbers


@dataclass(frozen=True)
class Group:
    """Members of an instance, as rows, and their wait dependences."""

    rule: WaitRule
    sizes: tuple[int, int]  # of both groups of an inter-communicator, otherwise (size, 0)
    root: int = -1  # row of the root, or -1
    sources: tuple[list[int], ...] = ()  # rows that each row receives from in a process topology
    idle: tuple[int, ...] = ()  # rows that take no part (MPI_PROC_NULL)
    # Rows that each row waits for in the algorithm that ran, if more than the operation requires.
    through: Dependence | None = None

    @property
    def inter(self) -> bool:
        """Return whether both groups of an inter-communicator take part."""
        return self.sizes[1] > 0

    @cached_property
    def all_for_all(self) -> bool:
        """Return whether each row waits for all rows."""
        if self.through is not None or len(self.spans) != 1:
            return False
        _, first, last = self.spans[0]
        size = sum(self.sizes)
        return first == 0 and len(last) == size and bool((last == size - 1).all())

    @cached_property
    def spans(self) -> list[tuple[slice, int, Int]]:
        """Consecutive rows that wait, and the rows they await: the first, and the last of each."""
        waiting: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for row in range(sum(self.sizes)):
            sources = self.sources[row] if self.sources else ()
            awaited = awaited_ranks(self.rule, row, self.sizes, self.root, sources)
            runs = [awaited] if isinstance(awaited, range) else [range(r, r + 1) for r in awaited]
            for run in runs:
                if run:
                    waiting[run.start].append((row, run.stop - 1))
        spans = []
        for first, pairs in waiting.items():
            rows, last = np.array(pairs).T
            edges = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
            for begin, end in pairwise(edges):
                spans.append((slice(rows[begin], rows[end - 1] + 1), first, last[begin:end]))
        return spans


def earliest_exit(arrival_ns: Times, group: Group) -> Times:
    """Return the earliest possible exit of each rank; a single row if all ranks wait for all."""
    if group.through is not None:
        return group.through.latest_awaited(arrival_ns)
    exits = arrival_ns.copy()
    for rows, first, last in group.spans:
        latest = arrival_ns[first : last.max() + 1]
        if (last != last[0]).any():
            latest = np.take(np.maximum.accumulate(latest, axis=0), last - first, axis=0)
        elif len(last) == len(latest) == len(arrival_ns):
            return np.asarray(latest.max(0))
        else:
            latest = latest.max(0)
        np.maximum(exits[rows], latest, out=exits[rows])
    return exits


def compute_waits(arrival_ns: Int, begin_ns: Int, exit_ns: Int, group: Group) -> Int:
    """Return the wait of each rank between its begin and its finish.

    If the rule is unspecified, the library synchronised all members if no rank left before the last
    arrival.
    """
    wait: Int = np.minimum(earliest_exit(arrival_ns, group), exit_ns)
    wait -= begin_ns
    np.maximum(wait, 0, out=wait)
    if group.rule is WaitRule.UNSPECIFIED:
        wait[:, exit_ns.min(0) < arrival_ns.max(0)] = 0
    return wait


def awaited_rows(arrival_ns: Int, group: Group) -> Int:
    """Return the row that each row had to wait for, or the row itself if it waits for none."""
    if group.all_for_all:
        last_row = len(arrival_ns) - 1 - arrival_ns[::-1].argmax(0)
        return np.broadcast_to(last_row, arrival_ns.shape)
    order = np.argsort(arrival_ns, axis=0, kind="stable")
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(len(order))[:, None], axis=0)
    last = np.broadcast_to(earliest_exit(position, group), position.shape)
    return np.asarray(np.take_along_axis(order, last, axis=0))


def completion_skew(begin_ns: Int, exit_ns: Int) -> Float:
    """Return time in a synchronising operation after the first exit, summed over ranks."""
    first = exit_ns.min(0)
    skew = exit_ns - np.maximum(first, begin_ns)
    np.maximum(skew, 0, out=skew)
    return np.asarray(skew.sum(0), np.float64)


def score_instances(operation: str, arrival_ns: Any, exit_ns: Any, problem: Problem) -> Float:
    """Return the score of each instance in ns.

    arrival_ns, exit_ns: ranks or ranks x instances, on one clock. Returns one value for one
    instance.
    """
    score: Float = score_parts(operation, arrival_ns, exit_ns, problem).mean(0)
    return score


def score_parts(operation: str, arrival_ns: Any, exit_ns: Any, problem: Problem) -> Float:
    """Return the contribution of each rank to the score in ns, in the shape of `exit_ns`."""
    sizes = problem.size, problem.remote_size
    group = Group(OPERATIONS[operation].wait_rule, sizes, problem.root)
    return np.asarray(np.maximum(exit_ns - earliest_exit(arrival_ns, group), 0))
