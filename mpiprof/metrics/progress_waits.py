"""Waits for progress: a rank completes a collective after another rank has entered it.

Most MPI libraries pass the data of a nonblocking collective on inside MPI calls only. A rank that
computes between the start and its Wait then keeps other ranks in their Wait:

    rank 1  start ──── work ──────────── Wait ─ leaves
    rank 3  start ─ Wait ──────────────────── leaves

In a tree, a rank that forwards the data of a blocking reduction or broadcast waits for the ranks
beside it, although the operation requires no such wait.

The library's messages are not recorded, so such a wait is inferred. A rank waits for the last rank
that enters its Wait before the former leaves, if it leaves soon after that. These waits are no wait
state and no cost (wait_states.py), but they pass lateness on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.wait_states import Group, earliest_exit
from mpiprof.operations import WaitRule
from mpiprof.trace.types import Int

# Time in Wait after the other rank has entered, over the time before. In an operation that does not
# depend on the other rank, this is the probability that it enters so shortly before the end.
MAX_REST_SHARE = 0.1
MIN_BLOCKING_NS = 20_000  # minimum wait for progress in a blocking operation


@dataclass(frozen=True)
class ProgressWaits:
    """Waits for progress; row and awaited are rows, column is the instance. Times are in ns."""

    row: Int
    column: Int
    awaited: Int
    begin_ns: Int
    until_ns: Int


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
    begin_ns, exit_ns, since = (of[:, chosen] for of in (begin_ns, exit_ns, since))
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
