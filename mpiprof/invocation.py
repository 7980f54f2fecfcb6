"""Commands that a person may type next, quoted for the shell, and how this mpiprof is started.

What stands in them comes from traces, file names and options: each command that is shown is made
by `command`, so that no name can carry a command of its own.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path

# What --switch reads in place of characters that end a name; "%" first.
ESCAPES = {"%": "%25", ",": "%2c", "=": "%3d"}


def command(*words: object, ranks: int = 0) -> str:
    """Return a line to type: this mpiprof with some words, by mpiexec where there are `ranks`."""
    before = f"mpiexec -n {ranks} " if ranks else ""
    return " ".join([before + invocation(), *map(quoted, words)])


def quoted(word: object) -> str:
    """Return a word as a shell reads it back: in one line, and no path taken for an option."""
    text = os.fspath(word) if isinstance(word, Path) else str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    # Control characters and bytes that are no text: bash, zsh and ksh read them in this form.
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def switched(where: str, choice: object) -> str:
    """Return what --switch takes to run an operation or a call site on an algorithm."""
    return "".join(ESCAPES.get(character, character) for character in where) + f"={choice}"


def invocation() -> str:
    """Return "python -m mpiprof", with the interpreter's path where `python` is another one."""
    return f"{interpreter()} -m mpiprof"


def interpreter() -> str:
    """Return "python", or this interpreter's path where `python` is another one."""
    own = Path(sys.executable)
    known = shutil.which("python")
    # Not samefile: the interpreters of two virtual environments are links to the same file.
    if known is not None and Path(known).parent.resolve() == own.parent.resolve():
        return "python"
    with contextlib.suppress(ValueError):
        own = own.relative_to(Path.cwd())
    return quoted(own)
