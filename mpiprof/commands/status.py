"""Show where every rank of a running, hung or killed job is, and who has not arrived.

  python -m mpiprof status [TRACE]

Without TRACE, the newest trace in this folder is used. In --json, since_ns counts from the start of
the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mpiprof.interface.format_units import format_ranks
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a trace folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the state of a job."""
    import mpiprof
    from mpiprof.hang import rank_state, status, verdict_text
    from mpiprof.reports import json, selector_report
    from mpiprof.reports.table import wrap_paragraph
    from mpiprof.trace.default_trace import choose_trace

    trace = mpiprof.open(choose_trace(args.trace))
    with show_work("reading the logs" if trace.is_finalised else "reading the last records"):
        positions, pending = rank_state.find(trace)
        verdict = verdict_text.status_verdict(trace, positions, pending)
    if args.json:
        print(json.as_json_text(status.as_json(trace, positions, pending, verdict)))
        return 0
    print(status.status_text(trace, positions, pending, verdict))
    if choices := selector_report.choices_line(trace):
        print(f"{wrap_paragraph(choices)}\n")
    if trace.record == "summary":
        fact = "the trace has no single calls, only the ranks that have ended"
        print(f"Recorded as summary: {fact}.\n")
    if trace.lost_ranks:
        lost = f"Records of {format_ranks(sorted(trace.lost_ranks))} are missing"
        print(f"{lost} (full disk or truncated logs), so later calls are unknown.\n")
    if trace.tables.limits:
        print("Logs have reached their limit (--limit), so later calls are unknown.\n")
    if trace.wrapped_chunks:
        fact = "the last calls of each rank are available, and the arrivals of all ranks"
        print(f"Recorded as a ring: {fact}.\n")
    named = (args.trace,) if args.trace else ()
    waits = verdict.is_bad or any(instance.missing for instance in pending)
    if waits and status.is_running(trace, positions):
        hint = "   (repeat to see whether any rank has moved)"
        print(f"next: {format_command('status', *named)}{hint}")
    else:
        print(f"next: {format_command('report', *named)}")
    return 0
