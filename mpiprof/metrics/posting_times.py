"""Times at which messages were posted by calls that are too short to be recorded.

With `--messages auto` a short send has no record, but the long activity before it has one: an
interval of work, or a long call. If a rank sends as many messages to another rank as it has
activities that end at one call site, its n-th message follows the n-th of these activities. This
holds only if no message was posted after the call that received it had returned. Channels with
several tags are left out, because n counts the messages with one tag.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.activities import Activities
from mpiprof.metrics.run_counts import RunCounts
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

CHOICE = "first", "low", "high"
CHANNEL = ["communicator", "source", "destination"]
NO_TAG = np.iinfo(np.int64).min
# Fields of the structs in core/python_api/posting_times.c.
GROUPS = {
    **dict.fromkeys(("ranks", "sites"), int),
    **dict.fromkeys(("first_of_rank", "end_ns"), np.int64),
    "precedes": np.bool_,
    **dict.fromkeys(("positions", "used"), np.int64),
    **dict.fromkeys(("rank", "is_call", "site", "count", "first", "found"), np.int64),
}
CHANNELS = {
    **dict.fromkeys(("mask", "begin_ns"), int),
    **dict.fromkeys(("table", "sent", "first_choice", "first", "low", "high"), np.int64),
    "early_ns": np.float64,
    "end_ns": np.int64,
    "precedes": np.bool_,
    **dict.fromkeys(("chosen", "tag"), np.int64),
    "channel": np.int32,
}


def set_posting_times(
    trace: Trace, activities: Activities, table: Struct, postings: Struct
) -> None:
    """Set posted_ns of messages to the end of the activity before their post, if it is known.

    table: of messages, as in core/python_api/messages.h. postings: as in postings.h beside it.
    """
    sent = count_sent(trace)
    if not activities.has_intervals or not len(sent):
        return
    groups, end_ns, precedes = group_activities(activities)
    counts: RunCounts | None = trace.derive("run_counts")
    if counts is not None:
        groups = counts.number_groups(groups)
    sent["channel"] = np.arange(len(sent))
    choices = sent.merge(groups, left_on=["source", "count"], right_on=["rank", "total"])
    first_choice = np.searchsorted(choices["channel"], np.arange(len(sent) + 1))
    early_ns, chosen = np.zeros(len(choices)), np.full(len(sent), -1)
    codes = _make_channel_table(trace, sent)
    begin_ns = trace.begin_ns if isinstance(trace, TraceWindow) else 0
    values = {"mask": len(codes) - 1, "begin_ns": begin_ns, "table": codes}
    values |= {"sent": sent["count"].to_numpy(), "first_choice": first_choice}
    values |= {name: choices[name].to_numpy() for name in CHOICE}
    values |= {"early_ns": early_ns, "end_ns": end_ns, "precedes": precedes, "chosen": chosen}
    rows = len(table.arrays["messages"])
    values |= {"tag": np.full(len(sent), NO_TAG), "channel": np.empty(rows, np.int32)}
    channels = Struct(CHANNELS, values)
    call_library("posting_times_number", table, postings, channels)
    call_library("posting_times_compare", table, postings, channels)
    _choose(choices.assign(early_ns=early_ns), chosen)
    call_library("posting_times_set", table, postings, channels)


def _choose(choices: pd.DataFrame, chosen: Int) -> None:
    """Set the choice of each channel, if there is one.

    Messages are mostly sent after work. Among several sites, the last one explains most waiting.
    """
    possible = choices[np.isfinite(choices["early_ns"])].copy()
    # The first long call counts only if no work does.
    possible["early_ns"] = possible["early_ns"].where(~possible["is_call"], np.inf)
    best = possible.sort_values("early_ns", kind="stable").drop_duplicates("channel")
    chosen[best["channel"]] = best.index


def _make_channel_table(trace: Trace, channels: pd.DataFrame) -> Int:
    """Return the hash table of the codes of channels, as posting_times.c describes it."""
    communicator, source, destination = (channels[name].to_numpy(np.int64) for name in CHANNEL)
    code = (communicator * trace.ranks + source) * trace.ranks + destination
    table = np.full((1 << (2 * len(code)).bit_length(), 2), -1)
    call_library("posting_times_index", table, len(table) - 1, code, len(code))
    return table


def group_activities(activities: Activities) -> tuple[pd.DataFrame, Int, Bool]:
    """Return the groups of a rank's activities that end at one site.

    Per group: rank, is_call, site, count and total (number of activities), first and low (index of
    its first activity), high (before which its last one is). Per activity, by group: its end, or
    that of a long call that directly follows it, and whether a short call can follow that.
    """
    rows, first = activities.rows, activities.first
    sites = int(rows["last_site"].max(initial=-1)) + 1
    end_ns, precedes = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    found, codes = np.zeros(1, np.int64), 2 * (sites + 1)
    values = {"ranks": len(first) - 1, "sites": sites, "first_of_rank": first, "found": found}
    values |= {"end_ns": end_ns, "precedes": precedes, "used": np.empty(codes, np.int64)}
    values |= {"positions": np.zeros(codes, np.int64)}
    names = ("rank", "is_call", "site", "count", "first")
    groups = {name: np.empty(len(rows), np.int64) for name in names}
    call_library("posting_times_group", rows, Struct(GROUPS, values | groups))
    table = pd.DataFrame({name: of[: found[0]] for name, of in groups.items()})
    table = table.astype({"is_call": bool}).rename(columns={"count": "total"})
    table["low"], table["high"] = table["first"], table["first"] + table["total"]
    return table, end_ns, precedes


def count_sent(trace: Trace) -> pd.DataFrame:
    """Return the number of messages of each channel that are sent at one call site.

    Columns: CHANNEL, count and send_site.
    """
    sums = trace.message_sums
    sends = sums["operation"].str.contains("send") & ~sums["operation"].str.contains("recv|init")
    names = {"rank": "source", "peer": "destination", "calls": "count", "site_id": "send_site"}
    columns = [*CHANNEL, "count", "send_site"]
    sums = sums[sends & (sums["peer"] >= 0)].rename(columns=names)[columns]
    return sums[~sums.duplicated(CHANNEL, keep=False)].reset_index(drop=True)
