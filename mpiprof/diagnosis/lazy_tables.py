"""Tables that a Trace computes on demand, by name. Importing this module imports pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpiprof.diagnosis.causes import compute_causes
from mpiprof.diagnosis.findings import find_conclusions, find_findings
from mpiprof.diagnosis.phases import find_phases
from mpiprof.diagnosis.samples import find_hot_callsites
from mpiprof.diagnosis.sampling import take_samples
from mpiprof.metrics.aggregate import aggregate, wrong
from mpiprof.metrics.callsites import callsites
from mpiprof.metrics.coverage import held
from mpiprof.metrics.insitu_statistics import statistics
from mpiprof.metrics.instance_series import series
from mpiprof.metrics.rank_totals import point_to_point, rank_totals, spent
from mpiprof.metrics.sampling_estimates import totals
from mpiprof.metrics.selector_log import selection
from mpiprof.metrics.summary_tables import summary, summed_up
from mpiprof.metrics.tables import events, instances, matrix, matrix_ranks, processes
from mpiprof.metrics.wait_matrix import waiting_for

# A Trace refers to these tables by name only, because `trace` must not import this package.
DERIVED: dict[str, Callable[..., Any]] = {
    "aggregate": aggregate,
    "callsites": callsites,
    "causes": compute_causes,
    "conclusions": find_conclusions,
    "events": events,
    "findings": find_findings,
    "hot": find_hot_callsites,
    "instances": instances,
    "matrix": matrix,
    "matrix_ranks": matrix_ranks,
    "phases": find_phases,
    "point_to_point": point_to_point,
    "spent": spent,
    "processes": processes,
    "rank_totals": rank_totals,
    "samples": take_samples,
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
