"""The pages, one module each.

A page is a module with `TITLE` (its name in the navigation), `PATH` (where it is), optionally
`OWN` (keys of the address that its own callbacks follow, so that the page is not made anew when
they change), `SKELETON` (the heights of its cards in px, see `skeleton`), `layout(context, state)`
and `register(app, context)`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = ("overview", "callsites", "timeline", "algorithms", "compare", "live")


def pages() -> list[ModuleType]:
    """Return the pages in the order of the navigation."""
    return [importlib.import_module(f"{__name__}.{name}") for name in NAMES]
