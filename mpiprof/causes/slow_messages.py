"""Messages between ranks that take longer than others: a slow link or network, or larger messages.

    rank 5   work | waitall | work ...      the call ends at the same time as at most call sites
    rank 6   work | waitall ── transfer ── |
    rank 7   work | waitall ── transfer ── |
    rank 8   work | waitall | work ...

The transfer of a call is its time after all awaited ranks have posted their messages. It belongs to
the call, never to a rank's work. Its usual time is the median of the call site over all calls whose
messages stay on a node, or over all calls if there are none. A pair of ranks is slow if the
transfers of both ranks exceed it, in the median of the calls with messages between the two. So a
fast neighbour whose message completes in the same call is no part of a slow pair. If one of the two
has no transfers, the calls of the other one must have no further messages.

Several pairs may be slow at the same time, and then the repair of one pair saves nothing. So the
run is replayed without the transfers of all slow pairs beyond the usual time, and without those of
each pair. Each pair is a cause if one of them saves MIN_MAIN_SHARE of all. Otherwise all pairs are
one cause.

In a run that does not fit in memory, each window has its own usual times. The median of a run is
the median of its windows, weighted by their numbers of calls.

More than MAX_PAIRS pairs are a cause if all are on different nodes: then the network is slow. The
functions are silent about two ranks alone, about more pairs on the same node, and about a call site
at which each call has messages between nodes. They are also silent about pairs of a node that share
too few processors: a rank that waits for its turn completes its messages late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd

from mpiprof.account.message_tables import MessageRows
from mpiprof.account.row_order import find_medians, number_values
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.habits.work_matrix import number_nodes
from mpiprof.causes.place import find_place, format_call
from mpiprof.interface.format_units import format_ranks, format_size, format_time
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

MIN_SAVED_SHARE = 0.01  # of the run time
MIN_FACTOR = 2.0  # of slow transfers over usual ones
MIN_SIZE_FACTOR = 2.0  # of larger messages over those of other pairs
MIN_MAIN_SHARE = 0.8  # of the saving of all pairs, from which one pair is a cause of its own
MIN_LIKE_SHARE = 0.5  # of the largest excess, that belongs to the same cause if many pairs are slow
MAX_PAIRS = 3
PAIR_AT_SITE = ["rank", "peer", "site_id"]
SLOW = ["transfer_ns", "usual_ns", "bytes"]
NO_TRANSFERS = pd.DataFrame(
    {name: np.zeros(0, np.int64) for name in (*PAIR_AT_SITE, "excess_ns", "usual_ns", "count")}
    | {"is_single": np.zeros(0, np.bool_)}
)

Pair: TypeAlias = tuple[int, int]
Pairs: TypeAlias = tuple[Pair, ...]


@dataclass(frozen=True)
class SlowMessages(Cause):
    """Slow messages between pairs of ranks.

    pairs: at most MAX_PAIRS; () if messages between nodes are slow. transfer_ns, usual_ns: median
    time of a transfer of the pairs, and of their call sites. bytes, usual_bytes: median size of the
    messages of the pairs, and of other pairs. count: of the calls.
    """

    icon: ClassVar[str] = "algorithm"
    pairs: tuple[Pair, ...]
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
        return f"Messages {self._format_pairs()} are slow"

    @property
    def clause(self) -> str:
        """Return which messages take how long, and where."""
        took = f"{format_time(self.transfer_ns)} instead of {format_time(self.usual_ns)}"
        call = format_call(self.places[0].before)
        size = f"with {format_size(self.bytes)}"
        if self.has_larger_messages:
            size += f" instead of {format_size(self.usual_bytes)}"
        return f"messages {self._format_pairs()} {size} take {took} in {call}"

    def _format_pairs(self) -> str:
        """Return "between ranks 6-7 and between ranks 0, 9", or the nodes."""
        if self.pairs:
            return " and ".join(f"between {format_ranks(pair)}" for pair in self.pairs)
        return (
            f"between {format_ranks(self.ranks)} and other nodes" if self.ranks else "between nodes"
        )

    @property
    def reason(self) -> str:
        """Return the reason in few words."""
        return "larger messages" if self.has_larger_messages else "slow link"

    @property
    def advice(self) -> str:
        """Return where to look."""
        if self.has_larger_messages:
            return "Send less between these ranks, or send earlier and work meanwhile."
        if not self.pairs:
            check = "Check the network between these nodes"
            return f"{check}, or place ranks that exchange messages on the same node."
        check = f"Check the network between the nodes of {format_ranks(self.ranks)}"
        return f"{check}, and whether both call MPI during the transfer."


@dataclass(frozen=True)
class RemovedTransfers:
    """Slow transfers of some pairs in a run or a window of it, and the effect of their removal.

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


def choose_pairs(windows: Sequence[pd.DataFrame], run_ns: float, node: Int) -> list[Pairs]:
    """Return all pairs of ranks whose messages are slow, and each of several pairs; [] if many are.

    windows: as sum_transfers. The transfers of a pair exceed the usual time, in all by
    MIN_SAVED_SHARE of the run. node: number of each rank's node.
    """
    lost_ns = _find_slow_pairs(windows, run_ns)
    pairs = tuple(sorted(lost_ns, key=lambda pair: -lost_ns[pair]))
    if len(pairs) > MAX_PAIRS:
        least_ns = MIN_LIKE_SHARE * max(lost_ns.values())
        pairs = tuple(pair for pair in pairs if lost_ns[pair] >= least_ns)
    if len(pairs) > MAX_PAIRS:
        remote = tuple(pair for pair in pairs if node[pair[0]] != node[pair[1]])
        # Messages to a rank on the same node end in the same calls as those between nodes.
        ranks, remote_ranks = {*chain(*pairs)}, {*chain(*remote)}
        return [remote] if ranks == remote_ranks else []
    singles: list[Pairs] = [(pair,) for pair in pairs]
    return [pairs, *singles] if len(pairs) > 1 else singles


def drop_crowded(candidates: Sequence[Pairs], nodes: Mapping[int, str]) -> list[Pairs]:
    """Return the candidates without pairs of ranks that share too few processors of a node.

    nodes: of the ranks that share processors.
    """
    rest = [
        tuple(
            pair for pair in pairs if pair[0] not in nodes or nodes[pair[0]] != nodes.get(pair[1])
        )
        for pairs in candidates
    ]
    return list(dict.fromkeys(pairs for pairs in rest if pairs))


def _find_slow_pairs(windows: Sequence[pd.DataFrame], run_ns: float) -> dict[Pair, float]:
    """Return the time in ns that the messages of each slow pair lose."""
    sums = _join_windows(pd.concat([NO_TRANSFERS, *windows]))
    lost_ns = sums["excess_ns"] * sums["count"]
    is_slow = sums["excess_ns"] >= (MIN_FACTOR - 1) * sums["usual_ns"].clip(lower=1)
    slow = sums[is_slow & (lost_ns >= MIN_SAVED_SHARE * run_ns)]
    directions = set(zip(slow["rank"], slow["peer"], strict=True))
    # A rank with few messages of its own may have no calls that show the transfer.
    shown_directions = set(zip(sums["rank"], sums["peer"], strict=True))
    pairs: dict[Pair, float] = {}
    for rank, peer, is_single, lost in zip(
        slow["rank"], slow["peer"], slow["is_single"], lost_ns[slow.index], strict=True
    ):
        if (peer, rank) in directions or (is_single and (peer, rank) not in shown_directions):
            pair = min(rank, peer), max(rank, peer)
            pairs[pair] = max(pairs.get(pair, 0.0), float(lost))
    return pairs


def remove_transfers(trace: Trace, candidates: Sequence[Pairs]) -> list[RemovedTransfers]:
    """Return the effect of removing the slow transfers of each candidate, as choose_pairs.

    trace: a run or a window of it.
    """
    if not candidates:
        return []
    transfers = _join_peers(trace, _list_transfers(trace))
    rank, peer = transfers["rank"], transfers["peer"]
    pair = np.minimum(rank, peer) * trace.ranks + np.maximum(rank, peer)
    transfers = transfers.assign(pair=pair)
    return [_remove_pairs(trace, transfers, pairs) for pairs in candidates]


def make_causes(
    trace: Trace,
    candidates: Sequence[Pairs],
    windows: Sequence[Sequence[RemovedTransfers]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the pairs whose transfers cost run time; windows: of the run, as remove_transfers."""
    causes = [
        _make_cause(trace, pairs, parts) for pairs, *parts in zip(candidates, *windows, strict=True)
    ]
    if len(causes) > 1:
        joined, *singles = causes
        main_ns = max(cause.saving.run_ns for cause in singles)
        is_main = main_ns >= MIN_MAIN_SHARE * joined.saving.run_ns
        causes = singles if is_main else [joined]
    return [cause for cause in causes if cause.saving.run_ns >= MIN_SAVED_SHARE * run_ns]


def _list_transfers(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages in a run or a window: rank, site_id, and times in ns.

    The index is the row of `message_calls`. transfer_ns: time after all awaited ranks have posted.
    usual_ns: median of the call site, on a node if it is known. excess_ns: of the transfer, beyond
    the usual time.
    """
    table = trace.message_calls
    calls = table[["rank", "site_id", "exit_ns"]].assign(transfer_ns=trace.derive("transfers"))
    is_local = _stay_on_node(trace)
    if isinstance(trace, TraceWindow):
        is_covered = trace.covers(table["enter_ns"].to_numpy(np.int64))
        calls, is_local = calls[is_covered], is_local[is_covered]
    sites, site = number_values(calls["site_id"].to_numpy())
    has_local = np.bincount(site, is_local, len(sites)) > 0
    is_usual = is_local | ~has_local[site]
    transfer_ns = calls["transfer_ns"].to_numpy(np.float64)
    usual = find_medians(site[is_usual], transfer_ns[is_usual], len(sites))[site]
    excess = np.maximum(calls["transfer_ns"].to_numpy() - usual, 0.0)
    return calls.assign(usual_ns=usual, excess_ns=excess)


def _stay_on_node(trace: Trace) -> Bool:
    """Return whether all messages of each row of `message_calls` stay on the node of its rank."""
    messages: MessageRows = trace.derive("message_rows")
    calls, peers = messages.rows["call"], messages.get_peers(messages.rows)
    _, node = number_nodes(trace, np.arange(trace.ranks))
    is_remote = (peers >= 0) & (node[messages.rank[calls]] != node[peers])
    stays = np.ones(len(trace.message_calls), np.bool_)
    stays[calls[is_remote]] = False
    return stays


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


def _remove_pairs(trace: Trace, transfers: pd.DataFrame, pairs: Pairs) -> RemovedTransfers:
    is_here = transfers["pair"].isin([low * trace.ranks + high for low, high in pairs])
    pair_transfers = transfers[is_here]
    slow = pair_transfers[pair_transfers["excess_ns"] > 0].drop_duplicates("call")
    rank, exit_ns = (slow[name].to_numpy(np.int64) for name in ("rank", "exit_ns"))
    removal = Removal(rank, exit_ns, slow["excess_ns"].to_numpy(np.float64))
    sites = pair_transfers.groupby("site_id")["excess_ns"].sum()
    other_bytes_of_calls = transfers.loc[~is_here & transfers["site_id"].isin(sites.index), "bytes"]
    other_bytes = float(other_bytes_of_calls.median()) if len(other_bytes_of_calls) else 0.0
    saving = replay_without(trace, removal)
    return RemovedTransfers(
        removal, saving, slow[SLOW], sites, other_bytes, len(other_bytes_of_calls)
    )


def _make_cause(trace: Trace, pairs: Pairs, parts: Sequence[RemovedTransfers]) -> FoundCause:
    """Return the cause from the effects of its removal on all windows."""
    slow = pd.concat([part.slow for part in parts])
    sites = pd.concat([part.sites for part in parts]).groupby(level=0).sum()
    sites = sites[sites > 0].nlargest(2)
    size = np.repeat([part.other_bytes for part in parts], [part.other_count for part in parts])
    transfer_ns, usual_ns, bytes_ = (round(float(slow[name].median())) for name in SLOW)
    is_few = len(pairs) <= MAX_PAIRS
    ranks = tuple(dict.fromkeys(rank for pair in pairs for rank in pair))
    cause = SlowMessages(
        ranks if is_few else _find_common_node(trace, pairs),
        tuple(find_place(trace, (int(site), INSIDE)) for site in sites.index),
        pairs if is_few else (),
        transfer_ns,
        usual_ns,
        bytes_,
        round(float(np.median(size))) if len(size) else 0,
        len(slow),
    )
    removal = join_removals([part.removal for part in parts])
    return FoundCause(cause, removal, join_savings([part.saving for part in parts]))


def _find_common_node(trace: Trace, pairs: Pairs) -> tuple[int, ...]:
    """Return the ranks of the only node that all pairs have in common, () if it is no such node."""
    _, node = number_nodes(trace, np.arange(trace.ranks))
    common = set.intersection(*({int(node[rank]) for rank in pair} for pair in pairs))
    return tuple(np.flatnonzero(node == common.pop()).tolist()) if len(common) == 1 else ()
