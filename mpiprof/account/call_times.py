"""Long times of one rank in calls on messages, windows and files in which it waits for no rank.

    wait ends ──── call ────┐   one call
    put flush put flush put ┘   a burst: other calls or long work end it

Such time delays other ranks as work does, but it is no work between two calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.account.collective_waits import MIN_INSIDE_NS, CollectiveWaits
from mpiprof.account.message_waits import find_wait_ends
from mpiprof.account.row_order import join_columns, put_in_order
from mpiprof.facts.operations import MESSAGE_OPERATIONS
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

MIN_CALL_SHARE = 0.5  # of a burst, that is inside its calls


def find_times_in_calls(trace: Trace) -> list[Int]:
    """Return rank, begin_ns, end_ns and site_id of the times of at least MIN_INSIDE_NS."""
    calls: Any = trace.message_calls
    names = ("rank", "enter_ns", "exit_ns", "site_id")
    rank, enter, exit_, site = (calls[name].to_numpy() for name in names)
    begin = find_wait_ends(trace)
    # A poll is a wait, of which the awaited rank may be unknown.
    is_timed = (exit_ > 0) & (calls["polls"].to_numpy() == 0)
    if isinstance(trace, TraceWindow):
        is_timed &= trace.covers(enter)
    is_long = is_timed & (exit_ - begin >= MIN_INSIDE_NS)
    is_local = ~calls["operation"].isin(MESSAGE_OPERATIONS).to_numpy()
    is_brief = is_timed & ~is_long & is_local & (begin == enter)
    long = [column[is_long] for column in (rank, begin, exit_, site)]
    if not is_brief.any():
        return long
    return join_columns([long, _find_bursts(trace, (rank, enter, exit_, site), is_brief)], 4)


def _find_bursts(trace: Trace, calls: tuple[Array, Int, Int, Array], is_brief: Bool) -> list[Int]:
    """Return the bursts of brief calls as rank, begin, end and the site with most of the time.

    calls: rank, enter, exit and site of all logged calls.
    """
    collective: CollectiveWaits = trace.derive("collective_waits")
    names = ("call_rank", "enter_ns", "exit_ns", "site_id")
    of_collectives = [getattr(collective, name) for name in names]
    columns = join_columns([calls, of_collectives], 4)
    is_part = np.append(is_brief, np.zeros(len(of_collectives[0]), np.bool_))
    rank, enter, exit_, site, is_part = put_in_order([*columns, is_part], trace.ranks)
    # A call continues a burst if the call before is part of it and ended not long before.
    continues = np.zeros(len(rank), np.bool_)
    continues[1:] = is_part[1:] & is_part[:-1] & (rank[1:] == rank[:-1])
    continues[1:] &= enter[1:] - exit_[:-1] < MIN_INSIDE_NS
    first = np.flatnonzero(is_part & ~continues)
    rows = np.flatnonzero(is_part)
    burst = np.cumsum(~continues[rows]) - 1
    spent = exit_[rows] - enter[rows]
    begin, end = enter[first], np.zeros(len(first), np.int64)
    np.maximum.at(end, burst, exit_[rows])
    is_chosen = (end - begin >= MIN_INSIDE_NS) & (
        np.bincount(burst, spent, len(first)) >= MIN_CALL_SHARE * (end - begin)
    )
    main = _find_main_sites(burst, site[rows], spent, len(first))
    return [column[is_chosen] for column in (rank[first], begin, end, main)]


def _find_main_sites(burst: Int, site: Array, spent_ns: Int, bursts: int) -> Int:
    """Return the site with most time of each burst."""
    sites = int(site.max()) + 2  # an unknown site is -1
    code, cell = np.unique(burst * sites + site + 1, return_inverse=True)
    order = np.argsort(np.bincount(cell, spent_ns), kind="stable")
    main = np.zeros(bursts, np.int64)
    main[code[order] // sites] = code[order] % sites - 1
    return main
