"""Wait states: time that a rank spent in a call only because another rank had not arrived yet.

A rank waits until its earliest possible exit: the last arrival of the ranks that it waits for
(mpiprof.facts.operations.awaited_ranks), whatever the algorithm. If mpiprof's own algorithm ran a
broadcast, reduction or similar, its schedule gives more. In a tree, a rank also waits for the inner
ranks that its data passes through.

The score of an algorithm begins at the same time. It is the time in an instance that a better
algorithm could save: the mean over ranks of exit minus earliest exit. So the score excludes waiting
for other ranks, which no algorithm can shorten. A rank that left earlier counts 0, not less,
because nobody need wait for an empty message. `tune`, the studies and the recorder
(core/selection/online/arrival.c, in whole ns) share this definition.

Most MPI libraries pass the data of a nonblocking collective on inside MPI calls only. A rank that
computes between the start and its Wait then keeps other ranks in their Wait:

    rank 1  start ──── work ──────────── Wait ─ leaves
    rank 3  start ─ Wait ──────────────────── leaves

In a tree, a rank that forwards the data of a blocking reduction or broadcast waits for the ranks
beside it, although the operation requires no such wait. The library's messages are not recorded, so
such a wait for progress is inferred. A rank waits for the last rank that enters its Wait before the
former leaves, if it leaves soon after that. In a nonblocking operation, this is a wait state like
the one for an arrival. The score counts it as well, because an algorithm with progress would save
it. In a blocking operation, it is no wait state and no cost, but passes lateness on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.account.problem_size import make_problem
from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.collectives.dependence import Dependence, find_dependence
from mpiprof.collectives.machine import machine_of_table
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.variant import Variant
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.facts.operations import OPERATIONS, WaitRule, awaited_ranks
from mpiprof.trace.types import Float, Int

Times = NDArray[Any]  # integers or floating-point numbers
# Time in Wait after the other rank has entered, over the time before. In an operation that does not
# depend on the other rank, this is the probability that it enters so shortly before the end.
MAX_REST_SHARE = 0.1
MIN_PENDING_NS = 1_000  # minimum wait for progress in a nonblocking operation
MIN_BLOCKING_NS = 20_000  # minimum wait for progress in a blocking operation


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

    In a nonblocking operation, ranks also wait for the progress of others.
    """
    wait = compute_arrival_waits(arrival_ns, begin_ns, exit_ns, group)
    pending = find_pending_waits(arrival_ns, begin_ns, exit_ns, group)
    cells = pending.row, pending.column
    wait[cells] = pending.until_ns - begin_ns[cells]
    return wait


def compute_arrival_waits(arrival_ns: Int, begin_ns: Int, exit_ns: Int, group: Group) -> Int:
    """Return the wait of each rank until the awaited ranks have arrived, at most until its finish.

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


@dataclass(frozen=True)
class ProgressWaits:
    """Waits for progress; row and awaited are rows, column is the instance. Times are in ns."""

    row: Int
    column: Int
    awaited: Int
    begin_ns: Int
    until_ns: Int


def find_pending_waits(arrival_ns: Int, begin_ns: Int, exit_ns: Int, group: Group) -> ProgressWaits:
    """Return the waits for progress in nonblocking operations; none in blocking ones."""
    if begin_ns is arrival_ns:
        return ProgressWaits(*[np.zeros(0, np.int64)] * 5)
    times = arrival_ns, begin_ns, exit_ns
    return find_progress_waits(*times, group, MIN_PENDING_NS, is_blocking=False)


def find_progress_waits(
    arrival_ns: Int, begin_ns: Int, exit_ns: Int, group: Group, least_ns: int, *, is_blocking: bool
) -> ProgressWaits:
    """Return the waits for progress, in instances as ranks x instances.

    arrival_ns, begin_ns, exit_ns: of the start, and of the Wait; the first two are equal in a
    blocking operation. least_ns: shorter waits are left out.
    """
    since = np.maximum(earliest_exit(arrival_ns, group), begin_ns)
    chosen = np.flatnonzero((begin_ns > arrival_ns).any(0))
    if is_blocking:
        # In other operations, all ranks wait for all ranks in any case.
        is_long = (exit_ns - since >= MIN_BLOCKING_NS).any(0)
        chosen = np.flatnonzero(is_long & (group.rule is not WaitRule.ALL_FOR_ALL))
        least_ns = max(least_ns, MIN_BLOCKING_NS)
    begin_ns, exit_ns, since = (times[:, chosen] for times in (begin_ns, exit_ns, since))
    instances = len(chosen)
    order = np.argsort(begin_ns, axis=0, kind="stable")
    entered = np.take_along_axis(begin_ns, order, axis=0)
    # Positions of times within the run, with an offset for each instance.
    origin = int(min(begin_ns.min(initial=0), exit_ns.min(initial=0)))
    stride = int(max(begin_ns.max(initial=0), exit_ns.max(initial=0))) - origin + 1
    offset = np.arange(instances) * stride - origin
    flat = (entered + offset).T.ravel()
    last = np.searchsorted(flat, (exit_ns + offset).T.ravel(), side="right") - 1
    until = (flat[last].reshape(instances, len(begin_ns)) - offset[:, None]).T
    awaited = order.T.ravel()[last].reshape(instances, len(begin_ns)).T
    wait = until - since
    is_soon = exit_ns - until <= MAX_REST_SHARE * wait
    row, column = np.nonzero((wait > least_ns) & is_soon)
    cells = row, column
    return ProgressWaits(row, chosen[column], awaited[cells], since[cells], until[cells])


def add_dependence(
    group: Group,
    base: str,
    algorithm: str,
    passed: tuple[Int, Int],
    nodes: Sequence[str],
    machine: Mapping[str, Any] | None,
) -> Group:
    """Return the group with the dependence of an mpiprof algorithm; unchanged for other algorithms.

    base: the operation. algorithm: name with parameters. passed: bytes sent and received by row, -1
    if unknown. nodes: node name by row. machine: the table whose link determined block sizes in the
    run; without it the link's times are 0.
    """
    variant = Variant.parse(algorithm)
    wanted_entry = (base, variant.name)
    entries = [entry for entry in load_catalogue() if (entry.operation, entry.name) == wanted_entry]
    if group.inter or group.root < 0 or not entries:
        return group
    if all(values.max() < 0 for values in passed):
        return group
    try:
        link = machine_of_table(machine, "the trace's machine table")
        alpha, beta = link.alpha, link.beta
    except UsageError:
        alpha = beta = 0.0
    numbers = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    problem = make_problem(base, (len(nodes), 0), group.root, *passed)
    node_of = tuple(numbers[name] for name in nodes)
    problem = replace(problem, nodes=node_of, alpha=alpha, beta=beta)
    try:
        through = find_dependence(entries[0], variant.set_parameters(problem))
        return replace(group, through=through)
    except (MpiprofError, ValueError):  # parameters of another version
        return group
