"""Tables of messages behind the pages: the calls, pairs and waits that pass the filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.callsites import make_message_table
from mpiprof.account.message_callsite_sums import KEYS, MessageCallsiteSums, find_located_waits
from mpiprof.account.rank_pairs import MAX_PAIR_ROWS, PairMatrix, make_pair_matrix, make_pair_table
from mpiprof.reports.site_labels import places

from .trace_data import TraceData
from .url_state import PageState


@dataclass(frozen=True)
class MessageTableRows:
    """Rows of `Trace.message_sums` and of the located waits of one trace."""

    data: TraceData
    sums: pd.DataFrame
    waits: pd.DataFrame

    def at_callsite(self, operation: str, site_id: int) -> MessageTableRows:
        """Return the rows of one call site."""
        parts = (
            table[(table["operation"] == operation) & (table["site_id"] == site_id)]
            for table in (self.sums, self.waits)
        )
        return MessageTableRows(self.data, *parts)

    def make_matrix(self, max_rows: int = MAX_PAIR_ROWS) -> PairMatrix:
        """Return messages, bytes and waiting by pair of ranks."""
        pairs = make_pair_table(self.sums, self.waits)
        return make_pair_matrix(self.data.trace, pairs, max_rows)

    def sum_waits(self, by: str) -> pd.Series[Any]:
        """Return the wait by "rank" (that waits) or by "awaited" rank."""
        return self.waits.groupby(by)["wait_ns"].sum()


def filtered_messages(data: TraceData, state: PageState) -> MessageTableRows:
    """Return the rows that pass all filters; a filter of ranks selects the ranks that call."""
    sums = data.derive("message_sums")
    waits = data.compute_once("located waits", lambda: find_located_waits(data.trace))
    if not (state.communicators or state.operations or state.nodes or state.ranks):
        return MessageTableRows(data, sums, waits)
    return MessageTableRows(data, *(_filter_rows(data, table, state) for table in (sums, waits)))


def _filter_rows(data: TraceData, table: pd.DataFrame, state: PageState) -> pd.DataFrame:
    identities = [c.identity for c in data.trace.tables.communicators]
    chosen = np.flatnonzero(np.isin(identities, state.communicators)).tolist()
    good = np.ones(len(table), np.bool_)
    if state.communicators:
        good &= table["communicator"].isin(chosen).to_numpy()
    if state.operations:
        good &= table["operation"].isin(state.operations).to_numpy()
    if state.nodes or state.ranks:
        good &= table["rank"].isin(data.filtered_ranks(state)).to_numpy()
    return table[good]


def filtered_message_callsites(data: TraceData, state: PageState) -> pd.DataFrame:
    """Return the `message_callsites` of the rows that pass the filters, costliest first.

    Further columns: `callsite` (key in the URL) and `place`.
    """
    key = ("message callsites", state.without_page_keys().format_query())
    return data.compute_once(key, lambda: _make_callsites(data, state))


def _make_callsites(data: TraceData, state: PageState) -> pd.DataFrame:
    rows = filtered_messages(data, state)
    ranks = len(data.filtered_ranks(state)) / max(data.trace.ranks, 1)
    total_ns = max(data.trace.process_time_ns * ranks, 1.0)
    table = make_message_table(MessageCallsiteSums(data.trace, rows.sums, rows.waits, total_ns))
    table["callsite"] = [f"{operation}:{site}" for operation, site in table[KEYS].to_numpy()]
    table["place"] = [places(sites)[:400] for sites in table["sites"]]
    order = ["total_wait_ns", "total_elapsed_ns"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def parse_callsite(key: str) -> tuple[str, int] | None:
    """Return the operation and site_id of a `callsite` in the URL; None for other values."""
    operation, separator, site = key.rpartition(":")
    digits = site.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
    return (operation, int(site)) if separator and is_number else None
