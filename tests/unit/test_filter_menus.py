"""Menus of the filters and of the pages: their choices, the search in them, and their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mpiprof.dashboard import header
from mpiprof.dashboard.pages import list_pages
from mpiprof.dashboard.url_state import PageState, parse
from support.synthetic import Synthetic

import mpiprof

NODES = {f"n{i:03}": f"n{i:03}.cluster" for i in range(400)}


def show_nodes(query: str, text: str) -> list[Any]:
    """Return the items of the menu of NODES for a query and a text of its field."""
    return list(header.make_items("/messages", parse(query), "nodes", NODES, text))


def test_a_menu_has_a_limit_and_counts_the_rest() -> None:
    *links, note = show_nodes("", "")
    assert len(links) == header.MAX_CHOICES
    assert "100 more" in note.children
    assert links[0].children.href == "/messages?node=n000"


@pytest.mark.parametrize(("text", "found"), [("n39", 10), ("N399.C", 1), (".cluster", 300)])
def test_a_search_finds_choices_beyond_the_limit(text: str, found: int) -> None:
    items = show_nodes("", text)
    assert sum(hasattr(item.children, "href") for item in items) == found
    if found == 1:
        assert items[0].children.href == "/messages?node=n399"


def test_chosen_values_come_first_and_their_link_removes_them() -> None:
    first, second, *_ = show_nodes("?node=n399", "")
    assert first.children.children == "n399.cluster"
    assert first.children.href == "/messages"
    assert second.children.href == "/messages?node=n399&node=n000"


def test_a_text_without_a_match_is_named() -> None:
    (only,) = show_nodes("", "<b>")
    assert only.children == "Nothing contains '<b>'."


def test_communicators_of_one_name_have_their_size_and_ranks(tmp_path: Path) -> None:
    synthetic = Synthetic(8)
    for i in range(2):
        synthetic.add_communicator(f"row {i}", [i, i + 2, i + 4, i + 6])
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    rows = [one.index for one in trace.tables.communicators if one.size == 4]
    trace.tables.names.update(dict.fromkeys(rows, "row"))
    shown = set(header.name_communicators(trace).values())
    equal = {"row: 4 ranks, ranks 0, 2, 4, 6", "row: 4 ranks, ranks 1, 3, 5, 7"}
    assert shown - equal == {"world"} and equal <= shown


def test_a_phone_has_four_pages_and_a_menu_of_the_others() -> None:
    pages = list_pages(of_folder=True)
    *links, more = header.make_navigation(pages, "/live", PageState(trace="a"))
    assert [link.children.children for link in links] == [page.TITLE for page in pages]
    assert sum("further" not in link.className for link in links) == header.MAX_TABS
    button, items = more.children.children
    assert button.children.children == "Live" and more.className == "more here"
    assert [item.children.href for item in items.children] == [
        link.children.href for link in links[header.MAX_TABS :]
    ]
