"""Suggestions for a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAMES = 3  # maximum number of suggestions
MIN_SIMILARITY = 0.6  # difflib's minimum ratio of a suggestion
MAX_LISTED = 20  # up to this many names are all listed


def suggest_names(word: str, names_known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the likely intended names."""
    import difflib

    names = list(names_known)
    bare = {name.lstrip("-"): name for name in reversed(names)}  # all options share their dashes
    matches = difflib.get_close_matches(word.lstrip("-"), bare, MAX_NAMES, MIN_SIMILARITY)
    close = [bare[name] for name in matches]
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    if close:
        return f"the nearest: {', '.join(close)}"
    near = difflib.get_close_matches(word, names, MAX_NAMES, 0.0) if len(names) > MAX_LISTED else []
    first = f"the nearest: {', '.join(near)}; " if near else ""
    return f"{first}known: {', '.join(names)}"
