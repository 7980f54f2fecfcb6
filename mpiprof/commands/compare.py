"""Compare recordings, call site by call site: times, waiting, imbalance, algorithms.

  python -m mpiprof compare A B [...] [options]
  python -m mpiprof compare A1 A2 A3 --to B1 B2 B3 [options]
  python -m mpiprof compare --scaling RUN RUN [...] [options]

The verdict comes first: which run is slower, where, by how much, how certain this is, and the
advice. It names the calls between which the work has changed, the calls on messages that take
longer, and the causes that are new, gone, or cost more or less waiting. Each trace is compared with
the first. With --to, all traces before it are compared with all traces after it, so that
differences between equal runs count as chance. Of single runs, the variation between runs is
estimated. Runs of different programs or numbers of ranks are not comparable: one line states the
difference, and --fail-on refuses them. --scaling shows run time, speed-up and efficiencies of runs
with different numbers of ranks, and the factor that loses most. Call sites are matched by file,
line and function, or by function if lines have moved. --fail-on takes columns of the JSON, compared
with values and joined by `and`, `or` and brackets, such as "wait_ns_change > 10% and wait_ns_p <
0.01". Columns of the whole runs have the prefix `run.`: "run.total_wait_ns_change > 10%"; those of
places and causes have `place.` and `cause.`: "place.kind == work and place.added > 1s and
place.certain == 1". If a call site, a place, a cause or a run meets the condition, the exit code is
3.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.commands import FAIL_ON_HELP, open_named_trace
from mpiprof.errors import UsageError
from mpiprof.formats import dask_workers
from mpiprof.interface import terminal_colour
from mpiprof.interface.parse_units import parse_positive
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    import pandas as pd

    from mpiprof.reports.compare import Verdicts
    from mpiprof.trace import Trace

MAX_ROWS, SHORT_ROWS = 20, 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    traces = "two or more trace folders, or one and --to"
    add("traces", nargs="+", type=Path, metavar="TRACE", help=traces)
    changed = "traces of further runs of the changed program"
    add("--to", nargs="+", type=Path, default=[], metavar="TRACE", help=changed)
    scaling = "show the scaling over numbers of ranks"
    add("--scaling", action="store_true", help=scaling)
    top = "show at most N rows per comparison (20; where only 40 lines are shown, 10 in all)"
    add("--top", type=parse_positive, metavar="N", help=top)
    add("--all", action="store_true", help="show all call sites, not only 40 lines")
    add("--machine", type=Path, metavar="FILE", help="machine table of `calibrate`")
    add("--json", action="store_true", help="print JSON")
    add("--fail-on", metavar="EXPR", help=FAIL_ON_HELP)
    add("--incomplete", action="store_true", help="apply --fail-on to incomplete traces as well")
    terminal_colour.add_argument(parser)
    dask_workers.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print a comparison; returns 3 if --fail-on is met, otherwise 0."""
    if len(args.traces) < 2 and not args.to:
        raise UsageError("compare requires at least two traces: name the reference trace first")
    if args.scaling:
        return show_scaling(args)
    from mpiprof.reports import compare as reports
    from mpiprof.reports import fail_on

    condition = None
    if args.fail_on is not None:
        condition = fail_on.parse(args.fail_on, reports.NUMBERS, reports.TEXTS)
    from mpiprof.causes.compare import compare
    from mpiprof.formats.cached_trace import refuse_unreadable
    from mpiprof.reports import json

    traces = [open_named_trace(path, args.machine, args.workers) for path in args.traces]
    to = [open_named_trace(path, args.machine, args.workers) for path in args.to]
    with show_work("reading the traces"):
        for trace in [*traces, *to]:
            refuse_unreadable(trace)
        table = compare(traces, to)
    if condition is not None:
        reports.refuse_incomparable(traces, to, table)
    with show_work("looking for causes"):
        verdicts = reports.make_verdicts(traces, to, table)
    if args.json:
        print(json.as_json_text(reports.comparison_data(traces, to, table, verdicts)))
    else:
        print(report_text(args, traces, to, table, verdicts))
    if condition is None:
        return 0
    for trace in () if args.incomplete else [*traces, *to]:
        fail_on.refuse_incomplete(trace)
    codes = []
    for number, trace in enumerate(to[:1] or traces[1:], 1):
        rows = reports.judged_rows(table, number, verdicts)
        runs = reports.compare_runs(traces[0], trace)
        codes.append(fail_on.judge(args.fail_on, condition, rows, runs))
    return max(codes)


def show_scaling(args: argparse.Namespace) -> int:
    """Print the scaling of the runs over their numbers of ranks."""
    if args.to or args.fail_on is not None:
        option = "--to" if args.to else "--fail-on"
        raise UsageError(f"--scaling and {option} contradict each other: leave out {option}")
    from mpiprof.account.efficiencies import judge_scaling
    from mpiprof.formats.cached_trace import refuse_unreadable
    from mpiprof.reports import json
    from mpiprof.reports.words import scaling

    traces = [open_named_trace(path, args.machine, args.workers) for path in args.traces]
    if len({trace.ranks for trace in traces}) < 2:
        fact = f"all traces have {traces[0].ranks} ranks"
        raise UsageError(f"--scaling: {fact}; name runs with different numbers of ranks")
    with show_work("reading the traces"):
        for trace in traces:
            refuse_unreadable(trace)
        found = judge_scaling(traces)
    if args.json:
        print(json.as_json_text(scaling.scaling_data(found, traces)))
    else:
        print(scaling.scaling_text(found))
    return 0


def report_text(
    args: argparse.Namespace,
    traces: list[Trace],
    to: list[Trace],
    table: pd.DataFrame,
    verdicts: Verdicts,
) -> str:
    """Return the verdicts, the runs, and the changed places, causes and call sites."""
    from mpiprof.interface.terminal_colour import paint
    from mpiprof.reports import compare as reports
    from mpiprof.reports.table import Section, join_sections, wrap_paragraph
    from mpiprof.reports.words import captions
    from mpiprof.reports.words.change_sentences import cause_table, place_table
    from mpiprof.reports.words.compare_sentences import find_repeated
    from mpiprof.reports.words.trace_sentences import describe_defects

    names = [*args.traces, *args.to]
    whole = args.all or args.top is not None
    comparable = reports.list_comparable(verdicts)
    top = args.top or (MAX_ROWS if args.all else max(SHORT_ROWS // max(len(verdicts), 1), 2))
    sections = [Section("", wrap_paragraph(line, 0)) for line in find_repeated(names)]
    tables = []
    for number, compared in verdicts.items():
        first, *paragraphs = [wrap_paragraph(text, 0) for text in compared.paragraphs]
        style = "good" if compared.difference.outcome == "faster" else "strong"
        verdict = "\n".join([paint(first, style), *paragraphs])
        title = f"A → {chr(ord('A') + number)}"
        sections.append(Section(title * (len(verdicts) > 1), verdict, essential=number == 1))
        if changed := place_table(compared.ledgers.places, top):
            heading = f"{title}: work and messages that changed, mean of the ranks"
            tables.append(Section(heading, changed))
        if causes := cause_table(compared.ledgers.causes, top):
            tables.append(Section(f"{title}: waiting of all ranks by cause", causes))
        part = table[table["other"] == number]
        if len(part) and number in comparable:
            limit_note = f", the first {top} of {len(part)}" if len(part) > top else ""
            title += f": call sites by change of time{limit_note}"
            tables.append(Section(title, reports.change_table(part.head(top))))
    line = format_command("report", names[-1])
    last = f"next: {line}   (why ranks are late in the last trace)"
    if not comparable:
        return join_sections(sections, last, whole=whole)
    sections.append(Section("", reports.run_table(traces, to)))
    if lacking := describe_defects([*traces, *to]):
        lines = [wrap_paragraph(line, 2, 4) for line in lacking]
        sections.append(Section("Incomplete traces", "\n".join(lines)))
    sections += tables
    sections.append(Section("", paint(wrap_paragraph(captions.COMPARE_LEGEND), "quiet")))
    return join_sections(sections, last, whole=whole)
