"""Messages between two ranks that take longer than others: a slow link, or larger messages.

    rank 5   work | waitall | work ...      the call ends at the same time as at most call sites
    rank 6   work | waitall ── transfer ── |
    rank 7   work | waitall ── transfer ── |
    rank 8   work | waitall | work ...

The transfer of a call is its time after all awaited ranks have posted their messages. It belongs to
the call, never to a rank's work. Its usual time is the median of the call site over all ranks. A
pair of ranks is slow if the transfers of both ranks exceed it, in the median of the calls with
messages between the two. So a fast neighbour whose message completes in the same call is no part
of a slow pair. If one of the two has no transfers, the calls of the other one must have no further
messages. The run is replayed without the transfers beyond the usual time.

In a run that does not fit in memory, each window has its own usual times. The median of a run is
the median of its windows, weighted by their numbers of calls.

The functions are silent about two ranks alone, and if more than MAX_PAIRS pairs are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.cause import Cause, FoundCause
from mpiprof.causes.place import find_place, format_call
from mpiprof.causes.removal import Removal, Saving, join_removals, join_savings, replay_without
from mpiprof.interface.format_units import format_ranks, format_size, format_time
from mpiprof.metrics.group_order import find_medians
from mpiprof.metrics.message_rows import MessageRows
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace

MIN_SAVED_SHARE = 0.01  # of the run time
MIN_FACTOR = 2.0  # of slow transfers over usual ones
MIN_SIZE_FACTOR = 2.0  # of larger messages over those of other pairs
MAX_PAIRS = 3
PAIR_AT_SITE = ["rank", "peer", "site_id"]
SLOW = ["transfer_ns", "usual_ns", "bytes"]
NO_TRANSFERS = pd.DataFrame(
    {name: np.zeros(0, np.int64) for name in (*PAIR_AT_SITE, "excess_ns", "usual_ns", "count")}
    | {"is_single": np.zeros(0, np.bool_)}
)

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class SlowMessages(Cause):
    """Slow messages between two ranks.

    transfer_ns, usual_ns: median time of a transfer of the pair, and of its call sites. bytes,
    usual_bytes: median size of the messages of the pair, and of other pairs. count: of the calls.
    """

    icon: ClassVar[str] = "algorithm"
    transfer_ns: int
    usual_ns: int
    bytes: int
    usual_bytes: int
    count: int

    @property
    def name(self) -> str:
        """Return the name in JSON."""
        return "larger_messages" if self.has_larger_messages else "slow_link"

    @property
    def has_larger_messages(self) -> bool:
        """Return whether the messages of the pair are larger than those of other pairs."""
        return self.bytes >= MIN_SIZE_FACTOR * max(self.usual_bytes, 1)

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        return f"Messages between {format_ranks(self.ranks)} are slow"

    @property
    def clause(self) -> str:
        """Return which messages take how long, and where."""
        took = f"{format_time(self.transfer_ns)} instead of {format_time(self.usual_ns)}"
        call = format_call(self.places[0].before)
        size = f"with {format_size(self.bytes)}"
        if self.has_larger_messages:
            size += f" instead of {format_size(self.usual_bytes)}"
        return f"messages between {format_ranks(self.ranks)} {size} take {took} in {call}"

    @property
    def reason(self) -> str:
        """Return the reason in few words."""
        return "larger messages" if self.has_larger_messages else "slow link"

    @property
    def advice(self) -> str:
        """Return where to look."""
        if self.has_larger_messages:
            return "Send less between these ranks, or send earlier and work meanwhile."
        check = f"Check the network between the nodes of {format_ranks(self.ranks)}"
        return f"{check}, and whether both call MPI during the transfer."


@dataclass(frozen=True)
class RemovedTransfers:
    """Slow transfers of a pair in a run or a window of it, and the effect of their removal.

    slow: columns SLOW of the removed transfers. sites: time beyond the usual time, by call site.
    other_bytes, other_count: median size of messages of other pairs there, and their number.
    """

    removal: Removal
    saving: Saving
    slow: pd.DataFrame
    sites: pd.Series
    other_bytes: float
    other_count: int


def sum_transfers(trace: Trace) -> pd.DataFrame:
    """Return the transfers of each pair of ranks at each call site in a run or a window of it.

    rank, peer, site_id, excess_ns and usual_ns (medians), count, is_single (whether the calls have
    messages of one peer only). Empty if the transfers of each rank lose little time.
    """
    if trace.ranks < 3 or not len(trace.message_calls):
        return NO_TRANSFERS
    calls = _list_transfers(trace)
    lost_ns = np.bincount(calls["rank"], calls["excess_ns"], trace.ranks)
    if not (lost_ns >= MIN_SAVED_SHARE * float(trace.run_ns)).any():
        return NO_TRANSFERS
    grouped = _join_peers(trace, calls).groupby(PAIR_AT_SITE, as_index=False)
    return grouped.agg(
        excess_ns=("excess_ns", "median"),
        usual_ns=("usual_ns", "median"),
        count=("call", "size"),
        is_single=("is_single", "all"),
    )


def choose_pairs(windows: Sequence[pd.DataFrame], run_ns: float) -> list[Pair]:
    """Return the pairs of ranks whose messages are slow, the costliest first, [] if many are.

    windows: as sum_transfers. The transfers of a pair exceed the usual time, in all by
    MIN_SAVED_SHARE of the run.
    """
    sums = _join_windows(pd.concat([NO_TRANSFERS, *windows]))
    lost_ns = sums["excess_ns"] * sums["count"]
    is_slow = sums["excess_ns"] >= (MIN_FACTOR - 1) * sums["usual_ns"].clip(lower=1)
    slow = sums[is_slow & (lost_ns >= MIN_SAVED_SHARE * run_ns)]
    directions = set(zip(slow["rank"], slow["peer"], strict=True))
    # A rank with few messages of its own may have no calls that show the transfer.
    shown = set(zip(sums["rank"], sums["peer"], strict=True))
    pairs: dict[Pair, float] = {}
    for rank, peer, is_single, lost in zip(
        slow["rank"], slow["peer"], slow["is_single"], lost_ns[slow.index], strict=True
    ):
        if (peer, rank) in directions or (is_single and (peer, rank) not in shown):
            pair = min(rank, peer), max(rank, peer)
            pairs[pair] = max(pairs.get(pair, 0.0), float(lost))
    return sorted(pairs, key=lambda pair: -pairs[pair]) if len(pairs) <= MAX_PAIRS else []


def remove_transfers(trace: Trace, pairs: Sequence[Pair]) -> list[RemovedTransfers]:
    """Return the effect of removing the slow transfers of each pair, as choose_pairs.

    trace: a run or a window of it.
    """
    if not pairs:
        return []
    transfers = _join_peers(trace, _list_transfers(trace))
    return [_remove_pair(trace, transfers, pair) for pair in pairs]


def make_causes(
    trace: Trace,
    pairs: Sequence[Pair],
    windows: Sequence[Sequence[RemovedTransfers]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the pairs whose transfers cost run time; windows: of the run, as remove_transfers."""
    causes = [_make_cause(trace, pair, parts) for pair, *parts in zip(pairs, *windows, strict=True)]
    return [cause for cause in causes if cause.saving.run_ns >= MIN_SAVED_SHARE * run_ns]


def _list_transfers(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages in a run or a window: rank, site_id, and times in ns.

    The index is the row of `message_calls`. transfer_ns: time after all awaited ranks have posted.
    usual_ns: median of the call site. excess_ns: of the transfer, beyond the usual time.
    """
    table = trace.message_calls
    calls = table[["rank", "site_id", "exit_ns"]].assign(transfer_ns=trace.derive("transfers"))
    if isinstance(trace, TraceWindow):
        calls = calls[trace.covers(table["enter_ns"].to_numpy(np.int64))]
    sites, site = np.unique(calls["site_id"].to_numpy(), return_inverse=True)
    usual = find_medians(site, calls["transfer_ns"].to_numpy(np.float64), len(sites))[site]
    excess = np.maximum(calls["transfer_ns"].to_numpy() - usual, 0.0)
    return calls.assign(usual_ns=usual, excess_ns=excess)


def _join_peers(trace: Trace, calls: pd.DataFrame) -> pd.DataFrame:
    """Return one row per call and peer, with the fields of the call.

    bytes: of the largest message. is_single: whether the call has messages of one peer only.
    """
    messages: MessageRows = trace.derive("message_rows")
    columns = {name: messages.rows[name] for name in ("call", "bytes")}
    columns["peer"] = messages.get_peers(messages.rows)
    rows = pd.DataFrame({name: column.astype(np.int64) for name, column in columns.items()})
    table = rows[rows["peer"] >= 0].groupby(["call", "peer"], as_index=False)["bytes"].max()
    table["is_single"] = table.groupby("call")["peer"].transform("size") == 1
    table = table.join(calls, on="call", how="inner")
    transfers: pd.DataFrame = table[table["rank"] != table["peer"]]
    return transfers


def _join_windows(windows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a run from those of its windows, as sum_transfers."""
    sums = windows.groupby(PAIR_AT_SITE).agg({"count": "sum", "is_single": "all"})
    for name in ("excess_ns", "usual_ns"):
        count = windows.sort_values(name).set_index([*PAIR_AT_SITE, name])["count"]
        by_pair = count.groupby(level=PAIR_AT_SITE)
        upper_half = count[2 * by_pair.cumsum() >= by_pair.transform("sum")].reset_index(name)
        sums[name] = upper_half.groupby(PAIR_AT_SITE)[name].first()
    return sums.reset_index()


def _remove_pair(trace: Trace, transfers: pd.DataFrame, pair: Pair) -> RemovedTransfers:
    is_here = transfers["rank"].isin(pair) & transfers["peer"].isin(pair)
    here = transfers[is_here]
    slow = here[here["excess_ns"] > 0].drop_duplicates("call")
    rank, exit_ns = (slow[name].to_numpy(np.int64) for name in ("rank", "exit_ns"))
    removal = Removal(rank, exit_ns, slow["excess_ns"].to_numpy(np.float64))
    sites = here.groupby("site_id")["excess_ns"].sum()
    others = transfers.loc[~is_here & transfers["site_id"].isin(sites.index), "bytes"]
    other_bytes = float(others.median()) if len(others) else 0.0
    saving = replay_without(trace, removal)
    return RemovedTransfers(removal, saving, slow[SLOW], sites, other_bytes, len(others))


def _make_cause(trace: Trace, pair: Pair, parts: Sequence[RemovedTransfers]) -> FoundCause:
    """Return the cause from the effects of its removal on all windows."""
    slow = pd.concat([part.slow for part in parts])
    sites = pd.concat([part.sites for part in parts]).groupby(level=0).sum()
    sites = sites[sites > 0].nlargest(2)
    size = np.repeat([part.other_bytes for part in parts], [part.other_count for part in parts])
    transfer_ns, usual_ns, bytes_ = (round(float(slow[name].median())) for name in SLOW)
    cause = SlowMessages(
        pair,
        tuple(find_place(trace, (int(site), INSIDE)) for site in sites.index),
        transfer_ns,
        usual_ns,
        bytes_,
        round(float(np.median(size))) if len(size) else 0,
        len(slow),
    )
    removal = join_removals([part.removal for part in parts])
    return FoundCause(cause, removal, join_savings([part.saving for part in parts]))
