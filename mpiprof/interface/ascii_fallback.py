"""Replaces symbols by words if the terminal's encoding lacks the symbols.

Call `fitting` before the layout of a table or paragraph, so that widths are right. `prepare`
handles all other output, so that no output fails because of a missing character.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Mapping

REPLACEMENTS = {
    "δ": "delta",
    "ω": "omega",
    "ē": "time",
    "Σ": "sum",
    "Δ": "change in ",
    "µ": "u",
    "±": "+-",
    "×": "x",
    "≤": "<=",
    "→": "->",
    "←": "<-",
    "–": "-",
    "·": "-",
    "…": "...",
    "─": "-",
    "┃": "|",
    "◐": "o",
    "\xa0": " ",
    "\u202f": " ",
    "\u2009": " ",
}
ERROR_HANDLER = "mpiprof.words"
C_LOCALES = ("C", "POSIX")


def prepare_streams() -> None:
    """Make standard output and error accept every text, with words for missing symbols."""
    codecs.register_error(ERROR_HANDLER, _handle_error)
    for stream in (sys.stdout, sys.stderr):  # None if the shell has closed it
        if isinstance(stream, io.TextIOWrapper):
            if requests_c_locale():
                stream.reconfigure(encoding="ascii")
            stream.reconfigure(errors=ERROR_HANDLER)


def requests_c_locale() -> bool:
    """Return True if LC_ALL requests the C locale, which Python treats as UTF-8.

    If only LANG is C, as in many containers, UTF-8 is right, and Python has changed LC_CTYPE.
    """
    return os.environ.get("LC_ALL") in C_LOCALES and not os.environ.get("PYTHONIOENCODING")


def replace_unwritable(text: str, words: Mapping[str, str] = REPLACEMENTS) -> str:
    """Return a text with words for the symbols that standard output cannot write."""
    if text.isascii():
        return text
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return "".join(c if c.isascii() or _can_encode(encoding, c) else words.get(c, c) for c in text)


def _can_encode(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _handle_error(error: UnicodeError) -> tuple[str, int]:
    """Return words for symbols that cannot be written, and a question mark for other characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(REPLACEMENTS.get(c, "?") for c in lost), error.end
