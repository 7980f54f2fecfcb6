"""Coverage: the stretch of a run that its logs contain, if logs are rings or reached their limit.

Totals of all other calls are in the summary. Nothing is extrapolated from the recorded stretch.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.trace.trace import Trace

LOST_REASON = "later records could not be written"


@dataclass(frozen=True)
class Coverage:
    """The recorded stretch of a run: `recorded_ns` from `since_ns` after its start."""

    # The option that limits it, "--record ring" (the last calls) or "--limit" (the first calls), or
    # LOST_REASON (the first calls, because later ones could not be written).
    reason: str
    since_ns: int
    recorded_ns: int
    instances: int  # recorded ones
    # All instances. None if unknown, because totals exclude starts of persistent operations, and
    # records past a limit count calls.
    total: int | None
    first: tuple[int | None, ...]  # number of each call site's first recorded instance, if known


def find_coverage(trace: Trace) -> Coverage | None:
    """Return the coverage if rings have wrapped or logs ended early, or None if all is recorded."""
    limited = trace.complete_until_ns is not None and trace.record != "summary"
    if not (trace.wrapped_chunks or limited):
        return None
    sums, keys = trace.aggregate
    vectors = sums.take_sums(len(keys))
    recorded = int(vectors["instances"].sum())
    if not trace.wrapped_chunks:
        why = "--limit" if trace.tables.limits else LOST_REASON
        return Coverage(why, 0, trace.duration_ns, recorded, None, (0,) * len(keys))
    totals = _total_instances(trace)
    # A call site's first number is unknown for starts of persistent operations, and if ranks reach
    # its instances from several sites in varying combinations, which totals do not resolve.
    first: list[int | None] = []
    for key, exited_count in zip(keys, vectors["left"].tolist(), strict=True):
        count = None if key.started else totals.get((key.operation, key.sites))
        # A process may be killed between the end of a call and the update of its totals.
        first.append(None if count is None else max(count - int(exited_count), 0))
    started = any(key.started for key in keys)
    total = None if started else max(sum(totals.values()), recorded)
    since = trace.calls_start_ns - trace.run_start_ns
    return Coverage("--record ring", since, trace.duration_ns, recorded, total, tuple(first))


def _total_instances(trace: Trace) -> dict[tuple[str, frozenset[int]], int]:
    """Return the total number of instances of each call site of the summary."""
    # On each communicator this is the number of calls of its busiest rank. Each rank takes part in
    # all instances, and a killed rank may lack the last one.
    totals: dict[tuple[str, frozenset[int]], int] = {}
    for _, rows in trace.summary.groupby("callsite"):
        key = (str(rows["operation"].iloc[0]), frozenset(map(int, rows["site_id"])))
        per_rank = rows[rows["size"] > 1].groupby(["communicator", "rank"])["calls"].sum()
        totals[key] = int(per_rank.groupby(level=0).max().sum())
    return totals


def first_recorded(trace: Trace, callsite: int) -> int:
    """Return the number of a call site's first recorded instance; 0 if unknown."""
    coverage: Coverage | None = trace.derive("coverage")
    first = None if coverage is None else coverage.first[callsite]
    return first or 0
