"""Words for the symbols of our texts, where the terminal's encoding has no symbols.

`fitting` goes before a table or a paragraph is laid out, so that widths are right; `prepare` makes
what is printed without it come out in words too, and nothing fail for want of a character.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Mapping

WORDS = {
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
ERRORS = "mpiprof.words"
PLAIN = ("C", "POSIX")


def prepare() -> None:
    """Make standard output and error take every text, in words where they have no symbols."""
    codecs.register_error(ERRORS, _replaced)
    for stream in (sys.stdout, sys.stderr):  # None where the shell has closed them
        if isinstance(stream, io.TextIOWrapper):
            if asked_plain():
                stream.reconfigure(encoding="ascii")
            stream.reconfigure(errors=ERRORS)


def asked_plain() -> bool:
    """Whether the locale is said to be C, which Python takes for UTF-8.

    Where only LANG is C, as in many containers, that is right, and Python has changed LC_CTYPE.
    """
    return os.environ.get("LC_ALL") in PLAIN and not os.environ.get("PYTHONIOENCODING")


def fitting(text: str, words: Mapping[str, str] = WORDS) -> str:
    """Return a text with words for the symbols that standard output can't write."""
    if text.isascii():
        return text
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return "".join(c if c.isascii() or _can(encoding, c) else words.get(c, c) for c in text)


def _can(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Return words for what can't be written; of other characters a question mark each."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(WORDS.get(c, "?") for c in lost), error.end
