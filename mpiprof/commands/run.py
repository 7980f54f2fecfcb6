"""Run an MPI program and record its collectives.

  mpiexec -n 8 python -m mpiprof run [options] app.py [args]
  mpiexec -n 8 python -m mpiprof run [options] -m package.module [args]
  mpiexec -n 8 python -m mpiprof run [options] -- ./binary [args]
  python -m mpiprof run -n 8 [options] app.py [args]     starts the mpiexec that fits by itself

With --switch it runs collectives on other algorithms than its MPI library would, with the same
results: SPEC is a list, separated by commas, of

  operation=algorithm[:parameter=value...]   such as allgatherv=pipelined_ring:block_size=64K
  app.py:88=algorithm                        a call site, as the communicator's rank 0 sees it
  PLAN.json                                  [{"operation": "alltoall", "algorithm": "ring",
                                             "bytes": {"from": 1024}, "call_sites": ["app.py:88"]}]
  auto                                       the program finds its own while it runs; behind the
                                             others it starts from them

or random:SEED, a testing aid. `native` is the library's own. Call sites go before operations; among
equals what is named first wins. `allgather=kang` means inter-communicators and leaves others alone.
What of a plan does not fit here is said and left out. Algorithms that copy data need memory beside
the program's own: no more than --scratch a process, 64M unless given; it goes back after each call.
What needs more, or cannot be had, is left to the library, and said at the end.

The program is not changed, its output is not touched, and its exit code is its own.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mpiprof import quantities
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.launch import job, library
from mpiprof.launch.folder import base_name, check_folder, check_place, dated_name
from mpiprof.launch.job import rank_in
from mpiprof.launch.library import Mpi
from mpiprof.launch.options import Recording, recorder_environment
from mpiprof.launch.program import Program, become, find_mpi, find_program, python_flags
from mpiprof.tune import switch

if TYPE_CHECKING:
    from mpiprof.tune.plan import Plan


def named(text: str) -> Path:
    """Convert an option's value to a path; an empty one would mean this folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return Path(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this verb."""
    add = parser.add_argument
    add(
        "-n", dest="ranks", type=quantities.positive, metavar="N", help="start N ranks with mpiexec"
    )
    add("-m", dest="module", action="store_true", help="run a module, as `python -m` does")
    add("-o", dest="folder", type=named, metavar="DIR", help="the trace folder itself")
    add(
        "--record",
        choices=("events", "summary", "off"),
        default="events",
        help="events: every call (default); summary: counts and times of call sites; off: nothing",
    )
    add(
        "--sample",
        type=quantities.positive,
        default=1,
        metavar="K",
        help="record one instance in K, the same ones on all ranks",
    )
    add(
        "--limit",
        type=quantities.size,
        default=1 << 30,
        metavar="SIZE",
        help="of a rank's log (1G): past it calls are summed up, without single instances",
    )
    add(
        "--stack",
        type=quantities.positive,
        default=1,
        metavar="N",
        help="record N frames a call site",
    )
    add(
        "--skip-package",
        action="append",
        default=[],
        metavar="P",
        help="a Python package whose frames are no call sites, such as your own MPI layer",
    )
    add("--machine", type=Path, metavar="FILE", help="the machine as `calibrate -o FILE` found it")
    add(
        "--partial",
        action="store_true",
        help="when some ranks run bare, as a script decides: send no messages of our own",
    )
    add(
        "--together",
        action="store_true",
        help="in a launch of several parts: all of them run with mpiprof, which is not always seen",
    )
    add(
        "--python-sites",
        choices=("auto", "always", "never"),
        default="auto",
        help="Python call sites: always takes Python's lock where they can't be told without it",
    )
    switch.add_options(parser)
    add("--mpi", choices=library.ABIS, help="the program's MPI, where nothing else shows it")
    add(
        "--or-bare",
        action="store_true",
        help="where no trace can be made, or a plan can't be used, run the program without",
    )
    add("--yes", action="store_true", help="with -n: so many ranks are meant")
    add("-q", dest="quiet", action="store_true", help="say nothing at the end")
    # Set by `run -n` for its ranks: the folder is named and checked already.
    add("--named", action="store_true", help=argparse.SUPPRESS)
    add("--unrecorded", action="store_true", help=argparse.SUPPRESS)
    add("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> NoReturn:
    """Become the program, or the mpiexec that starts it; this never returns, but for errors.

    Of ranks of a job one says what is wrong, and all end.
    """
    environment = dict(os.environ)
    try:
        start(args, environment)
    except MpiprofError as error:
        job.others_may_speak(environment)
        atexit.register(job.end, error.exit_code, environment)  # when the error has been said
        raise


def start(args: argparse.Namespace, environment: dict[str, str]) -> NoReturn:
    """Check what can be checked, and become the program or mpiexec; raises MpiprofError."""
    try:
        Path.cwd()
    except OSError as error:
        raise MpiprofError("this folder is gone: go to one that is there with `cd`") from error
    words = program_words(args)
    if not words:
        raise UsageError("name a program to run: `python -m mpiprof run app.py`")
    program = find_program(words, module=args.module)
    if args.machine is not None:
        check_machine(args.machine)
    if args.partial and args.together:
        raise UsageError("--partial and --together contradict each other: give one of them")
    options = options_of(args)
    plan = usable_plan(args, program, environment)
    if args.ranks is not None:
        start_ranks(args, program, plan, environment)
    if args.record == "off":
        become(program.argv, environment)
    mpi = find_mpi(program, args.mpi, environment)
    unrecorded = args.unrecorded
    if not args.named:
        unrecorded = is_without_place(args, program, environment)
        if args.folder is not None and not unrecorded:
            check_folder(args.folder, environment, partial=args.partial)
    options = replace(options, unrecorded=unrecorded)
    if plan is not None:
        plan = switch.fitted(args, plan, mpi, environment)
        options = with_plan(args, options, plan)
    prepared = recorder_environment(program, mpi, options, environment)
    warn_of_mixture(program, mpi, environment)
    become(program.argv, prepared)


def usable_plan(
    args: argparse.Namespace, program: Program, environment: dict[str, str]
) -> Plan | None:
    """Return what --switch asks for, None where it can't be read and may be left out."""
    try:
        return switch.plan_of(args, program, environment)
    except MpiprofError as error:
        if not args.or_bare or args.switch is None:
            raise
        say_once(f"{error}; the program runs unswitched (--or-bare)", environment)
        switch.forget(args)
        return None


def is_without_place(
    args: argparse.Namespace, program: Program, environment: dict[str, str]
) -> bool:
    """Whether no trace can be made, and the program may run without; raises MpiprofError."""
    folder = args.folder or Path(base_name(program))
    ranks = args.ranks or job.local_ranks_in(environment) or 1
    try:
        check_place(folder, ranks)
    except MpiprofError as error:
        if not args.or_bare:
            remedy = "name another folder with -o, or run it unrecorded with --or-bare"
            raise MpiprofError(f"{error}: {remedy}") from error
        say_once(f"{error}; the program runs unrecorded (--or-bare)", environment)
        return True
    return False


def say_once(text: str, environment: dict[str, str]) -> None:
    """Print a line on standard error in the first rank of a job."""
    if not rank_in(environment):
        print(f"mpiprof: {text}", file=sys.stderr)


def check_machine(path: Path) -> None:
    """Raise UsageError unless a file is what `calibrate` writes, as far as can be seen at once."""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; `mpiexec -n 4 python -m mpiprof calibrate -o {path}` makes it"
        )
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} can't be read: {os.strerror(errno.EACCES)}")
    model_of(path)


def options_of(args: argparse.Namespace) -> Recording:
    """Return the recorder's options from the command line's."""
    return Recording(
        folder=args.folder,
        record=args.record,
        sample=args.sample,
        stack=args.stack,
        limit=args.limit,
        skip_packages=tuple(args.skip_package),
        machine=args.machine,
        partial=args.partial,
        together=args.together,
        python_sites=args.python_sites,
        quiet=args.quiet,
        mpi=args.mpi,
    )


def with_plan(args: argparse.Namespace, options: Recording, plan: Plan) -> Recording:
    """Return options with what the recorder shall switch, as checked text; raises UsageError."""
    return replace(
        options,
        switch=plan.text() or None,
        switch_model=model_of(args.machine),
        auto=plan.auto,
        explain=args.explain,
        reproducible=args.reproducible,
        scratch=args.scratch,
        plan_out=args.plan_out,
    )


def model_of(machine: Path | None) -> str | None:
    """Return alpha and beta in ns, from which some algorithms compute their block size."""
    if machine is None:
        return None
    try:
        table = json.loads(machine.read_text())
        link = table.get("between") or table["within"]
        return f"{float(link['alpha_ns'])} {float(link['beta_ns_per_byte'])}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{machine} is no machine table: `mpiexec -n 4 python -m mpiprof calibrate "
            f"-o {machine}` makes one"
        ) from None


def start_ranks(
    args: argparse.Namespace, program: Program, plan: Plan | None, environment: dict[str, str]
) -> NoReturn:
    """Become an mpiexec whose ranks are `run` without -n.

    Each rank sets its own environment, so that nothing is preloaded into mpiexec itself.
    """
    from mpiprof.launch import mpiexec

    under = next((name for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK") if name in environment), "")
    if under:
        raise UsageError(f"-n under a launcher ({under} is set): leave out -n, or its mpiexec")
    mpiexec.check_ranks(args.ranks, environment, sure=args.yes)
    mpi = find_mpi(program, args.mpi, environment)
    launcher = mpiexec.find(mpi, environment)
    if args.record != "off":
        library.our_library(mpi)
    if plan is not None:
        switch.fitted(args, plan, mpi, environment).text()
    folder = args.folder
    if folder is None:
        folder = Path(dated_name(program))
    unrecorded = args.record != "off" and is_without_place(args, program, environment)
    if args.folder is not None and args.record != "off" and not unrecorded:
        check_folder(folder, {})
    words = [*launcher.words(args.ranks, environment), sys.executable, *python_flags()]
    words += ["-m", "mpiprof", "run", "--named", "-o", str(folder.absolute())]
    words += ["--record", args.record, "--sample", str(args.sample), "--stack", str(args.stack)]
    words += ["--python-sites", args.python_sites, "--limit", str(args.limit)]
    for package in args.skip_package:
        words += ["--skip-package", package]
    if args.machine is not None:
        words += ["--machine", str(args.machine.absolute())]
    if args.mpi is not None:
        words += ["--mpi", args.mpi]
    words += switch.words(args)
    for wanted, option in (
        (args.partial, "--partial"),
        (args.quiet, "-q"),
        (args.module, "-m"),
        (unrecorded, "--unrecorded"),
        (args.or_bare, "--or-bare"),
    ):
        if wanted:
            words.append(option)
    become([*words, "--", *program_words(args)], environment)


def program_words(args: argparse.Namespace) -> list[str]:
    """Return the program and its arguments without the separator."""
    words: list[str] = args.program
    return words[1:] if words[:1] == ["--"] else words


def warn_of_mixture(program: Program, mpi: Mpi, environment: dict[str, str]) -> None:
    """Say so when the launcher is another MPI's: each process will be a job of its own."""
    launcher = library.mpi_of_launcher(environment)
    if launcher in (None, mpi.abi) or mpi.abi == "mpiabi" or rank_in(environment):
        return
    print(
        f"mpiprof: {program.name} uses {mpi.family} ({mpi.reason}), but its launcher is "
        f"{library.FAMILIES[str(launcher)]}'s: its processes may not find each other",
        file=sys.stderr,
    )
