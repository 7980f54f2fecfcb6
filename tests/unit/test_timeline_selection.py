"""The statistics of a selected span, against sums computed event by event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.program import Program

from dashboard.timeline import row_layout as timeline_rows
from dashboard.timeline.selection import sum_span
from dashboard.timeline.window import MissingTiles, Timeline
from unit.test_timeline import RANKS, made, opened, request, segments_of, timeline

__all__ = ["timeline"]  # the fixture: sums of segments, and from tiles

SPANS = [(0.0, 1.0), (0.213, 0.702), (0.41, 0.43), (0.5, 0.50001)]


def answer(timeline: Timeline, begin: int, end: int, **filters: Any) -> dict[str, Any]:
    """Return the statistics of a span, after making the tiles that they need."""
    wanted = request(timeline, begin=begin, end=end, **filters)
    shown = timeline.resolve(wanted)
    if isinstance(shown, MissingTiles):
        timeline.build_tiles(shown, lambda _: None)
        shown = timeline.resolve(wanted)
    assert not isinstance(shown, MissingTiles)
    return sum_span(timeline, wanted, shown)


def expected(timeline: Timeline, begin: int, end: int, key: str) -> dict[Any, list[int]]:
    """Return count, inside and wait by operation or rank, in plain Python."""
    sums: dict[Any, list[int]] = {}
    for s in segments_of(timeline):
        enter, exit_ = (s[name] - timeline.events.begin_ns for name in ("enter", "exit"))
        values = (
            int(begin <= enter < end),
            max(min(exit_, end) - max(enter, begin), 0),
            max(min(enter + s["wait"], end) - max(enter, begin), 0),
        )
        if values[0] or values[1]:
            row = sums.setdefault(s[key], [0, 0, 0])
            row[:] = [a + b for a, b in zip(row, values, strict=True)]
    return sums


@pytest.mark.parametrize(("begin", "end"), SPANS)
def test_a_span_to_the_nanosecond(timeline: Timeline, begin: float, end: float) -> None:
    a, b = int(begin * timeline.length_ns), int(end * timeline.length_ns)
    answered = answer(timeline, a, b)
    assert (answered["from"], answered["to"]) == (a, b)
    assert answered["rank_time"] == (b - a) * RANKS
    by_operation = expected(timeline, a, b, "operation")
    assert {o["name"] for o in answered["operations"]} == set(by_operation)
    times = [o["inside"] for o in answered["operations"]]
    assert times == sorted(times, reverse=True)
    by_rank = {str(rank): v for rank, v in expected(timeline, a, b, "rank").items()}
    assert len(answered["rows"]) == RANKS
    waits = [row["wait"] for row in answered["rows"]]
    assert waits == sorted(waits, reverse=True)
    for rows, of in ((answered["operations"], by_operation), (answered["rows"], by_rank)):
        for row in rows:
            reported = [row["count"], row["inside"], row["wait"]]
            assert reported == pytest.approx(of.get(row["name"], [0, 0, 0]))


def test_filters_and_groups_of_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_rows, "MAX_ROWS", 2)
    timeline = opened(made(tmp_path / "trace"))
    whole = answer(timeline, 0, timeline.length_ns)
    assert {row["name"]: row["ranks"] for row in whole["rows"]} == {"0–3": 4, "4–5": 2}
    of = expected(timeline, 0, timeline.length_ns, "rank")
    group = next(row for row in whole["rows"] if row["name"] == "4–5")
    assert group["wait"] == pytest.approx(of[4][2] + of[5][2])
    only = answer(timeline, 0, timeline.length_ns, operations=("bcast",))
    assert [o["name"] for o in only["operations"]] == ["bcast"]
    bcast = expected(timeline, 0, timeline.length_ns, "operation")["bcast"]
    assert sum(row["inside"] for row in only["rows"]) == pytest.approx(bcast[1])


def test_calls_without_segments_have_no_state(tmp_path: Path) -> None:
    """As calls for messages, which the timeline does not show."""
    program = Program(4)
    for _ in range(3):
        program.message(0, 1)
        program.collective("allreduce")
    timeline = opened(program.write(tmp_path / "trace"))
    shown = timeline.resolve(request(timeline))
    assert not isinstance(shown, MissingTiles)
    assert sorted(shown.states.names) == ["allreduce", "finalize"]
