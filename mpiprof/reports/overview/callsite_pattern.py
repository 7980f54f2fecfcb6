"""Arrival pattern of a call site, as cells of a picture."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.diagnosis.arrival_statistics import find_late_rank
from mpiprof.metrics.arrival_pattern import read_arrival_pattern
from mpiprof.reports.pictures.arrival_pattern import MAX_COLUMNS, MAX_ROWS, ArrivalCells
from mpiprof.reports.pictures.rank_rows import make_rank_rows
from mpiprof.reports.rank_locations import host_of
from mpiprof.reports.site_labels import format_callsite
from mpiprof.trace import Trace

HOW_TO_READ = (
    "A row is a rank or the latest of consecutive ranks, a column an instance or the latest of "
    "consecutive instances. The colour tells how much later (orange, or grey without a late rank) "
    "or earlier (blue) than the median of the other ranks it arrives."
)


def read_pattern(trace: Trace, callsite: int, instances: pd.DataFrame) -> ArrivalCells | None:
    """Return the pattern of a call site, or None for a single instance. instances: of the trace."""
    rows = instances[(instances["callsite"] == callsite).to_numpy()]
    totals = trace.rank_totals
    members = np.unique(totals.loc[totals["callsite"] == callsite, "rank"].to_numpy(np.int64))
    if len(rows) < 2 or len(members) < 2:
        return None
    late = find_late_rank(trace, callsite)
    late_rank = None if late is None else late.rank
    layout = make_rank_rows(members, late_rank, MAX_ROWS)
    read = read_arrival_pattern(trace, rows, members, layout.starts, MAX_COLUMNS, late_rank)
    hosts = [host_of(trace, rank) for rank in members.tolist()]
    site = format_callsite(trace, callsite)
    return ArrivalCells(read.late_ns, layout, hosts, late_rank, len(rows), site)
