"""Gains of other algorithms at the costliest call sites, for the findings of a report.

A short form of tuning by model: a few recorded arrival patterns per call site, within a time limit.
"""

from __future__ import annotations

from mpiprof.diagnosis.findings import Gain
from mpiprof.errors import MpiprofError
from mpiprof.model import machine as machines
from mpiprof.trace import Trace
from mpiprof.tune import tasks
from mpiprof.tune.predict import predict
from mpiprof.tune.result import YES, Verdict, judge

MAX_PATTERNS = 8
MAX_EVENTS = 5_000_000  # above it, another pass over the trace is left to `tune`
MAX_MEMBERS = 256
MAX_WORKS = 5


def find_gains(trace: Trace, budget_s: float) -> list[Gain]:
    """Return gains beyond the model's doubt; [] for summaries and for very long traces."""
    table = trace.callsites
    if trace.record == "summary" or (table["instances"] * table["size"]).sum() > MAX_EVENTS:
        return []
    try:
        machine = machines.machine_of_table(trace.machine, "the trace")
        works = [w for w in tasks.list_works(trace, MAX_PATTERNS) if w.members <= MAX_MEMBERS]
        results = predict(works[:MAX_WORKS], machine, budget_s, lambda: None)
    except MpiprofError:  # a report works without a machine table or schedule library
        return []
    collectives = float(table["total_elapsed_ns"].sum())
    verdicts = [judge(result, collectives) for result in results]
    return [make_gain(verdict) for verdict in verdicts if verdict.worth == YES]


def make_gain(verdict: Verdict) -> Gain:
    """Convert a verdict to the form of a finding."""
    saving, callsite = verdict.total_saving, verdict.result.work.callsite
    error_ns = saving(verdict.gain_ns - max(verdict.low_ns, 0.0))
    return Gain(callsite, verdict.best, saving(verdict.gain_ns), error_ns, "simulated")
