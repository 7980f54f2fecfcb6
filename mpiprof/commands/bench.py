"""Repeat a study of the papers: on these ranks, on an emulated cluster, or simulated.

  mpiexec -n 16 python -m mpiprof bench allgatherv       on the ranks of a job
  python -m mpiprof bench allgatherv -n 4                starts the matching mpiexec
  python -m mpiprof bench arrival                        one rank on each processor here
  python -m mpiprof bench cases --cluster 16x100mbit     16 network namespaces as nodes, their
                                                         ports at 100 Mbit/s (needs root, iproute2)
  python -m mpiprof bench intergroup --simulate 64       from the simulator, up to 65536 processes
  python -m mpiprof bench adaptive --cluster 16x100mbit  the promises of `run --switch auto`
  python -m mpiprof bench paper kang -o DIR --quick      a report with all figures of a paper

Prints the conditions and a table. -o NAME writes NAME.csv, NAME.json and NAME.html, and with
--figures pdf each figure as NAME-1.pdf and so on. The expected duration is printed first.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.figures import FORMATS, require_package
from mpiprof.collectives.papers.reports import PAPERS
from mpiprof.collectives.papers.studies import import_study, list_algorithms
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.parse_units import parse_sizes
from mpiprof.interface.shell_hints import format_command
from mpiprof.launch import ranks
from mpiprof.launch.job import find_rank
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import verb_command

STUDIES = {
    "allgatherv": "irregular allgathers: six distributions, rings compared with the library",
    "intergroup": "allgather between two groups: root gathering compared with Kang's algorithms",
    "reduction": "reduce and allreduce: the fastest protocol for each size and number of processes",
    "impact": "effect of imbalanced arrivals on all-to-all and broadcast algorithms",
    "cases": "goals on an emulated cluster, required and measured",
    "arrival": "imbalanced arrivals in balanced programs: exits, computation, arrivals",
    "robust": "`auto` compared with the library and each fixed algorithm, balanced and imbalanced",
    "adaptive": "goals for `auto` on an emulated cluster, required and measured",
    "model": "accuracy of the simulator: predicted and measured times of all algorithms",
    "apps": "the samples with the library's algorithms and with `auto`; imbalance factors",
}
LOOP_STUDIES = ("arrival", "robust", "adaptive")  # too many calls for the simulator
PROGRAMS = "apps"  # starts programs, so it cannot run inside a job
FACTOR_STUDY = "arrival"
CALIBRATED_STUDIES = (FACTOR_STUDY, "model")  # require message times that are usable
# Studies of programs that really compute: by default, each rank has a processor of its own.
STUDIES_OF_PROCESSORS = (FACTOR_STUDY, PROGRAMS)
MODEL = "model"  # compares the simulator with measurements
STUDIES_WITH_ONLY = (
    *("robust", "adaptive", PROGRAMS, "allgatherv", "reduction", "impact", "intergroup", MODEL),
)
STUDY_WITH_FULL = "robust"
PROFILED = "reduction"  # study with --profile
PAPER = "paper"  # a report of several studies
PAPER_OPTIONS = ("study", "name", "only", "output", "quick")
OPTION_NAMES = {"ranks": "-n", "laps": "--repetitions"}  # that differ from their destinations
TABLES = ("cases", "adaptive", MODEL)  # studies without figures
LOCATION_VARIABLE = "MPIPROF_STUDY_PLACE"
CALIBRATED_VARIABLE = "MPIPROF_STUDY_CALIBRATED"  # set if --machine is of the ranks themselves
Start = Callable[[Sequence[str], Mapping[str, str]], int]  # runs a command on all ranks


def parse_numbers(text: str) -> tuple[int, ...]:
    """Convert 4,8-10 to 4, 8, 9, 10."""
    numbers: list[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        if match is None or int(match[1]) < 2:
            example = "numbers of 2 or more, such as 4,8 or 2-32"
            raise argparse.ArgumentTypeError(f"{word!r}: not a list of {example}")
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(numbers)


def formats(text: str) -> tuple[str, ...]:
    """Convert svg,pdf to the formats of figures."""
    selected = tuple(word.strip() for word in text.split(","))
    if not set(selected) <= set(FORMATS):
        raise argparse.ArgumentTypeError(f"{text!r}: write some of {', '.join(FORMATS)}")
    return selected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    studies = "; ".join(f"{name}: {description}" for name, description in STUDIES.items())
    papers = ", ".join(f"{name}: {description}" for name, description in PAPERS.items())
    report = f"{PAPER} NAME: report of a paper ({papers})"
    choices = (*STUDIES, PAPER)
    add("study", choices=choices, metavar="STUDY", help=f"{studies}; {report}")
    add("name", nargs="?", choices=tuple(PAPERS), metavar="NAME", help=f"paper, with {PAPER}")
    choose = parser.add_mutually_exclusive_group().add_argument
    local_ranks = "start N ranks on this machine"
    choose("-n", "-np", dest="ranks", type=int, metavar="N", help=local_ranks)
    cluster = "emulate a cluster: nodes x rate [x ranks per node]"
    choose("--cluster", metavar="16x100mbit", help=cluster)
    choose("--simulate", type=int, metavar="P", help="simulate P processes")
    add("--machine", type=Path, metavar="FILE", help="machine table of `calibrate`")
    per_node = "with --simulate: N processes per node (1)"
    add("--per-node", type=int, default=1, metavar="N", help=per_node)
    port = "with --simulate: all processes of a node share one network port"
    add("--node-port", action="store_true", help=port)
    sizes = "message sizes in place of the default, or c of allgatherv's distributions"
    add("--sizes", type=parse_sizes, default=(), metavar="64K,1M", help=sizes)
    add("--blocks", type=parse_sizes, default=(), metavar="8K,32K", help="block sizes of pipelines")
    counts = "numbers of processes to measure"
    add("--processes", type=parse_numbers, default=(), metavar="2-32", help=counts)
    laps = "number of laps, however long they take"
    add("--repetitions", dest="laps", type=int, default=0, metavar="N", help=laps)
    runs = "run the whole study N times, and print medians with intervals over the runs"
    add("--runs", type=int, default=1, metavar="N", help=runs)
    add("--minutes", type=float, default=15, help="limit the time of all laps (15)")
    add("--quick", action="store_true", help="measure fewer sizes and laps")
    add("--full", action="store_true", help="robust: measure the whole grid, which takes hours")
    parts = "only these operations, algorithms, distributions, cases or apps of the study"
    add("--only", metavar="A,B", help=parts)
    profile = "reduction: benefit over the calls of a trace, or of a CSV file"
    add("--profile", type=Path, metavar="TRACE", help=profile)
    add("--times", type=Path, metavar="FILE", help="with --profile: CSV of `bench reduction -o`")
    output = f"write NAME.csv, .json and .html; {PAPER}: folder for report and results"
    add("-o", dest="output", type=Path, metavar="NAME", help=output)
    figures = "with -o: also write each figure to a file of its own, in some of these formats"
    add("--figures", type=formats, default=(), metavar="svg,png,pdf", help=figures)
    parser.set_defaults(find_default=parser.get_default)


def run(args: argparse.Namespace) -> int:
    """Start the study that the options select, or take part in it as a rank."""
    if args.study == PAPER:
        return report_paper(args)
    if args.name is not None:
        raise UsageError(f"{args.name}: papers require `bench {PAPER} {args.name}`")
    options = check_options(args)
    if args.profile is not None:
        return report_profile(args, options)
    if args.simulate is not None:
        if args.study in (*LOOP_STUDIES, PROGRAMS, MODEL):
            raise UsageError(f"{args.study} cannot be simulated: pass -n or --cluster 16x100mbit")
        from mpiprof.collectives.papers.harness.runner import simulate_study

        if not 2 <= args.simulate <= 65536:
            raise UsageError(f"--simulate {args.simulate}: 2 to 65536 processes")
        simulate_study(args.study, options, args.simulate)
        print(f"next: {format_command('bench', args.study, '--cluster', '16x100mbit')}")
        return 0
    if find_rank(os.environ) is not None:
        if args.ranks is not None or args.cluster:
            remedy = "run this command without mpiexec"
            raise UsageError(f"-n and --cluster start the ranks themselves: {remedy}")
        if args.study == PROGRAMS:
            raise UsageError(f"{PROGRAMS} starts programs itself: `bench {PROGRAMS} -n 8`")
        return run_rank(args, options)
    mpi = ranks.mpi_of_this_python(os.environ)
    if args.cluster:
        return run_on_cluster(args, mpi, options)
    if args.ranks is None and args.study in STUDIES_OF_PROCESSORS:
        from mpiprof.collectives.papers.harness.processors import count_usable_processors

        args.ranks = max(count_usable_processors(), 2)
    if args.ranks is None:
        line = format_command("bench", args.study, ranks=8)
        ways = f"`{line}`, -n 8, --cluster 16x100mbit or --simulate 64"
        raise UsageError(f"no ranks to measure: use {ways}")
    return run_on_this_machine(args, mpi, options)


def report_profile(args: argparse.Namespace, options: Options) -> int:
    """Report the benefit over a profile, which needs no ranks."""
    from mpiprof.collectives.papers.studies import reduction_profile

    if args.study != PROFILED:
        raise UsageError(f"--profile requires the study {PROFILED}")
    if args.ranks is not None or args.cluster or args.simulate is not None:
        raise UsageError("--profile needs no ranks: omit -n, --cluster and --simulate")
    reduction_profile.run(args.profile, options, args.times)
    return 0


def report_paper(args: argparse.Namespace) -> int:
    """Make the report of a paper; raises UsageError for options that do not apply."""
    if args.name is None:
        raise UsageError(f"bench {PAPER} requires a paper: {', '.join(PAPERS)}")
    if find_rank(os.environ) is not None:
        raise UsageError("a report starts its ranks itself: run this command without mpiexec")
    for option, value in vars(args).items():
        if option not in PAPER_OPTIONS and value != args.find_default(option):
            name = OPTION_NAMES.get(option, f"--{option.replace('_', '-')}")
            raise UsageError(f"{name}: bench {PAPER} has only the options --only, -o and --quick")
    require_package("matplotlib", "figures")
    from mpiprof.collectives.papers.reports.paper_report import make_paper_report

    exhibits = [word.strip() for word in (args.only or "").split(",") if word.strip()]
    if args.only is not None and not exhibits:
        raise UsageError('--only is empty: write exhibits, such as --only "Table 6,Figure 10"')
    folder = args.output or Path(f"paper-{args.name}")
    make_paper_report(args.name, folder, exhibits, args.quick)
    return 0


def check_options(args: argparse.Namespace) -> Options:
    """Return the study's options; raises UsageError before any process starts."""
    if args.output is not None and args.output.is_dir():
        example = f"the beginning of file names, such as {args.output}/result"
        raise UsageError(f"-o {args.output} is a folder: pass {example}")
    if args.figures and args.output is None:
        raise UsageError("--figures requires -o NAME, which names the files")
    if args.output is not None and args.study not in TABLES:
        require_package("matplotlib", "figures")
    if args.machine is not None:
        from mpiprof.collectives import machine
        from mpiprof.trace.machine import NO_MESSAGE, find_fault

        # Only to raise errors. The ranks check the times of the sizes that the study uses.
        only_possible = partial(find_fault, smallest=NO_MESSAGE)
        is_sized = args.study in CALIBRATED_STUDIES
        machine.read(args.machine, only_possible if is_sized else find_fault)
    if args.per_node < 1:
        raise UsageError(f"--per-node {args.per_node}: at least 1 process per node")
    if args.simulate is None and (args.per_node > 1 or args.node_port):
        remedy = "for an emulated cluster use --cluster 4x100mbitx8"
        raise UsageError(f"--per-node and --node-port require --simulate: {remedy}")
    if args.runs < 1:
        raise UsageError("--runs must be above 0")
    if args.runs > 1 and args.ranks is None and not args.cluster:
        raise UsageError("--runs requires -n or --cluster, which start the job of each run")
    if args.laps < 0 or args.minutes <= 0:
        raise UsageError("--repetitions and --minutes must be above 0")
    if args.full and args.study != STUDY_WITH_FULL:
        why = "other studies have one grid"
        raise UsageError(f"--full requires the study {STUDY_WITH_FULL}: {why}")
    if args.times is not None and args.profile is None:
        raise UsageError("--times requires --profile TRACE, whose calls it times")
    if args.full and args.quick:
        raise UsageError("--full and --quick contradict each other: pass one of them")
    only, algorithms = parse_only(args)
    selected = vars(args) | {"only": only, "algorithms": algorithms}
    selected["is_calibrated"] = bool(os.environ.get(CALIBRATED_VARIABLE))
    return Options(**{field.name: selected[field.name] for field in fields(Options)})


def parse_only(args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the selected parts and algorithms of a study, empty for all; raises UsageError."""
    if args.only is None:
        return (), ()
    if args.study not in STUDIES_WITH_ONLY:
        raise UsageError(f"--only requires one of the studies {', '.join(STUDIES_WITH_ONLY)}")
    study = import_study(args.study)
    parts, algorithms = getattr(study, "PARTS", ()), list_algorithms(study)
    selected = [word.strip() for word in args.only.split(",")]
    unknown = [word for word in selected if word not in (*parts, *algorithms)]
    if unknown:
        known = ", ".join((*parts, *algorithms))
        raise UsageError(f"--only {unknown[0]}: {args.study} has {known}")
    return (
        tuple(word for word in selected if word in parts),
        tuple(word for word in selected if word in algorithms),
    )


# ---- starting ranks


def rank_command(args: argparse.Namespace) -> list[str]:
    """Return the command line of one rank."""
    command = verb_command("bench", args.study)
    command += ["--minutes", str(args.minutes), "--repetitions", str(args.laps)]
    for option in ("sizes", "blocks", "processes", "figures"):
        if getattr(args, option):
            command += [f"--{option}", ",".join(map(str, getattr(args, option)))]
    command += [f"--{option}" for option in ("quick", "full") if getattr(args, option)]
    if args.only is not None:
        command += ["--only", args.only]
    if args.machine is not None:
        command += ["--machine", str(args.machine.absolute())]
    if args.output is not None:
        command += ["-o", str(args.output.absolute())]
    return command


def run_on_cluster(args: argparse.Namespace, mpi: Mpi, options: Options) -> int:
    """Run the study on an emulated cluster, which is always removed afterwards."""
    from mpiprof.collectives.papers.cluster import network as cluster

    shape = cluster.parse(args.cluster)
    with cluster.raise_on_termination(), cluster.Cluster(shape) as emulated_cluster:
        print(f"emulated cluster of {shape}, {mpi.family}", flush=True)
        start = partial(emulated_cluster.run, mpi, shape.ranks)
        return start_study(args, mpi, options, start, shape.ranks, f"{shape}, {mpi.family}")


def run_on_this_machine(args: argparse.Namespace, mpi: Mpi, options: Options) -> int:
    """Run the study on ranks of this machine."""
    from mpiprof.collectives.papers.cluster.network import raise_on_termination

    if args.ranks < 2:
        raise UsageError(f"-n {args.ranks}: a study requires at least two ranks")
    with raise_on_termination():
        start, location = partial(ranks.start, mpi, args.ranks), f"one machine, {mpi.family}"
        return start_study(args, mpi, options, start, args.ranks, location)


def start_study(
    args: argparse.Namespace, mpi: Mpi, options: Options, start: Start, number: int, location: str
) -> int:
    """Start the ranks of a study, or the programs that it measures; several times with --runs."""
    if args.runs > 1:
        from mpiprof.collectives.papers.harness.repetition import repeat_study

        def start_run(output: Path) -> int:
            once = argparse.Namespace(**vars(args) | {"runs": 1, "output": output.absolute()})
            own = replace(options, output=once.output)
            return start_study(once, mpi, own, start, number, location)

        with tempfile.TemporaryDirectory(prefix=ranks.FOLDER_PREFIX) as folder:
            return repeat_study(start_run, args.runs, Path(folder), args.output)
    if args.study == PROGRAMS:
        from mpiprof.collectives.papers.studies import apps

        apps.run(options, start, number, location, mpi)
        return 0
    study_variables = {LOCATION_VARIABLE: location}
    with tempfile.TemporaryDirectory(prefix=ranks.FOLDER_PREFIX) as folder:
        if args.study in CALIBRATED_STUDIES and args.machine is None:
            args.machine = calibrate(start, Path(folder), args.study, number, options)
            study_variables[CALIBRATED_VARIABLE] = "1" if args.machine else ""
        command = rank_command(args)
        level = recording_level(args.study)
        inside = ranks.rank_environment(command, mpi, Path(folder, "trace"), level)
        return start(command, inside | ranks.serialize_threads() | study_variables)


def calibrate(start: Start, folder: Path, study: str, number: int, options: Options) -> Path | None:
    """Return the measured message times of the ranks, or None if the study cannot use them.

    Raises MpiprofError for the study that tests predictions from these times.
    """
    import json

    from mpiprof.collectives.papers.harness import message_times

    find_fault = partial(message_times.find_study_fault, import_study(study), number, options)
    file = message_times.calibrate_ranks(start, folder, find_fault)
    table = json.loads(file.read_text())
    fault = find_fault(table)
    if fault and study == MODEL:
        why = f"message times of `calibrate` are not usable: {fault}"
        raise MpiprofError(f"{why}: {message_times.REMEDY}")
    print(message_times.describe_messages(table, fault), flush=True)
    return None if fault else file


def recording_level(study: str) -> str:
    """Return the recording level for a study: all events if probing instances are counted."""
    return "events" if study in LOOP_STUDIES else "summary"


# ---- one rank


def run_rank(args: argparse.Namespace, options: Options) -> int:
    """Run one rank of the study; under a bare mpiexec, first preload the library before MPI."""
    mpi = ranks.mpi_of_this_python(os.environ)
    if not ranks.is_preloaded():
        level, threads = recording_level(args.study), ranks.serialize_threads()
        ranks.restart_preloaded(rank_command(args), mpi, level, threads)
    from mpiprof.collectives.papers.harness.runner import run_study

    run_study(args.study, options, mpi.abi, in_loops=args.study in LOOP_STUDIES)
    return ranks.finalize_mpi()
