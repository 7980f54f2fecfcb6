"""Facts of the run in one line."""

from __future__ import annotations

from mpiprof.interface.format_units import format_count, format_time
from mpiprof.libraries import mpi_name
from mpiprof.reports import phrases
from mpiprof.trace import Trace


def list_facts(trace: Trace) -> list[str]:
    """Return the facts behind the program's name; they need no pass over the trace."""
    facts = [count_ranks(trace), mpi_name(trace.mpi), phrases.started(trace)]
    facts.append(format_time(float(trace.run_ns)))
    if trace.node_count > 1 and 0 < trace.clock_error_ns < float("inf"):
        facts.append(f"clocks agree within {format_time(float(trace.clock_error_ns))}")
    if trace.sampling_interval > 1:
        facts.append(f"sampled: one instance in {trace.sampling_interval}")
    if record := phrases.message_record(trace):
        facts.append(record[0].lower() + record[1:])
    return [fact for fact in facts if fact]


def count_ranks(trace: Trace) -> str:
    """Return the numbers of ranks and nodes as text."""
    ranks, nodes = trace.ranks, trace.node_count
    return f"{format_count(ranks)} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}"
