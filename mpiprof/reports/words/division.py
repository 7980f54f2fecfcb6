"""Division of the run's time into work, waits and calls: sentences, and rows of the JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.division import Division, divide_time
from mpiprof.account.ledger import WORK
from mpiprof.account.run_times import lacks_complete_instances
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.causes.place import describe_call, format_call
from mpiprof.facts.operations import LOCAL_OPERATIONS
from mpiprof.interface.format_units import format_share, format_time
from mpiprof.reports.site_labels import format_wait_site, routine_at
from mpiprof.trace import Trace

MIN_SHARE = 0.001  # of a place in the JSON report
TENTHS = 1000  # of a percent, in the whole
COMPUTE = "compute {}"
REMAINING_WORK = "computing is 100 % minus the other shares"
WAITS = {  # by part of Division
    "collective_wait": "{} in collectives",
    "message_wait": "{} for messages",
    "window_wait": "{} on windows",
}
UNKNOWN_COLLECTIVES = "are in collectives {} (waiting unknown)"
UNKNOWN_MESSAGES = "are in calls on messages {} (waiting unknown)"
OTHERS = {
    "collectives": "communicate in collectives {}",
    "messages": "transfer messages {}",
    "other_calls": "call other MPI functions {}",
    "unexplained": "spend {} unexplained inside MPI",
    "unrecorded": "have no record of {}",
}
KINDS = {"work": "computing", "wait": "waiting", "calls": "inside the call"}


@dataclass(frozen=True)
class LocatedTime:
    """The time at one place of the program: work, wait, or calls without their waits.

    place: such as "between send at a.c:3 and recv at a.c:9", or "in recv at a.c:9".
    """

    kind: str
    place: str
    time_ns: int
    share: float


def division_sentences(trace: Trace) -> str:
    """Return the shares of the run's time, their basis, and the largest time at one place."""
    division = divide_time(trace)
    if not division.whole_ns:
        return ""
    shares = round_shares(division)
    phrases = [*_list_phrases(trace, shares)]
    parts = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
    sentence = f"Of {_describe_whole(trace)}, ranks {parts}{_describe_basis(trace, shares)}."
    largest = find_largest_part(trace, division)
    if largest is None:
        return sentence
    share = _format_tenths(round(TENTHS * largest.share))
    return f"{sentence} The largest part: {share} is {KINDS[largest.kind]} {largest.place}."


def division_as_data(trace: Trace) -> dict[str, Any]:
    """Return the division in the schema of the JSON report."""
    division = divide_time(trace)
    whole = division.whole_ns or float("nan")
    largest = find_largest_part(trace, division)
    places = [part for part in list_parts(trace, division) if part.share >= MIN_SHARE]
    return {
        "whole_ns": round(division.whole_ns),
        "parts": {
            name: {"time_ns": round(ns), "share": ns / whole if division.whole_ns else None}
            for name, ns in division.parts.items()
            if name != "filtered"
        },
        "exact": trace.derive("ledger_sums") is not None,
        "largest": None if largest is None else vars(largest),
        "places": [vars(part) for part in places],
    }


def round_shares(division: Division) -> dict[str, int]:
    """Return the shares of the parts in tenths of a percent, which sum to TENTHS.

    The largest remainders are rounded up.
    """
    parts = division.parts
    exact = np.array([*parts.values()]) / division.whole_ns * TENTHS
    tenths = np.floor(exact).astype(np.int64)
    missing = TENTHS - int(tenths.sum())
    tenths[np.argsort(tenths - exact, kind="stable")[:missing]] += 1
    return dict(zip(parts, tenths.tolist(), strict=True))


def find_largest_part(trace: Trace, division: Division) -> LocatedTime | None:
    """Return the largest time at one place, None if the places of most work are unknown."""
    largest = next(list_parts(trace, division), None)
    has_places = trace.derive("ledger_sums") is not None
    is_largest = largest is not None and (has_places or division.work_ns <= largest.time_ns)
    return largest if is_largest else None


def list_parts(trace: Trace, division: Division) -> Iterator[LocatedTime]:
    """Yield the time at each place, the largest first."""
    for kind, time_ns, place in sorted(_list_places(trace), key=lambda part: -part[1]):
        text = place if isinstance(place, str) else format_work_place(trace, *place)
        share = min(time_ns / division.whole_ns, 1.0) if division.whole_ns else 0.0
        yield LocatedTime(kind, text, round(time_ns), share)


def format_work_place(trace: Trace, before: int, after: int) -> str:
    """Return the place of work between the calls at two sites."""
    first, last = (format_call(describe_call(trace, site)) for site in (before, after))
    last = "the end of the record" if after == NOWHERE else last
    return f"between two calls of {first}" if first == last else f"between {first} and {last}"


def _list_places(trace: Trace) -> Iterator[tuple[str, float, str | tuple[int, int]]]:
    """Yield the kind, the time in ns and the place of each part of the time at a place."""
    sums: Mapping[str, pd.DataFrame] | None = trace.derive("ledger_sums")
    if sums is not None:
        work = sums[WORK].groupby(["before", "after"])["total_ns"].sum()
        for pair, time_ns in work.items():
            yield "work", float(time_ns), pair  # type: ignore[misc]
    for table in (trace.callsites, trace.message_callsites):
        rows: list[Any] = table.to_dict("records")
        for row in rows:
            wait_ns = float(np.nan_to_num(row["total_wait_ns"]))
            in_calls = float(row["total_elapsed_ns"]) - wait_ns
            yield "wait", wait_ns, f"in {routine_at(row)}"
            yield "calls", in_calls, f"of {routine_at(row)}"
    local = trace.local_sums
    if len(local):
        local = local[local["operation"].isin(LOCAL_OPERATIONS)]
    for key, time_ns in local.groupby(["operation", "site_id"])["total_ns"].sum().items():
        yield "calls", float(time_ns), f"of {format_wait_site(trace, key)}"  # type: ignore[arg-type]


def _list_phrases(trace: Trace, shares: Mapping[str, int]) -> Iterator[str]:
    """Yield the predicates of the sentence with the shares of all parts that are not 0."""
    texts = {name: _format_tenths(share) for name, share in shares.items() if share}
    if "work" in texts:
        yield COMPUTE.format(texts["work"])
    waits = [text.format(texts[name]) for name, text in WAITS.items() if name in texts]
    if len(waits) > 1:
        total = _format_tenths(sum(shares[name] for name in WAITS))
        yield f"wait {total} ({', '.join(waits)})"
    elif waits:
        yield f"wait {waits[0]}"
    others = dict(OTHERS)
    if lacks_complete_instances(trace):
        others["collectives"] = UNKNOWN_COLLECTIVES
    if math.isnan(trace.run_times.message_wait_ns):
        others["messages"] = UNKNOWN_MESSAGES
    yield from (text.format(texts[name]) for name, text in others.items() if name in texts)


def _describe_whole(trace: Trace) -> str:
    """Return the time that is divided."""
    run = format_time(float(trace.run_ns))
    if trace.derive("coverage") is not None:
        return f"the recorded {format_time(float(trace.duration_ns))} of {run}"
    return run if trace.is_finalised else f"{run} up to the last record"


def _describe_basis(trace: Trace, shares: Mapping[str, int]) -> str:
    """Return the basis of estimated shares in brackets, or "" if they are exact.

    Without ledgers, the share of work is not measured.
    """
    if trace.derive("ledger_sums") is not None:
        return ""
    notes = []
    if trace.record == "summary":
        notes.append("from sums, without causes")
    elif trace.sampling_interval > 1:
        notes.append(f"collectives scaled from one instance in {trace.sampling_interval}")
    elif trace.complete_share is not None and trace.complete_share < 1 and trace.has_message_events:
        share = format_share(trace.complete_share)
        notes.append(f"waiting for messages scaled from {share} of the run")
    if shares["work"]:
        notes.append(REMAINING_WORK)
    return f" ({', '.join(notes)})" if notes else ""


def _format_tenths(tenths: int) -> str:
    return f"{tenths / 10:.1f} %"
