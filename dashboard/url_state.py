"""Dashboard state in the URL: the query string, parsed with bounds and formatted.

A link to a page contains the whole state except the token, so it shows the same content to every
user who opens the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

MAX_QUERY, MAX_VALUES = 4000, 64  # limits of characters per value and of values; excess is ignored
SHARED_KEYS = ("trace", "communicator", "operation", "node", "rank")
RUNS = ("and", "with")


@dataclass(frozen=True)
class PageState:
    """The trace and the filters, which all pages share, and the keys of the current page.

    `trace` is a name of TraceContext.names, or empty for the first trace. `communicators` are
    identities, `ranks` is text such as "0-3, 7". An empty filter passes everything. `also` names
    further runs that are compared together with `trace` (side A); `to` names the runs of side B.
    `dark` is the theme, a choice of the user that is not in the URL.
    """

    trace: str = ""
    communicators: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ranks: str = ""
    also: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    page_keys: Mapping[str, str] = field(default_factory=dict)
    dark: bool = False

    def get(self, key: str, default: str = "") -> str:
        """Return a key of the page."""
        return self.page_keys.get(key, default)

    def get_number(self, key: str, default: int = 0) -> int:
        """Return a key of the page as a number, or the default if the value is not a number."""
        text = self.page_keys.get(key, "")
        good = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19
        return int(text) if good else default

    def set_keys(self, **keys: object) -> PageState:
        """Return a copy with some of the page's keys changed; None or "" removes a key."""
        changed = {**self.page_keys, **keys}
        return replace(
            self, page_keys={k: str(v) for k, v in changed.items() if v not in (None, "")}
        )

    def without_page_keys(self) -> PageState:
        """Return a copy without the page's keys, for links to other pages."""
        return replace(self, also=(), to=(), page_keys={})

    def link_to(self, path: str, **keys: object) -> str:
        """Return the address of another page with the same filters and the given page keys."""
        return path + self.without_page_keys().set_keys(**keys).format_query()

    def format_query(self) -> str:
        """Return the URL query with its question mark, or an empty string for the default state."""
        trace, ranks = ([text] if text else [] for text in (self.trace, self.ranks))
        values = (trace, self.communicators, self.operations, self.nodes, ranks, self.also, self.to)
        shared = zip((*SHARED_KEYS, *RUNS), values, strict=True)
        pairs = [(key, value) for key, of_key in shared for value in of_key]
        pairs += sorted(self.page_keys.items())
        return "?" + urlencode(pairs) if pairs else ""


def parse(search: str | None, dark: bool = False) -> PageState:
    """Return the state of a URL query. Never fails: invalid values are ignored."""
    try:
        pairs = parse_qsl(
            (search or "").removeprefix("?")[: MAX_QUERY * MAX_VALUES], max_num_fields=MAX_VALUES
        )
    except ValueError:
        pairs = []
    pairs = [(key, value[:MAX_QUERY]) for key, value in pairs if key != "token"]

    def all_of(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for k, value in pairs if k == key))

    single = dict(pairs)
    filters = all_of("communicator"), all_of("operation"), all_of("node")
    also, to = map(all_of, RUNS)
    page_keys = {k: value for k, value in single.items() if k not in (*SHARED_KEYS, *RUNS)}
    trace, ranks = single.get("trace", ""), single.get("rank", "")
    return PageState(trace, *filters, ranks, also, to, page_keys, dark)


def change_filters(state: PageState, filters: Mapping[str, Any]) -> PageState:
    """Return a state with some filters changed; a filter is a list of text, `ranks` is text."""
    lists: dict[str, Any] = {
        name: tuple(str(value)[:MAX_QUERY] for value in values or ())
        for name, values in filters.items()
        if name != "ranks"
    }
    ranks = str(filters.get("ranks", state.ranks) or "")[:MAX_QUERY]
    return replace(state, ranks=ranks, **lists)


def clear_filters(state: PageState) -> PageState:
    """Return a state without filters."""
    return replace(state, communicators=(), operations=(), nodes=(), ranks="")


def parse_ranks(text: str, size: int) -> list[int] | None:
    """Return the ranks below `size` in a text such as "0-3, 7", or None if the text is empty.

    Unreadable words are ignored.
    """
    ranks: set[int] = set()
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words[:1000]:
        first, _, last = word.partition("-")
        if first.strip().isdecimal() and (last or first).strip().isdecimal():
            low, high = int(first), min(int(last or first), size - 1)
            ranks |= set(range(low, high + 1))
    return sorted(ranks) if ranks else None
