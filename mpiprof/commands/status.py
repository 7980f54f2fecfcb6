"""Show where every rank of a running, hung or killed job is, and who has not arrived.

  python -m mpiprof status [TRACE]

Without TRACE, the newest trace in this folder is used. In --json, since_ns counts from the start of
the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.interface import terminal_colour
from mpiprof.interface.format_units import format_ranks
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports import phrases

if TYPE_CHECKING:
    from mpiprof.hang.rank_state import Instances
    from mpiprof.hang.verdict import Verdict
    from mpiprof.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE", help="a trace folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    meaning = "show all ranks and pending operations, not only 40 lines"
    parser.add_argument("--all", action="store_true", help=meaning)
    terminal_colour.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the state of a job."""
    import mpiprof
    from mpiprof.hang import rank_state, status, verdict_text
    from mpiprof.reports import json, selector_report
    from mpiprof.trace.default_trace import choose_trace

    trace = mpiprof.open(choose_trace(args.trace))
    with show_work("reading the logs" if trace.is_finalised else "reading the last records"):
        positions, pending = rank_state.find(trace)
        verdict = verdict_text.status_verdict(trace, positions, pending)
    if args.json:
        print(json.as_json_text(status.as_json(trace, positions, pending, verdict)))
        return 0
    print(
        status.status_text(
            trace,
            positions,
            pending,
            verdict,
            [*list_limitations(trace), selector_report.choices_line(trace)],
            next_line(args, status.is_running(trace, positions, verdict), verdict, pending),
            whole=args.all,
        )
    )
    return 0


def list_limitations(trace: Trace) -> Iterator[str]:
    """Yield a sentence for each reason why calls of the job are unknown."""
    if trace.record == "summary":
        fact = "the trace has no single calls, only the ranks that have ended"
        yield f"Recorded as summary: {fact}."
    if not trace.meta:
        yield phrases.loss_sentence(trace)
    if trace.lost_ranks:
        lost = f"Records of {format_ranks(sorted(trace.lost_ranks))} are missing"
        yield f"{lost} (full disk or truncated logs), so later calls are unknown."
    if trace.tables.limits:
        yield "Logs have reached their limit (--limit), so later calls are unknown."
    if trace.wrapped_chunks:
        fact = "the last calls of each rank are available, and the arrivals of all ranks"
        yield f"Recorded as a ring: {fact}."


def next_line(args: argparse.Namespace, running: bool, verdict: Verdict, pending: Instances) -> str:
    """Return the next command to type."""
    named = (args.trace,) if args.trace else ()
    waits = verdict.is_bad or any(instance.missing for instance in pending)
    if waits and running:
        hint = "   (repeat to see whether any rank has moved)"
        return f"next: {format_command('status', *named)}{hint}"
    return f"next: {format_command('report', *named)}"
