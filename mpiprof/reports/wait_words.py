"""Words for waits in calls on messages and windows."""

from __future__ import annotations

from collections.abc import Collection

from mpiprof.diagnosis.finding import NEGLIGIBLE_SHARE
from mpiprof.metrics.message_callsite_sums import find_located_waits
from mpiprof.metrics.one_sided_waits import ONE_SIDED_STATES
from mpiprof.operations import ONE_SIDED_OPERATIONS
from mpiprof.trace import Trace

# What a rank waits for in a call on a window; {} is the awaited rank.
REASONS = {
    **dict.fromkeys(("win_start", "win_complete"), " until {} posts its window"),
    "win_wait": " until {} completes its epoch",
    **dict.fromkeys(("win_lock", "win_lock_all"), " until {} releases its lock"),
    **dict.fromkeys(("win_unlock", "win_unlock_all"), " until {} releases its lock"),
}
OTHER_REASON = " until {} lets it continue"


def name_waits(trace: Trace, rank: int | None = None) -> str:
    """Return what all ranks, or one of them, wait for outside collectives."""
    waits = find_located_waits(trace)
    if rank is not None:
        waits = waits[waits["rank"] == rank]
    of_state = waits["wait_ns"].groupby(waits["state"], observed=True).sum()
    most = of_state[of_state >= NEGLIGIBLE_SHARE * of_state.sum()]
    return name_states({str(state) for state in most.index})


def name_states(states: Collection[str]) -> str:
    """Return what ranks wait for in some wait states."""
    on_windows = [state for state in states if state in ONE_SIDED_STATES]
    if not on_windows:
        return "for messages"
    return "on windows" if len(on_windows) == len(states) else "for messages and on windows"


def split_reason(operation: str) -> tuple[str, str] | None:
    """Return the words before and after the awaited rank, None in calls on messages."""
    if operation not in ONE_SIDED_OPERATIONS:
        return None
    before, _, after = REASONS.get(operation, OTHER_REASON).partition("{}")
    return before, after
