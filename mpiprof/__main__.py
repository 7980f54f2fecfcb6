"""The command line: runs a verb, and converts each error to one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from mpiprof import __version__
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface import ascii_fallback, shell_hints, terminal_colour

VERBS = (
    "run",
    "report",
    "compare",
    "history",
    "view",
    "export",
    "pack",
    "status",
    "tune",
    "algorithms",
    "calibrate",
    "doctor",
    "bench",
)
PROGRAM = "python -m mpiprof"


class CommandParser(argparse.ArgumentParser):
    """A parser that reports wrong use on one line, with the nearest option or value."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, because argparse itself would print several lines and exit."""
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError for a value that is not among an option's choices."""
        if action.choices is not None and value not in action.choices:
            from mpiprof.interface.nearest_name import suggest_names

            hint = suggest_names(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"no {value!r}; {hint}")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the parsed words; raises UsageError for unknown options and surplus traces."""
        args, surplus = self.parse_known_args(words)
        for word in surplus:
            if word.startswith("-"):
                from mpiprof.interface.nearest_name import (
                    suggest_names,  # every rank of a job imports this module
                )

                name = word.partition("=")[0]
                shown = [a for a in self._actions if a.help != argparse.SUPPRESS]
                options = [option for action in shown for option in action.option_strings]
                raise UsageError(
                    f"no option {name}; {suggest_names(name, options)}; see `{self.prog} --help`"
                )
        if surplus:
            raise UsageError(self._surplus_message(args, surplus))
        return args

    def _surplus_message(self, args: argparse.Namespace, surplus: Sequence[str]) -> str:
        """Return the message for words that a verb does not accept, such as a second trace."""
        if getattr(args, "trace", None) is None:
            return f"{' '.join(surplus)}: not understood; see `{self.prog} --help`"
        line = shell_hints.format_command("compare", args.trace, *map(Path, surplus))
        fact = f"`{self.prog}` takes one trace, not {1 + len(surplus)}"
        return f"{fact}; `{line}` shows what changed between them"


def import_command(verb: str) -> ModuleType:
    """Import the module of one verb only."""
    return importlib.import_module(f"mpiprof.commands.{verb}")


def command_help() -> str:
    """Return the help of the whole command."""
    lines = [
        f"usage: {PROGRAM} VERB [options]",
        f"       {PROGRAM} app.py [args]        short for: {PROGRAM} run app.py [args]",
        "",
        "Shows which rank of an MPI program makes the others wait, and what it costs.",
        "",
    ]
    for verb in VERBS:
        first = (import_command(verb).__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {verb:<10} {first}")
    lines += ["", f"Help for one verb: {PROGRAM} VERB --help.  Version: {PROGRAM} --version."]
    return "\n".join(lines)


def run_verb(words: Sequence[str]) -> int:
    """Run the verb in `words` and return its exit code; raises MpiprofError."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(command_help())
        return 0 if words else UsageError.exit_code
    if words[0] in ("-V", "--version"):
        print(f"mpiprof {__version__}")
        return 0
    reject_misspelt(words[0])
    verb, arguments = (words[0], words[1:]) if words[0] in VERBS else ("run", words)
    module = import_command(verb)
    verb_parser = CommandParser(prog=f"{PROGRAM} {verb}", **described(module))
    module.add_arguments(verb_parser)
    args = verb_parser.parse(arguments)
    terminal_colour.set_mode(getattr(args, "color", "never"))
    args.workers = None
    if getattr(args, "dask", None) is None:
        return int(module.run(args))
    from mpiprof.formats.dask_workers import connect_workers

    with connect_workers(args.dask) as args.workers:
        return int(module.run(args))


def described(module: ModuleType) -> dict[str, Any]:
    """Return the arguments of the parser of a verb."""
    return {
        "description": module.__doc__,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def parser() -> CommandParser:
    """Return a parser of all verbs, for shell completion (shtab) and man pages.

    `run_verb` builds the parser of one verb instead, because importing all verbs is slow.
    """
    try:
        from shtab import FILE
    except ImportError:  # man pages need no completion of files
        FILE = {}  # noqa: N806 (name of shtab)
    whole = CommandParser(
        "mpiprof", description=command_help().split("\n\n")[1], allow_abbrev=False
    )
    verbs = whole.add_subparsers(title="verbs", metavar="VERB")
    for verb in VERBS:
        module = import_command(verb)
        first = (module.__doc__ or "").strip().splitlines()[0]
        verb_parser = verbs.add_parser(verb, help=first, **described(module))
        module.add_arguments(verb_parser)
        for action in verb_parser._actions:
            if action.type is Path or action.dest == "program":
                action.complete = FILE  # type: ignore[attr-defined]
    return whole


def reject_misspelt(word: str) -> None:
    """Raise UsageError for a word that is nearly a verb, and no program."""
    if word in VERBS or os.path.lexists(word) or shutil.which(word):
        return
    import difflib

    near = difflib.get_close_matches(word, VERBS, 1, 0.7)
    if near:
        raise UsageError(f"{word}: neither a verb nor a program; did you mean `{near[0]}`?")


def discard_output() -> None:
    """Discard unprinted output, so that Python reports no error about it at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; errors become one line on standard error."""
    ascii_fallback.prepare_streams()
    try:
        code = run_verb(sys.argv[1:] if words is None else words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except MpiprofError as error:
        text = " ".join(str(error).split("\n"))
        print(f"mpiprof: {text}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        discard_output()  # the reader has closed the pipe
        return 128 + signal.SIGPIPE
    except OSError as error:
        discard_output()
        subject = error.filename or "standard output"
        print(f"mpiprof: {subject}: {error.strerror or error}", file=sys.stderr)
        return MpiprofError.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
