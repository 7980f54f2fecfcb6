"""Colour of the output: on a terminal, unless NO_COLOR is set, TERM is "dumb" or --color decides.

Text is laid out without colour and painted last, so that it is the same without colour. These four
styles and the module `table` need no library. See https://no-color.org.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

MODES = ("auto", "always", "never")
# Codes of the styles. `late` marks late ranks and the time that others wait for them, nothing else.
STYLES = {"late": "38;5;166", "good": "38;5;35", "strong": "1", "quiet": "2"}
CODE = re.compile(r"\x1b\[[0-9;]*m")
CULPRIT = re.compile(r"\b(?:[Rr]anks?\s+\d[\d, -]*\d|[Rr]ank\s+\d|[Tt]he\s+ranks\s+on\s+[\w.-]*\w)")

_state = {"enabled": False}


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add --color to a verb."""
    meaning = "colour the output; auto: on a terminal without NO_COLOR"
    parser.add_argument("--color", choices=MODES, default="auto", help=meaning)


def set_mode(mode: str) -> None:
    """Enable colour, or disable it, for the rest of the process."""
    _state["enabled"] = mode == "always" or (mode == "auto" and _terminal_has_colour())


def _terminal_has_colour() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def paint(text: str, style: str) -> str:
    """Return text in a style, line by line; unchanged if colour is disabled."""
    if not _state["enabled"] or not style:
        return text
    lines = [f"\x1b[{STYLES[style]}m{line}\x1b[0m" if line else "" for line in text.split("\n")]
    return "\n".join(lines)


def paint_culprit(text: str) -> str:
    """Return text with its first late rank (or ranks) marked."""
    return CULPRIT.sub(lambda found: paint(found[0], "late"), text, count=1)


def remove_colour(text: str) -> str:
    """Return text without styles."""
    return CODE.sub("", text)
