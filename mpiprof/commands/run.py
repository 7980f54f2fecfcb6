"""Run an MPI program and record its collectives and messages.

  mpiexec -n 8 python -m mpiprof run [options] app.py [args]
  mpiexec -n 8 python -m mpiprof run [options] -m package.module [args]
  mpiexec -n 8 python -m mpiprof run [options] -- ./binary [args]
  python -m mpiprof run -n 8 [options] app.py [args]     starts the matching mpiexec

With --switch, collectives run on other algorithms than those of the MPI library, with the same
results. SPEC is a list, separated by commas, of

  operation=algorithm[:parameter=value...]   such as allgatherv=pipelined_ring:block_size=64K
  app.py:88=algorithm                        a call site, as the communicator's rank 0 sees it
  PLAN.json                                  [{"operation": "alltoall", "algorithm": "ring",
                                             "bytes": {"from": 1024}, "call_sites": ["app.py:88"]}]
  auto                                       selects algorithms while the program runs; after
                                             other items, it starts from these

or one of these alone: robust, the routine of Faraj et al. 2008 for all-to-all, which tries eight
algorithms ten times each; or random:SEED, a testing aid. `native` is the library's default choice.
`native:ring` is the library's algorithm of that name or number; with Open MPI, :segment=64K sets
the segment size of an algorithm that has segments. `reduce=static` and `allreduce=static` use the
protocol of Rabenseifner and Adamidis for the number of processes and bytes. Call sites take
precedence over operations; among equal items the first one wins. `allgather=kang` applies to
inter-communicators only. Entries of a plan that do not apply are reported and ignored. Algorithms
that copy data need additional memory: at most --scratch per process, by default 64M, freed after
each call. A call that needs more memory, or cannot get it, runs on the library's algorithm, and
this is reported at the end.

The program, its output and its exit code are unchanged.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpiprof.collectives.tune import selection_option
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.parse_units import parse_budget
from mpiprof.interface.shell_hints import format_command
from mpiprof.launch import folder as trace_folder
from mpiprof.launch import job, library, options
from mpiprof.launch.job import find_rank, print_once
from mpiprof.launch.library import Mpi
from mpiprof.launch.option_checks import (
    check_command,
    check_hang_options,
    check_program,
    check_ring,
    check_summary_file,
)
from mpiprof.launch.program import (
    Program,
    find_mpi,
    find_program,
    program_words,
    replace_process,
    verb_command,
)

if TYPE_CHECKING:
    from mpiprof.collectives.tune.plan import Plan
    from mpiprof.launch.mpiexec import Mpiexec

UNRECORDED = "the program runs unrecorded (--or-bare)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    options.add_options(parser)
    selection_option.add_replaced(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> NoReturn:
    """Replace this process by the program or its mpiexec; returns only by an exception."""
    environment = dict(os.environ)
    try:
        check_and_start(args, environment)
    except MpiprofError as error:
        # If the ranks of a job fail here, one rank reports the error, and all ranks exit.
        job.wait_for_rank_0(environment)
        atexit.register(job.abort_job, error.exit_code, environment)  # after the error is printed
        raise


def check_and_start(args: argparse.Namespace, environment: dict[str, str]) -> NoReturn:
    """Check the options and replace this process by the program or mpiexec; raises MpiprofError."""
    try:
        Path.cwd()
    except OSError as error:
        remedy = "change to an existing folder with `cd`"
        raise MpiprofError(f"the current folder no longer exists: {remedy}") from error
    command = program_words(args)
    if not command:
        raise UsageError(f"no program to run: `{format_command('run', 'app.py')}`")
    check_program(args, command)
    program = find_program(command, module=args.module)
    if args.partial and args.together:
        raise UsageError("--partial and --together contradict each other: pass one of them")
    if args.record.startswith("ring"):
        check_ring(args)
    check_hang_options(args)
    if args.force:
        check_force(args, environment)
    summary_to = args.summary_to
    plan = read_plan_or_none(args, program, environment)
    check_option_files(args, environment)
    # Also if rank 0 cannot write the summary: the recorders of all ranks need equal options.
    recording = replace(options.recording_from_arguments(args), summary_to=summary_to)
    if args.ranks is not None:
        start_ranks(args, program, plan, environment)
    if args.record == "off":
        replace_process(program.argv, environment)
    mpi = find_recordable_mpi(args, program, environment)
    if mpi is None:
        replace_process(program.argv, environment)
    unrecorded = args.unrecorded
    if not args.named:
        unrecorded = must_run_bare(args, program, environment)
        if args.folder is not None and not unrecorded and not args.force:
            trace_folder.check_no_earlier_trace(args.folder, environment, partial=args.partial)
    recording = replace(recording, unrecorded=unrecorded)
    if plan is not None:
        plan = selection_option.fit_to_mpi(args, plan, mpi, environment)
        recording = replace(
            recording,
            switch=plan.format_for_recorder() or None,
            switch_model=read_model(args.machine),
            auto=plan.auto,
            learned=selection_option.read_start_values(args, mpi),
        )
    prepared = options.recorder_environment(program, mpi, recording, environment)
    warn_of_mixed_mpis(program, mpi, environment)
    if not unrecorded:
        replace_trace(args)
        start_agent(args, prepared)
    replace_process(program.argv, prepared)


def check_force(args: argparse.Namespace, environment: dict[str, str]) -> None:
    """Raise UsageError if --force has nothing to replace, or would replace anything but a trace."""
    if args.folder is None or args.record == "off":
        remedy = "pass -o, and a --record other than off"
        raise UsageError(f"--force replaces the trace that -o names: {remedy}")
    # Ranks start at different times, so a rank could remove the trace that another has begun.
    if find_rank(environment) is not None:
        fact = "--force requires `run -n`, which removes the old trace before it starts the ranks"
        remedy = f"remove {args.folder} first, or name another folder with -o"
        raise UsageError(f"{fact}: under another launcher {remedy}")
    from mpiprof.hang.trace_removal import check_removable

    check_removable(args.folder)


def replace_trace(args: argparse.Namespace) -> None:
    """Remove the trace that --force replaces; the last step, when the program is sure to start."""
    if args.force:
        from mpiprof.hang.trace_removal import remove

        remove(args.folder)


def needs_agent(args: argparse.Namespace) -> bool:
    """Return whether the options require an agent process beside the job."""
    return args.watch is not None or args.summary_to is not None


def start_agent(args: argparse.Namespace, prepared: dict[str, str]) -> None:
    """Start the agent process that watches the job and writes its summary, if requested."""
    if not needs_agent(args):
        return
    from mpiprof.hang import spawn

    job_here = spawn.find_job_start(prepared)
    if job_here is None or (args.watch is None and not job_here.reports):
        return
    summary_to = args.summary_to.absolute() if args.summary_to and job_here.reports else None

    def task() -> None:
        from mpiprof.hang.agent import run_agent
        from mpiprof.hang.detector import HangRequest

        limit = HangRequest(parse_budget(args.watch), args.on_hang or "") if args.watch else None
        run_agent(job_here, limit, summary_to)

    try:
        spawn.run_detached(task)
    except OSError as error:
        failure = f"the agent process could not be started ({error.strerror})"
        print_once(f"{failure}, so --watch and --summary-to have no effect", prepared)


def start_first_end(folder: Path, ranks: int, launcher: Mpiexec) -> None:
    """Start the process that stores which rank ended first, if the launcher requires that."""
    from mpiprof.hang import first_end, spawn
    from mpiprof.launch.mpiexec import JOB_MANAGERS

    # Open MPI's launcher ends ranks by SIGTERM, which they record. The processes of a job manager
    # may be on other machines.
    if launcher.abi == "openmpi" or any(name in os.environ for name in JOB_MANAGERS):
        return

    pid = os.getpid()  # of this process, which becomes the launcher
    with contextlib.suppress(OSError):
        spawn.run_detached(lambda: first_end.store_first_end(folder.absolute(), ranks, pid))


def read_plan_or_none(
    args: argparse.Namespace, program: Program, environment: dict[str, str]
) -> Plan | None:
    """Return the plan of --switch, or None if it cannot be read and --or-bare permits that."""
    try:
        return selection_option.read_usable_plan(args, program, environment)
    except MpiprofError as error:
        if not args.or_bare or args.switch is None:
            raise
        print_once(f"{error}; the program runs without selection (--or-bare)", environment)
        args.switch = args.learn = args.scratch = None
        args.reproducible = args.strict_plan = False
        return None


def check_option_files(args: argparse.Namespace, environment: dict[str, str]) -> None:
    """Check the files and the command that options name; raises UsageError.

    With --or-bare, an option is ignored if its file or command cannot be used.
    """
    checks: dict[str, tuple[Callable[[Any], None], str]] = {
        "machine": (check_machine, "the machine is measured or unknown"),
        "learn": (selection_option.check_start_values, "nothing is learned"),
    }
    if not find_rank(environment):  # which writes the summary, and starts the command on its node
        checks["summary_to"] = (check_summary_file, "no summary is written")
        checks["on_hang"] = (check_command, "a hang starts no command")
    for name, (check, effect) in checks.items():
        value = getattr(args, name)
        if value is None:
            continue
        try:
            check(value)
        except UsageError as error:
            if not args.or_bare:
                raise
            print_once(f"{error}; {effect} (--or-bare)", environment)
            setattr(args, name, None)


def find_recordable_mpi(
    args: argparse.Namespace, program: Program, environment: dict[str, str]
) -> Mpi | None:
    """Return the program's MPI, or None if it cannot be recorded and --or-bare permits that."""
    try:
        mpi = find_mpi(program, args.mpi, environment)
    except MpiprofError as error:
        if not args.or_bare:
            raise
        print_once(f"{error}; {UNRECORDED}", environment)
        return None
    return mpi if has_recorder(args, mpi, environment) else None


def has_recorder(args: argparse.Namespace, mpi: Mpi, environment: dict[str, str]) -> bool:
    """Return whether an MPI has a recorder library; MpiprofError if --or-bare is not given."""
    try:
        library.recorder_library(mpi)
    except MpiprofError as error:
        if not args.or_bare:
            raise
        print_once(f"{error}; {UNRECORDED}", environment)
        return False
    return True


def must_run_bare(args: argparse.Namespace, program: Program, environment: dict[str, str]) -> bool:
    """Return whether no trace can be made and --or-bare permits that; raises MpiprofError."""
    folder = args.folder or Path(trace_folder.trace_name_prefix(program))
    ranks = args.ranks or job.find_local_rank_count(environment) or 1
    try:
        trace_folder.check_creatable(folder, ranks)
    except MpiprofError as error:
        if not args.or_bare:
            remedy = "name another folder with -o, or run the program unrecorded with --or-bare"
            raise MpiprofError(f"{error}: {remedy}") from error
        print_once(f"{error}; {UNRECORDED}", environment)
        return True
    return False


def check_machine(path: Path) -> None:
    """Raise UsageError unless a file looks like the output of `calibrate`."""
    if not path.is_file():
        line = format_command("calibrate", "-o", path, ranks=4)
        raise UsageError(f"{path}: no such file; `{line}` makes it")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    read_model(path)


def read_model(machine: Path | None) -> str | None:
    """Return the link's numbers for the block sizes of algorithms; None for default sizes.

    They are alpha, beta and pace in ns, and the bytes that an idle port sends at once.
    """
    from mpiprof.interface.untrusted_files import read_named_json
    from mpiprof.trace.machine import find_fault

    if machine is None:
        return None
    try:
        table = read_named_json(machine)
        if find_fault(table):
            return None
        link = table.get("between") or table["within"]
        alpha, beta = float(link["alpha_ns"]), float(link["beta_ns_per_byte"])
        pace, buffer = link.get("pace_ns_per_byte") or beta, link.get("buffer_bytes") or 0.0
        return f"{alpha} {beta} {float(pace)} {float(buffer)}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        line = format_command("calibrate", "-o", "machine.json", ranks=4)
        raise UsageError(f"{machine} is not a machine table: `{line}` makes one") from None


def start_ranks(
    args: argparse.Namespace, program: Program, plan: Plan | None, environment: dict[str, str]
) -> NoReturn:
    """Replace this process by an mpiexec that starts the program, or `run` without -n."""
    from mpiprof.launch import mpiexec

    under = next((name for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK") if name in environment), "")
    if under:
        raise UsageError(f"-n under a launcher ({under} is set): leave out -n or mpiexec")
    mpiexec.check_rank_count(args.ranks, environment, confirmed=args.yes)
    mpi = find_mpi(program, args.mpi, environment)
    launcher = mpiexec.find(mpi, environment)
    if args.record != "off" and not has_recorder(args, mpi, environment):
        command = launcher.make_command(args.ranks, environment)
        replace_process([*command, *program.argv], environment)
    if plan is not None:
        selection_option.fit_to_mpi(args, plan, mpi, environment).format_for_recorder()
        selection_option.read_start_values(args, mpi)
    folder = args.folder or Path(trace_folder.make_dated_name(program))
    unrecorded = args.record != "off" and must_run_bare(args, program, environment)
    if args.folder is not None and args.record != "off" and not unrecorded and not args.force:
        trace_folder.check_no_earlier_trace(folder, {})
    command = launcher.make_command(args.ranks, environment)
    # Each rank sets its own environment, so that nothing is preloaded into mpiexec itself. On this
    # machine `env` does that. A Python process in each rank costs 40 ms of processor time. It is
    # used only if a rank must determine something itself: the libraries of another machine, the
    # applicable part of a plan, or the rank that starts the agent.
    if args.record != "off" and plan is None and is_equal_on_all_ranks(args, program, environment):
        together = args.together or (mpi.loaded_by_program and not args.partial)
        recording = replace(options.recording_from_arguments(args), folder=folder)
        recording = replace(recording, unrecorded=unrecorded, together=together)
        prepared = options.recorder_environment(program, mpi, recording, environment)
        inherited = {name: value for name, value in environment.items() if name in prepared}
        changed = [f"{n}={value}" for n, value in prepared.items() if inherited.get(n) != value]
        replace_trace(args)
        if not unrecorded:
            start_first_end(folder, args.ranks, launcher)
        replace_process([*command, "env", *changed, *program.argv], inherited)
    command += [*verb_command("run", "--named"), "-o", str(folder.absolute())]
    command += [*options.rank_arguments(args), *selection_option.switch_words(args)]
    if unrecorded:
        command.append("--unrecorded")
    else:
        replace_trace(args)
        if args.record != "off":
            start_first_end(folder, args.ranks, launcher)
    replace_process([*command, "--", *program_words(args)], environment)


def is_equal_on_all_ranks(
    args: argparse.Namespace, program: Program, environment: dict[str, str]
) -> bool:
    """Return whether no rank of `run -n` must determine or start anything by itself."""
    from mpiprof.launch import mpiexec

    elsewhere = any(name in environment for name in mpiexec.JOB_MANAGERS)
    # `env` would read a program name that contains "=" as a variable.
    return not elsewhere and not needs_agent(args) and "=" not in program.argv[0]


def warn_of_mixed_mpis(program: Program, mpi: Mpi, environment: dict[str, str]) -> None:
    """Warn if the launcher belongs to another MPI: each process will then be a separate job."""
    launcher = library.mpi_of_launcher(environment)
    if launcher not in (None, mpi.abi) and mpi.abi != "mpiabi":
        fact = f"the launcher belongs to {library.FAMILIES[str(launcher)]}"
        uses = f"{program.name} uses {mpi.family} ({mpi.reason})"
        print_once(f"{uses}, but {fact}: each process may run as a job of its own", environment)
