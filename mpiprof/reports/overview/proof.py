"""The picture that proves the answer.

It shows a typical instance of the worst call site, or who causes the waiting for messages there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.instance_series import find_worst_instance
from mpiprof.account.rank_totals import read_instance
from mpiprof.causes.finding import Finding, is_blamed
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_instance
from mpiprof.reports.pictures.caused_waits import CausedWaits, draw_caused_waits
from mpiprof.reports.pictures.instance_arrivals import MAX_ROWS, InstanceArrivals, draw_arrivals
from mpiprof.reports.site_labels import format_callsite, format_wait_site, make_callsite_key
from mpiprof.reports.words import captions
from mpiprof.reports.words.ranks_and_steps import host_of
from mpiprof.trace import Trace
from mpiprof.trace.types import Bool

WIDTHS = {"wide": (760.0, 290.0), "narrow": (366.0, 230.0)}  # by class: of the picture in px
LARGE_SHARE = 0.5  # of the 90th percentile of the spreads; smaller ones are not typical of a delay


@dataclass(frozen=True)
class Proof:
    """A picture of a call site, with its title.

    callsite: key of the call site. number: of the instance, None in messages.
    """

    callsite: int | str
    number: int | None
    title: str
    content: InstanceArrivals | CausedWaits
    how_to_read: str = captions.INSTANCE_ARRIVALS

    def draw(self, size: tuple[float, float] = WIDTHS["wide"]) -> str:
        """Return the picture."""
        if isinstance(self.content, CausedWaits):
            return draw_caused_waits(self.content, *size)
        return draw_arrivals(self.content, *size)


def find_proof(trace: Trace, finding: Finding | None, instances: pd.DataFrame) -> Proof | None:
    """Return the picture that proves a finding, or None if none can. instances: of the trace."""
    main = None if finding is None else finding.main_callsite
    if finding is not None and isinstance(main, tuple):
        return _prove_by_messages(trace, finding, main)
    chosen = None if finding is None else choose_instance(instances, finding)
    if finding is None or chosen is None:
        return None
    row, number, count = chosen
    try:
        arrivals = read_arrivals(trace, finding, row)
    except MpiprofError:
        return None
    callsite = int(row["callsite"])
    ranks = "a row is a rank"
    if len(arrivals.ranks) > MAX_ROWS:
        ranks = "a row is the latest of several ranks"
    place = f"{format_callsite(trace, callsite)}, {format_instance(number, count)}"
    title = f"{place}; {ranks}, from the median of the others"
    is_typical = count > 1 and is_blamed(finding) and int(row["last_rank"]) in finding.ranks
    how_to_read = captions.INSTANCE_ARRIVALS + captions.TYPICAL_INSTANCE * is_typical
    return Proof(callsite, number, title, arrivals, how_to_read)


def _prove_by_messages(trace: Trace, finding: Finding, callsite: tuple[str, int]) -> Proof | None:
    """Return the picture of the waiting in messages at a call site, or None if it is unknown."""
    known = trace.derive("rank_waits")(callsite)
    if known is None or not known[1].any():
        return None
    waits = CausedWaits(known[0], known[1], mark_blamed(trace, finding))
    title = f"Waiting at {format_wait_site(trace, callsite)}, by rank"
    return Proof(make_callsite_key(callsite), None, title, waits, captions.CAUSED_WAITS)


def mark_blamed(trace: Trace, finding: Finding) -> Bool:
    """Return for each rank whether the finding blames it."""
    return np.isin(np.arange(trace.ranks), finding.ranks) & is_blamed(finding)


def choose_instance(table: Any, finding: Finding) -> tuple[Any, int, int] | None:
    """Return a typical instance in which a blamed rank is last, its number, and their count.

    It has the median spread among those of large spread, because a rank with occasional delays is
    sometimes last by chance. It is at the first call site of the finding that has any. Without
    blamed ranks it is the instance with most waiting.
    """
    for callsite in finding.callsites:
        rows = table[(table["callsite"] == callsite).to_numpy()].reset_index(drop=True)
        rows = rows.assign(number=np.arange(len(rows)))
        good = rows[rows["complete"].to_numpy(np.bool_) & (rows["size"] > 1).to_numpy()]
        if not len(good):
            continue
        spread = "worst_imbalance_ns"
        mine = good[good["last_rank"].isin(finding.ranks).to_numpy()]
        if len(mine) and is_blamed(finding):
            large = mine[mine[spread] >= LARGE_SHARE * mine[spread].quantile(0.9)]
            row = large.sort_values(spread, kind="stable").iloc[len(large) // 2]
        else:
            row = good.iloc[find_worst_instance(good)]
        return row, int(row["number"]), len(rows)
    return None


def read_arrivals(trace: Trace, finding: Finding, row: Any) -> InstanceArrivals:
    """Return the times of one instance; `row`: of `Trace.instances`."""
    since = int(row["first_arrival_ns"])
    found = read_instance(
        trace, str(row["communicator"]), int(row["sequence"]), int(row["start"]), since
    )
    order = np.argsort(found.ranks)
    ranks = found.ranks[order]
    late = np.isin(ranks, finding.ranks) if is_blamed(finding) else np.zeros(len(ranks), np.bool_)
    nodes = [host_of(trace, int(rank)) for rank in ranks]
    names = nodes if len(set(nodes)) > 1 else []
    return InstanceArrivals(
        ranks,
        found.arrival[order],
        found.wait[order],
        found.finish[order],
        late,
        names,
        str(row["operation"]),
    )
