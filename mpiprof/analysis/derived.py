"""Tables that a Trace computes on demand, by name. Importing this module imports pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpiprof.analysis.aggregate import aggregate, wrong
from mpiprof.analysis.callsites import callsites
from mpiprof.analysis.causes import causes
from mpiprof.analysis.collect import samples
from mpiprof.analysis.findings import conclusions, findings
from mpiprof.analysis.frames import events, instances, matrix, matrix_ranks, processes
from mpiprof.analysis.held import held
from mpiprof.analysis.phases import phases
from mpiprof.analysis.ranks import point_to_point, rank_totals, spent
from mpiprof.analysis.sample import hot
from mpiprof.analysis.sampled import totals
from mpiprof.analysis.selection import selection
from mpiprof.analysis.series import series
from mpiprof.analysis.statistics import statistics
from mpiprof.analysis.summary import summary, summed_up
from mpiprof.analysis.whom import waiting_for

# A Trace refers to these tables by name only, because `trace` must not import this package.
DERIVED: dict[str, Callable[..., Any]] = {
    "aggregate": aggregate,
    "callsites": callsites,
    "causes": causes,
    "conclusions": conclusions,
    "events": events,
    "findings": findings,
    "hot": hot,
    "instances": instances,
    "matrix": matrix,
    "matrix_ranks": matrix_ranks,
    "phases": phases,
    "point_to_point": point_to_point,
    "spent": spent,
    "processes": processes,
    "rank_totals": rank_totals,
    "samples": samples,
    "selection": selection,
    "series": series,
    "statistics": statistics,
    "held": held,
    "summary": summary,
    "summed_up": summed_up,
    "totals": totals,
    "waiting_for": waiting_for,
    "wrong": wrong,
}
