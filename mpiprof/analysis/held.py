"""What is held of a run whose logs are rings or have reached their limit.

The totals of the other calls are the summary's; nothing is extrapolated from what is held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.trace import Trace

LOST = "later records could not be written"


@dataclass(frozen=True)
class Held:
    """The part of a run that is held; since_ns after its start, for held_ns.

    why: the option, "--record ring" (the last calls) or "--limit" (the first), or LOST (the first,
    as later ones could not be written). instances of `total` in all (None: what ranks started from
    persistent operations is not in the totals, and those past a limit are calls); first: the number
    of each call site's first instance, None unknown.
    """

    why: str
    since_ns: int
    held_ns: int
    instances: int
    total: int | None
    first: tuple[int | None, ...]


def held(trace: Trace) -> Held | None:
    """Return what is held where rings have turned, or logs ended early; None where all is.

    A call site's number is unknown where ranks reach its instances from several places in several
    ways, so that the totals of these places don't tell, and of starts of persistent operations.
    """
    limited = trace.held_until_ns is not None and trace.record != "summary"
    if not (trace.turned or limited):
        return None
    sums, keys = trace.aggregate
    sums.sums.grow(len(keys))
    here = sums.sums["instances"][: len(keys)].astype(np.int64)
    if not trace.turned:
        why = "--limit" if trace.tables.limits else LOST
        return Held(why, 0, trace.duration_ns, int(here.sum()), None, (0,) * len(keys))
    left = sums.sums["left"][: len(keys)].astype(np.int64)
    totals = _totals(trace)
    first: list[int | None] = []
    for number, key in enumerate(keys):
        total = None if key.started else totals.get((key.operation, key.sites))
        # A kill may come between a call's end and its totals.
        first.append(None if total is None else max(total - int(left[number]), 0))
    started = any(key.started for key in keys)
    return Held(
        "--record ring",
        trace.started_ns - trace.run_started_ns,
        trace.duration_ns,
        int(here.sum()),
        None if started else max(sum(totals.values()), int(here.sum())),
        tuple(first),
    )


def _totals(trace: Trace) -> dict[tuple[str, frozenset[int]], int]:
    """Return how many instances each call site of the summary has in all.

    On a communicator as many as its busiest rank has made there: each makes all of them, and one
    that was killed may lack the last.
    """
    found: dict[tuple[str, frozenset[int]], int] = {}
    for _, rows in trace.summary.groupby("callsite"):
        key = (str(rows["operation"].iloc[0]), frozenset(map(int, rows["site_id"])))
        per_rank = rows.groupby(["communicator", "rank"])["calls"].sum()
        found[key] = int(per_rank.groupby(level=0).max().sum())
    return found


def first_number(trace: Trace, callsite: int) -> int:
    """Return the number of a call site's first instance that is held; 0 where it is unknown."""
    found: Held | None = trace.derive("held")
    first = None if found is None else found.first[callsite]
    return first or 0
