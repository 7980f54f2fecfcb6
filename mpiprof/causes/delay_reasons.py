"""Reason of a delay: what a thread did in its intervals that others did not do in theirs.

Each interval is divided into parts that add up to its length: on the processor, in the run queue,
and neither. Garbage collection, page faults, calls that are not recorded, throttling and the work
of other threads are parts of these. A reason's share of the delay is the difference of the mean
parts.

On a busy machine all threads wait for processors, for a time that grows with their processor time.
This common time is added to the reasons for more processor time. Only a thread that waits longer
than that is preempted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.collective_waits import MIN_INSIDE_NS as MIN_INTERVAL_NS
from mpiprof.trace.types import Bool, Float

MORE_WORK = "more work"  # more instructions, or more processor time without counts of them
SLOWER_PROCESSOR = "slower processor"  # equal instructions, fewer per second
PREEMPTED = "preempted"  # ready to run for longer than the others, per processor time
THROTTLED = "throttled"  # stopped by the quota of its control group
OTHER_THREADS = "other threads"  # off the processor while another thread of the process runs
BLOCKED = "blocked"  # waiting for sleep, files, locks: neither running nor ready
PAGE_FAULTS = "page faults"
MOVED = "moved between processors"
GARBAGE_COLLECTION = "garbage collection"
UNTRACKED_CALLS = "untracked calls"  # one-sided and file calls of MPI
UNKNOWN = "unknown"
PROCESSOR_REASONS = (SLOWER_PROCESSOR, PREEMPTED, THROTTLED)  # not the work of the program
REASONS = (
    *(MORE_WORK, SLOWER_PROCESSOR, PREEMPTED, THROTTLED, BLOCKED, PAGE_FAULTS, MOVED),
    *(GARBAGE_COLLECTION, UNTRACKED_CALLS, OTHER_THREADS, UNKNOWN),
)

MINOR_FAULT_NS = 1000.0  # of a page fault without input, if its time was not measured
# Processor time of a fault with input, over that of one without: 28 us and 3.5 us were measured.
INPUT_FAULT_FACTOR = 8
MOVE_NS = 100_000  # largest time to refill the caches after a move to another processor
MAX_GAP = 0.5  # of an interval's length; the counters include this time before the interval
MIN_SHARE = 0.5  # of the delay, for a reason to be named
MIN_ERRORS = 3.0  # standard errors by which a named share exceeds 0
MIN_INTERVALS = 3  # with counters, to estimate a variance
# Mean length of the late intervals if no other interval is long enough to be recorded.
MIN_LENGTH_ALONE_NS = 4 * MIN_INTERVAL_NS


@dataclass(frozen=True)
class DelayReasons:
    """Shares of a delay by reason: nonnegative, in ns, with the sum `excess_ns`.

    excess_ns: sum of the late intervals minus as many mean reference intervals; 0 if negative.
    errors_ns: standard error of each share. counts_instructions: whether instructions are known,
    without which a slower processor counts as more work. contention: time in the run queue per
    processor time in the reference intervals, by which more work takes longer on a busy machine.
    """

    excess_ns: float
    shares_ns: dict[str, float]
    errors_ns: dict[str, float]
    counts_instructions: bool
    contention: float


def explain_delay(
    late: pd.DataFrame,
    reference: pd.DataFrame,
    fault_ns: float | None = None,
    stretches: Mapping[int, float] | None = None,
) -> DelayReasons:
    """Return the reasons for which the late intervals are longer than the reference intervals.

    late: rows of `trace.intervals` of the late rank between two call sites. reference: rows between
    the same call sites of other ranks, or of the same rank at other times. Without such rows, the
    other intervals are too short to be recorded, and all of a much longer interval is the delay.
    fault_ns: `trace.page_fault_ns`. stretches: of the other threads of each rank: the time in which
    they run or are ready to run, per processor time (thread_times.py); 1 if it is unknown.
    """
    late, reference = (_stretch_threads(rows, stretches or {}) for rows in (late, reference))
    contention = _queue_per_processor_time(reference)
    fault_ns = MINOR_FAULT_NS if fault_ns is None else fault_ns
    late_parts, late_known = _divide(late, contention, fault_ns)
    parts, is_known = _divide(reference, contention, fault_ns)
    lengths = (late["end_ns"] - late["begin_ns"]).to_numpy(np.float64)
    usual = float((reference["end_ns"] - reference["begin_ns"]).mean()) if len(reference) else 0.0
    excess = float(lengths.sum() - len(late) * usual)
    is_alone = not len(reference) and float(lengths.sum()) >= MIN_LENGTH_ALONE_NS * len(late)
    if excess <= 0 or not late_known.any() or not (is_alone or is_known.sum() >= MIN_INTERVALS):
        return _unknown_delay(max(excess, 0.0), contention)
    late_parts, parts = late_parts[late_known], parts[is_known]
    count, usual_parts = len(late_parts), parts.mean().fillna(0.0)
    shares = (late_parts.mean() - usual_parts) * count
    errors = _standard_errors(late_parts, parts)
    counts_instructions = "instructions" in late_parts and "instructions" in parts
    shares = _divide_work(shares, late_parts.mean(), usual_parts, count, counts_instructions)
    # Intervals without counters, and other reference intervals than those with counters.
    shares[UNKNOWN] = excess - shares[[name for name in REASONS if name in shares]].sum()
    work_error = errors[MORE_WORK]
    return DelayReasons(
        excess,
        _scale_to(shares.reindex(REASONS, fill_value=0.0), excess),
        {name: float(errors.get(name, work_error)) for name in REASONS},
        counts_instructions,
        contention,
    )


def join_reasons(parts: Sequence[DelayReasons]) -> DelayReasons:
    """Return the reasons of a delay from those of the windows of the run."""
    excess = [part.excess_ns for part in parts]
    shares, errors = (
        pd.DataFrame([getattr(part, name) for part in parts]) for name in ("shares_ns", "errors_ns")
    )
    return DelayReasons(
        sum(excess),
        {str(name): float(ns) for name, ns in shares.sum().items()},
        {str(name): float(ns) for name, ns in ((errors**2).sum() ** 0.5).items()},
        all(part.counts_instructions for part in parts),
        float(
            np.average([part.contention for part in parts], weights=excess if any(excess) else None)
        ),
    )


def find_largest_reason(reasons: DelayReasons) -> str | None:
    """Return the largest reason, or None if none is certain.

    A reason is certain if its share is at least half of the delay, and exceeds 0 by 3 standard
    errors.
    """
    name, share = max(reasons.shares_ns.items(), key=lambda item: item[1])
    if share < MIN_SHARE * reasons.excess_ns or share <= MIN_ERRORS * reasons.errors_ns[name]:
        return None
    return name if share > 0 and name != UNKNOWN else None


def _stretch_threads(intervals: pd.DataFrame, stretches: Mapping[int, float]) -> pd.DataFrame:
    """Return intervals in which the time of other threads includes their time in the run queue."""
    rank = intervals["rank"].to_numpy(np.int64)
    factors = np.ones(max(int(rank.max(initial=0)), *stretches, 0) + 1)
    factors[list(stretches)] = list(stretches.values())
    return intervals.assign(other_threads_ns=intervals["other_threads_ns"] * factors[rank])


def _queue_per_processor_time(reference: pd.DataFrame) -> float:
    known_rows = reference[(reference["processor_ns"] >= 0) & (reference["queue_ns"] >= 0)]
    return float(known_rows["queue_ns"].sum() / max(known_rows["processor_ns"].sum(), 1))


def _divide(
    intervals: pd.DataFrame, contention: float, fault_ns: float
) -> tuple[pd.DataFrame, Bool]:
    """Return the parts of each interval in ns, which add up to its length, and which are known.

    contention: usual time in the run queue per processor time. fault_ns: of a page fault without
    input. Columns: reasons, "moves" (0 or 1), and "instructions" if all intervals have them.
    """
    columns = {name: intervals[name].to_numpy(np.float64) for name in _COUNTERS}
    length = (intervals["end_ns"] - intervals["begin_ns"]).to_numpy(np.float64)
    gap = np.maximum(columns["gap_ns"], 0)
    is_known: Bool = (columns["processor_ns"] >= 0) & (columns["queue_ns"] >= 0)
    is_known &= (length > 0) & (gap <= MAX_GAP * length)
    # The counters include the gap; their values per time are assumed to be equal in it.
    scale = length / np.maximum(length + gap, 1)
    counted = {name: np.maximum(columns[name], 0) * scale for name in _EXTENSIVE}
    running = np.minimum(counted["processor_ns"], length)
    queue = np.minimum(counted["queue_ns"], length - running)
    off = length - running
    throttled = np.minimum(off, _throttled_share(columns, intervals) * length)
    remaining = 1 - throttled / np.maximum(off, 1)
    queue, blocked = queue * remaining, (off - queue) * remaining
    waits = np.maximum(np.maximum(columns["voluntary"], columns["major_faults"]), 1)
    fault_waits = blocked * np.maximum(columns["major_faults"], 0) / waits
    parts = {THROTTLED: throttled}
    states = running, queue, blocked - fault_waits
    parts |= _divide_states(counted, *states, contention, fault_ns)
    parts[PAGE_FAULTS] = parts[PAGE_FAULTS] + fault_waits
    first, last = columns["first_processor"], columns["last_processor"]
    parts["moves"] = ((first >= 0) & (last >= 0) & (first != last)).astype(np.float64)
    if is_known.any() and (columns["instructions"][is_known] > 0).all():
        parts["instructions"] = counted["instructions"]
    return pd.DataFrame(parts), is_known


def _divide_states(
    counted: dict[str, Float],
    running: Float,
    queue: Float,
    blocked: Float,
    contention: float,
    fault_ns: float,
) -> dict[str, Float]:
    """Divide the time on the processor, in the run queue and blocked among reasons.

    contention, fault_ns: as for _divide.
    """
    # Times in calls and in the garbage collector are wall times.
    untracked = np.minimum(counted["untracked_ns"], running + queue + blocked)
    untracked_ready = np.maximum(untracked - blocked, 0)
    collected = np.minimum(counted["gc_ns"], running + queue - untracked_ready)
    remaining = 1 - (untracked_ready + collected) / np.maximum(running + queue, 1)
    running, queue = running * remaining, queue * remaining
    common = np.minimum(queue, contention * running)
    stretch = 1 + common / np.maximum(running, 1)
    handled = counted["minor_faults"] + INPUT_FAULT_FACTOR * counted["major_faults"]
    faults = np.minimum(fault_ns * handled * stretch, running + common)
    blocked = blocked - (untracked - untracked_ready)
    other_threads = np.minimum(counted["other_threads_ns"], blocked)
    return {
        MORE_WORK: running + common - faults,
        PREEMPTED: queue - common,
        BLOCKED: blocked - other_threads,
        OTHER_THREADS: other_threads,
        PAGE_FAULTS: faults,
        GARBAGE_COLLECTION: collected,
        UNTRACKED_CALLS: untracked,
    }


# Counters that are sums over time.
_EXTENSIVE = (
    *("processor_ns", "queue_ns", "instructions", "minor_faults", "major_faults"),
    *("untracked_ns", "gc_ns", "other_threads_ns"),
)
_COUNTERS = (
    *("gap_ns", "processor_ns", "queue_ns", "voluntary", "instructions", "minor_faults"),
    *("major_faults", "untracked_ns", "gc_ns", "first_processor", "last_processor"),
    *("pressure_since_ns", "throttled_ns", "other_threads_ns"),
)


def _throttled_share(columns: dict[str, Float], intervals: pd.DataFrame) -> Float:
    """Return the share of the time in which the control group of each row's rank was throttled.

    It is the mean over the readings of a rank, because a reading covers many intervals.
    """
    read = (columns["throttled_ns"] >= 0) & (columns["pressure_since_ns"] >= 0)
    covered = np.where(read, intervals["end_ns"] - columns["pressure_since_ns"], 0)
    sums = pd.DataFrame({"throttled": np.where(read, columns["throttled_ns"], 0), "ns": covered})
    ranks = intervals["rank"].to_numpy()
    totals = sums.groupby(ranks).sum()
    share = (totals["throttled"] / totals["ns"].clip(lower=1)).clip(upper=1.0)
    result: Float = share.reindex(ranks).to_numpy(np.float64)
    return result


def _standard_errors(late: pd.DataFrame, reference: pd.DataFrame) -> pd.Series:
    """Return the standard error of the sum of each part's excess over all late intervals."""
    of_reference = reference.var() if len(reference) else reference.sum()
    of_late = late.var() if len(late) >= MIN_INTERVALS else of_reference
    count = len(late)
    return (count * of_late + count**2 * of_reference / max(len(reference), 1)) ** 0.5


def _divide_work(
    shares: pd.Series, late: pd.Series, usual: pd.Series, count: int, counts_instructions: bool
) -> pd.Series:
    """Divide the excess of processor time into more work, a slower processor, and moves."""
    excess = float(shares[MORE_WORK])
    work = excess
    if counts_instructions:
        pace = usual[MORE_WORK] / usual["instructions"]  # ns per instruction
        work = float((late["instructions"] - usual["instructions"]) * pace * count)
    slower = excess - work
    moves = max(float(shares["moves"]), 0.0) * MOVE_NS
    moved = min(moves, max(slower if counts_instructions else work, 0.0))
    result = shares.drop(["moves", "instructions"], errors="ignore")
    result[MOVED] = moved
    result[SLOWER_PROCESSOR] = slower - moved if counts_instructions else 0.0
    result[MORE_WORK] = work if counts_instructions else work - moved
    return result


def _scale_to(shares: pd.Series, excess: float) -> dict[str, float]:
    """Return the positive shares, scaled to the sum `excess`: negative ones made up for others."""
    positive = shares.clip(lower=0.0)
    scaled = positive * (excess / positive.sum())
    return {name: float(scaled[name]) for name in REASONS}


def _unknown_delay(excess: float, contention: float) -> DelayReasons:
    shares = dict.fromkeys(REASONS, 0.0)
    return DelayReasons(
        excess, shares | {UNKNOWN: excess}, shares, counts_instructions=False, contention=contention
    )
