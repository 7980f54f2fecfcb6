"""Sums over the calls on messages at each call site, from which its columns are computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.callsite_sums import divide
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

KEYS = ["operation", "site_id"]
LONGEST = "longest_ns", "begin_ns", "until_ns"  # of the longest wait in a sum


@dataclass(frozen=True)
class MessageCallsiteSums:
    """Sums of all call sites of messages; arrays have one value per row of `keys`.

    sums: rows of `Trace.message_sums`. waits: rows of `find_located_waits`. whole_ns: time of the
    ranks of these rows.
    """

    trace: Trace
    sums: pd.DataFrame
    waits: pd.DataFrame
    whole_ns: float

    @cached_property
    def keys(self) -> pd.DataFrame:
        """Operation and site_id of each call site, in order of first appearance."""
        return self.sums[KEYS].drop_duplicates(ignore_index=True)

    @property
    def operations(self) -> list[str]:
        """Call without MPI_."""
        return self.keys["operation"].tolist()

    @property
    def sites(self) -> list[list[dict[str, Any]]]:
        """File, line and function of each call site, in a list of one."""
        ids = [[site] for site in self.keys["site_id"].tolist()]
        return describe_sites(self.trace.tables.sites, ids)

    @cached_property
    def elapsed_ns(self) -> Int:
        """Time of all ranks in the calls."""
        return self.total("total_ns")

    @cached_property
    def wait_ns(self) -> Array:
        """Wait of all ranks; NaN if it is unknown."""
        return self._sum_waits(self.waits)

    def wait_in(self, state: str) -> Array:
        """Return the wait in one wait state; NaN if it is unknown."""
        return self._sum_waits(self.waits[self.waits["state"] == state])

    def total(self, name: str) -> Int:
        """Return the sum of a column of `sums`."""
        return self.sums.groupby(KEYS, sort=False)[name].sum().to_numpy(np.int64)

    def longest(self) -> Int:
        """Return the time in the longest call."""
        return self.sums.groupby(KEYS, sort=False)["longest_ns"].max().to_numpy(np.int64)

    def mean(self, total: Int) -> Float:
        """Return a sum over calls per call; NaN without calls."""
        return divide(total.astype(np.float64), self.total("calls"))

    @cached_property
    def awaited(self) -> pd.DataFrame:
        """Rank that is waited for most (NA without a wait), and its share of the wait."""
        pairs = self.waits.groupby([*KEYS, "awaited"], observed=True)["wait_ns"].sum()
        worst = pairs.reset_index().sort_values("wait_ns", ascending=False, kind="stable")
        worst = worst.drop_duplicates(KEYS).set_index(KEYS).reindex(self._index).reset_index()
        share = divide(worst["wait_ns"].to_numpy(np.float64), self.wait_ns)
        return pd.DataFrame({"rank": worst["awaited"].astype("Int64"), "share": share})

    @cached_property
    def _index(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_frame(self.keys)

    def _sum_waits(self, waits: pd.DataFrame) -> Array:
        if not are_waits_known(self.trace):
            return np.full(len(self.keys), np.nan)
        sums = waits.groupby(KEYS, observed=True)["wait_ns"].sum()
        return sums.reindex(self._index, fill_value=0).to_numpy(np.int64)


def find_located_waits(trace: Trace) -> pd.DataFrame:
    """Return `Trace.message_waits` with KEYS and the communicator of the waiting calls.

    If message calls are recorded completely in windows of time only, these are the waits that end
    in such a window, and wait_ns is scaled to the run. If the waits do not fit in memory, they are
    sums as in `sum_located_waits`.
    """
    waits: pd.DataFrame = trace.derive("located_waits")
    return waits


def make_located_waits(trace: Trace) -> pd.DataFrame:
    """Return the table of find_located_waits, which a trace computes once."""
    if trace.has_message_events and not fits_in_memory(trace):
        sums: pd.DataFrame = trace.derive("window_waits")
        return sums
    return scale_waits(trace, locate_waits(trace, trace.message_waits))


def locate_waits(trace: Trace, waits: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `Trace.message_waits` with KEYS and the communicator of the waiting calls."""
    calls, call = trace.message_calls, waits["call"].to_numpy()
    return waits.assign(**{n: calls[n].array.take(call) for n in (*KEYS, "communicator")})


def scale_waits(trace: Trace, waits: pd.DataFrame) -> pd.DataFrame:
    """Return the waits that count in sums, with wait_ns scaled to the run as in `weigh_waits`."""
    weight = weigh_waits(trace, waits["until_ns"].to_numpy())
    if (weight == 1).all():
        return waits
    scaled = (waits["wait_ns"].to_numpy(np.float64) * weight).round().astype(np.int64)
    return waits.assign(wait_ns=scaled)[weight > 0].reset_index(drop=True)


def weigh_waits(trace: Trace, until_ns: Int) -> Float:
    """Return the weight in sums over the run of each wait for a message that ends at until_ns.

    If message calls are recorded completely in windows of time only, the waits in these windows
    count, divided by the windows' share of the recorded stretch. Otherwise each recorded wait in
    the stretch counts as it is.
    """
    windows, share = trace.complete_windows, trace.complete_share
    if not windows or not share or (share >= 1 and trace.complete_until_ns is None):
        return np.ones(len(until_ns))
    edges = np.array(windows, np.int64).ravel()
    is_inside = np.searchsorted(edges, until_ns, side="left") % 2 == 1
    return np.where(is_inside, 1 / share, 0.0)


def sum_located_waits(waits: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of the waits of a rank for another one, in one state at one call site.

    calls: number of waits. longest_ns, begin_ns, until_ns: of the longest one.
    """
    by = [*KEYS, "communicator", "rank", "awaited", "state"]
    if not len(waits):
        return waits.assign(calls=0, longest_ns=0)[[*by, "wait_ns", "calls", *LONGEST]]
    groups = waits.groupby(by, observed=True, sort=False)["wait_ns"]
    sums = groups.agg(wait_ns="sum", calls="size", at="idxmax").reset_index()
    begin, until = waits.loc[sums.pop("at"), ["begin_ns", "until_ns"]].to_numpy().T
    return sums.assign(**dict(zip(LONGEST, (until - begin, begin, until), strict=True)))


def are_waits_known(trace: Trace) -> bool:
    """Return whether long calls on messages were logged, and the waits in them are computed."""
    only_sums = trace.record != "events" or recorded_messages(trace) == "sums"
    if not only_sums:
        return True
    if fits_in_memory(trace):
        return len(trace.message_calls) > 0
    return trace.has_message_events and recorded_messages(trace) != "sums"


def recorded_messages(trace: Trace) -> str:
    """Return the value of `run --messages`, or "" if it is unknown."""
    return str((trace.meta.get("options") or {}).get("messages") or "")


def sum_message_callsites(trace: Trace) -> MessageCallsiteSums:
    """Return the sums of the call sites of messages of a trace."""
    whole_ns = max(float(trace.process_time_ns), 1.0)
    return MessageCallsiteSums(trace, trace.message_sums, find_located_waits(trace), whole_ns)
