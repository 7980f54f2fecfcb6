"""Show where every rank of a running, hung or killed job is, and who has not arrived.

  python -m mpiprof status [TRACE]

Without TRACE, the newest trace in this folder is used. In --json, since_ns counts from the start of
the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.interface import terminal_colour
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports.words.trace_sentences import list_limitations

if TYPE_CHECKING:
    from mpiprof.hang.rank_state import Instances
    from mpiprof.hang.verdict import HangVerdict


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
    from mpiprof.hang import job_verdict, rank_state, status
    from mpiprof.reports import json, selector_report
    from mpiprof.trace.default_trace import choose_trace

    trace = mpiprof.open(choose_trace(args.trace))
    with show_work("reading the logs" if trace.is_finalised else "reading the last records"):
        positions, pending = rank_state.find(trace)
        verdict = job_verdict.status_verdict(trace, positions, pending)
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


def next_line(
    args: argparse.Namespace, running: bool, verdict: HangVerdict, pending: Instances
) -> str:
    """Return the next command to type."""
    named = (args.trace,) if args.trace else ()
    waits = verdict.is_bad or any(instance.missing for instance in pending)
    if waits and running:
        hint = "   (repeat to see whether any rank has moved)"
        return f"next: {format_command('status', *named)}{hint}"
    return f"next: {format_command('report', *named)}"
