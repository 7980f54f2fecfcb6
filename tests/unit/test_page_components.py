"""Building blocks of the pages: code in sentences, menus of links, and data of pictures."""

from __future__ import annotations

import json

import numpy as np
from dash import html
from mpiprof.dashboard import components

from mpiprof.interface.svg import DataPicture
from mpiprof.reports.overview.proof import InstanceArrivals
from mpiprof.reports.pictures import time_split
from mpiprof.reports.pictures.time_split import BlamedTime, TimePart


def test_text_between_backticks_becomes_code() -> None:
    before, code, after = components.mark_code("run `mpiprof status` there")
    assert (before, code.children, after) == ("run ", "mpiprof status", " there")
    assert isinstance(code, html.Code)
    assert components.mark_code("a ` b") == ["a ` b"]
    assert components.mark_code("plain") == ["plain"]


def test_a_menu_marks_the_chosen_link() -> None:
    menu = components.link_menu("Trace", "b", [("a", "/?trace=a", False), ("b", "/", True)])
    items = menu.children[1].children
    assert [item.children.href for item in items] == ["/?trace=a", "/"]
    assert [hasattr(item, "aria-current") for item in items] == [False, True]


def test_a_picture_offers_its_data_instead_of_its_labels() -> None:
    parts = [
        TimePart("computing", 3e9, "q1"),
        TimePart("in collectives", 1e9, "late", waiting=True),
    ]
    rows = time_split.list_values(parts, BlamedTime("for rank 3", 5e8))
    shown = components.show_picture(DataPicture("<svg></svg>", rows))
    menu = shown.children[1]
    assert json.loads(getattr(menu, "data-values")) == [
        ["part", "time_ns"], ["computing", 3e9], ["in collectives", 1e9], ["for rank 3", 5e8],
    ]  # fmt: skip
    times = np.array([10, 20])
    late = np.array([False, True])
    one = InstanceArrivals(np.array([0, 1]), times, times, times + 5, late, [], "barrier")
    assert one.list_values()[1:] == [(0, "", 10, 10, 15), (1, "", 20, 20, 25)]


def test_the_bracket_of_short_waiting_is_below_its_label() -> None:
    def draw(waiting_ns: float) -> str:
        parts = [
            TimePart("computing", 1e9, "q1"),
            TimePart("waiting", waiting_ns, "late", waiting=True),
        ]
        return time_split.draw_split(parts)

    assert "18v-6H" not in draw(1e6) and "18v-2H" in draw(1e6)
    assert "18v-6H" in draw(1e9) and "18v-2H" not in draw(1e9)
