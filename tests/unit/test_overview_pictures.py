"""Pictures of the overview: positions and sizes of their elements for known data."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from mpiprof.dashboard.pages import overview
from mpiprof.dashboard.pages.overview import find_verdict
from mpiprof.dashboard.trace_data import TraceContext
from mpiprof.dashboard.url_state import PageState
from support.neighbours import make_ring
from support.program import Program

from mpiprof.interface import tokens
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.reports.overview.proof import MAX_ROWS, InstanceArrivals, draw_arrivals
from mpiprof.reports.overview.time_sums import find_blamed_time
from mpiprof.reports.pictures import row_pictures, time_split
from mpiprof.reports.pictures.caused_waits import CausedWaits, draw_caused_waits
from mpiprof.reports.pictures.time_split import BlamedTime, TimePart

MS = 1_000_000
SPACE = "{http://www.w3.org/2000/svg}"


def boxes(drawn: str, colour: str) -> list[dict[str, float]]:
    """Return the rectangles in a colour of the tokens: x, y, width, height."""
    root = ElementTree.fromstring(drawn)
    drawn_ones = (one for one in root.iter(f"{SPACE}rect") if "x" in one.attrib)  # no hatches
    found = [one for one in drawn_ones if one.get("fill", "").startswith(colour)]
    return [{n: float(one.get(n, 0)) for n in ("x", "y", "width", "height")} for one in found]


def texts(drawn: str) -> list[str]:
    """Return the texts of a picture."""
    return [one.text or "" for one in ElementTree.fromstring(drawn).iter(f"{SPACE}text")]


def one_late(ranks: int, late: int) -> InstanceArrivals:
    """Return an instance in which one rank is 8 ms late; the others arrive within 0.1 ms."""
    arrival = 100 * MS + np.arange(ranks) * 100_000 // ranks
    arrival[late] = 108 * MS
    wait = arrival.max() - arrival
    nodes = [f"n{rank * 4 // ranks}" for rank in range(ranks)]
    marks = np.arange(ranks) == late
    exits = np.full(ranks, 109 * MS)
    return InstanceArrivals(np.arange(ranks), arrival, wait, exits, marks, nodes, "allreduce")


@pytest.mark.parametrize("ranks", [2, 4, 64, 1024, 4096])
@pytest.mark.parametrize("width", [760.0, 366.0])
def test_the_late_rank_is_visible_at_any_number_of_ranks(ranks: int, width: float) -> None:
    drawn = draw_arrivals(one_late(ranks, ranks * 5 // 7), width)
    (late,) = boxes(drawn, "var(--late,")
    assert late["height"] >= 10 and late["width"] > width / 4
    waits = boxes(drawn, "url(#hatch-hatch") or boxes(drawn, "var(--hatch,")
    most = MAX_ROWS + 2
    assert min(ranks - 1, MAX_ROWS - 1) <= len(waits) <= most
    assert all(abs(box["x"] + box["width"] - late["x"] - late["width"]) < 1 for box in waits)
    assert f"rank {ranks * 5 // 7}" in texts(drawn)


def test_the_picture_states_what_it_shows() -> None:
    instance = one_late(64, 21)
    assert instance.late_ns == pytest.approx(8 * MS, rel=0.01)
    label = ElementTree.fromstring(draw_arrivals(instance)).get("aria-label")
    assert label == "allreduce: 63 ranks wait 7.95 ms for rank 21."


def test_nobody_gets_the_accent_without_a_culprit() -> None:
    instance = one_late(8, 3)
    nobody = InstanceArrivals(**{**vars(instance), "late": np.zeros(8, np.bool_)})
    parts = [TimePart("computing", 9e9, "q1"), TimePart("in collectives", 1e9, "late", True)]
    bars = row_pictures.draw_lateness_bars(np.arange(8.0), np.zeros(8, np.bool_))
    line = row_pictures.draw_line([1.0, None, 2.0], "ω")
    for drawn in (draw_arrivals(nobody), time_split.draw_split(parts), bars, line):
        assert "--late" not in drawn


def test_the_bar_of_time_is_in_proportion() -> None:
    parts = [
        TimePart("in collectives", 3e9, "late", True),
        TimePart("computing", 5e9, "q1"),
        TimePart("messages", 0.0, "q2"),
        TimePart("collectives", 2e9, "q3"),
    ]
    drawn = time_split.draw_split(parts, BlamedTime("for rank 21", 1e9), 1004)
    (computing,), (collectives,) = boxes(drawn, "var(--q1,"), boxes(drawn, "var(--q3,")
    (blamed,) = boxes(drawn, "var(--late,")
    (waiting,) = [box for box in boxes(drawn, "url(#hatch-late") if box["height"] > 20]
    widths = [box["width"] for box in (computing, collectives, waiting, blamed)]
    assert widths == [500.0, 200.0, 300.0, 100.0]
    assert blamed["x"] + blamed["width"] == pytest.approx(1004)
    assert {"waiting: 3.00 s, 30 %", "5.00 s  50 %"} <= set(texts(drawn))


def test_labels_of_narrow_parts_do_not_cover_each_other() -> None:
    parts = [TimePart("computing", 98e9, "q1")]
    parts += [TimePart(f"part {i}", 0.5e9, "q2") for i in range(4)]
    root = ElementTree.fromstring(time_split.draw_split(parts, width=500))
    names = [one for one in root.iter(f"{SPACE}text") if (one.text or "").startswith("part")]
    places = [float(one.get("x", 0)) for one in names]
    assert all(b - a > 30 for a, b in itertools.pairwise(places)) and max(places) < 470


@pytest.mark.parametrize("ranks", [3, 48, 1000])
def test_bars_show_the_latest_of_each_run_of_ranks(ranks: int) -> None:
    late = np.where(np.arange(ranks) == ranks // 2, 5e6, 1e3)
    drawn = row_pictures.draw_lateness_bars(late, np.arange(ranks) == ranks // 2)
    (culprit,) = boxes(drawn, "var(--late,")
    others = boxes(drawn, "var(--q3,")
    assert len(others) == min(ranks, row_pictures.MAX_BARS) - 1
    assert culprit["height"] == max(box["height"] for box in [*others, culprit]) == 22.0
    assert tokens.resolve_colours(drawn, dark=True).count(tokens.DARK["late"]) == 1


def test_the_time_of_a_delay_names_the_call_site_of_messages(tmp_path: Path) -> None:
    """The neighbours of the late rank wait for its messages, before the allreduce."""
    program = Program(4)
    work = np.full(4, MS // 10) + 2 * MS * (np.arange(4) == 2)
    for _ in range(10):
        program.halo(make_ring(4), own_ns=work, bytes_=4096)
        program.collective("allreduce")
    data = TraceContext([program.write(tmp_path / "halo")], []).latest_data("")
    blamed = find_blamed_time(data.trace, find_verdict(data).worst)
    assert blamed is not None and blamed.text == "for rank 2 at halo.py:13"
    assert overview.time_section(data, PageState()) is not None


@pytest.mark.parametrize("ranks", [2, 64, 1024])
def test_waiting_for_messages_is_drawn_for_the_rank_that_causes_it(ranks: int) -> None:
    """Both halves have their own scale; runs of ranks are summed."""
    caused, waited = np.full(ranks, 1e3), np.full(ranks, 2e6)
    caused[1], waited[1] = 5e6, 0.0
    waits = CausedWaits(caused, waited, np.arange(ranks) == 1)
    drawn = draw_caused_waits(waits)
    (culprit,) = boxes(drawn, "var(--late,")
    others = boxes(drawn, "var(--q3,")
    assert culprit["height"] == max(box["height"] for box in [*others, culprit])
    mean = format_time(5e6 / ranks)
    assert f"rank 1 causes {mean} of waiting here, mean of {format_count(ranks)} ranks" in drawn
    assert waits.sentence.startswith(f"Rank 1 causes {mean} of waiting")
    narrow = draw_caused_waits(waits, 366, 230)
    (label,) = re.findall(r">(rank 1 causes [^<]+)<", narrow)
    assert label.startswith(f"rank 1 causes {mean}") and "here" not in label
    unknown = CausedWaits(caused, waited, np.zeros(ranks, np.bool_), "awaited")
    assert not boxes(draw_caused_waits(unknown), "var(--late,")
