"""Suggestions for a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 3  # maximum number of suggestions
ALIKE = 0.6  # difflib's minimum ratio of a suggestion
ALL = 20  # up to this many names are all listed


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the likely intended names."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(word, names, MOST, ALIKE)
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    if close:
        return f"the nearest: {', '.join(close)}"
    near = difflib.get_close_matches(word, names, MOST, 0.0) if len(names) > ALL else []
    first = f"the nearest: {', '.join(near)}; " if near else ""
    return f"{first}known: {', '.join(names)}"
