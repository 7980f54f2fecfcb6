"""The pages, one module each.

A page is a module with `TITLE` (its name in the navigation), `PATH` (its URL path),
`make_layout(context, state)` and `register_callbacks(app, context)`. Three attributes are optional.
`PAGE_KEYS` names the URL keys that the page's callbacks handle, so that a change of them does not
rebuild the page.
`FOLLOWS` is true if the page refreshes itself, so that growth of the trace does not rebuild it.
`SKELETON` lists the heights of the page's cards in px (see app.make_outline).
"""

from __future__ import annotations

import importlib
from types import ModuleType

PAGE_NAMES = ("overview", "timeline", "callsites", "messages", "compare", "live")
FOLDER_NAMES = ("runs", "history")  # of a folder of traces
UNLISTED_NAMES = ("algorithms", "functions")  # reached from other pages and from the search


def list_pages(*, of_folder: bool = False) -> list[ModuleType]:
    """Return the pages in the order of the navigation, with those for a folder of traces."""
    names = PAGE_NAMES + FOLDER_NAMES * of_folder
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def list_unlisted() -> list[ModuleType]:
    """Return the pages that the navigation does not show."""
    return [importlib.import_module(f"{__name__}.{name}") for name in UNLISTED_NAMES]
