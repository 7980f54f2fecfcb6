"""The instance under the pointer, and the lateness of a row, against the trace's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build as timeline_build
from dashboard.timeline import find as timeline_find
from dashboard.timeline import row_layout as timeline_rows
from dashboard.timeline import window as timeline_window
from dashboard.timeline.late_ranks import find_late_ranks
from dashboard.timeline.scratch import Scratch
from dashboard.timeline.segments import SEGMENT
from dashboard.timeline.sums import NO_STATE
from dashboard.timeline.window import MissingTiles, Request, ResolvedRequest, Timeline
from mpiprof.formats import cache

RANKS, LOOPS, STEP = 8, 12, 100_000
LATE = (0, 100, 200, 300, 400, 500, 600, 40_000)  # ns after the step's begin; rank 7 is late
REACH = 2_000


@pytest.fixture
def timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    """Two halves of 4 ranks with different operations at the same times, in 2 rows."""
    monkeypatch.setattr(timeline_rows, "MAX_ROWS", 2)
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", 0)
    synthetic = Synthetic(RANKS)
    begin = 10_000 + STEP * np.arange(LOOPS)[:, None]
    for half, operation in enumerate(("allreduce", "barrier")):
        members = list(range(4 * half, 4 * half + 4))
        synthetic.add_communicator(operation, members)
        arrivals = begin + np.array(LATE)[members]
        exits = np.broadcast_to(arrivals.max(1, keepdims=True) + 5_000, arrivals.shape)
        synthetic.add_collective(
            operation, arrivals, exits, operation, site=f"app.py:{half + 1}:step"
        )
    synthetic.started_ns, synthetic.ended_ns = 0, 10_000 + STEP * LOOPS
    trace = mpiprof.open(synthetic.write(tmp_path / "trace"))
    key = cache.compute_key(trace)
    return Timeline(trace, timeline_build.open_or_build(trace, key), key)


def request(timeline: Timeline, **changes: Any) -> Request:
    whole: dict[str, Any] = {
        "begin": 0,
        "end": timeline.length_ns,
        "pixels": 300,
        "colour": "operation",
        "sort": "rank",
        "off": frozenset(),
        "ranks": np.arange(RANKS),
    }
    return Request(**(whole | changes))


def shown(timeline: Timeline, wanted: Request) -> ResolvedRequest:
    resolved = timeline.resolve(wanted)
    assert not isinstance(resolved, MissingTiles)
    return resolved


@pytest.mark.heavy
@pytest.mark.parametrize("colour", ["operation", "waiting"])
def test_every_cell_leads_to_an_instance_that_it_shows(timeline: Timeline, colour: str) -> None:
    """The row's ranks take part in it, and it is in the cell; beside an empty cell it is near."""
    table = timeline.trace.instances
    wanted = request(timeline, colour=colour)
    head, cells = timeline.render_window(wanted, shown(timeline, wanted))
    assert (head["kind"], len(cells["state"].reshape(2, -1))) == ("cells", 2)
    state, width = cells["state"].reshape(2, head["columns"]), 1 << head["level"]
    hits = 0
    for row, operation in enumerate(("allreduce", "barrier")):
        for column in range(head["columns"]):
            low = (head["first"] + column) * width
            cell = request(timeline, begin=low, end=low + width, colour=colour)
            number = timeline_find.find_under_pointer(
                timeline, cell, shown(timeline, cell), 4 * row, low, REACH
            )
            if state[row, column] == NO_STATE:
                if number >= 0:
                    one = timeline_find.describe_instance(timeline, number)
                    assert min(abs(one["first"] - low), abs(one["end"] - low)) <= REACH
                continue
            hits += 1
            one = timeline_find.describe_instance(timeline, number)
            assert one["operation"] == operation == table["operation"].iloc[number]
            assert one["first"] < low + width and one["end"] > low
    assert hits > 4 * LOOPS


def test_what_lies_most_in_the_cell_is_meant(timeline: Timeline) -> None:
    """A cell of two instances, of which the second takes more time."""
    low = 10_000 + 46_000  # the barrier of step 0 ends at 55 600
    begin, end = low - 2_000, low + STEP - 2_000
    cell = request(timeline, begin=begin, end=end)
    number = timeline_find.find_under_pointer(
        timeline, cell, shown(timeline, cell), 5, begin, REACH
    )
    one = timeline_find.describe_instance(timeline, number)
    assert (one["operation"], one["first"]) == ("barrier", 10_000 + STEP + LATE[4])


def test_states_that_are_off_are_not_under_the_pointer(timeline: Timeline) -> None:
    begin = 10_000
    for changes in (
        {"off": frozenset(["allreduce"])},
        {"operations": ("barrier",)},
        {"off": frozenset(["waiting", "not waiting"]), "colour": "waiting"},
    ):
        cell = request(timeline, begin=begin, end=begin + 4_000, **changes)
        assert (
            timeline_find.find_under_pointer(timeline, cell, shown(timeline, cell), 0, begin, REACH)
            == -1
        )
    cell = request(timeline, begin=begin, end=begin + 4_000, off=frozenset(["barrier"]))
    assert (
        timeline_find.find_under_pointer(timeline, cell, shown(timeline, cell), 0, begin, REACH)
        >= 0
    )


@pytest.mark.parametrize("rank", [-1, RANKS, 3])
def test_a_rank_that_is_not_shown_has_no_instance(timeline: Timeline, rank: int) -> None:
    cell = request(timeline, begin=10_000, end=14_000, ranks=np.array([0, 1, 2]))
    assert (
        timeline_find.find_under_pointer(timeline, cell, shown(timeline, cell), rank, 10_000, REACH)
        == -1
    )


def test_the_lateness_of_a_row_is_that_of_its_latest_rank(timeline: Timeline) -> None:
    """Rank 7 arrives 29 625 ns after the mean of its half.

    The other ranks of its row are earlier.
    """
    head, _ = timeline.render_overview(request(timeline), shown(timeline, request(timeline)))
    assert head["late"] == pytest.approx([150, 40_000 - np.mean(LATE[4:])], abs=2)
    assert head["drawn"] == [3, 7]


@pytest.mark.parametrize("most", [0, 10**6])
def test_late_ranks_are_marked_from_the_median_of_the_others_on(
    timeline: Timeline, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 7 is late at each barrier; rank 3 of the other half is late by less than a pixel."""
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", most)
    wanted = request(timeline)
    late = find_late_ranks(timeline, wanted, shown(timeline, wanted))
    begins = range(10_000, 10_000 + STEP * LOOPS, STEP)
    median = int(np.median(sorted(LATE[4:])[:-1]))
    assert sorted(one[1:] for one in late) == [(1, b + median, b + LATE[7]) for b in begins]
    table = timeline.trace.instances
    assert {table["operation"].iloc[number] for number, *_ in late} == {"barrier"}
    hidden = request(timeline, off=frozenset(["barrier"]))
    assert find_late_ranks(timeline, hidden, shown(timeline, hidden)) == []
    near = request(timeline, begin=10_000, end=11_000)
    ends = sorted(one[1:] for one in find_late_ranks(timeline, near, shown(timeline, near)))
    assert ends == [(0, 10_100, 10_300), (1, 10_000 + median, 50_000)]


def test_members_and_marks_have_the_same_lateness(timeline: Timeline) -> None:
    """Each rank is late after the median of the others, as on the page of its call site."""
    wanted = request(timeline)
    for number, _, median, last in find_late_ranks(timeline, wanted, shown(timeline, wanted)):
        one = timeline_find.describe_instance(timeline, number)
        arrival = {member[0]: member[1] for member in one["members"]}
        for rank, *_, late in one["members"]:
            others = [ns for other, ns in arrival.items() if other != rank]
            assert late == arrival[rank] - np.median(others)
            assert rank != one["lastRank"] or late == last - median


def test_an_instance_names_the_root_for_which_ranks_wait(tmp_path: Path) -> None:
    """Ranks 1 and 2 wait for the root 0; rank 3 comes last and waits for no rank."""
    synthetic = Synthetic(4)
    arrivals = np.array([[5_000, 1_000, 1_200, 9_000]])
    exits = np.array([[5_100, 5_200, 5_200, 9_100]])
    synthetic.add_collective("bcast", arrivals, exits, root=0, site="app.py:3:main")
    synthetic.add_collective("barrier", arrivals + 20_000, arrivals * 0 + 30_000, sent=0)
    trace = mpiprof.open(synthetic.write(tmp_path / "trace"))
    key = cache.compute_key(trace)
    built = Timeline(trace, timeline_build.open_or_build(trace, key), key)
    bcast, barrier = (timeline_find.describe_instance(built, number) for number in (0, 1))
    assert (bcast["lastRank"], bcast["awaitedRank"]) == (3, 0)
    assert [member[4] > 0 for member in bcast["members"]] == [False, True, True, False]
    assert (barrier["lastRank"], barrier["awaitedRank"]) == (3, 3)


def test_a_full_disk_is_reported_while_segments_are_written() -> None:
    with open("/dev/full", "r+b", buffering=0) as file, pytest.raises(OSError, match="No space"):
        Scratch(file, SEGMENT).write(0, np.zeros(1, SEGMENT))


def test_short_calls_are_painted_last(timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_window, "MAX_EVENTS", RANKS * LOOPS)
    monkeypatch.setattr(timeline_rows, "MAX_ROWS", RANKS)
    wanted = request(timeline)
    shown = timeline.resolve(wanted)
    assert isinstance(shown, ResolvedRequest)
    events = timeline.render_window(wanted, shown)[1]["events"]
    lengths = events["exit"] - events["enter"]
    assert (np.diff(lengths) <= 0).all() and lengths.min() < lengths.max()
