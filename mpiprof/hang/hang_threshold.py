"""Hang threshold: the time after which a pending instance counts as hung, and ranks to inspect.

The time comes from `--watch`, or is the default. If `--watch` has reported a hang in a terminal,
`status` reports it too, however short the limit.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from mpiprof.hang.rank_state import Instances, Pending, Positions
from mpiprof.hang.wait_graph import WAITS_FOR_MESSAGES, has_waiting_rank
from mpiprof.interface.output_files import file_mode_in, replace_file
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.files import list_files, read_content

LIMIT_FILE = ".watch"  # file with the limit, in the trace folder while `--watch` reports a hang
USUAL_FACTOR = 2  # multiple of the usual time at the call site that must pass as well
# Minimum wait in a job that ended after some calls, and multiple of the longest call or pause
# between calls.
MIN_ENDED_NS, LONGEST_FACTOR, MIN_CALLS = 2 * 10**9, 2, 8


@dataclass(frozen=True)
class HangThreshold:
    """Time after which a pending instance is more than late; both limits must be exceeded."""

    ns: int = 10 * 10**9
    times: int = 10  # multiple of its usual duration at that call site


DEFAULT_THRESHOLD = HangThreshold()


def make_threshold(limit_s: float) -> HangThreshold:
    """Return the hang threshold for a limit in seconds."""
    return HangThreshold(min(DEFAULT_THRESHOLD.ns, int(limit_s * 1e9)), USUAL_FACTOR)


def make_ended_threshold(positions: Positions) -> HangThreshold:
    """Return the hang threshold for a job that has ended, from the newest calls of its ranks.

    In an ended job, nothing shows whether a rank that had not arrived computed.
    """
    times_ns = []
    for position in positions:
        closed = [call for call in position.recent if call.exit_ns]
        times_ns += [call.exit_ns - call.enter_ns for call in closed]
        times_ns += [after.enter_ns - before.exit_ns for before, after in pairwise(closed)]
    if len(times_ns) < MIN_CALLS:
        return DEFAULT_THRESHOLD
    return HangThreshold(max(MIN_ENDED_NS, LONGEST_FACTOR * max(times_ns)), 0)


def read_threshold(folder: Path) -> HangThreshold:
    """Return the hang threshold for a trace's job."""
    try:
        (file,) = list_files(folder, LIMIT_FILE)
        return make_threshold(float(parse_json(read_content(file))["limit_s"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return DEFAULT_THRESHOLD


def store_limit(folder: Path, limit_s: float) -> None:
    """Store that `--watch` reports the job as hung."""
    with contextlib.suppress(OSError):
        replace_file(folder / LIMIT_FILE, json.dumps({"limit_s": limit_s}), file_mode_in(folder))


def has_reported_hang(folder: Path) -> bool:
    """Return whether `--watch` has reported a hang, after which no call was made."""
    return bool(list_files(folder, LIMIT_FILE))


def remove_limit(folder: Path) -> None:
    """Remove the stored limit because the job continues."""
    with contextlib.suppress(OSError):
        (folder / LIMIT_FILE).unlink(missing_ok=True)


def find_suspects(
    positions: Positions,
    pending: Instances,
    now_ns: int | None,
    threshold: HangThreshold = DEFAULT_THRESHOLD,
) -> list[int]:
    """Return the ranks to inspect, because long-pending instances wait for them."""
    if now_ns is None:
        return []
    unfinished = [p for p in positions if not p.finished]
    calls_of = ((*p.waits, *p.local_calls) for p in unfinished)
    waits = (now_ns - wait.enter_ns >= threshold.ns for calls in calls_of for wait in calls)
    if any(waits) or select_lasting(positions, pending, now_ns, threshold):
        # A rank with a free thread is included only if its threads in MPI are known.
        return [p.rank for p in unfinished if not p.open or (p.free and p.tasks)]
    calls = [p.current for p in unfinished]
    last = max((c.exit_ns or c.enter_ns if c else 0 for c in calls), default=now_ns)
    if all(p.between in WAITS_FOR_MESSAGES for p in unfinished) and now_ns - last > threshold.ns:
        return [p.rank for p in unfinished]
    return []


def _is_long(
    instance: Pending, positions: Positions, now_ns: int, threshold: HangThreshold
) -> bool:
    """Return whether an instance is pending so long that it hangs or is very slow."""
    took = [
        call.exit_ns - call.enter_ns
        for rank in instance.arrived
        for call in positions[rank].recent
        if call.exit_ns and call.operation in instance.operations and call.site in instance.sites
    ]
    usual = median(took) if took else 0
    return now_ns - instance.since_ns >= max(threshold.ns, threshold.times * usual)


def select_lasting(
    positions: Positions, pending: Instances, now_ns: int | None, threshold: HangThreshold
) -> Instances:
    """Return the instances that have long blocked ranks.

    now_ns: the present, or the time at which the job ended; None if it is unknown.
    """
    return [
        instance for instance in pending
        if has_waiting_rank(instance, positions)
        and now_ns and _is_long(instance, positions, now_ns, threshold)
    ]  # fmt: skip
