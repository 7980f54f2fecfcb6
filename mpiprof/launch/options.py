"""Options of a recorded program: as command-line words, and as the recorder's environment."""

# ruff: noqa: RUF009 (`option` returns a field)

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mpiprof import __version__
from mpiprof.interface.parse_units import parse_budget, parse_positive, parse_size
from mpiprof.interface.shell_hints import python_invocation
from mpiprof.launch import elf, job, library
from mpiprof.launch.folder import base_name, shared_name
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import Program

MARK = "MPIPROF_"
RING, LEAST_RING, MOST_RING = 1 << 20, 1 << 17, 1 << 36  # bytes per rank
SANITIZER = re.compile(r"libasan\.so|libclang_rt\.asan")
SANITIZED = "ASAN_OPTIONS"
ABORT = "abort"  # value of --on-hang besides a command
PLACE = ("TRACE", "PARTS", "MARKS", "RANK", "ALONE", "JOB")  # variables of `place_in_job`


def named(text: str) -> Path:
    """Convert an option's value to a path; "" is refused, because it would mean this folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return Path(text)


def way(text: str) -> str:
    """Convert a recording mode; the size of a ring becomes bytes, as in "ring:1048576"."""
    if text in ("events", "summary", "off"):
        return text
    name, colon, wanted = text.partition(":")
    if name != "ring":
        raise argparse.ArgumentTypeError(f"{text!r}: events, ring[:SIZE], summary or off")
    found = parse_size(wanted) if colon else RING
    if not LEAST_RING <= found <= MOST_RING:
        raise argparse.ArgumentTypeError(f"{text!r}: a ring takes 128K to 64G")
    return f"ring:{found}"


def limit(text: str) -> str:
    """Check a time from 1s to 24h."""
    parse_budget(text)
    return text


def words(text: str) -> str:
    """Check a shell command."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("an empty command")
    return text


def option(
    default: Any, *flags: str, variable: str = "", passed: bool = True, **parsed: Any
) -> Any:
    """Return a field of Recording with its flags, its variable, and its arguments for argparse.

    passed: whether `run -n` passes the option to the ranks unchanged.
    """
    told = {"flags": flags, "variable": variable, "passed": passed, "parsed": parsed}
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Recording:
    """How a program is started and recorded: one table for parser, words and environment."""

    ranks: int | None = option(
        None,
        "-n",
        "-np",
        type=parse_positive,
        metavar="N",
        passed=False,
        help="start N ranks with mpiexec",
    )
    module: bool = option(False, "-m", help="run a module, as `python -m` does")
    folder: Path | None = option(
        None, "-o", type=named, metavar="DIR", passed=False, help="folder for the trace"
    )
    share: bool = option(
        False,
        "--share",
        variable="SHARE",
        help="let other users read the trace as the umask permits; by default only you can",
    )
    force: bool = option(
        False, "--force", passed=False, help="replace the ended trace that -o names"
    )
    record: str = option(
        "events",
        "--record",
        variable="RECORD",
        type=way,
        metavar="WAY",
        help=(
            "events: every call (default); ring[:SIZE]: the last calls of each rank in SIZE "
            "bytes (1M) and the summary of all; summary: counts and times of call sites; "
            "off: nothing"
        ),
    )
    watch: str | None = option(
        None,
        "--watch",
        type=limit,
        metavar="TIME",
        help="diagnose a hang after this time without any call, such as 60s",
    )
    on_hang: str | None = option(
        None,
        "--on-hang",
        type=words,
        metavar="COMMAND",
        help="with --watch: start a command on a hang, or end the job with `abort`",
    )
    summary_to: Path | None = option(
        None,
        "--summary-to",
        variable="SUMMARY_TO",
        type=named,
        metavar="FILE",
        help=(
            "write a summary of the job to FILE: a line of JSON, or Prometheus metrics if "
            "FILE ends in .prom"
        ),
    )
    sample: int = option(
        1,
        "--sample",
        variable="SAMPLE",
        type=parse_positive,
        metavar="K",
        help="record one instance in K, the same instances on all ranks",
    )
    limit: int = option(
        1 << 30,
        "--limit",
        variable="LIMIT",
        type=parse_size,
        metavar="SIZE",
        help="limit the log of a rank (1G): later calls are only counted in totals",
    )
    stack: int = option(
        1,
        "--stack",
        variable="STACK",
        type=parse_positive,
        metavar="N",
        help="record N stack frames for each call site",
    )
    where: bool = option(
        False,
        "--where",
        variable="WHERE",
        help="sample each rank's stack between calls, so that findings can name the code",
    )
    skip_packages: tuple[str, ...] = option(
        (),
        "--skip-package",
        variable="SKIP_PACKAGES",
        action="append",
        metavar="P",
        help="Python package whose frames are not call sites, such as a wrapper of MPI",
    )
    machine: Path | None = option(
        None,
        "--machine",
        variable="MACHINE",
        type=Path,
        metavar="FILE",
        help="read the machine table from a file of `calibrate -o`",
    )
    partial: bool = option(
        False,
        "--partial",
        variable="PARTIAL",
        help="some ranks run without mpiprof: send no messages between recorders",
    )
    together: bool = option(
        False,
        "--together",
        variable="TOGETHER",
        passed=False,
        help="all ranks of all MPMD parts run with mpiprof, even if that cannot be detected",
    )
    python_sites: str = option(
        "auto",
        "--python-sites",
        variable="PYTHON_SITES",
        choices=("auto", "always", "never"),
        help="Python call sites: `always` takes the GIL if the frame cannot be read without it",
    )
    switch: str | None = option(
        None,
        "--switch",
        variable="SWITCH",
        passed=False,
        metavar="SPEC",
        help="run collectives with selected algorithms; see above",
    )
    switch_model: str | None = option(None, variable="SWITCH_MODEL")
    auto: bool = option(False, variable="AUTO")
    strict_plan: bool = option(
        False, "--strict-plan", help="do not start the program if the plan does not apply here"
    )
    reproducible: bool = option(
        False,
        "--reproducible",
        variable="REPRODUCIBLE",
        help="with auto: do not change the algorithms of reductions",
    )
    scratch: int | None = option(
        None,
        "--scratch",
        variable="SCRATCH",
        type=parse_size,
        metavar="SIZE",
        help="limit the memory of algorithms in a call, for each process (64M)",
    )
    learn: Path | None = option(
        None,
        "--learn",
        variable="LEARN",
        type=Path,
        metavar="FILE",
        help=(
            "with auto: store the error of predictions on this machine in FILE, for this job "
            "and later ones"
        ),
    )
    learned: str | None = option(None, variable="LEARNED")
    mpi: str | None = option(
        None, "--mpi", choices=library.ABIS, help="MPI of the program, if it cannot be detected"
    )
    or_bare: bool = option(
        False,
        "--or-bare",
        help="run the program without recording or selection if that is impossible",
    )
    yes: bool = option(
        False,
        "--yes",
        passed=False,
        help="with -n: start more ranks than processors without a question",
    )
    quiet: bool = option(False, "-q", variable="QUIET", help="print nothing at the end")
    # Set by `run -n` for its ranks, because the folder is already named and checked.
    named: bool = option(False, "--named", passed=False, help=argparse.SUPPRESS)
    unrecorded: bool = option(
        False, "--unrecorded", variable="UNRECORDED", passed=False, help=argparse.SUPPRESS
    )

    def environment(self) -> dict[str, str]:
        """Return the recorder's variables; an option that is not set has none."""
        found = {}
        for one in fields(self):
            value = _texts(getattr(self, one.name))
            if one.metadata["variable"] and value is not None:
                found[MARK + one.metadata["variable"]] = ":".join(value)
        return found


def _texts(value: Any) -> list[str] | None:
    """Return an option's value as texts, "1" for a flag; None if it is not set."""
    if value is None or value is False:
        return None
    if isinstance(value, list | tuple):
        return list(value)
    return ["1" if value is True else str(value.absolute() if isinstance(value, Path) else value)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of Recording to a parser, under the names of its fields."""
    for one in fields(Recording):
        flags, parsed = one.metadata["flags"], dict(one.metadata["parsed"])
        if not flags:
            continue
        if one.default is False:
            parsed["action"] = "store_true"
        elif parsed.get("action") == "append":
            parsed["default"] = []
        else:
            parsed["default"] = one.default
        parser.add_argument(*flags, dest=one.name, **parsed)


def recording_of(args: argparse.Namespace) -> Recording:
    """Return the options of a command line, without --switch, which the plan replaces."""
    known = [one.name for one in fields(Recording) if one.metadata["flags"]]
    given = {name: getattr(args, name) for name in known}
    given |= {"skip_packages": tuple(args.skip_packages), "switch": None}
    return Recording(**given)


def words_of(args: argparse.Namespace) -> list[str]:
    """Return the words that `run -n` passes to its ranks unchanged."""
    found: list[str] = []
    for one in fields(Recording):
        flag = one.metadata["flags"][:1]
        values = _texts(getattr(args, one.name, None)) if one.metadata["passed"] else None
        for text in values or ():
            found += flag if one.default is False else (*flag, text)
    return found


def recorder_environment(
    program: Program, mpi: Mpi, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a program is recorded; other preloaded libraries remain."""
    ours = str(library.our_library(mpi))
    before = [word for word in re.split("[ :]", environment.get("LD_PRELOAD", "")) if word]
    ours_too = {MARK + name for name in PLACE} | {
        MARK + one.metadata["variable"] for one in fields(Recording) if one.metadata["variable"]
    }
    result = {name: value for name, value in environment.items() if name not in ours_too}
    result |= {
        "LD_PRELOAD": ":".join([ours, *(word for word in before if word != ours)]),
        "MPIPROF_LIBRARY": ours,
        "MPIPROF_BASE": str(Path.cwd() / base_name(program)),
        "MPIPROF_PROGRAM": program.name,
        "MPIPROF_COMMAND": json.dumps(program.shown),
        "MPIPROF_VERSION": __version__,
        "MPIPROF_INVOCATION": python_invocation(),
    }
    place = place_in_job(program, mpi, options, environment)
    return result | place | options.environment() | sanitized(program, environment)


def sanitized(program: Program, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that let AddressSanitizer accept a library loaded before its runtime."""
    file = program.file
    if file is None or program.python is not None or not elf.is_elf(file):
        return {}
    if not any(SANITIZER.match(name) for name in elf.read(file).needed):
        return {}
    before = environment.get(SANITIZED, "")
    return {SANITIZED: before + ":" * bool(before) + "verify_asan_link_order=0"}


def place_in_job(
    program: Program, mpi: Mpi, options: Recording, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that locate the trace and describe the job.

    MPIPROF_TOGETHER is set only if the started program itself loads MPI. A script may choose by
    rank, and a rank that it runs bare would receive the recorder's messages with its own receives.
    """
    parts, rank = job.parts_in(environment), job.rank_in(environment)
    several = parts is not None and parts > 1
    shared = Path.cwd() / shared_name(program, environment)
    folder = options.folder.absolute() if options.folder is not None else None
    if folder is None and (options.partial or several):
        folder = shared
    found = {"MPIPROF_JOB": job.identity(environment)}
    if folder is not None:
        found["MPIPROF_TRACE"] = str(folder)
    if rank is None:
        return found
    found["MPIPROF_ALONE"] = str(shared)
    if mpi.shown and (options.named or job.is_whole(environment)):
        found["MPIPROF_TOGETHER"] = "1"
    if several and not options.partial:
        found["MPIPROF_PARTS"] = str(parts)
        found["MPIPROF_RANK"] = str(rank)
        found["MPIPROF_MARKS"] = f"{folder}/.parts-{job.identity(environment)}"
    return found
