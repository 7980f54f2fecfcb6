"""Metrics of matched instances: arrivals, waits, call sites, findings. No plotting, CLI or MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpiprof.analysis.callsites import aggregate, callsites
from mpiprof.analysis.frames import events, instances, matrix, matrix_ranks, processes
from mpiprof.analysis.summary import summary

# What a Trace derives on demand. Trace knows these by name only: imports go one way.
DERIVED: dict[str, Callable[..., Any]] = {
    "aggregate": aggregate,
    "callsites": callsites,
    "events": events,
    "instances": instances,
    "matrix": matrix,
    "matrix_ranks": matrix_ranks,
    "processes": processes,
    "summary": summary,
}
