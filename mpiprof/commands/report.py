"""Show per call site how processes arrive, who is late, and what the waiting costs.

  python -m mpiprof report [TRACE] [options]

Without TRACE, the newest trace in this folder is used. --fail-on takes columns of the JSON,
compared with values and joined by `and`, `or` and brackets, such as "total_wait > 1s and
latest_share > 30%". Columns of the whole run have the prefix `run.`: "run.wait_share > 30%"; those
of places and findings have `place.` and `finding.`: "finding.saved > 2s". If a call site, a place,
a finding or the run meets the condition, the exit code is 3. --what-if predicts the run time with a
change: "rank 3 = median", "node n07 = median", "site md.py:93 = balanced", "network = ideal" or
"finding 1 = removed".
--explain adds the function that made each finding, the fields of its cause, and the segments that
its replay lacks. --site selects by operation, file, line and function. --rank shows the longest
waits of one rank, and the ranks that cause them. -o writes a file in the format that its ending
selects: Markdown for a mail (.md), a page (.html) or data for programs (.json).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.commands import FAIL_ON_HELP, open_named_trace
from mpiprof.errors import UsageError
from mpiprof.formats import dask_workers
from mpiprof.interface import terminal_colour
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.interface.output_files import check_output, write_text
from mpiprof.interface.parse_units import parse_positive
from mpiprof.interface.progress import show_work
from mpiprof.interface.shell_hints import format_command

if TYPE_CHECKING:
    from mpiprof.causes.finding import Finding
    from mpiprof.causes.what_if import Change, Prediction
    from mpiprof.trace import Trace

TracePaths = tuple[Path, ...]  # the trace as the user named it, or empty
MAX_FINDINGS = 8
MAX_ROWS = 20
DEFAULT_SORT = "total_wait_ns"
FILE_ENDINGS = (".md", ".html", ".json")
SIMULATION_BUDGET_S = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("trace", nargs="?", type=Path, metavar="TRACE", help="a trace folder")
    meaning = "routine: calls, sizes and times by MPI routine; rank: time of each rank"
    add("--by", choices=("callsite", "routine", "rank"), default="callsite", help=meaning)
    add(
        "--sort",
        metavar="COLUMN",
        default=DEFAULT_SORT,
        help="a column of --json, such as latest_share",
    )
    meaning = "show at most N rows of a table (20; 8 in a report of 40 lines)"
    add("--top", type=parse_positive, metavar="N", help=meaning)
    add("--all", action="store_true", help="show all tables, not only 40 lines")
    meaning = "the longest waits of rank N, each back to its cause"
    add("--rank", type=int, metavar="N", help=meaning)
    add("--site", metavar="PATTERN", help="one call site over its instances, such as app.py:12")
    meaning = 'run time with a change, such as "rank 3 = median"; may be repeated'
    add("--what-if", action="append", default=[], metavar="CHANGE", help=meaning)
    add("--explain", action="store_true", help="state the origin of each finding")
    add("--machine", type=Path, metavar="FILE", help="machine table of `calibrate`")
    add("--json", action="store_true", help="print JSON")
    add("-o", dest="output", type=Path, metavar="FILE", help="write a .md, .html or .json file")
    add("--fail-on", metavar="EXPR", help=FAIL_ON_HELP)
    add("--incomplete", action="store_true", help="apply --fail-on to an incomplete trace as well")
    terminal_colour.add_argument(parser)
    dask_workers.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print a report; returns 3 if --fail-on is met, otherwise 0."""
    from mpiprof.reports import fail_on

    condition = None if args.fail_on is None else fail_on.parse(args.fail_on)
    args.sort = sort_column(args.sort)
    changes = parse_changes(args.what_if)
    to = output_ending(args)
    check_options(args, to)
    from mpiprof.account import columns
    from mpiprof.formats.cached_trace import refuse_unreadable
    from mpiprof.hang.words import end_text, verdict_text
    from mpiprof.reports import json
    from mpiprof.reports.table import wrap_paragraph
    from mpiprof.reports.words import trace_sentences, what_if

    trace = open_named_trace(args.trace, args.machine, args.workers)
    with show_work("reading the trace"):
        if args.sort == DEFAULT_SORT and not trace.callsites["total_wait_ns"].any():
            args.sort = "total_elapsed_ns"
        is_text = columns.find(args.sort).is_text  # numbers are sorted with the largest first
        callsites: Any = trace.callsites.sort_values(args.sort, ascending=is_text, kind="stable")
    refuse_unreadable(trace)
    messages: Any = trace.message_callsites
    if args.site:
        callsites, messages = select_callsites((callsites, messages), args.site)
    prediction = None
    if changes:
        from mpiprof.causes.what_if import predict_run

        with show_work("replaying the run"):
            prediction = predict_run(trace, changes)
    findings = []
    if args.json or to or (args.by == "callsite" and not args.site and args.rank is None):
        with show_work("looking for causes"):
            from mpiprof.collectives.tune.predict import find_gains

            findings = trace.findings(find_gains(trace, SIMULATION_BUDGET_S))
    above = []
    if wrong := verdict_text.fault_line(trace):
        above.append(terminal_colour.paint(wrap_paragraph(wrong, 0), "late"))
    elif raised := end_text.raised_sentences(trace):
        above.append(terminal_colour.paint(wrap_paragraph(raised, 0), "late"))
    if lost := trace_sentences.loss_sentence(trace):
        above.append(wrap_paragraph(lost, 0))
    if prediction is not None:
        above.append(wrap_paragraph(what_if.prediction_text(prediction), 0))
    if args.json or to:
        document = make_document(args, to, trace, callsites, messages, findings, prediction)
        if args.output is None:
            print(document)
        else:
            write_text(args.output, document + "\n" * (not document.endswith("\n")))
            print(f"{args.output}: the report")
    else:
        print(report_text(args, trace, callsites, messages, findings, above))
    if condition is None:
        return 0
    if not args.incomplete:
        fail_on.refuse_incomplete(trace)
    rows = json.callsites_as_data(callsites) + json.message_callsites_as_data(messages)
    rows += fail_on.list_rows(trace, findings, condition.columns)
    run_ = {f"run.{name}": value for name, value in json.totals_as_data(trace).items()}
    return fail_on.judge(args.fail_on, condition, rows, run_)


def report_text(
    args: argparse.Namespace,
    trace: Trace,
    callsites: Any,
    messages: Any,
    findings: list[Finding],
    above: list[str],
) -> str:
    """Return the report for a terminal; `above` are the paragraphs before it."""
    from mpiprof.reports import callsite_report, run_report

    named = (args.trace,) if args.trace else ()
    if args.rank is not None:
        return report_rank_waits(args, trace, named, above)
    top = args.top or (MAX_ROWS if args.all else None)
    if args.site:
        row, note = choose_callsite(trace, callsites, messages)
        if "instances" in row:
            return callsite_report.report_callsite(trace, row, note, top, named, above)
        text = report_message_callsites(trace, row, note, messages, top or MAX_ROWS, named)
    elif args.by != "callsite":
        text = report_sums(trace, args.by, top or MAX_ROWS, named)
    else:
        shown = callsites, findings, args.sort, top, named, above
        return run_report.report_run(trace, *shown, explains=args.explain)
    return "\n\n".join([*above, text])


def make_document(
    args: argparse.Namespace,
    to: str,
    trace: Trace,
    callsites: Any,
    messages: Any,
    findings: list[Finding],
    prediction: Prediction | None,
) -> str:
    """Return a report as JSON, Markdown or a page, selected by the ending of its name.

    callsites: of collectives. messages: call sites of messages.
    """
    from mpiprof.hang.words import verdict_text
    from mpiprof.reports.words import what_if

    predicted = "" if prediction is None else what_if.prediction_text(prediction)
    if to == ".md":
        from mpiprof.reports import markdown

        lines = verdict_text.fault_line(trace), predicted
        top = args.top or MAX_ROWS
        return markdown.make_page(trace, lines, callsites, findings, top, MAX_FINDINGS)
    if to == ".html":
        from mpiprof.hang import hang_pictures
        from mpiprof.reports.html_report import page

        with show_work("drawing the page"):
            return page.make_page(trace, *hang_pictures.describe_fault(trace), predicted)
    from mpiprof.reports import json, selector_report, text

    verdict, sentences = verdict_text.trace_verdict(trace)
    data = json.make_report(trace, callsites, messages, findings) | {
        "selection": selector_report.list_keys(trace),
        "times": text.rank_times_as_data(trace),
        "hang": verdict_text.as_json(trace, verdict, sentences) if verdict.is_bad else None,
        "what_if": None if prediction is None else what_if.prediction_as_data(prediction),
    }
    if args.explain:
        from mpiprof.reports.words.explanation import explanation_as_data

        for row, finding in zip(data["findings"], findings, strict=True):
            row["explanation"] = explanation_as_data(trace, finding)
    if args.site and trace.record != "summary":
        for row, callsite in zip(data["callsites"], callsites["callsite"].tolist(), strict=True):
            row["arrival_statistics"] = json.arrival_statistics_as_data(
                trace.arrival_statistics(callsite)
            )
            row["phases"] = json.table_as_data(trace.phases(callsite))
    return json.as_json_text(data)


def parse_changes(texts: list[str]) -> list[Change]:
    """Return the changes that --what-if names; raises UsageError."""
    if not texts:
        return []
    from mpiprof.causes.what_if import parse_change

    return [parse_change(text) for text in texts]


def output_ending(args: argparse.Namespace) -> str:
    """Return the ending of the output file, or "" without -o; raises UsageError."""
    if args.output is None:
        return ""
    ending = str(args.output.suffix.lower())
    if ending not in FILE_ENDINGS:
        endings = ", ".join(FILE_ENDINGS)
        raise UsageError(f"-o {args.output}: unknown file type: end the name with one of {endings}")
    if args.json and ending != ".json":
        raise UsageError(f"--json and -o {args.output} contradict each other: leave out --json")
    if ending != ".json" and (args.site or args.by != "callsite"):
        fact = f"-o {args.output} always contains the whole report"
        raise UsageError(f"{fact}: leave out --site and --by")
    check_output("-o", args.output, f"report{ending}", replaced=True)
    return ending


def sort_column(name: str) -> str:
    """Return the column that --sort names; raises UsageError if there is none."""
    if name == DEFAULT_SORT:
        return name
    from mpiprof.account import columns
    from mpiprof.reports.fail_on import by_name

    column_by_name = by_name(columns.numbers(), columns.texts())
    if name not in column_by_name:
        suggestion = suggest_names(name, dict.fromkeys(column_by_name.values()))
        raise UsageError(f"--sort {name}: no such column; {suggestion}")
    return column_by_name[name]


def select_callsites(tables: Sequence[Any], pattern: str) -> list[Any]:
    """Return the call sites of each table that match a pattern; raises UsageError if none does."""
    from mpiprof.reports.site_labels import matches_pattern, places

    rows = [row for table in tables for row in table.to_dict("records")]
    selected = []
    for table in tables:
        named = zip(table["operation"], table["sites"], strict=True)
        selected.append(table[[matches_pattern(*names, pattern) for names in named]])
    if not any(map(len, selected)):
        locations = dict.fromkeys(places(row["sites"]) for row in rows)
        suggestion = suggest_names(pattern, locations) if locations else "none was recorded"
        raise UsageError(f"--site {pattern}: no such call site; {suggestion}")
    return selected


def choose_callsite(trace: Trace, callsites: Any, messages: Any) -> tuple[dict[Any, Any], str]:
    """Return the row of the costliest of the given call sites, and a note that names the others."""
    from mpiprof.reports.words import callsite_sentences

    rows = [row for table in (callsites, messages) for row in table.to_dict("records")]
    wait = max(row["total_wait_ns"] for row in rows) > 0
    column = "total_wait_ns" if wait else "total_elapsed_ns"
    rows.sort(key=lambda row: 0.0 if math.isnan(row[column]) else -row[column])
    return rows[0], callsite_sentences.match_note(trace, rows[0], rows[1:])


def check_options(args: argparse.Namespace, to: str) -> None:
    """Raise UsageError if --rank or --explain is given together with options for other reports."""
    selecting = {"--by": args.by != "callsite", "--site": bool(args.site)}
    if args.rank is not None:
        fact = "--rank prints the waits of one rank"
        _refuse_options(fact, selecting | {"--json": args.json, "-o": args.output is not None})
    if args.explain:
        fact = "--explain adds to the report on a run, as text or JSON"
        to_page = {f"-o {args.output}": to in (".md", ".html")}
        _refuse_options(fact, selecting | {"--rank": args.rank is not None} | to_page)


def _refuse_options(fact: str, options: Mapping[str, bool]) -> None:
    """Raise UsageError if one of some options is given."""
    if names := [name for name, is_given in options.items() if is_given]:
        raise UsageError(f"{fact}: leave out {' and '.join(names)}")


def report_rank_waits(
    args: argparse.Namespace, trace: Trace, named: TracePaths, above: list[str]
) -> str:
    """Return the report on the longest waits of the rank of --rank; raises UsageError."""
    from mpiprof.dashboard.timeline.longest_waits import list_chained_waits
    from mpiprof.formats.cached_trace import cache_key
    from mpiprof.reports.rank_report import SHORT_ROWS, report_rank
    from mpiprof.reports.words.rank_sentences import WaitChain, WaitLink

    if not 0 <= args.rank < trace.ranks:
        raise UsageError(f"--rank {args.rank}: the trace has the ranks 0 to {trace.ranks - 1}")
    if trace.record == "summary":
        raise UsageError(
            f"--rank {args.rank}: {trace.path} has only totals, so single waits are unknown: "
            "record without --record summary"
        )
    most = args.top or (MAX_ROWS if args.all else SHORT_ROWS)
    with show_work("looking for waits"):
        found = list_chained_waits(trace, cache_key(trace), args.rank, most)
    chains = []
    for one in found:
        links = tuple(
            WaitLink(w.rank, w.awaited, w.begin, w.until - w.begin, w.operation, w.site, w.tag)
            for w in one.chain or (one.wait,)
        )
        last = one.last
        end = (last.inside, last.operation, last.site) if last else ()
        chains.append(WaitChain(links, *end))
    return report_rank(trace, args.rank, chains, named, above, whole=args.all)


def report_sums(trace: Trace, by: str, top: int, named: TracePaths) -> str:
    """Return the time of each rank in MPI, or counts, message sizes and times of each routine."""
    from mpiprof.reports import text

    parts = [text.fact_lines(trace, dropped=False)]
    if by == "rank":
        parts.append(text.rank_time_table(trace, top))
    elif len(trace.callsites):
        parts.append(
            f"Routines; times are per rank\n{text.routine_table(trace, trace.callsites)}\n"
            "  msg size: what each rank contributes, in an all-to-all what it sends to each "
            "destination;\n"
            "  *: average of different sizes; a range: call sites of different (average) sizes"
        )
    parts.append(f"next: {format_command('report', *named)}   (the call sites)")
    return "\n\n".join(parts)


def report_message_callsites(
    trace: Trace, row: dict[Any, Any], note: str, messages: Any, top: int, named: TracePaths
) -> str:
    """Return the given call sites of messages, and the cause and the pairs of ranks of `row`.

    note: on further call sites that match, or "".
    """
    from mpiprof.causes.finding import find_causes_at
    from mpiprof.reports import message_table
    from mpiprof.reports.site_labels import routine_at
    from mpiprof.reports.table import wrap_paragraph
    from mpiprof.reports.words import callsite_sentences, message_sentences

    cost = message_sentences.message_cost_sentence(row)
    longest = message_sentences.longest_wait_sentence(trace, row)
    costs = wrap_paragraph(" ".join(filter(None, [cost, longest])), 0)
    pairs = message_table.pair_text(trace, row, top)
    findings = [] if trace.record == "summary" else trace.findings()
    causes = find_causes_at(findings, (str(row["operation"]), int(row["site_id"])))
    phrases = callsite_sentences.message_headline(row, causes, findings)
    parts = [
        wrap_paragraph(callsite_sentences.join_phrases(phrases), 0),
        "\n".join(filter(None, [costs, wrap_paragraph(note)])),
        message_table.callsite_text(messages, top, findings),
        f"Pairs of ranks at {routine_at(row)}\n{pairs}",
        f"next: {format_command('report', *named)}   (all call sites)",
    ]
    return "\n\n".join(part for part in parts if part)
