"""Pairs of ranks of which one waits for messages of the other, by call site of the wait."""

from __future__ import annotations

import pandas as pd

KEYS = ["rank", "awaited", "operation", "site_id"]


def list_waiting_pairs(waits: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of ranks and call site, by descending wait.

    waits: rows of `find_located_waits`. rank (that waits), awaited (rank), operation and site_id of
    the waiting calls, wait_ns, calls (that wait), longest_ns, and the longest call's begin_ns and
    until_ns (when the awaited rank posted the message).
    """
    if not len(waits):
        names = ["wait_ns", "send_wait_ns", "calls", "longest_ns", "begin_ns", "until_ns"]
        return pd.DataFrame({name: pd.Series(dtype=object) for name in [*KEYS, *names]})
    if "calls" not in waits:  # rows are single calls
        waits = waits.assign(calls=1, longest_ns=waits["until_ns"] - waits["begin_ns"])
    of_sender = waits["wait_ns"].where(waits["state"] == "late_receiver", 0)
    groups = waits.assign(send_wait_ns=of_sender).groupby(KEYS, sort=False)
    table = groups.agg(
        wait_ns=("wait_ns", "sum"),
        send_wait_ns=("send_wait_ns", "sum"),
        calls=("calls", "sum"),
        longest_ns=("longest_ns", "max"),
    )
    longest = waits.sort_values("longest_ns", ascending=False, kind="stable").drop_duplicates(KEYS)
    table = table.join(longest.set_index(KEYS)[["begin_ns", "until_ns"]])
    order = {"wait_ns": False, "awaited": True, "rank": True}
    made: pd.DataFrame = table.reset_index().sort_values(
        list(order), ascending=list(order.values()), ignore_index=True
    )
    return made


def select_pairs(
    pairs: pd.DataFrame, waiting: tuple[int, int], awaited: tuple[int, int]
) -> pd.DataFrame:
    """Return the rows of the ranks between the first and the last rank of two runs of ranks."""
    chosen = pairs["rank"].between(*waiting) & pairs["awaited"].between(*awaited)
    return pairs[chosen].reset_index(drop=True)
