"""Commands for the user to type next, quoted for the shell.

Their words come from traces, file names and options. Each displayed command is made by `command`,
so that no name can inject another command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path

# Escapes in --switch for characters that end a name; "%" is first, because escapes contain it.
ESCAPES = {"%": "%25", ",": "%2c", "=": "%3d"}


def format_command(*words: object, ranks: int = 0) -> str:
    """Return a command line: this mpiprof with some words, under mpiexec if `ranks` is set."""
    before = f"mpiexec -n {ranks} " if ranks else ""
    return " ".join([before + python_invocation(), *map(quote_word, words)])


def quote_word(word: object) -> str:
    """Return a word quoted for the shell, on one line; a path never looks like an option."""
    text = os.fspath(word) if isinstance(word, Path) else str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    # Control characters and bytes that are no text: bash, zsh and ksh read them in this form.
    return "$'" + "".join(map(_escape_character, text)) + "'"


def _escape_character(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def switch_value(where: str, choice: object) -> str:
    """Return the value of --switch that runs an operation or a call site on an algorithm."""
    return "".join(ESCAPES.get(character, character) for character in where) + f"={choice}"


def python_invocation() -> str:
    """Return "python -m mpiprof", with the interpreter's path if `python` is a different one."""
    return f"{python_name()} -m mpiprof"


def python_name() -> str:
    """Return "python", or this interpreter's path if `python` is a different one."""
    this_python = Path(sys.executable)
    known = shutil.which("python")
    # Not samefile, because the interpreters of two virtual environments link to the same file.
    if known is not None and Path(known).parent.resolve() == this_python.parent.resolve():
        return "python"
    with contextlib.suppress(ValueError):
        this_python = this_python.relative_to(Path.cwd())
    return quote_word(this_python)
