"""Options of a recorded program: as command-line words, and as the recorder's environment."""

# ruff: noqa: RUF009 (the options are fields)

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mpiprof import __version__
from mpiprof.interface import elf
from mpiprof.interface.parse_units import parse_budget, parse_positive, parse_size
from mpiprof.interface.shell_hints import python_invocation
from mpiprof.launch import job, library
from mpiprof.launch.commit import find_commit
from mpiprof.launch.folder import make_job_trace_name, trace_name_prefix
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import Program

VARIABLE_PREFIX = "MPIPROF_"
DEFAULT_RING_BYTES, MIN_RING_BYTES, MAX_RING_BYTES = 1 << 20, 1 << 17, 1 << 36  # bytes per rank
SANITIZER = re.compile(r"libasan\.so|libclang_rt\.asan")
ASAN_OPTIONS = "ASAN_OPTIONS"
ABORT_ACTION = "abort"  # value of --on-hang besides a command
# Variables of `job_environment`.
JOB_VARIABLES = ("TRACE", "PARTS", "MARKS", "RANK", "ALONE", "JOB")


def parse_path(text: str) -> Path:
    """Convert an option's value to a path; "" is refused, because it would mean this folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return Path(text)


def parse_record_mode(text: str) -> str:
    """Convert a recording mode; the size of a ring becomes bytes, as in "ring:1048576"."""
    if text in ("events", "summary", "off"):
        return text
    name, colon, size_text = text.partition(":")
    if name != "ring":
        raise argparse.ArgumentTypeError(f"{text!r}: events, ring[:SIZE], summary or off")
    ring_bytes = parse_size(size_text) if colon else DEFAULT_RING_BYTES
    if not MIN_RING_BYTES <= ring_bytes <= MAX_RING_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r}: a ring takes 128K to 64G")
    return f"ring:{ring_bytes}"


def check_duration(text: str) -> str:
    """Check a time from 1s to 24h."""
    parse_budget(text)
    return text


def check_command(text: str) -> str:
    """Check a shell command."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("an empty command")
    return text


def launcher_option(
    default: Any, *flags: str, passed: bool = True, recorder: bool = False, **parsed: Any
) -> Any:
    """Return a field of Recording with its flags and its arguments for argparse.

    passed: whether `run -n` passes the option to the ranks unchanged. recorder: whether the
    recorder reads the option from a variable of the field's name.
    """
    metadata = {"flags": flags, "passed": passed, "recorder": recorder, "parsed": parsed}
    return field(default=default, metadata=metadata)


recorder_option = functools.partial(launcher_option, recorder=True)


@dataclass(frozen=True)
class Recording:
    """How a program is started and recorded: one table for parser, words and environment."""

    ranks: int | None = launcher_option(
        None,
        "-n",
        "-np",
        type=parse_positive,
        metavar="N",
        passed=False,
        help="start N ranks with mpiexec",
    )
    module: bool = launcher_option(False, "-m", help="run a module, as `python -m` does")
    folder: Path | None = launcher_option(
        None, "-o", type=parse_path, metavar="DIR", passed=False, help="folder for the trace"
    )
    share: bool = recorder_option(
        False,
        "--share",
        help="let other users read the trace as the umask permits; by default only you can",
    )
    force: bool = launcher_option(
        False, "--force", passed=False, help="replace the ended trace that -o names"
    )
    record: str = recorder_option(
        "events",
        "--record",
        type=parse_record_mode,
        metavar="WAY",
        help=(
            "events: every call (default); ring[:SIZE]: the last calls of each rank in SIZE "
            "bytes (1M) and the summary of all; summary: counts and times of call sites; "
            "off: nothing"
        ),
    )
    watch: str | None = launcher_option(
        None,
        "--watch",
        type=check_duration,
        metavar="TIME",
        help="diagnose a hang after this time without any call, such as 60s",
    )
    on_hang: str | None = launcher_option(
        None,
        "--on-hang",
        type=check_command,
        metavar="COMMAND",
        help="with --watch: start a command on a hang, or end the job with `abort`",
    )
    summary_to: Path | None = recorder_option(
        None,
        "--summary-to",
        type=parse_path,
        metavar="FILE",
        help=(
            "write a summary of the job to FILE: a line of JSON, or Prometheus metrics if "
            "FILE ends in .prom"
        ),
    )
    sample: int = recorder_option(
        1,
        "--sample",
        type=parse_positive,
        metavar="K",
        help="record one instance in K, the same instances on all ranks",
    )
    limit: int = recorder_option(
        1 << 30,
        "--limit",
        type=parse_size,
        metavar="SIZE",
        help="limit the log of a rank (1G): later calls are only counted in totals",
    )
    messages: str = recorder_option(
        "auto",
        "--messages",
        choices=("auto", "all", "sums", "off"),
        help="record of point-to-point calls: every call within a budget, beyond it in windows of "
        "time (auto), every call (all), or sums by call site and peer (sums)",
    )
    intervals: str = recorder_option(
        "on",
        "--intervals",
        choices=("on", "off"),
        help="record the time between calls of a rank with counters: processor time, faults, ... "
        "(on), or not (off)",
    )
    stack: int = recorder_option(
        1,
        "--stack",
        type=parse_positive,
        metavar="N",
        help="record N stack frames for each call site",
    )
    where: bool = recorder_option(
        False,
        "--where",
        help="sample each rank's stack between calls, so that findings can name the code",
    )
    skip_packages: tuple[str, ...] = recorder_option(
        (),
        "--skip-package",
        action="append",
        metavar="P",
        help="Python package whose frames are not call sites, such as a wrapper of MPI",
    )
    machine: Path | None = recorder_option(
        None,
        "--machine",
        type=Path,
        metavar="FILE",
        help="read the machine table from a file of `calibrate -o`",
    )
    partial: bool = recorder_option(
        False,
        "--partial",
        help="some ranks run without mpiprof: send no messages between recorders",
    )
    together: bool = recorder_option(
        False,
        "--together",
        passed=False,
        help="all ranks of all MPMD parts run with mpiprof, even if that cannot be detected",
    )
    python_sites: str = recorder_option(
        "auto",
        "--python-sites",
        choices=("auto", "always", "never"),
        help="Python call sites: `always` takes the GIL if the frame cannot be read without it",
    )
    switch: str | None = recorder_option(
        None,
        "--switch",
        passed=False,
        metavar="SPEC",
        help="run collectives with selected algorithms; see above",
    )
    switch_model: str | None = recorder_option(None)
    auto: bool = recorder_option(False)
    strict_plan: bool = launcher_option(
        False, "--strict-plan", help="do not start the program if the plan does not apply here"
    )
    reproducible: bool = recorder_option(
        False, "--reproducible", help="with auto: do not change the algorithms of reductions"
    )
    scratch: int | None = recorder_option(
        None,
        "--scratch",
        type=parse_size,
        metavar="SIZE",
        help="limit the memory of algorithms in a call, for each process (64M)",
    )
    learn: Path | None = recorder_option(
        None,
        "--learn",
        type=Path,
        metavar="FILE",
        help=(
            "with auto: store the error of predictions on this machine in FILE, for this job "
            "and later ones"
        ),
    )
    learned: str | None = recorder_option(None)
    mpi: str | None = launcher_option(
        None, "--mpi", choices=library.ABIS, help="MPI of the program, if it cannot be detected"
    )
    or_bare: bool = launcher_option(
        False,
        "--or-bare",
        help="run the program without recording, selection or a file if they cannot be used",
    )
    yes: bool = launcher_option(
        False, "--yes", passed=False, help="with -n: permit more than 64 ranks per processor"
    )
    quiet: bool = recorder_option(False, "-q", help="print nothing at the end")
    # Set by `run -n` for its ranks, because the folder is already named and checked.
    named: bool = launcher_option(False, "--named", passed=False, help=argparse.SUPPRESS)
    unrecorded: bool = recorder_option(False, "--unrecorded", passed=False, help=argparse.SUPPRESS)

    def to_environment(self) -> dict[str, str]:
        """Return the recorder's variables; an option that is not set has none."""
        texts = {name: _value_texts(getattr(self, name)) for name in recorder_option_names()}
        return {
            variable_name(name): ":".join(values)
            for name, values in texts.items()
            if values is not None
        }


def recorder_option_names() -> list[str]:
    """Return the names of the options that the recorder reads from its environment."""
    return [option.name for option in fields(Recording) if option.metadata["recorder"]]


def variable_name(option: str) -> str:
    """Return the recorder's variable of an option."""
    return VARIABLE_PREFIX + option.upper()


def _value_texts(value: Any) -> list[str] | None:
    """Return an option's value as texts, "1" for a flag; None if it is not set."""
    if value is None or value is False:
        return None
    if isinstance(value, list | tuple):
        return list(value)
    return ["1" if value is True else str(value.absolute() if isinstance(value, Path) else value)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of Recording to a parser, under the names of its fields."""
    for option in fields(Recording):
        flags, argument = option.metadata["flags"], dict(option.metadata["parsed"])
        if not flags:
            continue
        if option.default is False:
            argument["action"] = "store_true"
        elif argument.get("action") == "append":
            argument["default"] = []
        else:
            argument["default"] = option.default
        parser.add_argument(*flags, dest=option.name, **argument)


def recording_from_arguments(args: argparse.Namespace) -> Recording:
    """Return the options of a command line, without --switch, which the plan replaces."""
    names = [option.name for option in fields(Recording) if option.metadata["flags"]]
    values = {name: getattr(args, name) for name in names}
    values |= {"skip_packages": tuple(args.skip_packages), "switch": None}
    return Recording(**values)


def rank_arguments(args: argparse.Namespace) -> list[str]:
    """Return the words that `run -n` passes to its ranks unchanged."""
    words: list[str] = []
    for option in fields(Recording):
        flag = option.metadata["flags"][:1]
        value = getattr(args, option.name, None) if option.metadata["passed"] else None
        for text in _value_texts(value) or ():
            words += flag if option.default is False else (*flag, text)
    return words


def recorder_environment(
    program: Program, mpi: Mpi, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a program is recorded; other preloaded libraries remain."""
    recorder = str(library.recorder_library(mpi))
    preloaded = [word for word in re.split("[ :]", environment.get("LD_PRELOAD", "")) if word]
    replaced = {variable_name(name) for name in (*JOB_VARIABLES, *recorder_option_names())}
    result = {name: value for name, value in environment.items() if name not in replaced}
    result |= {
        "LD_PRELOAD": ":".join([recorder, *(word for word in preloaded if word != recorder)]),
        "MPIPROF_LIBRARY": recorder,
        "MPIPROF_BASE": str(Path.cwd() / trace_name_prefix(program)),
        "MPIPROF_PROGRAM": program.name,
        "MPIPROF_COMMAND": json.dumps(program.command),
        "MPIPROF_COMMIT": find_commit(environment, Path.cwd()),
        "MPIPROF_VERSION": __version__,
        "MPIPROF_INVOCATION": python_invocation(),
    }
    result |= job_environment(program, mpi, options, environment)
    return result | options.to_environment() | sanitizer_environment(program, environment)


def sanitizer_environment(program: Program, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that let AddressSanitizer accept a library loaded before its runtime."""
    file = program.file
    if file is None or program.python is not None or not elf.is_elf(file):
        return {}
    if not any(SANITIZER.match(name) for name in elf.read(file).needed):
        return {}
    options = environment.get(ASAN_OPTIONS, "")
    return {ASAN_OPTIONS: options + ":" * bool(options) + "verify_asan_link_order=0"}


def job_environment(
    program: Program, mpi: Mpi, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that locate the trace and describe the job."""
    parts, rank = job.count_mpmd_parts(environment), job.find_rank(environment)
    is_mpmd = parts is not None and parts > 1
    job_folder = Path.cwd() / make_job_trace_name(program, environment)
    folder = options.folder.absolute() if options.folder is not None else None
    if folder is None and (options.partial or is_mpmd):
        folder = job_folder
    variables = {"MPIPROF_JOB": job.make_job_id(environment)}
    if folder is not None:
        variables["MPIPROF_TRACE"] = str(folder)
    if rank is None:
        return variables
    variables["MPIPROF_ALONE"] = str(job_folder)
    # A script may choose by rank, and a rank that it runs bare would receive the recorder's
    # messages with its own receives.
    if mpi.loaded_by_program and (options.named or job.has_uniform_launch(environment)):
        variables["MPIPROF_TOGETHER"] = "1"
    if is_mpmd and not options.partial:
        variables["MPIPROF_PARTS"] = str(parts)
        variables["MPIPROF_RANK"] = str(rank)
        variables["MPIPROF_MARKS"] = f"{folder}/.parts-{job.make_job_id(environment)}"
    return variables
