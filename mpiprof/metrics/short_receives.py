"""Dependences of receives that are too short to be recorded.

With `--messages auto` a receive that does not wait has no record. It still depends on the sender,
and would wait for it if its rank came earlier. If two ranks have as many intervals of work around a
send and a receive as there are messages between them, the n-th intervals are those of the n-th
message. A channel is used only if all its messages were sent before they were received.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.message_rows import MessageRows
from mpiprof.metrics.posting_times import CHANNEL, count_sent
from mpiprof.metrics.run_counts import SIDES, RunCounts
from mpiprof.trace.messages import COMPLETE, RECEIVED_FLAG
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int


@dataclass(frozen=True)
class ShortReceives:
    """Messages without a recorded receive: source, when it sent, rank, when it received."""

    source: Int
    sent_ns: Int
    rank: Int
    received_ns: Int


def find_short_receives(trace: Trace) -> ShortReceives:
    """Return the messages of short receives with times that are known from intervals of work."""
    found = [np.zeros((4, 0), np.int64)]
    if len(trace.intervals):
        channels = count_sent(trace).merge(_find_receives(trace), on=[*CHANNEL, "count"])
        calls, recorded = _CallTimes(trace), _find_recorded(trace)
        names = (*CHANNEL, "count", "send_site", "receive_site")
        for row in zip(*(channels[name].tolist() for name in names), strict=True):
            communicator, source, rank, count, *sites = row
            of_sends = calls.find(source, sites[0], count, ("end", "begin"))
            of_receives = calls.find(rank, sites[1], count, ("begin", "end"))
            if of_sends is None or of_receives is None:
                continue
            number, sent, received = _take_common(of_sends, of_receives)
            if (sent > received + trace.clock_error_ns).any():
                continue
            known = recorded.get((communicator, source, rank), np.zeros(0, np.int64))
            short = ~np.isin(number, known)
            ranks = (np.full(int(short.sum()), of) for of in (source, rank))
            columns = (next(ranks), sent[short], next(ranks), received[short])
            found.append(np.stack(columns))
    return ShortReceives(*np.concatenate(found, axis=1))


class _CallTimes:
    """Times of the calls at a site of a rank, if an interval of work is beside each of them.

    "end": of the interval before a call, "begin": of the interval after it.
    """

    def __init__(self, trace: Trace) -> None:
        self.times: dict[str, dict[Any, Int]] = {}
        for side, site in SIDES.items():
            groups = trace.intervals.groupby(["rank", site])[f"{side}_ns"]
            self.times[side] = {key: np.sort(of.to_numpy()) for key, of in groups}
        self.counts: RunCounts | None = trace.derive("run_counts")

    def find(
        self, rank: int, site: int, count: int, sides: tuple[str, str]
    ) -> tuple[int, Int] | None:
        """Return the times of the calls from the first side that has so many, or None.

        Of a window of a run, the result has the number of the first time in it, and the times.
        """
        for side in sides:
            times = self.times[side].get((rank, site))
            if times is None:
                continue
            before, total = 0, len(times)
            if self.counts is not None:
                before, total = self.counts.find_calls(side, rank, site)
            if total == count:
                return before, times
        return None


def _take_common(first: tuple[int, Int], second: tuple[int, Int]) -> tuple[Int, Int, Int]:
    """Return the numbers that are in two runs of times, and these times in both."""
    low = max(of[0] for of in (first, second))
    high = max(min(of[0] + len(of[1]) for of in (first, second)), low)
    sides = (times[low - begin : high - begin] for begin, times in (first, second))
    return np.arange(low, high), next(sides), next(sides)


def _find_receives(trace: Trace) -> pd.DataFrame:
    """Return the number of receives of each channel, and the one site at which they complete."""
    sums = trace.message_sums
    operation, peer = sums["operation"], sums["peer"] >= 0
    names = {"rank": "destination", "peer": "source", "calls": "count", "site_id": "receive_site"}
    columns = [*CHANNEL, "count", "receive_site"]
    blocking = sums[operation.isin(["recv", "mrecv"]) & peer].rename(columns=names)[columns]
    # A nonblocking receive completes in a Wait; its rank must have one site of so many Waits.
    posted = sums[(operation == "irecv") & peer].rename(columns=names)[columns]
    of_waits = sums[operation.str.startswith("wait")].groupby(["rank", "site_id"])["calls"].sum()
    names = {"rank": "destination", "calls": "count"}
    waits: pd.DataFrame = of_waits.reset_index().rename(columns=names)
    waits = waits[~waits.duplicated(["destination", "count"], keep=False)]
    completed = posted.merge(waits, on=["destination", "count"]).assign(
        receive_site=lambda of: of["site_id"]
    )
    receives = pd.concat([blocking, completed[columns]])
    return receives[~receives.duplicated(CHANNEL, keep=False)]


def _find_recorded(trace: Trace) -> dict[Any, Int]:
    """Return the numbers of the messages of each channel with a recorded receive."""
    messages: MessageRows = trace.derive("message_rows")
    rows = messages.rows[messages.have_flag(RECEIVED_FLAG) & messages.have_flag(COMPLETE)]
    table = pd.DataFrame(messages.take_columns([*CHANNEL, "number", "sure"], rows))
    groups = table[table["sure"]].groupby(CHANNEL)["number"]
    return {key: of.to_numpy() for key, of in groups}
