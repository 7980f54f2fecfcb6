"""The chain of waits from a collective back to its cause, on a trace with a known answer."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.synthetic import Synthetic

import mpiprof
from dashboard.timeline import build as timeline_build
from dashboard.timeline.longest_waits import list_longest_waits
from dashboard.timeline.message_marks import (
    MessageMarks,
    list_message_marks,
    share_messages,
    sum_messages,
)
from dashboard.timeline.wait_chain import LastRank, find_chain, find_last_rank
from dashboard.timeline.window import MissingTiles, Request, ResolvedRequest, Timeline
from mpiprof.formats import cache

US = 1_000
START = 10_000


def chained(folder: Path) -> Timeline:
    """Ranks 0 and 1 wait for 2 in one communicator, which waits for 3 in another one before."""
    trace = Synthetic(4)
    trace.add_communicator("late", [2, 3])
    trace.add_communicator("early", [0, 1, 2])

    def times(*values: int) -> np.ndarray:
        return np.array([values]) * US + START

    trace.add_collective("barrier", times(10, 80), times(81, 81), "late", 0, 0, site="a.py:1:f")
    trace.add_collective(
        "allreduce", times(5, 6, 90), times(91, 91, 91), "early", 8, 8, site="a.py:2:g"
    )
    trace.started_ns, trace.ended_ns = 0, START + 100 * US
    opened = mpiprof.open(trace.write(folder))
    key = cache.compute_key(opened)
    return Timeline(opened, timeline_build.open_or_build(opened, key), key)


def test_a_chain_leads_through_the_waits_to_their_cause(tmp_path: Path) -> None:
    timeline = chained(tmp_path / "trace")
    first = timeline.events.begin_ns
    at = START + 30 * US - first
    chain = find_chain(timeline, 0, at)
    assert [(w.rank, w.awaited, w.operation) for w in chain] == [
        (0, 2, "allreduce"),
        (2, 3, "barrier"),
    ]
    ends = [START + 90 * US, START + 80 * US]
    assert [w.until + first for w in chain] == ends
    assert find_chain(timeline, 3, at) == []  # the cause waits for no rank
    assert find_chain(timeline, 9, at) == []


def message_waits() -> pd.DataFrame:
    """Return a wait of rank 3 for a message of rank 1 before its barrier, and a short one."""
    columns = {
        "rank": [3, 3],
        "awaited": [1, 0],
        "begin_ns": [20 * US, 1 * US],
        "until_ns": [70 * US, 1 * US + 10],
        "end_ns": [71 * US, 2 * US],
        "source": [1, 0],
        "tag": [7, 7],
        "bytes": [64, 64],
    }
    frame = pd.DataFrame(columns)
    for name in ("begin_ns", "until_ns", "end_ns"):
        frame[name] += START
    return frame.assign(
        wait_ns=frame["until_ns"] - frame["begin_ns"],
        operation="recv",
        site="a.py:3:h",
        communicator=0,
    )


def test_a_chain_passes_through_messages(tmp_path: Path) -> None:
    timeline = chained(tmp_path / "trace")
    first = timeline.events.begin_ns
    waits = message_waits()
    chain = find_chain(timeline, 1, START + 30 * US - first, waits)
    assert [(w.rank, w.awaited) for w in chain] == [(1, 2), (2, 3), (3, 1)]
    assert chain[-1].operation == "recv" and chain[-1].instance == -1


def message_marks() -> MessageMarks:
    """Return four calls on messages; the last one has the long wait, the third one the short."""
    columns = {
        "rank": [0, 2, 3, 3],
        "enter_ns": [START, START + 10, START + 20, START + 20 * US],
        "exit_ns": [START + 60 * US, START + 20, START + 20 * US, START + 71 * US],
    }
    calls = pd.DataFrame(columns).assign(
        operation="recv", site="a.py:3:h", communicator=0, call=range(4)
    )
    return MessageMarks(calls, message_waits().assign(call=[3, 2]))


def resolved(
    timeline: Timeline, ranks: list[int], **changes: Any
) -> tuple[Request, ResolvedRequest]:
    """Return a request for some ranks, and the same resolved."""
    whole: dict[str, Any] = {"begin": 0, "end": timeline.length_ns, "pixels": 500}
    whole |= {"colour": "operation", "sort": "rank", "off": frozenset(), "ranks": np.array(ranks)}
    wanted = Request(**(whole | changes))
    shown = timeline.resolve(wanted)
    assert not isinstance(shown, MissingTiles)
    return wanted, shown


def listed(timeline: Timeline, ranks: list[int], **changes: Any) -> tuple[list[Any], list[Any]]:
    """Return the waits and the other calls that are listed for some ranks."""
    found = list_message_marks(timeline, *resolved(timeline, ranks, **changes), message_marks())
    assert found["sites"] == ([["recv", "a.py:3:h"]] if found["calls"] else [])
    return (
        [(w["rank"], w["awaited"], w["until"] - w["begin"]) for w in found["waits"]],
        [(rank, end - first, *wait) for rank, first, end, _, *wait in found["calls"]],
    )


def test_marks_too_short_to_draw_and_filtered_ranks_are_left_out(tmp_path: Path) -> None:
    """A wait that is too short to draw is still a fact of its call."""
    timeline = chained(tmp_path / "trace")
    long_wait = [(3, 1, 50 * US)]
    calls = [(0, 60 * US, 0, -1), (3, 20 * US - 20, 10, 0)]
    assert listed(timeline, [0, 1, 2, 3]) == (long_wait, calls)
    assert listed(timeline, [0, 1, 2]) == ([], calls[:1])
    late = START + 30 * US - timeline.events.begin_ns
    assert listed(timeline, [0, 1, 2, 3], begin=late) == (long_wait, calls[:1])


@pytest.mark.parametrize("ranks", [[3], [2, 3], [3, 0]])
def test_a_filter_does_not_change_the_waits_of_the_shown_ranks(
    tmp_path: Path, ranks: list[int]
) -> None:
    timeline = chained(tmp_path / "trace")
    of_all = listed(timeline, [0, 1, 2, 3])
    for found, every in zip(listed(timeline, ranks), of_all, strict=True):
        assert found == [one for one in every if one[0] in ranks]


def identify(name: str) -> str:
    """Return the identity of a communicator of a synthetic trace."""
    return f"{zlib.crc32(name.encode()):016x}"


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({"operations": ("recv",)}, True),
        ({"operations": ("allreduce",)}, False),
        ({"communicators": (identify("world"),)}, True),
        ({"communicators": (identify("late"),)}, False),
    ],
)
def test_filters_of_calls_apply_to_messages(
    tmp_path: Path, changes: dict[str, Any], is_shown: bool
) -> None:
    timeline = chained(tmp_path / "trace")
    waits, calls = listed(timeline, [0, 1, 2, 3], **changes)
    assert (bool(waits), bool(calls)) == (is_shown, is_shown)
    sums = sum_messages(timeline, *resolved(timeline, [3], **changes), message_marks())
    assert bool(sums["inside"]) == is_shown


def test_sums_of_messages_in_a_window_and_along_the_run(tmp_path: Path) -> None:
    timeline = chained(tmp_path / "trace")
    first, marks = timeline.events.begin_ns, message_marks()
    window = {"begin": START + 30 * US - first, "end": START + 50 * US - first}
    sums = sum_messages(timeline, *resolved(timeline, [0, 1, 2, 3], **window), marks)
    assert (sums["inside"], sums["wait"], sums["count"]) == (40 * US, 20 * US, 0)
    assert (sums["share"], sums["wait_share"]) == (0.5, 0.25)
    for ranks in ([0, 1, 2, 3], [3], [0]):
        wanted, shown = resolved(timeline, ranks, pixels=37)
        sums = sum_messages(timeline, wanted, shown, marks)
        shares = share_messages(timeline, wanted, shown, marks)
        head, _ = timeline.render_overview(wanted, shown)
        assert shares.shape == (head["columns"], 2)
        in_bins = shares.sum(0) * len(ranks) * (1 << head["level"])
        assert in_bins == pytest.approx([sums["wait"], sums["inside"] - sums["wait"]])


def test_the_end_of_a_chain_says_where_its_rank_was(tmp_path: Path) -> None:
    """Rank 3 works before its barrier; rank 1 is in its allreduce while rank 3 waits for it."""
    timeline = chained(tmp_path / "trace")
    first, marks = timeline.events.begin_ns, message_marks()
    at = START + 30 * US - first
    last = find_last_rank(timeline, find_chain(timeline, 0, at)[-1], marks.calls.iloc[:0])
    assert last == LastRank(3, 70 * US, 0)
    last = find_last_rank(timeline, find_chain(timeline, 3, at, marks.waits)[-1], marks.calls)
    since = START + 6 * US - first
    assert last == LastRank(1, 50 * US, 50 * US, "allreduce", "a.py:2 g", since)
    wait = find_chain(timeline, 0, at)[-1]
    last = find_last_rank(timeline, wait, marks.calls)
    assert (last.operation, last.inside) == ("recv", 61 * US)


def test_the_longest_waits_of_a_rank(tmp_path: Path) -> None:
    """Waits in collectives and for messages are in one list, the longest first."""
    timeline = chained(tmp_path / "trace")
    wanted, _ = resolved(timeline, [2, 3])
    found = list_longest_waits(timeline, wanted, message_marks())
    lengths = [(w.rank, w.awaited, w.until - w.begin, w.operation) for w in found]
    assert lengths == [(2, 3, 70 * US, "barrier"), (3, 1, 50 * US, "recv"), (3, 0, 10, "recv")]
    assert [w.instance >= 0 for w in found] == [True, False, False]
    wanted, _ = resolved(timeline, [3], operations=("barrier",))
    assert list_longest_waits(timeline, wanted, message_marks()) == []
    wanted, _ = resolved(timeline, [0])
    (only,) = list_longest_waits(timeline, wanted, None)
    assert (only.rank, only.awaited, only.operation) == (0, 2, "allreduce")
