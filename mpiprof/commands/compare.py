"""Compare recordings, call site by call site: times, waiting, imbalance, algorithms.

  python -m mpiprof compare A B [...] [options]

Each trace is compared with the first. Call sites are matched by file, line and function, or by
function where lines have moved. --fail-on takes columns of the JSON, compared with numbers and
joined by `and`, such as "wait_ns_change>0.1 and wait_ns_p<0.01"; when a call site meets it, the
exit code is 3.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from mpiprof.errors import UsageError
from mpiprof.invocation import invocation
from mpiprof.quantities import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("traces", nargs="+", type=Path, metavar="TRACE", help="trace folders, at least two")
    add("--top", type=positive, default=20, metavar="N", help="at most N rows a comparison (20)")
    add("--json", action="store_true", help="as data, for programs")
    add("--fail-on", metavar="EXPR", help="exit with 3 when a call site meets it")


def run(args: argparse.Namespace) -> int:
    """Print a comparison; returns 3 when a call site meets --fail-on."""
    if len(args.traces) < 2:
        raise UsageError("name at least two traces, the one to compare with first")
    from mpiprof.reports import changes as reports
    from mpiprof.reports import condition

    terms = condition.parse(args.fail_on, reports.NUMBERS, reports.TEXTS) if args.fail_on else []
    from mpiprof.analysis.changes import compare
    from mpiprof.progress import working
    from mpiprof.reports import json
    from mpiprof.reports.condition import exit_code
    from mpiprof.reports.table import paragraph
    from mpiprof.store.derived import open_trace
    from mpiprof.trace.newest import chosen

    traces = [open_trace(chosen(path)) for path in args.traces]
    with working("reading the traces"):
        table = compare(traces)
    if args.json:
        print(json.text(reports.as_data(traces, table)))
    else:
        parts = [reports.run_table(traces)]
        for other in range(1, len(traces)):
            part = table[table["other"] == other]
            if not len(part):
                continue
            left = f", the first {args.top} of {len(part)}" if len(part) > args.top else ""
            title = f"A → {chr(ord('A') + other)}: call sites by change of time{left}"
            parts.append(f"{title}\n{reports.change_table(part.head(args.top))}")
            parts.append(reports.verdict(part))
        parts.append(paragraph(reports.LEGEND))
        name = shlex.quote(str(args.traces[-1]))
        parts.append(f"next: {invocation()} report {name}   (why ranks are late in the last one)")
        print("\n\n".join(parts))
    return exit_code(args.fail_on, terms, reports.rows_of(table) if terms else [])
