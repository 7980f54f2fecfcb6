"""What is shown, as the address says it: the query of the URL, read with bounds and written back.

A link to a page carries everything but the token, so that it shows the same to everybody who
opens the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

LONGEST, MOST = 4000, 64  # characters of a value, and values: what is beyond is ignored
SHARED = ("trace", "communicator", "operation", "node", "rank")
RUNS = ("and", "with")


@dataclass(frozen=True)
class State:
    """The trace and the filters, which all pages share, and each page's own keys.

    `trace` is a name of Context.names, empty for the first; `communicators` are identities,
    `ranks` text such as "0-3, 7"; an empty filter lets everything pass. `also` names traces that
    are compared as runs of one program with `trace`, and `to` those that they are compared with.
    `dark` is the theme, which is the reader's own and not in the address.
    """

    trace: str = ""
    communicators: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ranks: str = ""
    also: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    dark: bool = False

    def get(self, key: str, default: str = "") -> str:
        """Return one of the page's own keys."""
        return self.own.get(key, default)

    def number(self, key: str, default: int = 0) -> int:
        """Return one of the page's own keys as a number, the default where it is none."""
        text = self.own.get(key, "")
        good = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19
        return int(text) if good else default

    def with_own(self, **keys: object) -> State:
        """Return this with some of the page's keys changed; None or "" takes one away."""
        changed = {**self.own, **keys}
        return replace(self, own={k: str(v) for k, v in changed.items() if v not in (None, "")})

    def shared(self) -> State:
        """Return this without the page's own keys: what another page starts from."""
        return replace(self, also=(), to=(), own={})

    def query(self) -> str:
        """Return the query of the address, with its question mark; empty without any."""
        pairs = [("trace", self.trace)] if self.trace else []
        for key, values in (
            ("communicator", self.communicators),
            ("operation", self.operations),
            ("node", self.nodes),
        ):
            pairs += [(key, value) for value in values]
        pairs += [("rank", self.ranks)] if self.ranks else []
        pairs += [(key, name) for key, of in zip(RUNS, (self.also, self.to), strict=True)
                  for name in of]  # fmt: skip
        pairs += sorted(self.own.items())
        return "?" + urlencode(pairs) if pairs else ""


def parse(search: str | None, dark: bool = False) -> State:
    """Return the state that the query of an address stands for; never fails."""
    try:
        pairs = parse_qsl((search or "").removeprefix("?")[: LONGEST * MOST], max_num_fields=MOST)
    except ValueError:
        pairs = []
    pairs = [(key, value[:LONGEST]) for key, value in pairs if key != "token"]

    def all_of(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for k, value in pairs if k == key))

    single = dict(pairs)
    return State(
        single.get("trace", ""),
        all_of("communicator"),
        all_of("operation"),
        all_of("node"),
        single.get("rank", ""),
        all_of("and"),
        all_of("with"),
        {key: value for key, value in single.items() if key not in (*SHARED, *RUNS)},
        dark,
    )


def changed(state: State, filters: Mapping[str, Any]) -> State:
    """Return a state with some filters changed: lists of text by field, `ranks` is text."""
    lists: dict[str, Any] = {
        name: tuple(str(value)[:LONGEST] for value in values or ())
        for name, values in filters.items()
        if name != "ranks"
    }
    ranks = str(filters.get("ranks", state.ranks) or "")[:LONGEST]
    return replace(state, ranks=ranks, **lists)


def parse_ranks(text: str, size: int) -> list[int] | None:
    """Return the ranks below `size` that a text such as "0-3, 7" names; None where it names all.

    What can't be read in it is left out.
    """
    found: set[int] = set()
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words[:1000]:
        first, _, last = word.partition("-")
        if first.strip().isdecimal() and (last or first).strip().isdecimal():
            low, high = int(first), min(int(last or first), size - 1)
            found |= set(range(low, high + 1))
    return sorted(found) if found else None
