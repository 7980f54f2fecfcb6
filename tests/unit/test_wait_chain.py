"""The chain of waits from a collective back to its cause, on a trace with a known answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support.synthetic import Synthetic

import mpiprof
from mpiprof.store import cache
from mpiprof.timeline import build as timeline_build
from mpiprof.timeline.message_marks import MessageMarks, list_message_marks
from mpiprof.timeline.wait_chain import find_chain
from mpiprof.timeline.window import MissingTiles, Request, Timeline

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
        wait_ns=frame["until_ns"] - frame["begin_ns"], operation="recv", site="a.py:3:h"
    )


def test_a_chain_passes_through_messages(tmp_path: Path) -> None:
    timeline = chained(tmp_path / "trace")
    first = timeline.events.begin_ns
    waits = message_waits()
    chain = find_chain(timeline, 1, START + 30 * US - first, waits)
    assert [(w.rank, w.awaited) for w in chain] == [(1, 2), (2, 3), (3, 1)]
    assert chain[-1].operation == "recv" and chain[-1].instance == -1


def test_marks_too_short_to_draw_and_filtered_ranks_are_left_out(tmp_path: Path) -> None:
    timeline = chained(tmp_path / "trace")
    columns = {
        "rank": [0, 2, 3, 3],
        "enter_ns": [START, START + 10, START + 20, START + 20 * US],
        "exit_ns": [START + 60 * US, START + 20, START + 20 * US, START + 71 * US],
    }
    calls = pd.DataFrame(columns).assign(operation="recv", site="a.py:3:h", call=range(4))
    marks = MessageMarks(calls, message_waits().assign(call=[3, 1]))

    def listed(ranks: list[int], begin: int = 0) -> tuple[list[Any], list[Any]]:
        wanted = Request(
            begin, timeline.length_ns, 500, "operation", "rank", frozenset(), np.array(ranks)
        )
        shown = timeline.resolve(wanted)
        assert not isinstance(shown, MissingTiles)
        found = list_message_marks(timeline, wanted, shown, marks)
        assert found["sites"] == ([["recv", "a.py:3:h"]] if found["calls"] else [])
        return (
            [(w["rank"], w["awaited"], w["until"] - w["begin"]) for w in found["waits"]],
            [(rank, end - first) for rank, first, end, _ in found["calls"]],
        )

    assert listed([0, 1, 2, 3]) == ([(3, 1, 50 * US)], [(0, 60 * US), (3, 20 * US - 20)])
    assert listed([2, 3]) == ([], [(3, 20 * US - 20), (3, 51 * US)])
    late = START + 30 * US - timeline.events.begin_ns
    assert listed([0, 1, 2, 3], late) == ([(3, 1, 50 * US)], [(0, 60 * US)])
