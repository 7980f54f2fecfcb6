"""Wait states of calls on windows, one row per call that waits; the definitions are Scalasca's.

- late post: MPI_Win_start or MPI_Win_complete blocks until a target has called MPI_Win_post.
- early transfer: an operation such as MPI_Put blocks until its target has called MPI_Win_post.
- late complete: MPI_Win_wait blocks, or MPI_Win_test is called in vain, until the last origin has
  called MPI_Win_complete.
- lock contention: a call in an epoch of a lock blocks until another rank has released an
  incompatible lock on the same target.

The n-th MPI_Win_post of a rank whose group contains an origin matches the n-th MPI_Win_start of
this origin whose group contains the rank. Libraries block in different calls of an epoch. A call
waits for another rank only if it began before, and ended after, the other rank let it continue.

A rank that waits in its MPI_Win_complete lets others continue only after this wait, and a rank that
waits in its MPI_Win_unlock only at the end of the call. A library may acquire a lock as late as in
MPI_Win_unlock. Then incompatible locks were held in the order in which these calls ended.

The calls that begin and end epochs are recorded whatever their length, operations if they are long.
Posts and starts have numbers. After a missing one, the epochs of its rank are not matched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.facts.operations import ONE_SIDED_OPERATIONS
from mpiprof.trace.communicators import GROUP
from mpiprof.trace.messages import EXCLUSIVE
from mpiprof.trace.trace import Trace

LATE_POST, EARLY_TRANSFER = "late_post", "early_transfer"
LATE_COMPLETE, LOCK_CONTENTION = "late_complete", "lock_contention"
ONE_SIDED_STATES = (LATE_POST, EARLY_TRANSFER, LATE_COMPLETE, LOCK_CONTENTION)
# Columns of `Trace.message_calls`: the communicator, and fields of WindowCall.
COLUMNS = (
    *("communicator", "rank", "thread", "operation", "enter_ns", "exit_ns", "peer"),
    *("epoch", "lock"),
)
WAIT_COLUMNS = ("call", "message", "rank", "awaited", "state", "begin_ns", "until_ns")
WINDOW = "win"  # origin of the entries of windows
ANY = -1  # target of calls such as MPI_Win_lock_all
LOCKS, UNLOCKS = ("win_lock", "win_lock_all"), ("win_unlock", "win_unlock_all")


@dataclass(frozen=True)
class WindowCall:
    """A closed call on a window.

    row: of `Trace.message_calls`. members: of the group of a post or start. peer: the target, ANY
    without one.
    """

    row: int
    rank: int
    thread: int
    operation: str
    enter_ns: int
    exit_ns: int
    peer: int = ANY
    members: tuple[int, ...] = ()
    epoch: int = 0
    lock: int = 0


@dataclass(frozen=True)
class OneSidedWait:
    """A call that waits until another rank lets it continue."""

    call: WindowCall
    awaited: int
    state: str
    until_ns: int


@dataclass
class Epoch:
    """The calls of a rank from its begin of an epoch to the end. is_open: the end is unknown."""

    calls: list[WindowCall] = field(default_factory=list)
    is_open: bool = True
    released_ns: int = 0  # when other ranks could continue

    @property
    def first(self) -> WindowCall:
        """The call that began the epoch."""
        return self.calls[0]

    @property
    def last(self) -> WindowCall:
        """The newest call."""
        return self.calls[-1]


def find_one_sided_waits(trace: Trace) -> pd.DataFrame:
    """Return the calls on windows that wait for another rank, by window.

    The rows are those of `Trace.message_waits`, without a message. Empty if the trace is too large
    to be analysed at once.
    """
    waits: list[OneSidedWait] = []
    if fits_in_memory(trace):
        for calls in _calls_by_window(trace).values():
            waits += find_window_waits(calls, trace.clock_error_ns)
    rows = [
        (
            wait.call.row,
            -1,
            wait.call.rank,
            wait.awaited,
            wait.state,
            wait.call.enter_ns,
            wait.until_ns,
        )
        for wait in waits
    ]
    table = pd.DataFrame(rows, columns=list(WAIT_COLUMNS))
    table = table.astype({name: np.int64 for name in WAIT_COLUMNS if name != "state"})
    return table.assign(wait_ns=table["until_ns"] - table["begin_ns"])


def find_window_waits(calls: Sequence[WindowCall], error_ns: int = 0) -> list[OneSidedWait]:
    """Return the waits in the calls on one window.

    calls: by rank, thread and time. error_ns: of the clocks.
    """
    accesses = list(_find_epochs(calls, ("win_start",), ("win_complete",)))
    exposures = list(_find_epochs(calls, ("win_post",), ("win_wait", "win_test")))
    pairs = _match_epochs(_take_numbered(accesses), _take_numbered(exposures))
    waits: list[OneSidedWait] = []
    for access in accesses:
        waits += _find_post_waits(access, pairs, error_ns)
    for exposure in exposures:
        waits += _find_complete_waits(exposure, pairs, error_ns)
    for holds in _find_holds(calls).values():
        waits += _find_lock_waits(holds, error_ns)
    return list({(wait.call.row, wait.state): wait for wait in waits}.values())


# ---- calls and epochs


def _calls_by_window(trace: Trace) -> dict[str, list[WindowCall]]:
    """Return the closed calls of each window, by the identity of the window."""
    table = trace.message_calls
    if "epoch" not in table:  # a data set of an older version
        return {}
    chosen = table["operation"].isin(ONE_SIDED_OPERATIONS) & (table["exit_ns"] > 0)
    if "polls" in table:  # not MPI_Win_test in vain
        chosen &= table["polled_ns"] != table["exit_ns"]
    rows = np.flatnonzero(chosen.to_numpy())
    columns: list[list[Any]] = [table[name].iloc[rows].tolist() for name in COLUMNS]
    communicators = trace.tables.communicators
    calls: defaultdict[str, list[WindowCall]] = defaultdict(list)
    for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        facts = dict(zip(COLUMNS, values, strict=True))
        communicator = communicators[facts.pop("communicator")]
        if communicator.is_local or communicator.origin not in (WINDOW, GROUP):
            continue
        is_group = communicator.origin == GROUP
        members = tuple(communicator.ranks.tolist()) if is_group else ()
        window = str(communicator.parent) if is_group else communicator.identity
        calls[window].append(WindowCall(row, members=members, **facts))
    return calls


def _find_epochs(
    calls: Iterable[WindowCall], begins: Sequence[str], ends: Sequence[str]
) -> Iterator[Epoch]:
    """Yield the epochs of all ranks that begin and end with certain calls.

    A rank has at most one epoch of a kind on a window and target at a time.
    """
    epochs: dict[tuple[int, int], Epoch] = {}
    for call in sorted(calls, key=lambda call: (call.rank, call.enter_ns)):
        is_lock = call.operation in (*LOCKS, *UNLOCKS)
        key = (call.rank, call.peer if is_lock else ANY)
        if call.operation in begins:
            epochs[key] = Epoch([call])
            yield epochs[key]
        elif call.operation in ends:
            if epoch := epochs.pop(key, None):
                epoch.calls.append(call)
                epoch.is_open = False
        else:
            for (rank, target), epoch in epochs.items():
                if rank == call.rank and (ANY in (target, call.peer) or target == call.peer):
                    epoch.calls.append(call)


def _take_numbered(epochs: Iterable[Epoch]) -> list[Epoch]:
    """Return the epochs of each rank up to the first that lacks a record or its group."""
    counts: Counter[int] = Counter()
    numbered, broken = [], set()
    for epoch in epochs:
        rank = epoch.first.rank
        if epoch.first.epoch == 0:  # with an empty group
            continue
        counts[rank] += 1
        if not epoch.first.members or epoch.first.epoch != counts[rank]:
            broken.add(rank)
        if rank not in broken:
            numbered.append(epoch)
    return numbered


def _match_epochs(accesses: Iterable[Epoch], exposures: Iterable[Epoch]) -> dict[int, list[Epoch]]:
    """Return the epochs of the other side for each epoch, by the row of its first call."""
    exposed: dict[tuple[int, int, int], Epoch] = {}
    for number, target, origin, epoch in _number_pairs(exposures):
        exposed[number, origin, target] = epoch
    pairs: defaultdict[int, list[Epoch]] = defaultdict(list)
    for number, origin, target, access in _number_pairs(accesses):
        if exposure := exposed.get((number, origin, target)):
            pairs[access.first.row].append(exposure)
            pairs[exposure.first.row].append(access)
    return pairs


def _number_pairs(epochs: Iterable[Epoch]) -> Iterator[tuple[int, int, int, Epoch]]:
    """Yield number, rank, member and epoch for each member of the group of each epoch."""
    counts: Counter[tuple[int, int]] = Counter()
    for epoch in epochs:
        for member in epoch.first.members:
            pair = (epoch.first.rank, member)
            counts[pair] += 1
            yield counts[pair], *pair, epoch


# ---- waits


def _make_wait(
    call: WindowCall, releases: Iterable[tuple[int, int]], state: str, error_ns: int
) -> OneSidedWait | None:
    """Return the wait of a call for the last of some releases (time, rank), None without a wait."""
    until_ns, awaited = max(releases, default=(0, -1))
    if until_ns <= call.enter_ns or until_ns > call.exit_ns + error_ns or awaited == call.rank:
        return None
    return OneSidedWait(call, awaited, state, min(until_ns, call.exit_ns))


def _find_post_waits(
    access: Epoch, pairs: dict[int, list[Epoch]], error_ns: int
) -> Iterator[OneSidedWait]:
    """Yield the waits of an origin for its targets, and note when it lets them continue."""
    posts = [(epoch.first.enter_ns, epoch.first.rank) for epoch in pairs.get(access.first.row, [])]
    access.released_ns = access.last.enter_ns
    for call in access.calls:
        is_epoch = call.operation in ("win_start", "win_complete")
        awaited = [post for post in posts if is_epoch or post[1] == call.peer]
        wait = _make_wait(call, awaited, LATE_POST if is_epoch else EARLY_TRANSFER, error_ns)
        if wait is not None:
            access.released_ns = max(access.released_ns, wait.until_ns)
            yield wait


def _find_complete_waits(
    exposure: Epoch, pairs: dict[int, list[Epoch]], error_ns: int
) -> Iterator[OneSidedWait]:
    """Yield the wait of a target for its origins."""
    origins = pairs.get(exposure.first.row, [])
    if exposure.is_open or exposure.last.operation not in ("win_wait", "win_test"):
        return
    releases = [(epoch.released_ns, epoch.first.rank) for epoch in origins if not epoch.is_open]
    wait = _make_wait(exposure.last, releases, LATE_COMPLETE, error_ns)
    if wait is not None:
        yield wait


def _find_holds(calls: Sequence[WindowCall]) -> dict[int, list[Epoch]]:
    """Return the closed epochs of locks on each target, in the order of their ends."""
    epochs = list(_find_epochs(calls, LOCKS, UNLOCKS))
    epochs = [epoch for epoch in epochs if not epoch.is_open]
    epochs.sort(key=lambda epoch: epoch.last.exit_ns)
    targets = {epoch.first.peer for epoch in epochs} - {ANY}
    return {
        target: [epoch for epoch in epochs if epoch.first.peer in (target, ANY)]
        for target in sorted(targets)
    }


def _find_lock_waits(holds: Sequence[Epoch], error_ns: int) -> Iterator[OneSidedWait]:
    """Yield the waits for locks on one target. holds: as in _find_holds."""
    ranks = len({hold.first.rank for hold in holds})
    for hold in holds:
        hold.released_ns = hold.last.enter_ns
    for index, hold in enumerate(holds):
        for call in hold.calls:
            releases = [
                (other_hold.released_ns, other_hold.first.rank)
                for other_hold in _list_beside(holds, index, ranks, call.enter_ns)
                if EXCLUSIVE in (hold.first.lock, other_hold.first.lock)
                and other_hold.released_ns <= call.exit_ns + error_ns
                and _is_before(other_hold, hold)
            ]
            wait = _make_wait(call, releases, LOCK_CONTENTION, error_ns)
            if wait is not None:
                if call is hold.last:  # which acquired the lock, and released it
                    hold.released_ns = call.exit_ns
                yield wait


def _list_beside(holds: Sequence[Epoch], index: int, ranks: int, since_ns: int) -> Iterator[Epoch]:
    """Yield the holds that end after a time, up to the next one of each rank after an index."""
    for i in range(index - 1, -1, -1):
        if holds[i].last.exit_ns <= since_ns:
            break
        yield holds[i]
    yield from holds[index + 1 : index + ranks]


def _is_before(first: Epoch, second: Epoch) -> bool:
    """Return whether a lock was held before an incompatible one.

    A call of MPI_Win_lock that lasts until the other rank ends its epoch has waited for it. Without
    such a call, a library has acquired the lock in MPI_Win_unlock.
    """
    has_second_waited = second.first.exit_ns >= first.last.enter_ns
    has_first_waited = first.first.exit_ns >= second.last.enter_ns
    if has_first_waited != has_second_waited:
        return has_second_waited
    return first.last.exit_ns < second.last.exit_ns
