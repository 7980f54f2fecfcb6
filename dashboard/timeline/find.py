"""Instances of the timeline: details of an instance, the next and previous one, and searching."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mpiprof.account.rank_totals import find_call
from mpiprof.account.variance_components import subtract_median_of_others
from mpiprof.trace.types import CHOICES, Array, Bool, Int

from .segments import COMPLETION, OPEN, SEGMENT
from .window import Request, ResolvedRequest, Timeline

PIECE = 1 << 16
MAX_PIECES = 64  # maximum number of pieces searched for the next instance; beyond, none is reported
MAX_FOUND = 40
BALANCED_FACTOR = 1.0  # instances with a smaller worst-case imbalance factor are balanced
MAX_TEXT = 300
MAX_MEMBERS_SHOWN = 200  # members with all details

Test = Callable[[Array], Bool]


def find_by_address(timeline: Timeline, name: str) -> int:
    """Return the number of the instance IDENTITY:SEQUENCE:START of an address, or -1."""
    identity, sequence, start = ([*name.split(":"), "0", "0"])[:3]
    if not (sequence.isdecimal() and start.isdecimal() and len(sequence + start) < 30):
        return -1
    communicators = sorted(timeline.find_communicators([identity]) or ())

    def matches(rows: Array) -> Bool:
        same: Bool = (rows["sequence"] == int(sequence)) & (rows["start"] == int(start))
        return same & np.isin(rows["communicator"], communicators)

    return _scan_instances(timeline, 0, 1, matches, 1 << 30) if communicators else -1


def make_predicate(
    timeline: Timeline, find: str, communicators: set[int] | None, operations: Any
) -> Test:
    """Return a predicate of instance rows that match a search and pass the filters."""
    kind, _, value = find.partition(":")
    sites = timeline.events.meta.get("callsites", [])
    callsites = np.array([not operations or s[0] in operations for s in sites] + [False], np.bool_)
    algorithms = np.ones(len(timeline.events.meta["algorithms"]) + 1, np.bool_)
    chosen = communicators
    if kind == "callsite":
        callsites &= np.arange(len(callsites)) == (int(value) if value.isdecimal() else -1)
    elif kind == "operation":
        callsites &= np.array([s[0] == value for s in sites] + [False], np.bool_)
    elif kind == "algorithm":
        names = timeline.events.meta["algorithms"]
        parts = [{routine.partition(":")[0] for routine in name.split("+")} for name in names]
        algorithms = np.array([value in part for part in parts] + [False], np.bool_)
    elif kind == "communicator":
        matching = timeline.find_communicators([value]) or set()
        chosen = matching if chosen is None else chosen & matching

    def test(rows: Array) -> Bool:
        good: Bool = callsites[np.minimum(rows["callsite"], len(callsites) - 1)]
        good = good & algorithms[np.minimum(rows["algorithm"], len(algorithms) - 1)]
        return good if chosen is None else good & np.isin(rows["communicator"], sorted(chosen))

    return test


def make_late_predicate(test: Test) -> Test:
    """Return a predicate of the instances among these that are not balanced."""

    def is_late(rows: Array) -> Bool:
        good: Bool = test(rows) & (rows["worst_factor"] >= BALANCED_FACTOR) & (rows["wait"] > 0)
        return good

    return is_late


def find_next(timeline: Timeline, number: int, at: int, step: int, test: Test) -> int:
    """Return the number of the next (step 1) or previous (-1) matching instance, or -1.

    The search starts at instance `number`. If `number` is negative, it starts at time `at` in ns
    after the begin.
    """
    if number < 0:
        events = timeline.events

        def first_arrival(instance: int) -> int:
            return int(events.read_instances(instance, instance + 1)["first_arrival"][0])

        instances = range(events.instances)
        number = bisect_left(instances, at + events.begin_ns, key=first_arrival)
        number -= 1 if step > 0 else 0
    return _scan_instances(timeline, number + step, step, test, MAX_PIECES)


def find_under_pointer(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, rank: int, at: int, reach: int
) -> int:
    """Return the instance that a cell of the picture shows, -1 if it shows none.

    The cell is the span of the request in the row of `rank`. It shows the drawn rank of that row,
    in the colour of one state, see `sums.dominant_states`. The instance is the one with the most
    time in that state there. If the cell is empty, the instance nearest to the time `at` counts, up
    to `reach` ns away from it. Of very many segments the first piece is read.
    """
    if not 0 <= rank < len(resolved.rows.of_rank) or resolved.rows.of_rank[rank] < 0:
        return -1
    ranks: Bool = resolved.rows.of_drawn == resolved.rows.of_rank[rank]
    base = timeline.events.begin_ns
    begin, end = (base + ns for ns in timeline.clip_request(request))

    def drawn(first: int, last: int) -> tuple[Array, dict[int, Int]]:
        none = np.zeros(0, SEGMENT), ranks
        segments, _ = next(timeline.events.read_pieces(first, last, ranks), none)
        inside = resolved.time_in_states(segments, request.colour, first, last)
        on = {
            state: ns
            for state, ns in inside.items()
            if resolved.states.names[state] not in request.off and (ns >= 0).any()
        }
        return segments, on

    segments, inside = drawn(begin, end)
    if inside:
        longest = max(inside, key=lambda state: int(np.maximum(inside[state], 0).sum()))
        matching = inside[longest] >= 0
        numbers, which = np.unique(segments["instance"][matching], return_inverse=True)
        return int(numbers[np.bincount(which, inside[longest][matching]).argmax()])
    segments, inside = drawn(base + at - reach, base + at + reach + 1)
    if not inside:
        return -1
    near = segments[np.any([ns >= 0 for ns in inside.values()], axis=0)]
    away = np.maximum(np.maximum(near["enter"] - base - at, at + base - near["exit"]), 0)
    return int(near["instance"][away.argmin()])


def _scan_instances(timeline: Timeline, start: int, step: int, test: Test, pieces: int) -> int:
    size = 256
    for _ in range(pieces):
        first, last = (start, start + size) if step > 0 else (start - size + 1, start + 1)
        rows = timeline.events.read_instances(first, last)
        if not len(rows):
            return -1
        hits = np.flatnonzero(test(rows))
        if len(hits):
            return max(first, 0) + int(hits[0] if step > 0 else hits[-1])
        start += step * size
        size = PIECE
    return -1


def describe_instance(timeline: Timeline, number: int) -> dict[str, Any]:
    """Return all details of an instance; times in ns after the begin."""
    row = timeline.events.read_instances(number, number + 1)[0]
    segments, ranks = timeline.events.read_members(number)
    base = timeline.events.begin_ns
    communicators = timeline.trace.tables.communicators
    communicator = communicators[np.clip(row["communicator"], 0, len(communicators) - 1)]
    shapes = [timeline.describe_shape(int(i)) for i in np.unique(segments["shape"]).tolist()]
    arrivals = segments["enter"][(segments["flags"] & COMPLETION) == 0]
    late = arrivals - arrivals.mean() if len(arrivals) else arrivals
    return {
        "number": number,
        "name": f"{communicator.identity}:{int(row['sequence'])}:{int(row['start'])}",
        "operation": shapes[0]["operation"] if shapes else "?",
        "callsite": int(row["callsite"]),
        "sites": sorted({s["site"] for s in shapes}),
        "communicator": timeline.communicators[communicator.index],
        "instance": int(row["number"]),
        "of": _count_instances(timeline, int(row["callsite"])),
        "sequence": int(row["sequence"]),
        "start": int(row["start"]),
        "size": communicator.size,
        "algorithms": sorted({s["algorithm"] for s in shapes}),
        "choice": CHOICES[int(row["choice"])] if 0 <= row["choice"] < len(CHOICES) else "",
        "flags": sorted({f for s in shapes for f in s["flags"]}),
        "root": shapes[0]["root"] if shapes else -1,
        "bytes": json_number(row["bytes"]),
        "first": int(row["first_arrival"]) - base,
        "last": int(row["last_arrival"]) - base if row["last_arrival"] >= 0 else None,
        "end": int(row["last_exit"]) - base if row["last_exit"] >= 0 else None,
        "firstRank": int(row["first_rank"]),
        "lastRank": int(row["last_rank"]) if row["last_rank"] >= 0 else None,
        "awaitedRank": _find_awaited_rank(timeline, segments),
        "absent": max(communicator.size - len(np.unique(ranks)), 0),
        "wait": json_number(row["wait"]),
        "imbalance": json_number(row["worst_imbalance"]),
        "factor": json_number(row["worst_factor"]),
        "spread": float(np.abs(late).mean()) if len(late) else None,
        "members": _describe_members(timeline, segments, ranks),
    }


def _find_awaited_rank(timeline: Timeline, segments: Array) -> int | None:
    """Return the rank that most of an instance's wait is for; None if no rank waits."""
    awaited = timeline.find_awaited(segments)
    is_known = awaited >= 0
    if not is_known.any():
        return None
    ranks, index = np.unique(awaited[is_known], return_inverse=True)
    return int(ranks[np.bincount(index, segments["wait"][is_known].astype(np.float64)).argmax()])


def _count_instances(timeline: Timeline, callsite: int) -> int:
    """Return the number of instances of a call site."""
    counts = timeline.events.meta["instances"]
    return int(counts[callsite]) if 0 <= callsite < len(counts) else 0


def _describe_members(timeline: Timeline, segments: Array, ranks: Int) -> list[list[float | None]]:
    """Return [rank, arrival, begin, exit, wait, open, thread, point to point, late] of each member.

    begin: of its completing Wait. point to point: ns before the call. Thread and point to point are
    given for the MAX_MEMBERS_SHOWN latest members only, else None. late: ns after the median
    arrival of the other members.
    """
    base = timeline.events.begin_ns
    members: dict[int, list[Any]] = {}
    for segment, rank in zip(segments, ranks.tolist(), strict=True):
        enter, exit_ = int(segment["enter"]) - base, int(segment["exit"]) - base
        row = members.setdefault(rank, [rank, enter, enter, exit_, 0.0, 0, None, None])
        if segment["flags"] & COMPLETION:
            row[2] = enter
        row[1], row[3] = min(row[1], enter), max(row[3], exit_)
        row[4] += float(segment["wait"])
        row[5] = max(row[5], int(segment["flags"] & OPEN))
    for row in sorted(members.values(), key=lambda r: -r[1])[:MAX_MEMBERS_SHOWN]:
        row[6:] = find_call(timeline.trace, row[0], row[1] + base) or (None, None)
    ordered = [members[rank] for rank in sorted(members)]
    late = subtract_median_of_others(np.array([[row[1]] for row in ordered], np.float64))
    return [[*row, ns] for row, ns in zip(ordered, late.ravel().tolist(), strict=True)]


def json_number(value: Any) -> float | None:
    """Return a number for JSON, with None for NaN."""
    return None if np.isnan(value) else float(value)


def search(timeline: Timeline, text: str) -> list[dict[str, Any]]:
    """Return the call sites, operations, algorithms, communicators and ranks that match a text."""
    words = text.casefold().split()[:8]
    results = []
    for kind, value, label, note in _search_entries(timeline, text):
        if all(word in f"{kind} {label} {note}".casefold() for word in words):
            results.append({"find": f"{kind}:{value}", "kind": kind, "label": label, "note": note})
            if len(results) == MAX_FOUND:
                break
    return results


def search_label(timeline: Timeline, find: str) -> str:
    """Return the label of a search, or "" if there is none."""
    entries = _search_entries(timeline, "") if find else ()
    return next((label for kind, value, label, _ in entries if f"{kind}:{value}" == find), "")


def _search_entries(timeline: Timeline, text: str) -> Iterator[tuple[str, str, str, str]]:
    trace = timeline.trace
    digits = text.casefold().removeprefix("rank").strip()
    if digits.isdecimal() and len(digits) <= 8 and int(digits) < trace.ranks:
        yield "rank", digits, f"rank {int(digits)}", str(trace.node_ids.get(int(digits), ""))
    for i, (operation, sites, _) in enumerate(timeline.events.meta.get("callsites", [])):
        places = " | ".join(timeline.sites[s] for s in sites if -1 <= s < len(timeline.sites))
        yield "callsite", str(i), (places or "?")[:MAX_TEXT], str(operation)
    for operation in dict.fromkeys(s.operation for s in trace.tables.shapes):
        yield "operation", operation, operation, ""
    for name in dict.fromkeys(s.algorithm.partition(":")[0] for s in trace.tables.shapes):
        yield "algorithm", name, name, ""
    for c, name in zip(trace.tables.communicators, timeline.communicators, strict=True):
        yield "communicator", c.identity, name[:MAX_TEXT], f"{c.size} ranks"
