"""Show one program over its runs: time lost, efficiencies, slowest call sites, and changes.

  python -m mpiprof history PATH [...] [options]

A PATH is a trace, a folder that contains traces, or a file of summaries that `run --summary-to`
wrote, one line per run. Runs of the same program with the same number of ranks are compared: those
that occur most often, or those that --program and --ranks choose. The verdict names the run with
which the lost time or the run time has changed, if at least 8 runs are known. The commit of a run
is that of the folder in which it was started, or of the CI job. --format markdown writes a table
for a merge request.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mpiprof.errors import MpiprofError
from mpiprof.interface import terminal_colour
from mpiprof.interface.output_files import check_output, write_text
from mpiprof.interface.parse_units import parse_positive
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    from mpiprof.causes.cause_changes import LedgerChanges
    from mpiprof.reports.history import History
    from mpiprof.reports.run_summary import RunSummary

MAX_ROWS = 20
COMPARED_RUNS = 3  # on each side of the newest change


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    where = "traces, folders of traces, or files of summaries"
    add("paths", nargs="+", type=Path, metavar="PATH", help=where)
    add("--program", default="", metavar="NAME", help="only runs of this program")
    add("--ranks", type=parse_positive, default=0, metavar="N", help="only runs on N ranks")
    add("--top", type=parse_positive, metavar="N", help="show at most the newest N runs (20)")
    add("--all", action="store_true", help="show all runs")
    formats = ("text", "markdown", "json")
    add("--format", choices=formats, default="text", help="format of the output (text)")
    add("-o", dest="output", type=Path, metavar="FILE", help="write to a file")
    terminal_colour.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the history of a program."""
    from mpiprof.reports import history, history_report, json
    from mpiprof.reports.run_summary import list_runs

    if args.output is not None:
        check_output("-o", args.output, "history.md", replaced=True)
    runs, others = history.group_runs(list_runs(args.paths), args.program, args.ranks)
    with show_work("reading the traces"):
        found = history.make_history(complete_runs(runs), others)
        found = replace(found, ledgers=compare_around_change(found))
    newest = len(runs) if args.all else args.top or MAX_ROWS
    if args.format == "json":
        text = json.as_json_text(history_report.history_data(found))
    elif args.format == "markdown":
        text = history_report.history_markdown(found, newest)
    else:
        text = history_text(found, newest)
    if args.output is None:
        print(text)
    else:
        write_text(args.output, terminal_colour.remove_colour(text) + "\n")
        print(f"{args.output}: the history")
    return 0


def complete_runs(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs with the values of their traces; unreadable traces have none."""
    from mpiprof.formats.cached_trace import open_trace
    from mpiprof.hang.words import verdict_text
    from mpiprof.reports.run_summary import summarise_run

    completed = []
    for run_ in runs:
        try:
            if run_.is_trace:
                trace = open_trace(run_.path)
                run_ = summarise_run(trace, verdict_text.fault_line(trace))
        except MpiprofError as error:
            run_ = replace(run_, verdict=str(error), is_complete=True)
        completed.append(run_)
    return completed


def compare_around_change(history: History) -> LedgerChanges:
    """Return the changes of work, calls and causes between the runs around the newest change."""
    from mpiprof.causes import cause_changes
    from mpiprof.formats.cached_trace import open_trace

    if not history.changes:
        return cause_changes.NO_CHANGES
    newest = history.changes[-1]
    index = newest.point.index
    sides = (
        history.runs[index - min(newest.before, COMPARED_RUNS) : index],
        history.runs[index : index + min(newest.after, COMPARED_RUNS)],
    )
    if not all(run_.is_trace for side in sides for run_ in side):
        return cause_changes.NO_CHANGES
    try:
        before, after = ([open_trace(run_.path) for run_ in side] for side in sides)
        return cause_changes.compare_ledgers(before, after)
    except MpiprofError:
        return cause_changes.NO_CHANGES


def history_text(history: History, newest: int) -> str:
    """Return the history for a terminal: verdict, newest runs, and the next command."""
    from mpiprof.interface.terminal_colour import paint
    from mpiprof.reports import history_report
    from mpiprof.reports.table import render, wrap_paragraph
    from mpiprof.reports.words import history_sentences

    first, *further = map(wrap_paragraph, history_sentences.verdict_lines(history))
    lines = [paint(history.title, "strong"), "", paint(first, "strong"), *further, ""]
    columns = history_report.history_columns(history, newest)
    shown = len(columns[0].cells)
    if shown < len(history.runs):
        lines.append(f"The newest {shown} of {len(history.runs)} runs")
    header, *rows = render(*columns).split("\n")
    lines.append(header)
    marks = history_report.mark_changes(history)[-shown:]
    for row, mark in zip(rows, marks, strict=True):
        if mark:
            lines.append(paint(wrap_paragraph(f"── {mark}"), "late"))
        lines.append(row)
    left_out = history_sentences.note_left_out(history)
    notes = [history_sentences.LEGEND, history_sentences.METHOD, left_out]
    lines += [paint(wrap_paragraph(note), "quiet") for note in notes if note]
    return "\n".join([*lines, "", next_line(history)])


def next_line(history: History) -> str:
    """Return the next command: a comparison around the newest change, or the newest report."""
    traces = history.runs
    with contextlib.suppress(IndexError):
        index = history.changes[-1].point.index
        before, after = traces[index - 1], traces[index]
        if before.is_trace and after.is_trace:
            line = format_command("compare", before.path, after.path)
            return f"next: {line}   (the last change)"
    last = [run_ for run_ in traces if run_.is_trace]
    if not last:
        return f"next: {format_command('history', 'FOLDER')}   (traces name the late ranks)"
    return f"next: {format_command('report', last[-1].path)}   (the newest trace)"
