"""Checks of the options of `run`, before anything starts."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from mpiprof.errors import UsageError
from mpiprof.interface.output_files import check_output
from mpiprof.interface.shell_hints import format_command, quote_word
from mpiprof.launch.options import ABORT_ACTION, Recording

# Names of launchers, also with the suffixes of Debian and of MPICH's process managers.
LAUNCHER = re.compile(r"(mpiexec|mpirun|orterun|prterun|srun|aprun|jsrun)(\.\w+)?")


def check_ring(args: argparse.Namespace) -> None:
    """Raise UsageError if an option contradicts a ring, which has the totals of all calls."""
    if args.sample > 1:
        raise UsageError("--record ring counts all calls: leave out --sample")
    if args.limit != Recording().limit:
        raise UsageError("--record ring:SIZE already limits the log: leave out --limit")


def check_hang_options(args: argparse.Namespace) -> None:
    """Raise UsageError if the trace could not show that the job hangs."""
    if args.on_hang is not None and args.watch is None:
        remedy = "pass a time without any call, such as --watch 60s"
        raise UsageError(f"--on-hang requires --watch: {remedy}")
    check_summary_recording(args)
    if args.watch is None:
        return
    if args.record in ("summary", "off"):
        remedy = f"use --record ring in place of {args.record}"
        raise UsageError(f"--watch requires records of single calls: {remedy}")
    if args.sample > 1:
        raise UsageError("--watch requires records of all calls: leave out --sample")


def check_command(text: str) -> None:
    """Raise UsageError if the shell cannot parse --on-hang, or does not find its first word."""
    if text == ABORT_ACTION:
        return
    import subprocess

    shell, first = "/bin/sh", text.split()[0]
    if subprocess.run([shell, "-n", "-c", text], capture_output=True, check=False).returncode:
        raise UsageError(f"--on-hang {text!r}: {shell} reports a syntax error")
    action = [shell, "-c", 'command -v "$1"', shell, first]
    plain = re.fullmatch(r"[\w./+-]+", first) is not None
    if plain and subprocess.run(action, capture_output=True, check=False).returncode:
        raise UsageError(f"--on-hang {text!r}: {first} was not found on this node: pass its path")


def check_summary_recording(args: argparse.Namespace) -> None:
    """Raise UsageError if a job's summary cannot be computed."""
    if args.summary_to is None:
        return
    if args.record == "off":
        raise UsageError("--summary-to requires a recording: leave out --record off")
    if args.sample > 1:
        raise UsageError("--summary-to summarises all calls: leave out --sample")


def check_summary_file(path: Path) -> None:
    """Raise UsageError if a job's summary cannot be written to a file."""
    check_output("--summary-to", path, "summary.json", replaced=True)


def check_program(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Raise UsageError if the program is a launcher, which starts processes without the recorder.

    With --mpi, a launcher that `run` starts itself may start recorded ranks.
    """
    name = Path(words[0]).name
    if args.module or args.or_bare or args.record == "off" or not LAUNCHER.fullmatch(name):
        return
    if args.ranks is None and args.mpi is not None:
        return
    number = next((i for i, word in enumerate(words) if i and _is_program(word)), len(words))
    launcher = list(words[:number])
    if args.ranks is not None and not {"-n", "-np", "--n", "--np", "-c"} & {*launcher}:
        launcher[1:1] = ["-n", str(args.ranks)]
    command = format_command("run", *(words[number:] or ["app"]))
    remedy = f"`{' '.join(map(quote_word, launcher))} {command}`"
    fact = f"{name} starts the ranks, so `run` belongs behind it"
    raise UsageError(f"{fact}: use {remedy}")


def _is_program(word: str) -> bool:
    """Return whether a word of a launcher's command line names a program, not an option's value."""
    return not word.startswith("-") and (shutil.which(word) is not None or Path(word).is_file())
