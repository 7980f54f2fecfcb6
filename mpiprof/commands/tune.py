"""Find the best algorithm for each call site of a recorded program, and write a plan.

  python -m mpiprof tune TRACE --summary               what the program could gain, by operation
  python -m mpiprof tune TRACE -o plan.json            by the model, from the recorded arrivals
  mpiexec -n 16 python -m mpiprof tune TRACE --replay -o plan.json
                                                       by measuring: the same arrivals, sizes and
                                                       contributions, without the program
  python -m mpiprof tune TRACE --replay -n 4           starts the matching mpiexec
  python -m mpiprof tune TRACE --found -o plan.json    the choices of `run --switch auto`
  mpiexec -n 16 python -m mpiprof run --switch plan.json app.py
  python -m mpiprof tune TRACE --to openmpi -o rules.conf
                                                       as the library's own configuration, to run
                                                       without mpiprof; also mpich and intel
  python -m mpiprof tune --plan plan.json -n 16 --to openmpi -o rules.conf
                                                       the same from a plan, for up to 16 ranks

Without TRACE, the newest trace in this folder is used.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.commands import open_named_trace
from mpiprof.errors import UsageError
from mpiprof.formats import dask_workers
from mpiprof.interface.format_units import format_time
from mpiprof.interface.output_files import check_output
from mpiprof.interface.parse_units import number_parser, parse_budget
from mpiprof.interface.progress import show_progress, show_work

if TYPE_CHECKING:
    from mpiprof.collectives.machine import Machine
    from mpiprof.collectives.tune.plan_entries import Entry
    from mpiprof.collectives.tune.result import Result, TuningVerdict
    from mpiprof.trace import Trace

TOP_WORKS = 15
LIBRARIES = ("openmpi", "mpich", "intel")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add("trace", nargs="?", type=Path, metavar="TRACE", help="the trace folder")
    add("-o", dest="output", type=Path, metavar="PLAN", help="write a plan for `run --switch`")
    add("--summary", action="store_true", help="print the possible gain by operation")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--replay", action="store_true", help="measure with the ranks of a job")
    way.add_argument("--found", action="store_true", help="take the choices of `run --switch auto`")
    way.add_argument("--plan", type=Path, metavar="PLAN", help="with --to: the plan to convert")
    add("--to", choices=LIBRARIES, help="write the configuration of a library")
    add("--commutative", action="store_true", help="with --to: all reductions commute")
    place = parser.add_mutually_exclusive_group()
    count = number_parser(2, 1 << 20)
    local_ranks = "with --replay: start N ranks; with --plan: convert it for up to N ranks"
    place.add_argument("-n", "-np", dest="ranks", type=count, metavar="N", help=local_ranks)
    cluster = "emulate nodes x rate [x ranks each]"
    place.add_argument("--cluster", metavar="16x100mbit", help=cluster)
    add("--budget", type=parse_budget, default=120.0, metavar="2m", help="limit the time (2m)")
    add("--site", metavar="PATTERN", help="only call sites whose location contains this text")
    add("--machine", type=Path, metavar="FILE", help="simulate this machine table of `calibrate`")
    parse_count, top = number_parser(1, 10**6), f"show at most N rows ({TOP_WORKS})"
    add("--top", type=parse_count, default=TOP_WORKS, metavar="N", help=top)
    add("--json", action="store_true", help="print JSON")
    dask_workers.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Read the trace, try the candidates, print the results and write the plan."""
    check(args)
    if args.plan is not None:
        return export_plan_file(args)
    if args.replay:
        return replay(args)
    trace, name = read_trace(args)
    if args.found:
        return plan_from_selector(args, trace, name)
    from mpiprof.collectives.tune import predict, tasks

    works = tasks.choose_works(trace, predict.count_patterns(trace.ranks), args.site)
    machine = machine_to_simulate(args, trace)
    with show_progress("simulating", len(works)) as step:
        results = predict.predict(works, machine, args.budget, lambda: step(1))
    return print_results(args, trace, name, results, recorded_origin(trace, "model"))


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other, before reading anything."""
    if not args.replay and (args.cluster or (args.ranks is not None and args.plan is None)):
        raise UsageError("-n and --cluster require --replay: the model runs without ranks")
    if args.to is not None and args.output is None:
        raise UsageError(f"--to {args.to} requires -o FILE, such as rules.conf")
    if args.to is None and (args.plan is not None or args.commutative):
        option = "--commutative" if args.commutative else "--plan"
        raise UsageError(f"{option} requires --to, such as --to openmpi")
    if args.plan is not None and (args.summary or args.machine or args.site):
        raise UsageError("--plan is converted unchanged: it accepts only --to, -o, -n and --json")
    if args.replay and args.machine is not None:
        why = "leave it out, because --replay measures this machine"
        raise UsageError(f"--machine is an input of the model: {why}")
    if args.workers is not None and (args.replay or args.plan is not None):
        raise UsageError("--dask is an option of the model: leave out --replay and --plan")
    if args.found and (args.summary or args.machine or args.site):
        raise UsageError("--found writes the choices of `auto` unchanged: only -o goes with it")
    if args.plan is not None and not args.plan.is_file():
        raise UsageError(f"--plan {args.plan}: no such file")
    if args.output is not None:
        check_output("-o", args.output, "plan.json")


def read_trace(args: argparse.Namespace) -> tuple[Trace, str]:
    """Return the trace, and its name as the user gave it."""
    from mpiprof.formats.cached_trace import refuse_unreadable
    from mpiprof.trace.default_trace import choose_trace

    folder = choose_trace(args.trace)
    with show_work(f"reading {folder}"):
        trace = open_named_trace(folder, args.machine, args.workers)
        refuse_unreadable(trace)
    return trace, str(folder)


def machine_to_simulate(args: argparse.Namespace, trace: Trace) -> Machine:
    """Return the machine to simulate; raises UsageError if the trace cannot be modelled."""
    from mpiprof.causes.tuning_refusal import find_refusal
    from mpiprof.collectives import machine

    if refusal := find_refusal(trace):
        raise UsageError(f"{trace.path}: {refusal}")
    assert trace.machine is not None
    return machine.machine_of_table(trace.machine, str(args.machine or trace.path / "meta.json"))


def recorded_origin(trace: Trace, how: str) -> dict[str, Any]:
    """Return where and when a trace was recorded, for its plan."""
    from mpiprof.collectives.tune import plan_entries
    from mpiprof.facts.library_algorithms import mpi_name

    hosts = [str(host) for host in trace.processes["host"] if isinstance(host, str)]
    started = str(trace.meta.get("started", ""))[:10]
    return plan_entries.make_provenance(how, mpi_name(trace.mpi), hosts, started)


# ---- measuring


def replay(args: argparse.Namespace) -> int:
    """Measure on the ranks of a job; the process that receives the results prints them."""
    from mpiprof.collectives.tune.replay import jobs as replayed
    from mpiprof.launch.program import verb_command

    ways = (args.trace, args.site, args.ranks, args.cluster, args.budget)
    request = replayed.ReplayRequest(*ways, tuple(verb_command(*rank_command(args))))
    done = replayed.replay_trace(request)
    if isinstance(done, int):
        return done

    import numpy as np

    from mpiprof.collectives.tune import plan_entries
    from mpiprof.collectives.tune.replay.imposed_arrivals import MAX_ERROR_NS
    from mpiprof.facts.library_algorithms import mpi_name

    outcome, mpi = done.outcome, mpi_name(done.outcome.mpi)
    errors = outcome.arrival_errors()
    facts: dict[str, Any] = {
        "ranks": outcome.ranks,
        "mpi": mpi,
        "instances": len(errors),
        "laps": outcome.laps,
        "arrival_error_median_ns": float(np.median(errors)),
        "arrival_error_90_ns": float(np.percentile(errors, 90)),
        "near_share": float((errors <= MAX_ERROR_NS).mean()),
        "clock_error_ns": outcome.clock_error_ns,
    }
    environment = f" on {done.environment}" if done.environment else ""
    head = (
        f"Replayed{environment} with {outcome.ranks} ranks of {mpi}: {len(errors)} instances in "
        f"{outcome.laps} laps\n"
        f"  arrivals imposed within {format_time(facts['arrival_error_median_ns'])} (median), "
        f"{format_time(facts['arrival_error_90_ns'])} (9 in 10); {facts['near_share']:.0%} of the "
        f"instances within {format_time(MAX_ERROR_NS)}"
    )
    if outcome.clock_error_ns:
        head += f"\n  clocks of the ranks are right within {format_time(outcome.clock_error_ns)}"
    origin = plan_entries.make_provenance("replay", mpi, outcome.hosts, "")
    name = str(done.trace.path)
    return print_results(args, done.trace, name, done.results, origin, [head], facts)


def rank_command(args: argparse.Namespace) -> list[str]:
    """Return the command line of this verb for one rank."""
    command = ["tune", "--replay", "--budget", f"{args.budget}s", "--top", str(args.top)]
    if args.trace is not None:
        command.append(str(args.trace.absolute()))
    if args.site is not None:
        command += ["--site", args.site]
    if args.output is not None:
        command += ["-o", str(args.output.absolute())]
    return command + ["--summary"] * args.summary + ["--json"] * args.json


# ---- results


def print_results(
    args: argparse.Namespace,
    trace: Trace,
    name: str,
    results: Sequence[Result],
    origin: Mapping[str, Any],
    head: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Print the results and write the plan; `head` and `facts` describe the measurement."""
    from mpiprof.collectives.tune import result, result_rows
    from mpiprof.reports import text, tuning_report

    total = float(trace.callsites["total_elapsed_ns"].sum()) if len(trace.callsites) else 0.0
    verdicts = [result.judge(task_result, total) for task_result in results]
    works = [result_rows.make_row(v) for v in verdicts]
    plan = result_rows.make_plan_entries(verdicts, origin)
    export = write_plan(args, plan, trace, origin)
    if args.json:
        summary = result_rows.summarise_operations(trace, verdicts)
        return print_json(args, trace, plan, export, works, summary, facts)
    parts = [text.fact_lines(trace), *head]
    if args.summary:
        parts.append(tuning_report.summary_table(result_rows.summarise_operations(trace, verdicts)))
    elif works:
        parts.append(tuning_report.works_table(works, args.top))
    else:
        parts.append(tuning_report.nothing_to_tune(trace))
    parts.append(closing_text(args, trace, name, verdicts, plan, export))
    print("\n\n".join(parts))
    return exit_code(export)


def write_plan(
    args: argparse.Namespace, plan: Sequence[Entry], trace: Trace, origin: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Write a plan to -o; with --to export it instead, and return what was exported."""
    from mpiprof.collectives.tune import plan_entries

    if args.to is not None:
        from mpiprof.collectives.tune.export_rules import targets

        target = targets.Target(args.to, args.output, args.commutative)
        return targets.export_entries(plan, target, trace)
    if args.output is not None:
        # A plan that was measured today has no date yet.
        date = origin["date"] or time.strftime("%Y-%m-%d")
        dated = [entry | {"measured": entry["measured"] | {"date": date}} for entry in plan]
        plan_entries.write(args.output, dated)
    return None


def print_json(
    args: argparse.Namespace,
    trace: Trace,
    plan: Sequence[Mapping[str, Any]],
    export: Mapping[str, Any] | None,
    works: Sequence[Mapping[str, Any]] = (),
    summary: Sequence[Mapping[str, Any]] = (),
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Print all results as JSON, with null for unknown values; return the exit code."""
    from mpiprof.reports import json

    data = {
        "version": 1,
        "trace": str(trace.path),
        "program": trace.program,
        "replay": None if facts is None else dict(facts),
        "works": list(works),
        "summary": list(summary),
        "plan": list(plan),
        "written": None if args.output is None or exit_code(export) else str(args.output),
        "handover": export,
    }
    print(json.as_json_text(replace_nan(data)))
    return exit_code(export)


def replace_nan(value: Any) -> Any:
    """Return data with null in place of numbers that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: replace_nan(element) for name, element in value.items()}
    return [replace_nan(element) for element in value] if isinstance(value, list) else value


def closing_text(
    args: argparse.Namespace,
    trace: Trace,
    name: str,
    verdicts: Sequence[TuningVerdict],
    plan: Sequence[Mapping[str, Any]],
    export: Mapping[str, Any] | None,
) -> str:
    """Return the files written, and the next useful command."""
    from mpiprof.collectives.tune.result import DOUBTFUL
    from mpiprof.reports import tuning_report

    if export is not None:
        return tuning_report.export_text(export)
    doubtful = not args.replay and any(v.worth == DOUBTFUL for v in verdicts)
    command = ["tune", name, *["--replay"] * args.replay]
    return tuning_report.closing_text(trace, command, args.output, plan, measure=doubtful)


def plan_from_selector(args: argparse.Namespace, trace: Trace, name: str) -> int:
    """Write the plan of the choices that a program's selector made."""
    from mpiprof.collectives.tune import from_selector

    runs, origin = from_selector.read(trace.path), recorded_origin(trace, "auto")
    plan = from_selector.make_entries(runs, origin)
    export = write_plan(args, plan, trace, origin)
    if args.json:
        return print_json(args, trace, plan, export)
    modes = " or ".join(dict.fromkeys(run.key["mode"] for run in runs)) or "auto"
    print(f"{len(runs)} groups of calls run as `{modes}` selected; {len(plan)} plan entries")
    for entry in plan:
        sites = ", ".join(entry.get("call_sites", [])) or "all call sites"
        print(f"  {entry['operation']} at {sites}: {entry['algorithm']}; {entry['why']}")
    print(closing_text(args, trace, name, [], plan, export))
    return exit_code(export)


# ---- export to the library's configuration


def export_plan_file(args: argparse.Namespace) -> int:
    """Export a plan from its file; its call sites can be exported only with a TRACE."""
    from mpiprof.collectives.tune.export_rules import targets
    from mpiprof.reports import json, tuning_report

    trace = read_trace(args)[0] if args.trace is not None else None
    target = targets.Target(args.to, args.output, args.commutative)
    export = targets.export_plan(args.plan, target, trace, args.ranks)
    if args.json:
        print(json.as_json_text({"version": 1, "handover": export}))
    else:
        print(tuning_report.export_text(export))
    return exit_code(export)


def exit_code(export: Mapping[str, Any] | None) -> int:
    """Return the exit code: 1 if nothing could be exported and nothing was written, else 0."""
    return int(export is not None and export["written"] is None)
